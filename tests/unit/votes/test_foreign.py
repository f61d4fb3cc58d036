"""Vote files of other programs: their layouts, the recognition of a layout, and files that are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.validation import InvalidValue
from pate.votes import imported
from pate.votes.imported import ImportedVotes
from tests.refusals import ANY, Refusal, refused_parameter

BITS = np.random.default_rng(0).random(size=(9, 5, 4)) < 0.4
COUNTS = BITS.sum(axis=0)
CLASS_COUNTS = np.array([[7, 2, 0], [3, 3, 3]])
NO_AND_YES_COUNTS = np.array([[[4, 5], [9, 0]], [[1, 2], [3, 3]]])


def save_votes(folder: Path, array: Any, name: str = "votes.npy") -> Path:
    """Saves an array, or a dictionary of arrays for an .npz file, and returns the path."""
    path = folder / name
    if path.suffix == ".npz":
        np.savez(path, **array)
    else:
        np.save(path, array)
    return path


@pytest.mark.parametrize(
    ("array", "layout", "num_teachers", "max_votes"),
    [
        (BITS, "teacher_votes", None, int(BITS.sum(axis=2).max())),
        (BITS.astype(np.int8), "teacher_votes", None, int(BITS.sum(axis=2).max())),
        (np.where(BITS, 0.5, 0.49), "teacher_votes", None, int(BITS.sum(axis=2).max())),
        (COUNTS, "histogram", 9, None),
        (COUNTS.astype(float), "histogram", 9, None),
        (np.stack([9 - COUNTS, COUNTS], axis=-1), "pairs", None, None),
        (np.stack([9.0 - COUNTS, COUNTS], axis=-1), "pairs", 9, None),
    ],
)
def test_layouts_are_recognized_and_give_the_same_counts(
    tmp_path: Path, array: Any, layout: str, num_teachers: int | None, max_votes: int | None
) -> None:
    """The counts of a file are the same for each layout: votes of teachers, a histogram, or pairs of no and yes counts.

    The layout is recognized or set. The number of teachers is the same. Only votes of teachers show the largest number
    of votes that a teacher has on a query.
    """
    for layout_setting in ("auto", layout):
        votes = ImportedVotes.read(
            save_votes(folder=tmp_path, array=array),
            layout=layout_setting,
            num_teachers=num_teachers,
        )
        assert (votes.layout, votes.num_teachers, votes.max_votes) == (layout, 9, max_votes)
        np.testing.assert_array_equal(votes.counts, COUNTS)
        assert votes.counts.dtype == np.int64


@pytest.mark.parametrize(
    ("array", "layout", "num_teachers", "refusal"),
    [
        (
            COUNTS,
            "auto",
            None,
            refused_parameter("num_teachers", value=None),
        ),
        (COUNTS, "auto", 2, refused_parameter("votes[0, 0]", rule_words="counts in 0..2")),
        (BITS, "auto", 8, refused_parameter("num_teachers", value=8)),
        (BITS, "auto", 0, refused_parameter("num_teachers", value=0)),
        (
            BITS,
            "table",
            None,
            refused_parameter("layout", value="table"),
        ),
        (
            BITS,
            "classes",
            None,
            refused_parameter(
                "votes.shape", value=(9, 5, 4), rule_words="[num_queries, num_classes]"
            ),
        ),
        (
            BITS,
            "pairs",
            None,
            refused_parameter(
                "votes.shape", value=(9, 5, 4), rule_words="[num_queries, num_labels"
            ),
        ),
        (
            CLASS_COUNTS,
            "teacher_votes",
            None,
            refused_parameter("votes.shape", value=(2, 3), rule_words="[num_teachers, num_queries"),
        ),
        (
            BITS * 2.5,
            "auto",
            None,
            refused_parameter("votes[0, 0, 1]", rule_words="confidences in"),
        ),
        (BITS * 3, "auto", None, refused_parameter("votes[0, 0, 1]", rule_words="votes 0 or")),
        (
            np.where(BITS, np.nan, 0.2),
            "auto",
            None,
            refused_parameter("votes[0, 0, 1]", rule_words="finite numbers"),
        ),
        (COUNTS + 0.5, "auto", 20, refused_parameter("votes[0, 0]", rule_words="numbers")),
        (
            COUNTS.astype(str),
            "histogram",
            None,
            refused_parameter("votes", value=ANY, rule_words=".npy or .npz file of numbers (dtyp"),
        ),
        (
            CLASS_COUNTS * [[1], [2]],
            "classes",
            None,
            refused_parameter("votes", value="2 different sums"),
        ),
        (
            NO_AND_YES_COUNTS,
            "pairs",
            None,
            refused_parameter("votes", value="3 different sums"),
        ),
        (np.zeros((2, 3)), "classes", None, refused_parameter("num_teachers", value=0)),
        (np.zeros(3), "auto", None, refused_parameter("votes.shape", value=(3,))),
        (
            np.zeros((0, 3)),
            "auto",
            None,
            refused_parameter("votes.shape", value=(0, 3), rule_words="teacher, query"),
        ),
    ],
)
def test_impossible_files_are_refused_in_one_line(
    tmp_path: Path, array: Any, layout: str, num_teachers: int | None, refusal: Refusal
) -> None:
    """A file is refused in one line if its layout is unknown, or its votes contradict their layout, range or number."""
    with refusal as caught:
        ImportedVotes.read(
            save_votes(folder=tmp_path, array=array), layout=layout, num_teachers=num_teachers
        )
    assert "\n" not in str(caught.value)


def test_missing_file_error_lists_all_readable_formats(tmp_path: Path) -> None:
    """Reading a missing file is refused, and the error lists .npy, .npz and .csv."""
    with refused_parameter("votes", value=ANY, rule_words="an existing .npy, .npz or .csv file"):
        ImportedVotes.read(tmp_path / "nowhere.csv")


def test_file_with_several_unnamed_arrays_is_refused(tmp_path: Path) -> None:
    """An .npz file with two unnamed arrays is refused."""
    np.savez(tmp_path / "votes.npz", BITS, CLASS_COUNTS)
    with refused_parameter("votes", value=ANY, rule_words="a file with"):
        ImportedVotes.read(tmp_path / "votes.npz")


def test_file_that_expands_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch) -> None:
    """A compressed file whose array is larger than a limit is refused, and a smaller one is read.

    The array has 80,128 bytes with its header, and the limit is lowered to 10,000 bytes.
    """
    monkeypatch.setattr(imported, "_MAX_BYTES", 10_000)
    np.savez_compressed(tmp_path / "bomb.npz", votes=np.zeros((10, 2_000, 4), np.uint8))
    with refused_parameter("votes", value=ANY, rule_words="80,128 bytes"):
        ImportedVotes.read(tmp_path / "bomb.npz")
    np.savez_compressed(tmp_path / "small.npz", votes=np.zeros((10, 20, 4), np.uint8))
    assert ImportedVotes.read(tmp_path / "small.npz").num_teachers == 10


def test_huge_shape_in_a_header_takes_no_memory(tmp_path: Path) -> None:
    """A file that declares 10^12 numbers in its header, and has three bytes after it, is refused."""
    path = tmp_path / "votes.npy"
    with path.open("wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (10**6, 10**6)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(b"few")
    with refused_parameter("votes", value=ANY, rule_words="bytes where"):
        ImportedVotes.read(path)


@pytest.mark.parametrize("layout", ["auto", "teacher_votes", "histogram", "classes", "pairs"])
@pytest.mark.parametrize(
    "array",
    [
        np.array([[1, None]], dtype=object),
        np.zeros((2, 3), dtype=[("a", int)]),
        np.ones((2, 3), complex),
        np.array(3),
        np.zeros((2, 2, 2, 2), int),
        -np.ones((3, 4), int),
        -np.ones((3, 4, 2), int),
        np.full((2, 3, 2), np.inf),
        np.zeros((0, 3)),
        np.full((3, 2), 2**62),
        np.full((3, 4), -(2**63)),
        np.full((2, 3), 1e38),
        np.zeros((2, 3), "M8[s]"),
    ],
    ids=str,
)
def test_unsupported_arrays_give_a_one_line_error(tmp_path: Path, array: Any, layout: str) -> None:
    """An array of a type, shape or range that no layout has is refused in one line, under every layout.

    The line does not mention pickle.
    """
    np.save(tmp_path / "votes.npy", array, allow_pickle=True)
    with pytest.raises(InvalidValue, match=r"^votes") as caught:
        ImportedVotes.read(tmp_path / "votes.npy", layout=layout, num_teachers=10)
    assert "\n" not in str(caught.value)
    assert "pickle" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_byte_order_and_memory_order_change_no_counts(tmp_path: Path) -> None:
    """Votes stored by columns, as big-endian integers or as half floats give the same counts."""
    votes = np.random.default_rng(0).random(size=(4, 5, 6)) > 0.5
    for stored_votes in (
        votes,
        np.asfortranarray(votes),
        votes.astype(">i4"),
        votes.astype(np.float16),
    ):
        np.save(tmp_path / "votes.npy", stored_votes)
        counts = ImportedVotes.read(tmp_path / "votes.npy").counts
        assert counts.tolist() == votes.sum(axis=0).tolist()
