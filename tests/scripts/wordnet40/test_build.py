import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pate.data.wordnet40 import ARCHIVE
from scripts.wordnet40.build import Recipe
from scripts.wordnet40.representation import Representation

SHA256 = "50b31ded30bec3ca625356954bf6cfcf5adc8d860f40f8191302ed36409be495"
DICTIONARY = Path("/usr/share/wordnet/data.noun")  # where Debian's wordnet-base puts it
ROOT = Path(__file__).parents[3]
SMALL = Recipe(num_public=20, num_test=12, num_labels=3, num_dims=4)


def test_the_vendored_file_is_the_one_that_was_measured() -> None:
    assert hashlib.sha256(ARCHIVE.read_bytes()).hexdigest() == SHA256


def test_a_small_dictionary_from_lines_to_arrays(dictionary: list[str]) -> None:
    arrays = SMALL.build(dictionary)
    assert arrays["split_sizes"].tolist() == [20, 12, 20]
    assert arrays["features"].shape == (52, 4)
    assert sorted(arrays["label_names"].tolist()) == ["animal", "plant", "tool"]
    labels = np.unpackbits(arrays["labels"], axis=1, count=3).astype(bool)
    kind_of = {name: 2 + ("animal", "plant", "tool").index(name) for name in arrays["label_names"].tolist()}
    for record, row in zip(arrays["record_ids"].tolist(), labels.tolist(), strict=True):
        kind = 2 + (record - 100) % 3 if record >= 100 else record
        assert row == [kind_of[name] == kind for name in arrays["label_names"].tolist()]


def test_no_private_gloss_reaches_vocabulary_components_or_labels(dictionary: list[str]) -> None:
    """Changing every private gloss leaves the public and test rows as they were, to the bit."""
    before = SMALL.build(dictionary)
    private = {f"{record:08d}" for record in before["record_ids"][32:]}
    changed = [
        line.split("|")[0] + f"| secret secret {line[:8]}" if line[:8] in private else line for line in dictionary
    ]
    after = SMALL.build(changed)
    assert changed != dictionary
    for name in ("record_ids", "features", "labels"):
        assert after[name][:32].tolist() == before[name][:32].tolist()
    assert after["label_names"].tolist() == before["label_names"].tolist()
    assert after["features"][32:].tolist() != before["features"][32:].tolist()


def test_the_representation_is_fitted_on_as_many_texts_as_are_public(
    dictionary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted_on: list[int] = []
    fit = Representation.fit.__func__

    def spy(cls: type[Representation], texts: list[str], *, num_dims: int) -> Representation:
        fitted_on.append(len(texts))
        return fit(cls, texts, num_dims=num_dims)

    monkeypatch.setattr(Representation, "fit", classmethod(spy))
    SMALL.build(dictionary)
    assert fitted_on == [20]


@pytest.mark.process
def test_the_script_refuses_a_missing_dictionary_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.build_wordnet", tmp_path / "absent", "--output", tmp_path / "out.npz"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith(f"dictionary={tmp_path / 'absent'}: expected a readable data.noun")
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not DICTIONARY.exists(), reason="Debian's wordnet-base is not installed")
def test_the_script_makes_the_same_bytes_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.build_wordnet", DICTIONARY, "--output", tmp_path / "out.npz"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    assert SHA256 in ended.stdout
    assert (tmp_path / "out.npz").read_bytes() == ARCHIVE.read_bytes()
