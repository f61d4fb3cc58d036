"""Adjacencies by name, and what they do to gaps."""

from __future__ import annotations

import pytest

from pate.accounting import Adjacency
from pate.validation import InvalidValue


def test_names_and_sensitivities() -> None:
    assert [str(member) for member in Adjacency] == ["replace_one", "add_remove"]
    assert Adjacency.parse("replace_one") is Adjacency.REPLACE_ONE
    assert Adjacency.parse(Adjacency.ADD_REMOVE) is Adjacency.ADD_REMOVE
    assert (Adjacency.REPLACE_ONE.gap_sensitivity, Adjacency.REPLACE_ONE.gap_range) == (2, 4)
    assert (Adjacency.ADD_REMOVE.gap_sensitivity, Adjacency.ADD_REMOVE.gap_range) == (1, 2)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    match = r"adjacency=add-remove: expected one of replace_one, add_remove \(did you mean add_remove"
    with pytest.raises(InvalidValue, match=match):
        Adjacency.parse("add-remove")
