"""The size of a release."""

from __future__ import annotations

import pytest

from pate.aggregators import GaussianVotes
from pate.pricing import ReleaseShape
from pate.validation import InvalidValue

SHAPE = ReleaseShape(num_queries=600, num_labels=40, num_teachers=800)


def test_the_three_are_the_keyword_arguments_of_an_aggregator() -> None:
    assert SHAPE.as_arguments == {"num_queries": 600, "num_labels": 40, "num_teachers": 800}
    aggregator = GaussianVotes(noise_std=100.0)
    assert SHAPE.event_of(aggregator) == aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)


def test_another_number_of_queries_leaves_the_rest() -> None:
    assert SHAPE.with_queries(7) == ReleaseShape(num_queries=7, num_labels=40, num_teachers=800)
    with pytest.raises(InvalidValue, match="num_queries=0: expected a whole number >= 1"):
        SHAPE.with_queries(0)


@pytest.mark.parametrize("name", ["num_queries", "num_labels", "num_teachers"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_what_is_no_count_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidValue, match=f"{name}={value}: expected a whole number >= 1"):
        ReleaseShape(**(SHAPE.as_arguments | {name: value}))
