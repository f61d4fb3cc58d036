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


def test_a_holder_that_is_one_teacher_is_covered_as_a_whole() -> None:
    text = said(Places(40, 1))
    assert "40 holders of records, each of which is one teacher" in text
    assert "A record of a holder, any number of its records, and the holder itself are covered by it." in text
    assert f"For m = 2 that is group size 2: {price(2)}." in text


def test_a_holder_of_several_teachers_is_covered_as_a_group() -> None:
    text = said(Places(40, 10))
    assert "One record of a holder, or one group of records that the holder keeps together, is covered by it." in text
    assert f"The holder itself, all of its records, is covered at group size 10: {price(10)}." in text


def test_under_add_remove_a_changed_record_is_two_units() -> None:
    text = said(Places(5, 1), Adjacency.ADD_REMOVE)
    assert "A holder that comes or goes is covered by it; a record of a holder is at group size 2." in text
    assert f"group size 4: {price(4)}" in text
    assert "comes or goes is covered at group size 3" in said(Places(5, 3), Adjacency.ADD_REMOVE)


def test_every_draw_counts_for_groups_too() -> None:
    once, twice = said(Places(4, 2)), said(Places(4, 2), num_draws=2)
    assert price(2) in once
    assert price(2) not in twice


def test_teachers_are_spread_evenly_or_not_at_all() -> None:
    assert Places.evenly(400, 40) == Places(40, 10)
    with pytest.raises(InvalidValue, match=r"holders=7: expected a number that divides the 400 teachers"):
        Places.evenly(400, 7)
