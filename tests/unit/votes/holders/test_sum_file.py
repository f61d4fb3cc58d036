"""Sums of vote files: a tree of them gives the counts of the files, and files that do not go together are refused."""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.validation import InvalidValue
from pate.votes.gathered import BitSums, GatheredVotes, SummedVotes
from pate.votes.vote_file import SumFile, VoteFile, VoteManifest, is_sum_file

QUERIES, LABELS = 7, 11


def vote_file(folder: Path, holder: str, teachers: int = 2, **head: Any) -> Path:
    rng = np.random.default_rng(len(holder) + int(holder))
    votes = rng.random((teachers, QUERIES, LABELS)) < 0.4
    said: dict[str, Any] = {"holder": holder, "queries": "0" * 64, "num_teachers": teachers, "num_queries": QUERIES}
    said |= {"num_labels": LABELS, "num_records": 50 + teachers, "num_groups": 40 + teachers}
    path = folder / f"{holder}.npz"
    names = tuple(f"label {number}" for number in range(LABELS))
    VoteFile.write(
        path, VoteManifest(**(said | head)), bits=lambda: [votes], record_ids=np.arange(QUERIES), label_names=names
    )
    return path


@pytest.mark.parametrize("teachers", [1, 100, 30_000])
def test_a_tree_of_sums_is_the_sum(teachers: int, tmp_path: Path) -> None:
    paths = [vote_file(tmp_path, str(number), teachers if number == 3 else 2) for number in range(1, 7)]
    whole = GatheredVotes.read(paths)
    left = SummedVotes.read(paths[:2]).write(tmp_path / "left.npz")
    right = SummedVotes.read(paths[2:5]).write(tmp_path / "right.npz")
    SummedVotes([left, right]).write(tmp_path / "both.npz")
    found = SummedVotes.read([tmp_path / "both.npz", paths[5]])
    np.testing.assert_array_equal(found.counts(), whole.counts())
    assert [head.holder for head in found.heads] == [head.holder for head in whole.heads]
    assert (found.num_teachers, found.num_groups) == (whole.num_teachers, whole.num_groups)
    assert found.records_per_teacher == whole.records_per_teacher
    assert stat.S_IMODE((tmp_path / "both.npz").stat().st_mode) == 0o600
    assert is_sum_file(tmp_path / "both.npz") and not is_sum_file(paths[0])


def test_sums_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    paths = [vote_file(tmp_path, str(number)) for number in range(1, 4)]
    SummedVotes.read(paths[:2]).write(tmp_path / "sum.npz")
    with pytest.raises(InvalidValue, match="holder=2: expected each holder once"):
        SummedVotes.read([tmp_path / "sum.npz", paths[1]])
    other = vote_file(tmp_path, "9", queries="1" * 64)
    with pytest.raises(InvalidValue, match="queries=others: expected the queries"):
        SummedVotes.read([tmp_path / "sum.npz", other])
    votes = SummedVotes.read([tmp_path / "sum.npz"])
    for read in (votes.bits, votes.confidences, votes.label_shares, lambda: votes.counts(3)):
        with pytest.raises(InvalidValue, match="expected"):
            read()


@pytest.mark.parametrize(
    ("said", "message"),
    [({"queries": "1" * 64}, "queries=others"), ({"vote_clip": None}, "vote_clip=None: expected the vote_clip of")],
)
def test_a_sum_whose_holders_say_different_things_is_refused(
    said: dict[str, Any], message: str, tmp_path: Path
) -> None:
    files = [VoteFile.open(vote_file(tmp_path, holder)) for holder in "12"]
    first, second = (replace(file.manifest, vote_clip=1) for file in files)
    heads = (first, replace(second, **said))
    names = {"record_ids": files[0].record_ids, "label_names": files[0].label_names}
    SumFile.write(tmp_path / "sum.npz", heads, np.ones((QUERIES, LABELS), np.int64), **names)
    with pytest.raises(InvalidValue, match=message):
        SummedVotes.read([tmp_path / "sum.npz"])


def test_a_sum_that_was_altered_is_refused(tmp_path: Path) -> None:
    SummedVotes.read([vote_file(tmp_path, "1"), vote_file(tmp_path, "2")]).write(tmp_path / "sum.npz")
    whole = (tmp_path / "sum.npz").read_bytes()
    place = whole.index(b"counts.npy") + 10 + 128  # within the numbers
    (tmp_path / "sum.npz").write_bytes(whole[:place] + b"\x07" + whole[place + 1 :])
    with pytest.raises(InvalidValue, match="expected a whole file of sums"):
        SummedVotes.read([tmp_path / "sum.npz"]).counts()
    (tmp_path / "sum.npz").write_bytes(whole[:-30])
    with pytest.raises(InvalidValue, match="expected a whole"):
        SumFile.open(tmp_path / "sum.npz")
    file = VoteFile.open(tmp_path / "1.npz")
    names = {"record_ids": file.record_ids, "label_names": file.label_names}
    with pytest.raises(InvalidValue, match=r"counts\[0, 0\]: expected at most 2"):
        SumFile.write(tmp_path / "more.npz", file.heads, np.full((QUERIES, LABELS), 3), **names)


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 7, 8, 15, 16, 100, 257])
@pytest.mark.parametrize(("num_queries", "num_labels"), [(1, 1), (3, 8), (5, 11), (40, 1000)])
def test_sums_of_packed_bits_are_sums_of_bits(num_rows: int, num_queries: int, num_labels: int) -> None:
    rng = np.random.default_rng(num_rows)
    bits = rng.random((num_rows, num_queries, num_labels)) < rng.random((num_queries, num_labels))
    sums = BitSums((num_queries, -(-num_labels // 8)))
    row = np.empty((num_queries, -(-num_labels // 8)), dtype=np.uint8)
    for votes in bits:
        row[:] = np.packbits(votes, axis=1)
        sums.add(row)  # which is used again
        row[:] = 0xFF
    np.testing.assert_array_equal(sums.counts(num_labels), bits.sum(axis=0))
    np.testing.assert_array_equal(sums.counts(num_labels), bits.sum(axis=0), "and may be read twice")
    assert sums.num_rows == num_rows


def test_all_votes_for_everything_fill_every_digit() -> None:
    sums = BitSums((2, 1))
    for _ in range(1023):
        sums.add(np.full((2, 1), 0xFF, dtype=np.uint8))
    assert (sums.counts(8) == 1023).all()
