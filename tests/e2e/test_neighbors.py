"""Runs whose private records differ publish the same files, apart from what follows from the teachers' votes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from pate.array_types import BoolArray
from tests.e2e.commands import call

# the files that depend on the votes; the last two name threshold and answer rate
VOTE_FILES = {"manifest.json", "release.npz", "schema.json", "README.md"}
WORDS = (
    "teacher=linear",
    "student=linear",
    "aggregator=gaussian_votes",
    "teacher.num_teachers=20",
    "num_queries=40",
)
MORE = (
    "features=none",
    "target_epsilon=20",
    "all_records=false",
    "logger=none",
    "seed=5",
    "data.group=person",
)


CENTERED = ("experiment=centered_votes", "num_queries=40", "student=linear")
# the people of the private rows, of whom the first 30 and the last 30 have a missing label in two runs
PRIVATE = [person for person in range(300) if person % 6 in (0, 2, 3, 5)]
MISSING_LABELS_OF_RUNS: tuple[Mapping[int, str], ...] = (
    dict.fromkeys(PRIVATE[:30], "flu"),
    dict.fromkeys(PRIVATE[-30:], "cough"),
)


def _write_table(
    path: Path, num_rows_of_changed_person: int, missing_labels: Mapping[int, str] | None = None
) -> None:
    """Writes 300 people with one row each, apart from the first private person, who may have more.

    Args:
        path: the file.
        num_rows_of_changed_person: the number of rows of the first private person.
        missing_labels: the label that is missing in the rows of each of these people; None if no label is missing.
    """
    rng = np.random.default_rng(0)
    lines = ["part,person,age,dose,flu,cough"]
    for person in range(300):
        age = rng.normal(loc=50, scale=15)
        dose = rng.normal()
        part = ("private", "public", "private", "private", "test", "private")[person % 6]
        labels = {"flu": str(int(age > 50)), "cough": str(int(dose > 0))}
        if missing_labels is not None and person in missing_labels:
            labels[missing_labels[person]] = ""
        cells = f"{part},{person},{age:.1f},{dose:.3f},{labels['flu']},{labels['cough']}"
        lines += [cells] * (num_rows_of_changed_person if person == 0 else 1)
    path.write_text("\n".join(lines) + "\n")


def _published_folder(
    folder: Path,
    num_rows_of_changed_person: int = 1,
    missing_labels: Mapping[int, str] | None = None,
    settings: Sequence[str] = WORDS,
) -> Path:
    """Runs `pate-train` on the 300 people in a folder, and returns its folder `release`.

    Args:
        folder: the folder of the table and the run.
        num_rows_of_changed_person: the number of rows of the first private person.
        missing_labels: the label that is missing in the rows of each of these people; None if no label is missing.
        settings: the settings of teachers, aggregator and student.
    """
    folder.mkdir()
    _write_table(
        path=folder / "all.csv",
        num_rows_of_changed_person=num_rows_of_changed_person,
        missing_labels=missing_labels,
    )
    ended = call(
        "train",
        arguments=[
            "data=table",
            f"data.path={folder / 'all.csv'}",
            "data.split=part",
            "data.labels=[flu,cough]",
            *MORE,
            *settings,
            f"output_dir={folder / 'run'}",
        ],
    )
    assert ended.returncode == 0, ended.stderr
    return folder / "run" / "release"


def test_a_private_person_with_more_rows_changes_only_votes(
    tmp_path: Path,
) -> None:
    """Two runs publish the same files, whether one private person has one row or eight.

    The files may differ only in released labels, the student, digests, the threshold and the model card.
    """
    first = _published_folder(folder=tmp_path / "one", num_rows_of_changed_person=1)
    second = _published_folder(folder=tmp_path / "other", num_rows_of_changed_person=8)
    names = [
        sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
        for folder in (first, second)
    ]
    assert names[0] == names[1]
    for file_name in names[0]:
        if (
            (first / file_name).is_file()
            and file_name not in VOTE_FILES
            and not file_name.startswith("student/")
        ):
            assert (first / file_name).read_bytes() == (second / file_name).read_bytes(), file_name
    with np.load(first / "release.npz") as arrays, np.load(second / "release.npz") as neighbor:
        assert arrays["record_ids"].tobytes() == neighbor["record_ids"].tobytes()
        assert set(arrays["record_ids"].tolist()) <= set(range(50))
    schemas = [json.loads((folder / "schema.json").read_text()) for folder in (first, second)]
    for schema in schemas:
        del schema["threshold"]
    assert schemas[0] == schemas[1]


def _known_labels(missing_labels: Mapping[int, str]) -> BoolArray:
    """Returns which labels of each private row are known, flu and then cough, `[num_private, 2]`.

    Args:
        missing_labels: the name of the label that a person misses, by the number of this person as in `PRIVATE`. All
            other labels are known.
    """
    known = np.ones((len(PRIVATE), 2), np.bool_)
    for person, label in missing_labels.items():
        known[PRIVATE.index(person), ("flu", "cough").index(label)] = False
    return known


def _bytes_by_name(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file in a folder, and of each array in its `.npz` files, by relative path."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            contents[name] = path.read_bytes()
            if path.suffix == ".npz":
                with np.load(path) as arrays:
                    contents |= {f"{name}/{key}": arrays[key].tobytes() for key in arrays.files}
    return contents


def _encodings_of_mask(known: BoolArray) -> list[bytes]:
    """Returns a mask and each of its columns in several forms: bytes, bits, text and row numbers, also inverted."""
    forms = []
    for array in (known, known[:, 0], known[:, 1]):
        for bits in (array, ~array):
            forms += [bits.tobytes(), np.packbits(bits).tobytes()]
            forms.append("".join(str(int(bit)) for bit in bits.ravel()).encode())
            rows = np.flatnonzero(bits)
            if len(rows) > 1:
                forms += [
                    rows.tobytes(),
                    rows.astype(np.int32).tobytes(),
                    str(rows.tolist()).encode(),
                ]
    return forms


# centered votes release the share of records that know each label, with noise, and state it with the price
@pytest.mark.parametrize(
    ("settings", "files_of_votes"),
    [(WORDS, VOTE_FILES), (CENTERED, VOTE_FILES | {"privacy.json", "privacy_card.md"})],
)
def test_no_published_file_holds_the_mask_of_private_records(
    tmp_path: Path, settings: tuple[str, ...], files_of_votes: set[str]
) -> None:
    """No published file holds the mask of known private labels, in any of several forms.

    A second run, in which 30 other labels are missing, publishes the same settings, and the same price apart from noisy
    shares of known labels. Only the student and `files_of_votes`, the published files that depend on the votes, may
    differ.
    """
    folders = [
        _published_folder(
            folder=tmp_path / str(number), missing_labels=missing_labels, settings=settings
        )
        for number, missing_labels in enumerate(MISSING_LABELS_OF_RUNS)
    ]
    first, second = map(_bytes_by_name, folders)
    assert first.keys() == second.keys()
    for name, content in first.items():
        file_name = name.split("/")[0]
        if file_name not in files_of_votes and file_name != "student":
            assert content == second[name], name
    prices = [json.loads(contents["privacy.json"]) for contents in (first, second)]
    for price, missing_labels in zip(prices, MISSING_LABELS_OF_RUNS, strict=True):
        published_shares = np.array(
            [*price.pop("known_shares", {"flu": 0.0, "cough": 0.0}).values()]
        )
        true_shares = _known_labels(missing_labels).mean(axis=0)
        is_gapped = true_shares < 1
        assert (np.abs(published_shares - true_shares)[is_gapped] > 1e-6).all()
    assert prices[0] == prices[1]
    for missing_labels in MISSING_LABELS_OF_RUNS:
        for form in _encodings_of_mask(_known_labels(missing_labels)):
            holders = [name for name, content in (first | second).items() if form in content]
            assert holders == []
    for contents in (first, second):
        assert b"Labels of private records may be missing" in contents["README.md"]
        assert b"That labels of private records may be missing" in contents["privacy_card.md"]
        assert not any(b"unknown and left out" in content for content in contents.values())


def test_release_does_not_tell_whose_label_is_missing(tmp_path: Path) -> None:
    """Two runs that differ in which of two people has a missing label publish the same bytes.

    The missing label changes the votes little, and the noise is large and from the same seed.
    """
    settings = (*WORDS, "target_epsilon=.01", "allow_useless=true")
    missing_labels_of_runs: tuple[Mapping[int, str], ...] = ({0: "flu"}, {2: "flu"})
    first, second = (
        _published_folder(
            folder=tmp_path / str(number), missing_labels=missing_labels, settings=settings
        )
        for number, missing_labels in enumerate(missing_labels_of_runs)
    )
    assert _bytes_by_name(first) == _bytes_by_name(second)
    digests = [(folder.parent / "private.sha256").read_text() for folder in (first, second)]
    assert digests[0] != digests[1]
