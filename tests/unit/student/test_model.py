import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pate.models import student
from pate.student import LinearStudent, StudentModel
from pate.validation import InvalidValue


@pytest.fixture
def folder(rows, tmp_path):
    LinearStudent().fit(*rows, seed=0).save(tmp_path / "student")
    return tmp_path / "student"


def test_the_folder_holds_two_plain_files(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["student.json", "student.safetensors"]
    card = json.loads((folder / "student.json").read_text())
    assert card["kind"] == "linear"
    assert card["num_rows"] == 120
    assert card["input_shape"] == [15]
    assert 0 < card["threshold"] <= 1


def test_a_student_replaces_the_one_before(folder, make_rows):
    other = LinearStudent().fit(*make_rows(50, seed=3), seed=0)
    other.save(folder)
    assert StudentModel.load(folder).num_rows == 50


def test_a_save_that_fails_keeps_the_one_before_and_leaves_nothing_beside_it(folder, make_rows, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = LinearStudent().fit(*make_rows(50, seed=3), seed=0)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        other.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("file", ["student.json", "student.safetensors"])
def test_refuses_a_torn_or_missing_file(folder, file):
    (folder / file).write_bytes((folder / file).read_bytes()[:20])
    with pytest.raises(InvalidValue, match=rf"^file=.*{file}: expected the (card|weights) of a published student \("):
        StudentModel.load(folder)
    (folder / file).unlink()
    with pytest.raises(InvalidValue, match=rf"^file=.*{file}: expected the (card|weights) of a published student \("):
        StudentModel.load(folder)


def test_refuses_an_unknown_kind_and_names_the_nearest(folder):
    card = json.loads((folder / "student.json").read_text())
    (folder / "student.json").write_text(json.dumps({**card, "kind": "linaer"}))
    with pytest.raises(InvalidValue, match=r"kind=linaer: expected one of .*did you mean linear"):
        StudentModel.load(folder)


@pytest.mark.process
def test_reading_a_student_loads_no_pickle(folder):
    script = (
        "import sys, builtins, pickle\n"
        "def refuse(*_, **__): raise SystemExit('pickle was used')\n"
        "import pate.student\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        "import numpy as np\n"
        "model = pate.student.StudentModel.load(sys.argv[1])\n"
        "print(model.predict(np.zeros((2, 15), np.float32)).shape)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(2, 6)", done.stderr


def test_the_card_tells_what_was_chosen(rows):
    model = LinearStudent(penalties=(0.5,)).fit(*rows, seed=0)
    assert model.choices == {"penalty": 0.5}, "no score: answered queries are the easy ones"
    assert np.asarray(model.arrays["weights"]).dtype == np.float32


def test_every_kind_can_be_read_before_its_module_is_loaded():
    files = Path(student.__file__).parent.glob("*.py")
    written = {kind for file in files for kind in re.findall(r'^    kind = "(\w+)"', file.read_text(), re.MULTILINE)}
    assert written == set(student._OURS)
    for kind, module in student._OURS.items():
        assert f'kind = "{kind}"' in (Path(student.__file__).parent / f"{module}.py").read_text()
