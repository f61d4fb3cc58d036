"""What all aggregators share: an identity of class and fields, refused parameters, and limits on a teacher's votes."""

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
from tests.refusals import ANY, refused_parameter

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


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawsOf(Thresholds):
    """An aggregator whose `draw` returns its field `returned_by_draw`."""

    returned_by_draw: Any

    def draw(self, summary: NDArray[Any], shape: VoteShape, rng: np.random.Generator) -> Any:
        return self.returned_by_draw


class Unmarked(Thresholds):
    """An aggregator that cannot be scaled: it has the package's method `scaled`, but no field is marked as noise."""

    scaled = Aggregator.scaled


def test_draw_must_return_bits_and_noise_must_be_marked() -> None:
    """A release is refused if `draw` returns anything but two arrays of bits, the labels and the answered queries.

    An aggregator whose class marks no field as its noise refuses to be scaled.
    """
    labels = np.ones((3, 4), dtype=np.bool_)
    answered = np.ones(3, dtype=np.bool_)
    shares_of_votes = np.full((3, 4), 1 / 9)
    for returned_by_draw in ((shares_of_votes, answered), labels, (labels, answered, answered)):
        with refused_parameter("DrawsOf.draw", value=ANY, rule_words="a tuple of"):
            DrawsOf(thresholds=0, returned_by_draw=returned_by_draw).aggregate(
                np.ones((3, 4), dtype=int), num_teachers=9, rng=np.random.default_rng(0)
            )
    with refused_parameter("Unmarked", rule_words="a dataclass with"):
        Unmarked(thresholds=0).scaled(noise_factor=2.0)


def test_source_with_more_votes_than_declared_is_refused() -> None:
    """A source that declares 2 queries and yields the votes of 3 is refused, and nothing is charged."""
    ledger = Ledger(target_delta=1e-6)
    source = MadeUpVotes(num_queries=3, num_labels=4, num_teachers=9, agreement=1.0, num_present=1)
    source.num_queries = 2
    for aggregator in (ClippedVotes(noise_std=1.0, vote_clip=2), GaussianVotes(noise_std=1.0)):
        record = record_that_charges(ledger, aggregator=aggregator, votes=source)
        with refused_parameter("votes.shape", value=ANY, rule_words="2"):
            aggregator.release(source, rng=np.random.default_rng(0), record=record)
    assert ledger.entries == []


def long_array(middle_value: float) -> np.ndarray:
    """Returns 5000 zeros, with another value in the middle, which NumPy leaves out when it prints the array.

    Args:
        middle_value: the value in the middle, which may be 0 as well.
    """
    values = np.zeros(5000)
    values[2500] = middle_value
    return values


@pytest.mark.parametrize(
    ("field", "other_field"),
    [
        (long_array(middle_value=0.0), long_array(middle_value=1.0)),
        (long_array(middle_value=1.0), long_array(1.0 + 1e-15)),
        (np.zeros(3), np.zeros(3, dtype=int)),
        (np.zeros(3), np.zeros((1, 3))),
        (np.zeros(3), [0.0, 0.0, 0.0]),
        ((1.0,), [1.0]),
        ([long_array(middle_value=0.0)], [long_array(middle_value=1.0)]),
        ({"a": long_array(middle_value=0.0)}, {"a": long_array(middle_value=1.0)}),
        (
            Thresholds(thresholds=long_array(middle_value=0.0)),
            Thresholds(thresholds=long_array(middle_value=1.0)),
        ),
    ],
    ids=[
        "value in the middle",
        "last digit",
        "type of numbers",
        "shape",
        "array and list",
        "tuple and list",
        "list of arrays",
        "dict of arrays",
        "aggregators",
    ],
)
def test_different_fields_give_different_identities(field: Any, other_field: Any) -> None:
    """Aggregators with equal fields have equal identities; a field of other value, type or shape has another one."""
    identity = Thresholds(thresholds=field).identity(SHAPE)
    assert identity == Thresholds(thresholds=field).identity(SHAPE)
    assert identity != Thresholds(thresholds=other_field).identity(SHAPE)


def test_classes_of_one_name_and_adjacencies_give_different_names() -> None:
    """Aggregators of different classes with one name, or of different adjacencies, have different identities."""
    aggregator = Thresholds(thresholds=0)
    class_elsewhere = type("Thresholds", (Thresholds,), {"__qualname__": "Elsewhere"})
    of_class_elsewhere = class_elsewhere(thresholds=0)
    of_other_adjacency = replace(aggregator, adjacency="add_remove")
    identities = {
        item.identity(SHAPE) for item in (aggregator, of_class_elsewhere, of_other_adjacency)
    }
    assert len(identities) == 3


