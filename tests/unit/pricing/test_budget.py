"""What a release may cost."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pate.accounting import (
    ApproximateEvent,
    AutoAccountant,
    GaussianEvent,
    NonPrivateEvent,
    PureDpEvent,
    SelfComposedEvent,
)
from pate.pricing import Budget
from pate.validation import InvalidValue
from tests.unit.pricing.one_price import Sum


def test_the_price_of_an_event_by_hand() -> None:
    budget = Budget(target_delta=1e-6, accountant=Sum)
    assert budget.epsilon_of(SelfComposedEvent(PureDpEvent(0.25), 12)) == 3.0
    assert Budget(target_delta=1e-6).epsilon_of(GaussianEvent(2.0)) == AutoAccountant().compose(
        GaussianEvent(2.0)
    ).get_epsilon(1e-6)


def test_what_has_no_guarantee_costs_infinity() -> None:
    budget = Budget(target_delta=1e-6)
    assert budget.epsilon_of(NonPrivateEvent()) == math.inf
    failing = ApproximateEvent(PureDpEvent(0.25), 5e-7)
    assert budget.epsilon_of(failing) < math.inf
    assert budget.epsilon_of(SelfComposedEvent(failing, 2)) == math.inf


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target_delta": 1.0}, r"target_delta=1\.0: expected a number in \(0, 1\)"),
        ({"target_epsilon": 0.0}, r"target_epsilon=0\.0: expected a number > 0"),
        ({"max_epsilon": math.inf}, "max_epsilon=inf: expected a number > 0"),
        ({"accountant": "rdp"}, "accountant=rdp: expected a class such as pate.accounting.RdpAccountant, uncalled"),
        (
            {"target_epsilon": 8.0, "max_epsilon": 2.0},
            r"max_epsilon=2\.0: expected no target_epsilon beside it; "
            "one solves for the queries, the other for the noise",
        ),
    ],
)
def test_impossible_budgets_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Budget(**({"target_delta": 1e-6} | fields))
