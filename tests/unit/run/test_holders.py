"""What a card says to the holders of records: whom a price covers, and what it is for groups."""

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent
from pate.aggregators import Release
from pate.pricing import Budget
from pate.report import format_epsilon
from pate.run.places import Places, group_epsilon
from pate.validation import InvalidValue

EVENT, BUDGET = GaussianEvent(8.0), Budget(target_delta=1e-6)


def said(places: Places, adjacency: Adjacency = Adjacency.REPLACE_ONE, **changes: int) -> str:
    release = Release(np.zeros((1, 1), bool), np.ones(1, bool), EVENT, adjacency)
    return "\n".join(places.said(release, BUDGET, **changes))


def price(size: int) -> str:
    return f"epsilon {format_epsilon(group_epsilon(EVENT, size, BUDGET))}"


def test_whom_a_price_covers_and_what_it_is_for_groups() -> None:
    """Under add-remove a changed record is two units; every draw counts for groups too."""
    alone, several = said(Places(40, 1)), said(Places(40, 10))
    assert "40 holders of records, each of which is one teacher" in alone
    assert "A record of a holder, any number of its records, and the holder itself are covered by it." in alone
    assert f"For m = 2 that is group size 2: {price(2)}." in alone
    assert (
        "One record of a holder, or one group of records that the holder keeps together, is covered by it." in several
    )
    assert f"The holder itself, all of its records, is covered at group size 10: {price(10)}." in several
    added = said(Places(5, 1), Adjacency.ADD_REMOVE)
    assert "A holder that comes or goes is covered by it; a record of a holder is at group size 2." in added
    assert f"group size 4: {price(4)}" in added
    assert "comes or goes is covered at group size 3" in said(Places(5, 3), Adjacency.ADD_REMOVE)
    assert price(2) in said(Places(4, 2)) and price(2) not in said(Places(4, 2), num_draws=2)


def test_teachers_are_spread_evenly_or_not_at_all() -> None:
    assert Places.evenly(400, 40) == Places(40, 10)
    with pytest.raises(InvalidValue, match=r"holders=7: expected a number that divides the 400 teachers"):
        Places.evenly(400, 7)
