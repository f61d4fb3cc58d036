"""Holders with different labels: the union of these, who votes on what, sums of vote files, and texts about it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.aggregators import ClippedVotes, GaussianVotes
from pate.aggregators.thresholds import threshold_votes
from pate.data import Dataset, Split
from pate.files.reading import DamagedFile
from pate.run.cohort import LabelHolders
from pate_federated import Question, Request, collect
from pate_federated.asked_data import with_labels
from pate_federated.cohorts import cohort_of_votes
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.question import LENGTHS, SHARES
from pate_federated.vote_file import VoteFile, VoteManifest
from small_federation.holders import ROLL_OF_HOLDERS, answer, request
from small_federation.label_sets import UNKNOWN, write_votes
from tests.refusals import ANY, NOT_SHOWN, refused_parameter

# [num_teachers, one query, num_labels]
VOTES_OF_NORTH = np.array([[[1, 0]], [[1, 1]], [[0, UNKNOWN]]], dtype=np.int8)
VOTES_OF_SOUTH = np.array([[[1, 1]], [[0, 1]]], dtype=np.int8)


def files_of_north_and_south(folder: Path, *, cast: str = "bits") -> list[Path]:
    """Returns the vote files of two holders: north has the labels a and b, some unknown, and south has c and a."""
    return [
        write_votes(
            folder,
            holder="north",
            label_names=("a", "b"),
            votes=VOTES_OF_NORTH,
            have_gaps=True,
            cast=cast,
        ),
        write_votes(
            folder, holder="south", label_names=("c", "a"), votes=VOTES_OF_SOUTH, cast=cast
        ),
    ]


@pytest.mark.parametrize("cast", ["bits", "confidences"])
def test_the_union_of_labels_is_released(cast: str, tmp_path: Path) -> None:
    """The released labels are those of the first holder, followed by the ones that only the second has.

    The votes for a label are found by its name.
    """
    vote_source = GatheredVotes.read(files_of_north_and_south(tmp_path, cast=cast))
    assert vote_source.label_names == ("a", "b", "c")
    assert vote_source.labels_of_holders == (("a", "b"), ("c", "a"))
    bits = np.concatenate(list(vote_source.bits()))
    assert bits[:, 0].astype(int).tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [0, 0, 0],
        [1, 0, 1],
        [1, 0, 0],
    ]
    assert vote_source.counts().tolist() == [[4, 1, 1]]


@pytest.mark.parametrize("cast", ["bits", "confidences"])
def test_teachers_vote_on_known_labels_of_their_holder(cast: str, tmp_path: Path) -> None:
    """A teacher votes on the labels that its holder has and that it knows itself, and abstains from the others.

    Which labels a holder has is public.
    """
    vote_source = GatheredVotes.read(files_of_north_and_south(tmp_path, cast=cast))
    is_voting_by_teacher = vote_source.voting()
    assert is_voting_by_teacher is not None
    assert is_voting_by_teacher.astype(int).tolist() == [
        [1, 1, 0],
        [1, 1, 0],
        [1, 0, 0],
        [1, 0, 1],
        [1, 0, 1],
    ]
    assert vote_source.num_without_label().tolist() == [0, 2, 3]
    assert vote_source.num_abstaining().tolist() == [0, 3, 3]
    if cast == "confidences":
        known_shares_of_teachers = vote_source.known_shares()
        assert known_shares_of_teachers is not None
        assert known_shares_of_teachers.tolist() == is_voting_by_teacher.astype(float).tolist()
        assert vote_source.share_sums().have_gaps


def test_files_with_the_same_labels_have_no_gaps(tmp_path: Path) -> None:
    """If two holders have the same labels, also in another order, nobody abstains, and there is no mask."""
    paths = [
        write_votes(tmp_path, holder="1", label_names=("a", "b"), votes=VOTES_OF_SOUTH),
        write_votes(tmp_path, holder="2", label_names=("b", "a"), votes=VOTES_OF_SOUTH),
    ]
    vote_source = GatheredVotes.read(paths)
    assert vote_source.voting() is None and not vote_source.num_abstaining().any()
    assert vote_source.counts().tolist() == [[3, 3]]
    assert cohort_of_votes(vote_source).label_holders is None


def test_a_sum_of_files_has_the_same_counts_and_abstentions(tmp_path: Path) -> None:
    """A file with the sum of two vote files has their counts and abstentions, alone and beside a third file."""
    paths = files_of_north_and_south(tmp_path)
    third_path = write_votes(
        tmp_path, holder="west", label_names=("d",), votes=VOTES_OF_SOUTH[..., :1]
    )
    for further_paths in ([], [third_path]):
        whole = GatheredVotes.read([*paths, *further_paths])
        GatheredVotes.read(paths).write(tmp_path / "sum.npz")
        summed = GatheredVotes.read([tmp_path / "sum.npz", *further_paths])
        assert summed.label_names == whole.label_names
        for method in ("counts", "num_abstaining", "num_without_label"):
            np.testing.assert_array_equal(getattr(summed, method)(), getattr(whole, method)())
        assert cohort_of_votes(summed).label_holders == cohort_of_votes(whole).label_holders


def test_a_threshold_is_a_share_of_the_teachers_that_have_the_label(tmp_path: Path) -> None:
    """The count of a label gets `threshold_share` times the number of teachers whose holders lack the label.

    This addition is rounded down. For `GaussianVotes`, each abstention counts as half a vote, rounded down in the sum.
    For clipped and distributed votes, only the abstentions of whole holders count.
    """
    vote_source = GatheredVotes.read(files_of_north_and_south(tmp_path))
    counts = np.array([[4, 1, 1]])
    num_teachers_without_label = np.array([0, 2, 3])
    assert threshold_votes(
        num_without_label=num_teachers_without_label, threshold_share=0.4
    ).tolist() == [
        0,
        0,
        1,
    ]
    assert (GaussianVotes(noise_std=1.0).summarize(vote_source) - counts).tolist() == [[0, 1, 1]]
    for aggregator in (
        ClippedVotes(noise_std=1.0, vote_clip=2, threshold_share=0.4),
        ClippedVotes(noise_std=1.0, vote_clip=2, threshold_share=0.4, norm="l2"),
        DistributedVotes(noise_std=1.0, num_holders=2, threshold_share=0.4),
    ):
        assert (aggregator.summarize(vote_source) - counts).tolist() == [[0, 0, 1]]


def test_the_head_of_a_file_without_gaps_has_no_further_keys() -> None:
    """The JSON of a manifest has keys for gaps only if there are some, and is read back unchanged."""
    head = VoteManifest(
        holder="a",
        queries="0" * 64,
        num_teachers=1,
        num_queries=1,
        num_labels=2,
        num_records=1,
        num_groups=1,
    )
    assert "gaps" not in head.to_text() and "known_labels" not in head.to_text()
    gaps = replace(head, have_gaps=True, known_labels=("x",))
    for manifest in (head, gaps):
        assert VoteManifest.from_text(manifest.to_text()) == manifest


def test_a_vote_of_a_teacher_that_does_not_vote_is_refused(tmp_path: Path) -> None:
    """A vote file is refused as damaged if a vote in it is also an abstention, as it would move a count too far."""
    path = tmp_path / "a.npz"
    bits = np.ones((1, 1, 1), dtype=np.bool_)
    VoteFile.write(
        path,
        manifest=VoteManifest(
            holder="a",
            queries="0" * 64,
            num_teachers=1,
            num_queries=1,
            num_labels=1,
            num_records=1,
            num_groups=1,
            have_gaps=True,
        ),
        yield_bits=lambda: [bits],
        record_ids=np.arange(1),
        label_names=("x",),
        known_shares=np.zeros((1, 1)),
    )
    with pytest.raises(DamagedFile, match="do not vote"):
        GatheredVotes.read([path]).counts()


@pytest.mark.parametrize(
    ("name", "values", "place"),
    [
        ("counts", np.array([[4, 1, 3]], np.uint8), "0, 2"),
        ("counts", np.array([[4, 3, 1]], np.uint8), "0, 1"),
        ("abstaining", np.array([0, 4, 0]), "1"),
        ("abstaining", np.array([0, 0, 1]), "2"),
        ("abstaining", np.array([0, -1, 0]), "1"),
    ],
)
def test_a_sum_with_more_votes_than_voting_teachers_is_refused(
    name: str, values: np.ndarray, place: str, tmp_path: Path
) -> None:
    """A file with a sum is refused if it has more votes on a label than teachers that vote on it.

    A sum with impossible numbers of abstentions is refused too.
    """
    GatheredVotes.read(files_of_north_and_south(tmp_path)).write(tmp_path / "sum.npz")
    with np.load(tmp_path / "sum.npz") as file:
        arrays = {array_name: file[array_name] for array_name in file.files}
    np.savez(tmp_path / "wrong.npz", **(arrays | {name: values}))
    with refused_parameter(f"{name}[{place}]", value=NOT_SHOWN):
        GatheredVotes.read([tmp_path / "wrong.npz"]).counts()


def test_holders_with_some_of_the_asked_labels_are_counted(tmp_path: Path) -> None:
    """A holder that answers on two of the labels a request asks for is counted, and one with another label is refused.

    The released labels are those of the request.
    """
    votes = np.ones((3, 6, 2), dtype=np.int8)
    answer_on_all = answer(vote_file_folder=tmp_path, holder="2")
    answer_on_two = answer(
        vote_file_folder=tmp_path, holder="1", votes=votes.astype(np.bool_), label_names=("d", "b")
    )
    answer_on_another = answer(
        vote_file_folder=tmp_path, holder="3", votes=votes.astype(np.bool_), label_names=("d", "x")
    )
    collection = collect(
        ROLL_OF_HOLDERS,
        request=request(),
        unchecked_answers=[answer_on_all, answer_on_two, answer_on_another],
        folder=tmp_path / "inbox",
    )
    assert collection.absent == ("3", "4")
    source = collection.source(GaussianVotes(noise_std=1.0))
    assert source.num_labels == 4
    counts = collection.gathered().counts()
    counts_of_holder_2 = GatheredVotes(holders_files=[collection.files["2"]]).counts()
    assert (counts - counts_of_holder_2).tolist() == [[0, 3, 0, 3]] * 6
    assert source.num_without_label().tolist() == [3, 0, 3, 0]


def test_the_card_names_labels_of_few_teachers_first() -> None:
    """The card names the labels that not every holder has, those with the fewest teachers first."""
    label_holders = LabelHolders.from_holders(
        label_names=("a", "b", "c"),
        label_names_of_holders=[("a", "b"), ("c", "a")],
        num_teachers_of_holders=[3, 5],
    )
    assert label_holders is not None
    assert (label_holders.holders_per_label, label_holders.teachers_per_label) == (
        (2, 1, 1),
        (8, 3, 5),
    )
    summary, named = label_holders.lines()
    assert summary.startswith(
        "Not every holder has every label: 2 of 3 labels have fewer than all 8 teachers of 2 holders."
    )
    assert (
        named == "Labels of few teachers: b (3 teachers of 1 holder), c (5 teachers of 1 holder)."
    )
    assert label_holders.lines(max_shown=1)[1].endswith(", and 1 more.")


def test_a_holder_reads_the_labels_of_others_as_unknown() -> None:
    """At a holder, its own labels get the columns of their names among all labels, and the others are unknown.

    If only the order differs, there is no mask.
    """
    split = Split(
        np.zeros((2, 1), np.float32),
        np.array([[True, False], [True, True]]),
        record_ids=np.arange(2),
        group_ids=np.arange(2),
    )
    dataset = Dataset(
        name="small",
        real=False,
        kind="features",
        label_names=("a", "b"),
        private=split,
        public=replace(split, record_ids=np.arange(2, 4), group_ids=np.arange(2, 4)),
        test=replace(split, record_ids=np.arange(4, 6), group_ids=np.arange(4, 6)),
    )
    private = with_labels(dataset, label_names=("b", "x", "a")).private
    assert private.labels.astype(int).tolist() == [[0, 0, 1], [1, 0, 1]]
    assert private.known is not None
    assert private.known.astype(int).tolist() == [[1, 0, 1], [1, 0, 1]]
    assert with_labels(dataset, label_names=("b", "a")).private.known is None
    assert with_labels(dataset, label_names=("a", "b")) is dataset


@pytest.mark.parametrize("kind", [LENGTHS, SHARES])
def test_a_question_about_labels_with_gaps_asks_for_two_shares_of_each(kind: str) -> None:
    """A question about labels that may be unknown is read back with the same digest.

    Without gaps, a question about lengths has another digest, and one about shares is refused if its center has two
    numbers for each label.
    """
    states = {LENGTHS: {}, SHARES: {"center": np.full(4, 0.2), "clip": np.array(0.5)}}
    question = Question(kind=kind, asked="0" * 64, num_labels=2, state=states[kind], have_gaps=True)
    again = Question.from_bytes(question.to_bytes())
    assert again.have_gaps and again.digest == question.digest
    if kind == SHARES:
        assert question.shape == (1, 4)
        with refused_parameter("question", value=ANY):
            replace(question, have_gaps=False)
    else:
        assert replace(question, have_gaps=False).digest != question.digest


def test_an_opening_says_nothing_of_gaps() -> None:
    """An opening question that says that labels may be unknown is refused."""
    opening = Question.of_opening(
        Request(inputs=np.ones((1, 1), np.float32), record_ids=np.arange(1), label_names=("a",))
    )
    with refused_parameter("question", value=ANY):
        replace(opening, have_gaps=True)
