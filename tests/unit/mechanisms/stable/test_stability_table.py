"""The optimal table: its recursion against high precision, its refusals."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import mpmath
import pytest

from pate.aggregators import StableTopK
from pate.mechanisms import optimal_stability_table
from pate.validation import InvalidValue

mpmath.mp.dps = 40


def divergence(logit_p: float, logit_q: float, order: float) -> float:
    def share(logit: float) -> Any:
        return 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))

    pairs = ((share(logit_p), share(logit_q)), (share(-logit_p), share(-logit_q)))
    return float(mpmath.log(sum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1))


@pytest.mark.parametrize(
    ("order", "budget", "failure_prob"), [(8.0, 1e-3, 1e-9), (1.5, 0.2, 1e-6), (100.0, 1e-4, 0.01), (3.0, 2.0, 1e-12)]
)
def test_each_step_spends_the_budget_and_no_more(order: float, budget: float, failure_prob: float) -> None:
    table = optimal_stability_table(order=order, rdp_budget=budget, failure_prob=failure_prob, num_levels=300)
    assert table.logits[0] == pytest.approx(math.log(failure_prob / (1 - failure_prob)), rel=1e-12)
    for low, high in zip(table.logits, table.logits[1:], strict=False):
        spent = max(divergence(high, low, order), divergence(low, high, order))
        assert budget * (1 - 1e-6) <= spent <= budget * (1 + 1e-9)


def test_levels_end_where_a_pass_is_certain() -> None:
    table = optimal_stability_table(order=8.0, rdp_budget=0.5, failure_prob=1e-9, num_levels=10_000)
    assert len(table.logits) < 200
    assert table.logits[-1] >= 36
    one = optimal_stability_table(order=8.0, rdp_budget=0.5, failure_prob=1e-9, num_levels=1)
    assert one.logits == table.logits[:1]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("order", 1.0, r"order=1\.0: expected a finite number > 1"),
        ("order", math.inf, r"order=inf: expected a finite number > 1"),
        ("rdp_budget", 0.0, r"rdp_budget=0\.0: expected a number > 0"),
        ("failure_prob", 1.0, r"failure_prob=1\.0: expected a number in \(0, 1\)"),
        ("num_levels", 0, r"num_levels=0: expected a whole number >= 1"),
    ],
)
def test_impossible_parameters_are_refused(field: str, value: Any, message: str) -> None:
    parameters: dict[str, Any] = {"order": 8.0, "rdp_budget": 0.1, "failure_prob": 1e-6, "num_levels": 5}
    with pytest.raises(InvalidValue, match=message):
        optimal_stability_table(**(parameters | {field: value}))


def test_a_table_is_copied_and_sent_to_another_process_as_it_is() -> None:
    table = optimal_stability_table(order=8.0, rdp_budget=0.1, failure_prob=1e-6, num_levels=5)
    aggregator = StableTopK(selection_scale=2.0, test="table", table=table)  # as scikit-learn clones it, and joblib
    assert copy.deepcopy(aggregator) == pickle.loads(pickle.dumps(aggregator)) == aggregator
