"""What names a release: every field in full, arrays included; and parameters that no aggregator takes."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, GaussianEvent, Ledger, NoOpEvent, WinnerEvent
from pate.accounting.event_tree import leaves
from pate.aggregators import (
    Aggregator,
    Answers,
    BoundaryMax,
    BoundaryTopK,
    CenteredVotes,
    ClippedVotes,
    ConfidentGNMax,
    ConfidentVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    NotPriorTopK,
    PowersetGNMax,
    StableFixedTopK,
    StableTopK,
    counts_for,
)
from pate.votes import VoteShape
from pate.votes.counts import histogram
from pate.votes.made_up import MadeUpVotes
from tests.contract.case import record_that_charges
from tests.refusals import ANY, refused

SHAPE = VoteShape(num_queries=1, num_labels=4, num_teachers=9)


@dataclass(frozen=True, kw_only=True, eq=False)
class Thresholds(Aggregator):
    """An aggregator that answers with the labels whose counts exceed `thresholds`, a field of any type."""

    thresholds: Any

    def event(self, shape: VoteShape) -> Event:
        return NoOpEvent()

    def scaled(self, noise_factor: float) -> Self:
        return self

    def draw(self, summary: NDArray[Any], shape: VoteShape, rng: np.random.Generator) -> Any:
        return Answers.to_all(labels=summary > np.asarray(self.thresholds)[: shape.num_labels])


def test_draw_must_return_bits_and_noise_must_be_marked() -> None:
    """An aggregator is refused if its `draw` returns anything but two arrays of bits, the labels and the answered
    queries.

    An aggregator whose class marks no field as its noise refuses to be scaled.
    """

    class Numbers(Thresholds):
        def draw(self, summary: NDArray[Any], shape: VoteShape, rng: np.random.Generator) -> Any:
            return self.thresholds(summary)

    bits = np.ones(3, dtype=np.bool_)
    for wrong in (
        lambda votes: (votes / 9, bits),
        lambda votes: votes > 3,
        lambda votes: (votes > 3, bits, bits),
    ):
        with refused("Numbers.draw", value=ANY, rule="a tuple of"):
            Numbers(thresholds=wrong).aggregate(
                np.ones((3, 4), dtype=int), num_teachers=9, rng=np.random.default_rng(0)
            )
    with refused("Unmarked", rule="a dataclass with"):
        type("Unmarked", (Thresholds,), {"scaled": Aggregator.scaled})(thresholds=0).scaled(
            noise_factor=2.0
        )


def test_source_with_more_votes_than_declared_is_refused() -> None:
    """A source of votes declares 2 queries and yields 3: the release is refused and nothing is
    charged.
    """
    ledger = Ledger(target_delta=1e-6)
    source = MadeUpVotes(num_queries=3, num_labels=4, num_teachers=9, agreement=1.0, num_present=1)
    source.num_queries = 2
    for aggregator in (ClippedVotes(noise_std=1.0, vote_clip=2), GaussianVotes(noise_std=1.0)):
        record = record_that_charges(ledger, aggregator=aggregator, votes=source)
        with refused("votes.shape", value=ANY, rule="2"):
            aggregator.release(source, rng=np.random.default_rng(0), record=record)
    assert ledger.entries == []


def long_array(middle: float) -> np.ndarray:
    """Returns 5000 zeros with one other value in the middle, which the array's text would leave
    out.
    """
    values = np.zeros(5000)
    values[2500] = middle
    return values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (long_array(middle=0.0), long_array(middle=1.0)),
        (long_array(middle=1.0), long_array(1.0 + 1e-15)),
        (np.zeros(3), np.zeros(3, dtype=int)),
        (np.zeros(3), np.zeros((1, 3))),
        (np.zeros(3), [0.0, 0.0, 0.0]),
        ((1.0,), [1.0]),
        ([long_array(middle=0.0)], [long_array(middle=1.0)]),
        ({"a": long_array(middle=0.0)}, {"a": long_array(middle=1.0)}),
        (
            Thresholds(thresholds=long_array(middle=0.0)),
            Thresholds(thresholds=long_array(middle=1.0)),
        ),
    ],
)
def test_different_fields_give_different_identities(one: Any, other: Any) -> None:
    """Aggregators whose field is `one` have equal identities; with `other`, which differs in value,
    type or shape, the identity differs.
    """
    names = [Thresholds(thresholds=value).identity(SHAPE) for value in (one, one, other)]
    assert names[0] == names[1] != names[2]


def test_classes_of_one_name_and_adjacencies_give_different_names() -> None:
    """An aggregator, one of another class of the same name, and one of another adjacency have three
    identities.
    """
    first = Thresholds(thresholds=0)
    twin = type("Thresholds", (Thresholds,), {"__qualname__": "Elsewhere"})(thresholds=0)
    names = {item.identity(SHAPE) for item in (first, twin, replace(first, adjacency="add_remove"))}
    assert len(names) == 3


GOOD: tuple[Aggregator, ...] = (
    GaussianVotes(noise_std=1.0),
    GNMax(noise_std=1.0),
    PowersetGNMax(noise_std=1.0),
    FixedTopK(k=1, epsilon=1.0),
    ConfidentGNMax(screening_std=1.0, threshold_share=0.5, noise_std=1.0),
    ConfidentVotes(screening_std=1.0, threshold_share=0.5, noise_std=1.0),
    ClippedVotes(noise_std=1.0, vote_clip=2),
    CenteredVotes(noise_multiplier=1.0),
    BoundaryMax(selection_scale=1.0),
    BoundaryTopK(selection_scale=1.0, test_std=1.0),
    NotPriorTopK(prior_scale=1.0, selection_scale=1.0, table_order=3.0, table_budget=4.0),
    StableTopK(selection_scale=2.0, test_std=1.0),
    StableTopK(selection_scale=2.0, test="table", table_order=2.0, table_budget=1.0),
    StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=3.0),
)
IMPOSSIBLE: dict[str, tuple[Any, ...]] = {
    "adjacency": ("replace",),
    "clip": (-1.0,),
    "clip_factor": (0.0,),
    "epsilon": (0.0,),
    "failure_prob": (0.0, 1.0),
    "first_queries": (-1,),
    "k": (0, 2.0),
    "max_answers": (0,),
    "max_k": (0,),
    "max_size": (0,),
    "max_votes": (0,),
    "mechanism": ("joined",),
    "noise_multiplier": (0.0,),
    "noise_std": (0.0, -2.0, float("nan"), float("inf"), "3"),
    "norm": ("l3",),
    "peel_scale": (0.0,),
    "peel_share": (1.0,),
    "penalty": (-1.0,),
    "prevalence_share": (1.0,),
    "prior_margin": (float("nan"),),
    "prior_scale": (-1.0,),
    "round_size": (0,),
    "rounds": (0, -1, 2.5, True),
    "screening_std": (0.0,),
    "selection_noise": ("gauss",),
    "selection_scale": (0.0, float("nan"), float("inf")),
    "selection_share": (1.0,),
    "session_delta": (1.0,),
    "table_budget": (None, 0.0),
    "table_order": (None, 1.0),
    "target_hits": (0,),
    "test": ("ptr",),
    "test_std": (None, -3.0, 0.0, float("nan"), float("inf")),
    "threshold_share": (0.0, 1.5),
    "vote_clip": (0,),
}


@pytest.mark.parametrize("good", GOOD, ids=lambda good: type(good).__name__)
def test_impossible_parameters_are_refused_by_name(good: Aggregator) -> None:
    """A valid aggregator is copied with one field replaced with an impossible value: it is refused
    by the field's name.
    """
    of_a_table = {"table_order", "table_budget"}
    of_others = {"test_std"}
    ignored = {"table": of_others, "gaussian": of_a_table}.get(getattr(good, "test", ""), set())
    for item in fields(good):
        for value in () if item.name in ignored else IMPOSSIBLE.get(item.name, ()):
            with refused(item.name, value=ANY):
                replace(good, **{item.name: value})


VOTES = np.random.default_rng(0).random(size=(30, 20, 8)) < 0.3


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("most", [1, 2])
def test_no_teacher_moves_more_counts_than_the_price_is_for(
    adjacency: Adjacency, most: int
) -> None:
    """One teacher votes for the opposite labels under replace-one, and for none under add-remove.

    Its votes, limited to `most` for each query, move at most as many counts as the price is for. Plain counts without
    the limit would move more.
    """
    aggregator = GNMax(noise_std=10.0, max_votes=most, adjacency=adjacency)
    event: Any = next(leaves(aggregator.event_for(num_queries=20, num_labels=8, num_teachers=30)))[
        0
    ]
    assert isinstance(event, WinnerEvent if most == 1 else GaussianEvent)
    priced = event.num_moving if most == 1 else (10.0 / event.noise_multiplier) ** 2
    replaced = VOTES.copy()
    replaced[3] = ~VOTES[3] if adjacency is Adjacency.REPLACE_ONE else False
    first, second = (
        counts_for(aggregator, blocks=[votes[:11], votes[11:]]) for votes in (VOTES, replaced)
    )
    moved = ((first - second) ** 2).sum(axis=1)
    assert moved.max() <= priced + 1e-9
    uncapped = ((histogram(VOTES) - histogram(teacher_votes=replaced)) ** 2).sum(axis=1)
    assert uncapped.max() > priced  # plain counts would have broken the price


def test_votes_within_the_limit_are_counted_unchanged() -> None:
    """`counts_for` returns the plain sums of votes for teachers with one vote each, and for an aggregator without a
    limit.

    An empty list of blocks is refused.
    """
    single = np.eye(8, dtype=bool)[np.random.default_rng(1).integers(low=0, high=8, size=(30, 20))]
    for aggregator in (
        GNMax(noise_std=1.0),
        ConfidentGNMax(noise_std=1.0, screening_std=1.0, threshold_share=0.5),
    ):
        np.testing.assert_array_equal(counts_for(aggregator, blocks=[single]), single.sum(axis=0))
    np.testing.assert_array_equal(
        counts_for(aggregator=FixedTopK(k=1, epsilon=1.0), blocks=[VOTES]), VOTES.sum(axis=0)
    )
    with refused("votes", rule="the votes of"):
        counts_for(aggregator=GNMax(noise_std=1.0), blocks=[])


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnWords(Thresholds):
    k: str = "kernel"
    max_votes: str = "all"


def test_fields_of_a_custom_aggregator_may_have_another_meaning() -> None:
    """A user's aggregator has texts in the fields `k` and `max_votes`: its numbers of labels and
    votes are then unknown (None).
    """
    mine = OwnWords(thresholds=[4, 4])
    assert (mine.exact_labels, mine.max_labels, mine.max_votes_per_teacher) == (None, None, None)