VALID_AGGREGATORS: tuple[Aggregator, ...] = (
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
IMPOSSIBLE_VALUES: dict[str, tuple[Any, ...]] = {
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


def unread_fields(aggregator: Aggregator) -> set[str]:
    """Returns the fields that only another kind of stability test than that of the aggregator reads."""
    kind_of_test = getattr(aggregator, "test", None)
    if kind_of_test == "table":
        return {"test_std"}
    if kind_of_test == "gaussian":
        return {"table_order", "table_budget"}
    return set()


@pytest.mark.parametrize(
    "aggregator", VALID_AGGREGATORS, ids=lambda aggregator: type(aggregator).__name__
)
def test_impossible_parameters_are_refused_by_name(aggregator: Aggregator) -> None:
    """A copy of a valid aggregator with an impossible value in one field is refused by the field's name."""
    names = {item.name for item in fields(aggregator)} - unread_fields(aggregator)
    for name in names & IMPOSSIBLE_VALUES.keys():
        for value in IMPOSSIBLE_VALUES[name]:
            impossible_fields = {name: value}
            with refused_parameter(name, value=ANY):
                replace(aggregator, **impossible_fields)


VOTES_BY_TEACHER = np.random.default_rng(0).random(size=(30, 20, 8)) < 0.3


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("max_votes", [1, 2])
def test_no_teacher_moves_more_counts_than_the_price_is_for(
    adjacency: Adjacency, max_votes: int
) -> None:
    """A teacher's votes, limited to `max_votes` a query, move at most as many counts as the price is for.

    Under replace-one, the neighboring teacher votes for the opposite labels; under add-remove, it does not vote. The
    counts without the limit move more.
    """
    aggregator = GNMax(noise_std=10.0, max_votes=max_votes, adjacency=adjacency)
    event_of_release = aggregator.event_for(num_queries=20, num_labels=8, num_teachers=30)
    event, _ = next(leaves(event_of_release))
    if max_votes == 1:
        assert isinstance(event, WinnerEvent)
        priced_square = float(event.num_moving)
    else:
        assert isinstance(event, GaussianEvent)
        priced_square = (10.0 / event.noise_multiplier) ** 2
    neighboring_votes = VOTES_BY_TEACHER.copy()
    neighboring_votes[3] = ~VOTES_BY_TEACHER[3] if adjacency is Adjacency.REPLACE_ONE else False

    limited_counts = counts_for(aggregator, blocks=[VOTES_BY_TEACHER[:11], VOTES_BY_TEACHER[11:]])
    neighboring_counts = counts_for(
        aggregator, blocks=[neighboring_votes[:11], neighboring_votes[11:]]
    )
    squares = ((limited_counts - neighboring_counts) ** 2).sum(axis=1)
    assert squares.max() <= priced_square + 1e-9
    plain_moves = histogram(VOTES_BY_TEACHER) - histogram(teacher_votes=neighboring_votes)
    assert (plain_moves**2).sum(axis=1).max() > priced_square


def test_votes_within_the_limit_are_counted_unchanged() -> None:
    """`counts_for` sums votes of teachers with one vote each, and any votes for an aggregator without a limit.

    An empty list of blocks is refused.
    """
    single_votes = np.eye(8, dtype=bool)[
        np.random.default_rng(1).integers(low=0, high=8, size=(30, 20))
    ]
    for aggregator in (
        GNMax(noise_std=1.0),
        ConfidentGNMax(noise_std=1.0, screening_std=1.0, threshold_share=0.5),
    ):
        np.testing.assert_array_equal(
            counts_for(aggregator, blocks=[single_votes]), single_votes.sum(axis=0)
        )
    np.testing.assert_array_equal(
        counts_for(aggregator=FixedTopK(k=1, epsilon=1.0), blocks=[VOTES_BY_TEACHER]),
        VOTES_BY_TEACHER.sum(axis=0),
    )
    with refused_parameter("votes", rule_words="the votes of"):
        counts_for(aggregator=GNMax(noise_std=1.0), blocks=[])


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregatorWithTextFields(Thresholds):
    """An aggregator with texts in fields that are numbers in the package's aggregators."""

    k: str = "kernel"
    max_votes: str = "all"


def test_fields_of_a_custom_aggregator_may_have_another_meaning() -> None:
    """An aggregator with texts in the fields `k` and `max_votes` has no known number of labels or votes (None)."""
    aggregator = AggregatorWithTextFields(thresholds=[4, 4])
    assert aggregator.exact_labels is None
    assert aggregator.max_labels is None
    assert aggregator.max_votes_per_teacher is None
