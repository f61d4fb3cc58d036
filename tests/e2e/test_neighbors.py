"""Runs on two neighboring data sets, which publish the same files but for the outcome of the votes."""

import json
from pathlib import Path

import numpy as np

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


def _write(path: Path, rows_of_changed_person: int) -> None:
    """Writes 300 people with a row each, but for one private person with `rows_of_changed_person` rows."""
    rng = np.random.default_rng(0)
    lines = ["part,person,age,dose,flu,cough"]
    for person in range(300):
        age = rng.normal(50, 15)
        dose = rng.normal()
        part = ("private", "public", "private", "private", "test", "private")[person % 6]
        cells = f"{part},{person},{age:.1f},{dose:.3f},{int(age > 50)},{int(dose > 0)}"
        lines += [cells] * (rows_of_changed_person if person == 0 else 1)
    path.write_text("\n".join(lines) + "\n")


def _release(folder: Path, rows_of_changed_person: int) -> Path:
    """Runs `pate-train` on the 300 people in a folder, and returns its folder `release`.

    Args:
        folder: the folder of the table and the run.
        rows_of_changed_person: the number of rows of the first private person.
    """
    folder.mkdir()
    _write(folder / "all.csv", rows_of_changed_person)
    ended = call(
        "train",
        arguments=[
            "data=table",
            f"data.path={folder / 'all.csv'}",
            "data.split=part",
            "data.labels=[flu,cough]",
            *WORDS,
            *MORE,
            f"output_dir={folder / 'run'}",
        ],
    )
    assert ended.returncode == 0, ended.stderr
    return folder / "run" / "release"


def test_a_private_person_with_more_rows_changes_only_votes(
    tmp_path: Path,
) -> None:
    """Two runs differ in one private person, who has one row or eight.

    They publish the same files, which are equal but for labels, student, digests and the threshold.
    """
    first = _release(tmp_path / "one", rows_of_changed_person=1)
    second = _release(tmp_path / "other", rows_of_changed_person=8)
    names = [
        sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
        for folder in (first, second)
    ]
    assert names[0] == names[1]
    for name in names[0]:
        if (first / name).is_file() and name not in VOTE_FILES and not name.startswith("student/"):
            assert (first / name).read_bytes() == (second / name).read_bytes(), name
    with np.load(first / "release.npz") as arrays, np.load(second / "release.npz") as neighbor:
        assert arrays["record_ids"].tobytes() == neighbor["record_ids"].tobytes()
        assert set(arrays["record_ids"].tolist()) <= set(range(50))
    schemas = [json.loads((folder / "schema.json").read_text()) for folder in (first, second)]
    for schema in schemas:
        del schema["threshold"]
    assert schemas[0] == schemas[1]
