"""Tests that every call of target charging passes; in a session such a mechanism is charged only for its hits.

A new call joins `CALLS`, or `test_list_is_complete` fails.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import pate.mechanisms
from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    Event,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.accounting.event_json import event_from_json, event_to_json
from pate.accounting.target_charging import TargetCharging
from pate.mechanisms import (
    AboveThreshold,
    BetweenThresholds,
    BoundaryWrapper,
    GapSelection,
    OneShotTopK,
    RunTwice,
    SparseVector,
    SweepTopK,
)
from pate.validation import InvalidValue
from tests.refusals import refused_parameter

Data = np.ndarray[Any, Any]
HISTOGRAMS = np.random.default_rng(0).integers(low=0, high=10, size=(40, 5))
NUMBERS = np.random.default_rng(1).integers(low=0, high=10, size=40)
BITS_OF_ITEMS = np.random.default_rng(2).random(size=(40, 20)) < 0.5


def selection(adjacency: Adjacency, noise: str = "gumbel") -> GapSelection:
    """Returns a gap selection for 5 labels and 9 teachers."""
    return GapSelection(
        noise_scale=6.0, noise=noise, num_labels=5, num_teachers=9, adjacency=adjacency
    )


class SparseVectorAt9(SparseVector):
    """A sparse vector with the threshold 9, so that it can be called like the other mechanisms."""

    def __call__(self, bits_of_items: Any, *, rng: np.random.Generator) -> Any:
        return super().__call__(bits_of_items, thresholds=9, rng=rng)


@dataclass(frozen=True)
class Call:
    """A mechanism of target charging: a session is charged only for the calls whose outcome is a hit.

    Attributes:
        make_mechanism: returns the mechanism, given `adjacency`.
        data: what the mechanism reads, a query in each row: counts, a number, or bits.
        is_session: whether the mechanism's `event` prices a whole session, and not one call.
    """

    make_mechanism: Callable[..., Any]
    data: Data
    is_session: bool = False


def wrap_selection(adjacency: Adjacency, noise: str) -> BoundaryWrapper:
    """Returns a gap selection in the boundary wrapper, which answers "boundary" at times in place of the selection."""
    return BoundaryWrapper(selection(adjacency, noise=noise))


def run_selection_twice(adjacency: Adjacency) -> RunTwice:
    """Returns the mechanism that runs a gap selection twice on the same votes and releases both outcomes."""
    return RunTwice(selection(adjacency))


def run_top_k_twice(adjacency: Adjacency) -> RunTwice:
    """Returns the mechanism that runs a top-k selection twice on the same votes and releases both outcomes."""
    return RunTwice(OneShotTopK(k=2, epsilon=0.5, adjacency=adjacency))


CALLS = {
    "above": Call(
        make_mechanism=partial(AboveThreshold, threshold=5, epsilon=0.5, statistic="gap"),
        data=NUMBERS,
    ),
    "between": Call(
        make_mechanism=partial(BetweenThresholds, lower=3, upper=6, epsilon=0.5), data=NUMBERS
    ),
    "boundary": Call(make_mechanism=partial(wrap_selection, noise="gumbel"), data=HISTOGRAMS),
    "boundary, laplace": Call(
        make_mechanism=partial(wrap_selection, noise="laplace"), data=HISTOGRAMS
    ),
    "twice": Call(make_mechanism=run_selection_twice, data=HISTOGRAMS),
    "twice, top-k": Call(make_mechanism=run_top_k_twice, data=HISTOGRAMS),
    "sweep": Call(
        make_mechanism=partial(SweepTopK, k=2, epsilon=0.5, failure_prob=1e-9),
        data=HISTOGRAMS,
        is_session=True,
    ),
    "sparse vector": Call(
        make_mechanism=partial(SparseVectorAt9, epsilon=0.5, item_hits=3, failure_prob=1e-9),
        data=BITS_OF_ITEMS,
        is_session=True,
    ),
}

every_call = pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))


def values_of(outcome: Any) -> list[Any]:
    """Returns the fields of an outcome, also those of nested ones, as plain lists."""
    if dataclasses.is_dataclass(outcome):
        return [values_of(getattr(outcome, field.name)) for field in dataclasses.fields(outcome)]
    return np.asarray(outcome).tolist()


def test_list_is_complete() -> None:
    """Every call of target charging that the package exports is tested here."""
    public_values = [getattr(pate.mechanisms, name) for name in pate.mechanisms.__all__]
    exported_mechanisms = {
        value for value in public_values if isinstance(value, type) and hasattr(value, "target")
    }
    tested_mechanisms = [
        call.make_mechanism(adjacency=Adjacency.REPLACE_ONE) for call in CALLS.values()
    ]
    assert exported_mechanisms == {
        mechanism_class
        for call in tested_mechanisms
        for mechanism_class in type(call).__mro__
        if mechanism_class in exported_mechanisms
    }
    assert {type(call) for call in tested_mechanisms} - {SparseVectorAt9} <= exported_mechanisms


@every_call
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_call_has_one_price_for_all_data(call: Call, adjacency: Adjacency) -> None:
    """The event of a call does not change when it reads data, and is the same after it is written as JSON and read.

    The event and the target, the set of outcomes that are hits, have positive, finite epsilons. Calls with equal
    settings are equal, and no field can be assigned.
    """
    mechanism = call.make_mechanism(adjacency=adjacency)
    equal_mechanism = call.make_mechanism(adjacency=adjacency)
    assert mechanism == equal_mechanism
    assert mechanism.event == equal_mechanism.event
    assert mechanism.target == equal_mechanism.target
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
        setattr(mechanism, dataclasses.fields(mechanism)[0].name, None)
    event_before_call: Event = mechanism.event
    mechanism(call.data, rng=np.random.default_rng(0))
    assert mechanism.event == event_before_call
    assert event_from_json(event_to_json(event_before_call)) == event_before_call
    assert 0 < RdpAccountant().compose(event_before_call).get_epsilon(target_delta=1e-6) < math.inf
    assert 0 < mechanism.target.epsilon < math.inf
    assert 0 < mechanism.target.hit_prob <= 0.5


@every_call
def test_one_call_costs_no_more_than_an_access_of_a_session(call: Call) -> None:
    """A single call costs at most the epsilon of its target, and less than a session that ends with one hit.

    The event of a whole session composes accesses to the private data, each with the target's epsilon.
    """
    mechanism = call.make_mechanism(adjacency=Adjacency.REPLACE_ONE)
    if call.is_session:
        assert isinstance(mechanism.event, ApproximateEvent)
        accesses = mechanism.event.event
        access = PureDpEvent(epsilon=mechanism.target.epsilon)
        assert accesses == SelfComposedEvent(access, count=accesses.count)
        return
    session = TargetCharging.of_targets([mechanism.target], target_hits=1, target_delta=1e-6)
    epsilon_of_call = RdpAccountant().compose(mechanism.event).get_epsilon(target_delta=1e-9)
    # The accountant's Renyi orders end at a finite one, so it misses the epsilon of pure DP a little.
    assert epsilon_of_call <= mechanism.target.epsilon * (1 + 1e-3)
    assert session.price.epsilon > epsilon_of_call


@every_call
def test_replacing_costs_no_less_than_adding(call: Call) -> None:
    """The epsilon of a call under replace-one is at least that under add-remove."""
    price = {
        adjacency: RdpAccountant()
        .compose(call.make_mechanism(adjacency=adjacency).event)
        .get_epsilon(target_delta=1e-6)
        for adjacency in Adjacency
    }
    assert price[Adjacency.REPLACE_ONE] >= price[Adjacency.ADD_REMOVE]


@every_call
def test_the_generator_decides_the_outcome_and_moves_on(call: Call) -> None:
    """Equal seeds give equal outcomes, and a second call with the same generator gives another one."""
    mechanism = call.make_mechanism(adjacency=Adjacency.REPLACE_ONE)
    rng = np.random.default_rng(3)
    first = mechanism(call.data, rng=rng)
    second = mechanism(call.data, rng=rng)
    first_of_equal_seed = mechanism(call.data, rng=np.random.default_rng(3))
    assert values_of(first) == values_of(first_of_equal_seed)
    assert values_of(first) != values_of(second)


@every_call
def test_a_batch_has_one_outcome_a_query_and_leaves_its_data_alone(call: Call) -> None:
    """A call on a batch has an outcome for each query, some of them hits, and does not write to its data.

    A whole session answers all queries of the batch.
    """
    mechanism = call.make_mechanism(adjacency=Adjacency.REPLACE_ONE)
    data = call.data.copy()
    outcome = mechanism(data, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(data, call.data)
    if hasattr(outcome, "in_target"):
        assert (outcome.in_target.shape, outcome.in_target.dtype) == ((len(data),), bool)
        assert 0 < outcome.in_target.sum() < len(data)
    else:
        assert outcome.answered.all()


@every_call
def test_seeds_and_data_that_are_nan_are_refused(call: Call) -> None:
    """A call refuses a seed in place of a generator, and data that are nan."""
    mechanism = call.make_mechanism(adjacency=Adjacency.REPLACE_ONE)
    with refused_parameter("rng", value=0):
        mechanism(call.data, rng=0)
    data_of_nan = np.full(call.data.shape, math.nan)
    with pytest.raises(InvalidValue, match=r"dtype=.*: expected|shape=.*: expected"):
        mechanism(data_of_nan, rng=np.random.default_rng(0))
