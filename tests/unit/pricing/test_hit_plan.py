"""Plans on synthetic votes whose hits can be worked out by hand."""

import numpy as np
import pytest

from pate.aggregators import BoundaryMax, NotPriorTopK
from pate.pricing import plan_hits
from pate.validation import InvalidValue

CLEAR = np.tile([400, 0, 0], (300, 1))


def test_clear_votes_pay_from_some_number_of_queries_on() -> None:
    given = BoundaryMax(selection_scale=20.0, target_hits=1), CLEAR
    plan = plan_hits(*given, num_teachers=400, target_delta=1e-6)
    assert plan.expected_asked == 300
    assert plan.expected_hits < 1e-5
    assert plan.break_even_queries is not None
    assert 20 < plan.break_even_queries < 300
    near = plan_hits(*given, num_teachers=400, target_delta=1e-6, max_queries=plan.break_even_queries // 2)
    assert near.break_even_queries is None


def test_a_prior_decides_who_hits() -> None:
    aggregator = NotPriorTopK(
        prior_scale=10.0, selection_scale=30.0, table_order=4.0, table_budget=0.01, first_queries=100, target_hits=50
    )
    prior = np.tile([True, False, False], (300, 1))
    prior[200:] = False
    plan = plan_hits(aggregator, CLEAR, num_teachers=400, target_delta=1e-6, prior=prior, max_queries=4)
    assert plan.expected_hits == pytest.approx(100)
    assert plan.expected_asked == 250
    with pytest.raises(InvalidValue, match=r"prior\.shape=\(2, 3\): expected \(300, 3\), as the votes"):
        plan_hits(aggregator, CLEAR, num_teachers=400, target_delta=1e-6, prior=prior[:2])
