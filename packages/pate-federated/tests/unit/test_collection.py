"""Answers of holders are counted or refused, absent holders count without votes, and one holder can do only so much."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import CenteredVotes, GaussianVotes, GNMax
from pate_federated import Collection, Contribution, Request, Roll, collect
from small_federation.holders import (
    NUM_LABELS,
    NUM_QUERIES,
    ROLL_OF_HOLDERS,
    TEACHERS,
    answer,
    request,
    votes_of,
    with_array_replaced,
)
from tests.refusals import refused_parameter

HOLDER_NAMES = ("1", "2", "3", "4")
GAUSSIAN_VOTES = GaussianVotes(noise_std=1.0)


BITS = request()
CONFIDENCES = replace(request(), cast="confidences")
CLIPPED = replace(request(), vote_clip=2)


def collect_answers(
    inbox_parent: Path,
    answers: Sequence[Contribution],
    roll: Roll = ROLL_OF_HOLDERS,
    sent_request: Request = BITS,
) -> Collection:
    """Collects answers to a request; `roll` lists the holders that may answer."""
    return collect(
        roll, request=sent_request, unchecked_answers=answers, folder=inbox_parent / "inbox"
    )


def honest_answers_of(
    vote_file_folder: Path, holders: Sequence[str], sent_request: Request = BITS
) -> list[Contribution]:
    """Returns the honest answers of holders to a request; their vote files are written into the folder."""
    return [
        answer(vote_file_folder=vote_file_folder, holder=holder, sent_request=sent_request)
        for holder in holders
    ]


def test_sum_counts_absent_teachers_without_votes(tmp_path: Path) -> None:
    """If two of four holders answer, the counts are theirs, and the number of teachers is that of all four."""
    everyone = collect_answers(
        inbox_parent=tmp_path,
        answers=honest_answers_of(vote_file_folder=tmp_path, holders=HOLDER_NAMES)[::-1],
    )
    assert (everyone.absent, dict(everyone.refused)) == ((), {})
    partial = collect_answers(
        inbox_parent=tmp_path,
        answers=honest_answers_of(vote_file_folder=tmp_path, holders=["1", "4"]),
    )
    assert partial.absent == ("2", "3")
    assert partial.refused["2"] == "holder=2: no answer"
    for collection, names in ((everyone, HOLDER_NAMES), (partial, "14")):
        source = collection.source(GAUSSIAN_VOTES)
        assert source.num_teachers == 12  # what a price is for
        np.testing.assert_array_equal(
            source.counts(), sum(votes_of(holder=name).sum(axis=0) for name in names)
        )
        assert sum(len(block) for block in source.bits()) == 12


def test_absent_teachers_vote_for_the_first_label_if_one_is_required(tmp_path: Path) -> None:
    """For `GNMax`, which needs a vote of each teacher, the teachers of absent holders vote for label 0."""
    source = collect_answers(
        inbox_parent=tmp_path,
        answers=honest_answers_of(vote_file_folder=tmp_path, holders=["1", "2"]),
    ).source(GNMax(noise_std=1.0))
    absent = np.concatenate(list(source.bits()))[2 * TEACHERS :]
    assert absent[:, :, 0].all() and not absent[:, :, 1:].any()


def test_with_more_absent_than_the_roll_allows_there_is_no_source(tmp_path: Path) -> None:
    """Votes are refused if three of four holders are absent and two may be."""
    collection = collect_answers(
        inbox_parent=tmp_path, answers=honest_answers_of(vote_file_folder=tmp_path, holders=["1"])
    )
    with refused_parameter("absent holders", value=3, rule_words="ask again, or"):
        collection.source(GAUSSIAN_VOTES)


def test_absent_teachers_are_refused_under_add_remove(tmp_path: Path) -> None:
    """If holders are absent, `CenteredVotes` is refused under add_remove, and accepted under replace_one.

    `GaussianVotes` is accepted under add_remove.
    """
    answers = honest_answers_of(
        vote_file_folder=tmp_path, holders=["1", "2"], sent_request=CONFIDENCES
    )
    collection = collect_answers(inbox_parent=tmp_path, answers=answers, sent_request=CONFIDENCES)
    centered = CenteredVotes(noise_multiplier=3.0, adjacency=Adjacency.ADD_REMOVE)
    with refused_parameter("adjacency", value="add_remove"):
        collection.source(centered)
    assert collection.source(replace(centered, adjacency=Adjacency.REPLACE_ONE)).num_teachers == 12
    assert (
        collection.source(replace(GAUSSIAN_VOTES, adjacency=Adjacency.ADD_REMOVE)).num_teachers
        == 12
    )


def test_confidences_of_absent_teachers_are_zero(tmp_path: Path) -> None:
    """The confidences of teachers of absent holders are zero, and follow those that were sent."""
    answers = honest_answers_of(
        vote_file_folder=tmp_path, holders=["1", "2"], sent_request=CONFIDENCES
    )
    collection = collect_answers(inbox_parent=tmp_path, answers=answers, sent_request=CONFIDENCES)
    source = collection.source(CenteredVotes(noise_multiplier=3.0))
    sent_confidences = np.concatenate(list(source.confidences()))
    assert (
        sent_confidences.shape == (12, NUM_QUERIES, NUM_LABELS)
        and sent_confidences.dtype == np.float32
    )
    assert not sent_confidences[6:].any()
    assert source.label_shares().shape == (12, NUM_LABELS)


def answer_with_packed_bits(folder: Path, packed_bits: np.ndarray) -> Contribution:
    """Returns an answer of holder 2 with these packed bits in place of its votes."""
    return with_array_replaced(
        answer(vote_file_folder=folder, holder="2"), array_name="packed", array=packed_bits
    )


ALL = np.full((TEACHERS, NUM_QUERIES, 1), 255, np.uint8)
SPOILED: dict[str, tuple[Callable[[Path], Contribution], str]] = {
    "failed": (lambda _: Contribution(holder="2", problem="its app failed"), "its app failed"),
    "no file": (lambda _: Contribution(holder="2", votes=b"votes"), "expected a whole vote file"),
    "torn": (
        lambda folder: Contribution(
            holder="2", votes=(answer(vote_file_folder=folder, holder="2").votes or b"")[:-40]
        ),
        "expected a whole vote file",
    ),
    "of another": (
        lambda folder: Contribution(
            holder="2", votes=answer(vote_file_folder=folder, holder="3").votes
        ),
        "holder=3: expected 2",
    ),
    "other queries": (
        lambda folder: answer(vote_file_folder=folder, holder="2", queries_digest="0" * 64),
        "queries=others: expected those",
    ),
    "too few queries": (
        lambda folder: answer(
            vote_file_folder=folder, holder="2", votes=votes_of(holder="2")[:, : NUM_QUERIES - 1]
        ),
        "num_queries=5: expected 6",
    ),
    "too many labels": (
        lambda folder: answer(
            vote_file_folder=folder,
            holder="2",
            votes=np.ones((TEACHERS, NUM_QUERIES, 9), dtype=np.bool_),
        ),
        "num_labels=9: expected at most 4",
    ),
    "too many teachers": (
        lambda folder: answer(
            vote_file_folder=folder, holder="2", votes=np.concatenate([votes_of(holder="2")] * 5)
        ),
        "num_teachers=15: expected 3",
    ),
    "another shape": (
        lambda folder: answer_with_packed_bits(folder, packed_bits=ALL[:, :, 0]),
        "expected",
    ),
    "far too large": (
        lambda folder: answer_with_packed_bits(folder, packed_bits=np.zeros(2**22, dtype=np.uint8)),
        "expected at most",
    ),
    "bits beyond the last label": (
        lambda folder: answer_with_packed_bits(folder, packed_bits=ALL),
        "bits behind label 3",
    ),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_invalid_answer_gives_a_one_line_reason_by_holder(fault: str, tmp_path: Path) -> None:
    """A holder that sends an invalid answer counts as absent, with a reason in one line.

    The reason has no path, the inbox has no file of the holder, and the number of teachers is that of all holders, 12.
    """
    make_answer, reason = SPOILED[fault]
    collection = collect_answers(
        inbox_parent=tmp_path,
        answers=[
            *honest_answers_of(vote_file_folder=tmp_path, holders=["1", "3", "4"]),
            make_answer(tmp_path),
        ],
    )
    assert collection.absent == ("2",)
    line = collection.refused["2"]
    assert line.startswith("holder=2: ") and reason in line and "\n" not in line
    assert str(tmp_path) not in line
    assert not (tmp_path / "inbox" / "2.npz").exists()
    assert collection.source(GAUSSIAN_VOTES).num_teachers == 12


@pytest.mark.parametrize("wrong_confidence", [np.nan, np.inf, -0.5, 1.5])
def test_invalid_confidences_are_refused(wrong_confidence: float, tmp_path: Path) -> None:
    """A holder with a confidence that is NaN, infinite or outside [0, 1] counts as absent, with this reason."""
    honest_answers = honest_answers_of(
        vote_file_folder=tmp_path, holders=["1", "3", "4"], sent_request=CONFIDENCES
    )
    sent_confidences = votes_of(holder="2").astype(np.float32)
    sent_confidences[1, 2, 3] = wrong_confidence
    honest = answer(vote_file_folder=tmp_path, holder="2", sent_request=CONFIDENCES)
    collection = collect_answers(
        inbox_parent=tmp_path,
        answers=[
            *honest_answers,
            with_array_replaced(honest, array_name="confidences", array=sent_confidences),
        ],
        sent_request=CONFIDENCES,
    )
    assert collection.absent == ("2",)
    assert "confidences beyond [0, 1]" in collection.refused["2"]


def test_more_labels_of_a_query_than_the_clip_allows_are_refused(tmp_path: Path) -> None:
    """A holder with a teacher that votes for more labels of a query than `vote_clip` is absent, with this reason."""
    clipped_answers = [
        answer(
            vote_file_folder=tmp_path,
            holder=name,
            sent_request=CLIPPED,
            votes=votes_of(holder=name) & False,
        )
        for name in ("1", "3", "4")
    ]
    empty = answer(
        vote_file_folder=tmp_path,
        holder="2",
        sent_request=CLIPPED,
        votes=votes_of(holder="2") & False,
    )
    greedy = with_array_replaced(
        empty, array_name="packed", array=np.full((TEACHERS, NUM_QUERIES, 1), 0b11110000, np.uint8)
    )
    collection = collect_answers(
        inbox_parent=tmp_path, answers=[*clipped_answers, greedy], sent_request=CLIPPED
    )
    assert collection.absent == ("2",)
    assert "more than vote_clip=2 labels of a query" in collection.refused["2"]


def test_unknown_holder_is_refused_and_replaces_no_other(tmp_path: Path) -> None:
    """Answers of a holder that is not expected, and of one whose name is a path, are refused.

    The inbox has the files of the four expected holders.
    """
    collection = collect_answers(
        inbox_parent=tmp_path,
        answers=[
            *honest_answers_of(vote_file_folder=tmp_path, holders=HOLDER_NAMES),
            answer(vote_file_folder=tmp_path, holder="5"),
            Contribution(holder="../x\n", votes=b"y"),
        ],
    )
    assert collection.absent == ()
    assert (
        "expected a holder on the roll" in collection.refused["another"]
        and "\n" not in collection.refused["another"]
    )
    assert sorted(path.name for path in (tmp_path / "inbox").iterdir()) == [
        f"{name}.npz" for name in HOLDER_NAMES
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_adversarial_holder_moves_counts_by_at_most_its_teachers(seed: int, tmp_path: Path) -> None:
    """With random or full packed bits, a holder adds between 0 and its number of teachers to each count.

    Some of these bits are beyond the last label or are those of too many teachers. If votes are clipped to one label,
    the holder adds at most its number of teachers to all counts of a query together.
    """
    rng = np.random.default_rng(seed)
    honest = honest_answers_of(vote_file_folder=tmp_path, holders=["1", "3", "4"])
    counts_without_adversary = (
        collect_answers(inbox_parent=tmp_path, answers=honest).source(GAUSSIAN_VOTES).counts()
    )

    def random_packed_votes(num_teachers: int) -> np.ndarray:
        return rng.integers(0, 256, size=(num_teachers, NUM_QUERIES, 1), dtype=np.uint8)

    for packed in (
        random_packed_votes(num_teachers=TEACHERS) & 0b11110000,
        np.full((TEACHERS, NUM_QUERIES, 1), 0b11110000, dtype=np.uint8),
        random_packed_votes(num_teachers=TEACHERS),
        random_packed_votes(num_teachers=40),
    ):
        collection = collect_answers(
            inbox_parent=tmp_path,
            answers=[
                *honest,
                with_array_replaced(
                    answer(vote_file_folder=tmp_path, holder="2"), array_name="packed", array=packed
                ),
            ],
        )
        added_counts = collection.source(GAUSSIAN_VOTES).counts() - counts_without_adversary
        assert ((added_counts >= 0) & (added_counts <= TEACHERS)).all()
        clipped_counts_without_adversary = (
            collect_answers(inbox_parent=tmp_path, answers=honest)
            .source(GAUSSIAN_VOTES)
            .counts(max_votes=1)
        )
        added_clipped_counts = (
            collection.source(GAUSSIAN_VOTES).counts(max_votes=1) - clipped_counts_without_adversary
        )
        assert (
            added_clipped_counts.sum(axis=1) <= TEACHERS
        ).all()  # where the price lets a teacher name one label


def test_votes_of_one_holder_reach_the_bound_of_the_price(tmp_path: Path) -> None:
    """If a holder changes from no votes to all votes, each count grows by its number of teachers, the bound."""
    honest = honest_answers_of(vote_file_folder=tmp_path, holders=["1", "3", "4"])

    def counts_with(vote: bool) -> np.ndarray:
        """Returns the counts if every teacher of holder 2 casts this vote for every label."""
        own = answer(
            vote_file_folder=tmp_path, holder="2", votes=np.full_like(votes_of(holder="2"), vote)
        )
        collection = collect_answers(inbox_parent=tmp_path, answers=[*honest, own])
        return np.asarray(collection.source(GAUSSIAN_VOTES).counts())

    assert (counts_with(vote=True) - counts_with(vote=False) == TEACHERS).all()


def test_request_is_unchanged_by_serialization(tmp_path: Path) -> None:
    """A request that is written to bytes and read has the same digest, labels, form of votes and clip.

    Other bytes are refused.
    """
    sent_request = replace(request(), cast="confidences", vote_clip=2)
    read_request = Request.from_bytes(sent_request.to_bytes())
    assert (read_request.digest, read_request.label_names) == (
        sent_request.digest,
        sent_request.label_names,
    )
    assert (read_request.cast, read_request.vote_clip) == ("confidences", 2)
    with refused_parameter("request", rule_words="a request as"):
        Request.from_bytes(b"nothing")
