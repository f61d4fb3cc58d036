"""Records of releases: what is charged when, and what is read back."""

from functools import partial

import numpy as np
import pytest

from pate.accounting import BudgetExceeded, GaussianEvent, Ledger
from pate.aggregators import GaussianVotes, MemoryRecord, StableTopK
from pate.aggregators.aggregator import Aggregator
from pate.aggregators.record import Arrays
from pate.votes.arrays import CountedVotes

VOTE_COUNTS = np.random.default_rng(0).integers(low=0, high=41, size=(30, 4))
VOTE_SOURCE = CountedVotes(VOTE_COUNTS, num_teachers=40)


def arrays_of_part(number: int) -> Arrays:
    """Returns the arrays of a part that holds one number."""
    return {"number": np.array(number)}


def test_the_first_part_charges_and_a_part_is_drawn_once() -> None:
    """The first part of a record charges before it is drawn; later parts do not charge.

    A part that is committed is returned and not drawn again.
    """
    events = list[str]()
    record = MemoryRecord(charge=partial(events.append, "charge"))

    def draw(number: int) -> Arrays:
        events.append(f"draw {number}")
        return arrays_of_part(number)

    assert record.committed(name="first") is None
    first = record.part("first", draw=partial(draw, number=1))
    record.part("second", draw=partial(draw, number=2))
    assert record.part("first", draw=partial(draw, number=3)) is first
    assert record.committed(name="first") is first
    assert events == ["charge", "draw 1", "draw 2"]


def test_refused_charge_draws_nothing() -> None:
    """If the ledger's cap refuses the charge of the first part, the part is neither drawn nor stored."""
    ledger = Ledger(target_delta=1e-6, max_epsilon=0.1)
    event = GaussianEvent(noise_multiplier=0.5)
    record = MemoryRecord(charge=partial(ledger.charge, event, adjacency=ledger.adjacency))
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            record.part("release", draw=partial(pytest.fail, "The part was drawn."))
    assert record.parts == {}


def test_nested_parts_are_charged_once() -> None:
    """If the part "whole" draws the part "step", there is one charge, and "step" is stored first.

    A prevalence is such a nested part, and its three draws are stored before it.
    """
    charges = list[str]()
    record = MemoryRecord(charge=partial(charges.append, "charge"))

    def draw_whole() -> Arrays:
        return record.part("step", draw=partial(arrays_of_part, number=1))

    record.part("whole", draw=draw_whole)
    assert charges == ["charge"]
    assert list(record.parts) == ["step", "whole"]


@pytest.mark.parametrize(
    "aggregator",
    [GaussianVotes(noise_std=3.0), StableTopK(selection_scale=2.0, test_std=3.0)],
    ids=lambda aggregator: type(aggregator).__name__,
)
def test_stored_release_is_read_back_without_a_charge(
    aggregator: Aggregator,
) -> None:
    """A second release with the same record, under another seed, has the same answers and event, and no charge."""
    ledger = Ledger(target_delta=1e-6)
    charge = partial(ledger.charge, aggregator.event(VOTE_SOURCE.shape), adjacency=ledger.adjacency)
    record = MemoryRecord(charge)
    first = aggregator.release(VOTE_SOURCE, rng=np.random.default_rng(1), record=record)
    again = aggregator.release(VOTE_SOURCE, rng=np.random.default_rng(2), record=record)
    np.testing.assert_array_equal(again.labels, first.labels)
    np.testing.assert_array_equal(again.answered, first.answered)
    assert again.event == first.event == ledger.entries[0].event
    assert len(ledger.entries) == 1


def test_release_and_aggregate_draw_the_same() -> None:
    """`release` from a source and `aggregate` from an array give the same labels under one seed."""
    aggregator = GaussianVotes(noise_std=3.0)
    released = aggregator.release(VOTE_SOURCE, rng=np.random.default_rng(1), record=MemoryRecord())
    aggregated = aggregator.aggregate(VOTE_COUNTS, num_teachers=40, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(released.labels, aggregated.labels)
