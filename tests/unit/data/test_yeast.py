import gzip
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pate.data import Yeast, embedded
from pate.validation import InvalidValue

HEADER = "Att1,Att2,Class1,Class2,Class3"
ROWS = [f"{i / 10},{-i / 10},{i % 2},1,0" for i in range(10)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "genes.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def test_a_small_table_by_hand(table: Path) -> None:
    dataset = Yeast(path=table, num_public=3, num_test=2).load()
    assert (dataset.name, dataset.real, dataset.kind) == ("yeast", True, "features")
    assert dataset.label_names == ("Class1", "Class2", "Class3")
    splits = dataset.private, dataset.public, dataset.test
    assert [len(split) for split in splits] == [5, 3, 2]
    assert sorted(np.concatenate([split.record_ids for split in splits]).tolist()) == list(range(10))
    for split in splits:
        for record, inputs, labels in zip(split.record_ids, split.inputs, split.labels, strict=True):
            assert inputs.tolist() == [np.float32(record / 10), np.float32(-record / 10)]
            assert labels.tolist() == [record % 2 == 1, True, False]


def test_gzipped_is_the_same(table: Path, tmp_path: Path) -> None:
    packed = tmp_path / "genes.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    plain, unpacked = (Yeast(path=path, num_public=3, num_test=2).load() for path in (table, packed))
    assert np.array_equal(plain.private.inputs, unpacked.private.inputs)


def test_the_split_depends_on_the_seed_alone(table: Path) -> None:
    ids = [Yeast(table, num_public=3, num_test=2, seed=seed).load().private.record_ids for seed in (0, 0, 1)]
    assert ids[0].tolist() == ids[1].tolist()
    assert ids[0].tolist() != ids[2].tolist()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "a header and rows of numbers, as many in each"),
        (f"{HEADER}\n0.1,0.2,1,0\n0.1,0.2,1,0,0\n", "a header and rows of numbers, as many in each"),
        (f"{HEADER}\n0.1,gene,1,0,0\n", "a header and rows of numbers, as many in each"),
        (f"{HEADER}\n0.1,1,0,0\n", "5 finite numbers a row, as the header says"),
        (f"{HEADER}\n", "5 finite numbers a row, as the header says"),
        (f"{HEADER}\nnan,0.2,1,0,0\n", "5 finite numbers a row, as the header says"),
        (f"{HEADER}\n0.1,0.2,2,0,0\n", "features, and columns Class1, Class2, ... of 0 and 1"),
        ("Att1,Att2\n0.1,0.2\n", "features, and columns Class1, Class2, ... of 0 and 1"),
        ("Class1,Class2\n0,1\n", "features, and columns Class1, Class2, ... of 0 and 1"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_in_one_line(tmp_path: Path, content: str, rule: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(InvalidValue, match=rf"^data\.path=\S+bad\.csv: expected {rule}$"):
        Yeast(path=path).load()


def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"^data\.path=\S+absent\.csv: expected a readable CSV file$"):
        Yeast(path=tmp_path / "absent.csv").load()
    torn = tmp_path / "torn.csv.gz"
    torn.write_bytes(gzip.compress(b"Att1,Class1\n0.5,1\n")[:-9])
    with pytest.raises(InvalidValue, match=r"^data\.path=\S+torn\.csv\.gz: expected a header and rows"):
        Yeast(path=torn).load()


def test_splits_larger_than_the_table_are_refused(table: Path) -> None:
    rule = r"^num_public \+ num_test=10: expected fewer than the 10 genes of the file$"
    with pytest.raises(InvalidValue, match=rule):
        Yeast(path=table, num_public=5, num_test=5).load()
    with pytest.raises(InvalidValue, match=r"^num_public=0: expected a whole number >= 1$"):
        Yeast(path=table, num_public=0)


def test_without_river_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(InvalidValue, match=r"^data=yeast: expected .*: pip install 'pate-multilabel\[yeast\]'$"):
        Yeast().load()


@pytest.mark.process
def test_river_is_found_without_being_imported(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site" / "river" / "datasets"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('river was imported')\n")
    (folder / "yeast.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    code = "from pate.data import Yeast; print(len(Yeast(num_public=3, num_test=2).load().private))"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{Path(__file__).parents[3]}")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "5"


@pytest.mark.skipif(find_spec("river") is None, reason="the optional river package is not installed")
def test_the_real_file_has_the_published_figures() -> None:
    """2,417 genes, 103 features, 14 labels, cardinality 4.24 (Tsoumakas et al., MULAN)."""
    dataset = Yeast().load()
    splits = dataset.private, dataset.public, dataset.test
    assert [len(split) for split in splits] == [1617, 400, 400]
    assert dataset.private.inputs.shape[1] == 103
    assert dataset.num_labels == 14
    assert sum(split.labels.sum() for split in splits) / 2417 == pytest.approx(4.237, abs=0.001)
