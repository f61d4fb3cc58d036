"""Prices of contenders: the most precise contender for a budget, and sound prices next to the papers' prices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pate.accounting import (
    Adjacency,
    Event,
    PureDpAccountant,
    RdpAccountant,
    SelfComposedEvent,
    calibrate,
)
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.validation import InvalidValue, require_count, require_positive, require_probability
from reproductions.counts import CountData
from reproductions.top_k.contender import FAMILIES, Contender, SelectionTask

_SMALL_MOST = 4096
"""Beyond some gap a stability test passes all the same, so the search for its noise begins with a small largest gap."""
_SLACK = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class SharedBudget:
    """The budget of all releases together."""

    epsilon: float  # > 0
    delta: float = 1e-6  # in (0, 1)
    releases: int = 1  # how many histograms, >= 1

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("delta", self.delta)
        require_count("releases", self.releases)

    @property
    def failure_prob(self) -> float:
        """Returns the share of delta that one histogram may take: all of them together half of it."""
        return self.delta / (2 * self.releases)

    def task(
        self, data: CountData, *, k: int, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> SelectionTask:
        """Returns the task of the k largest counts of each histogram, its failure probability taken from the delta."""
        return SelectionTask(
            k=k,
            num_items=len(data.items),
            most=data.most,
            failure_prob=self.failure_prob,
            adjacency=adjacency,
        )


@dataclass(frozen=True)
class Fit:
    """A contender with the least noise that a budget allows."""

    contender: Contender  # ready to draw
    precision: float  # what it was made with
    epsilon: float  # the sound price of all releases, at most the budget's epsilon


@dataclass(frozen=True)
class PriceRow:
    """A noise and its prices."""

    mechanism: str  # the contender's label
    # the epsilon that the paper's formula gives for add/remove, or None where we know of none
    paper: float | None
    paper_is: str  # what that formula is
    add_remove: float  # the sound epsilon under add/remove
    # the sound epsilon of the same noise under replace-one, thresholds raised as it needs
    replace_one: float


def sound_epsilon(event: Event, budget: SharedBudget) -> float:
    """Returns the price of all releases: the smaller of two upper bounds, by Renyi divergences and by pure DP."""
    return min(
        kind().compose(event, count=budget.releases).get_epsilon(budget.delta)
        for kind in _accountants(event)
    )


def fit(name: str, task: SelectionTask, budget: SharedBudget) -> Fit:
    """Returns the most precise contender of a family that costs at most the budget.

    Raises:
        InvalidValue: no noise reaches the budget.
    """
    family = FAMILIES[name]

    def event_at(most: int, precision: float) -> Event:
        return family.make(replace(task, most=most), precision).event

    for most in dict.fromkeys((min(task.most, _SMALL_MOST), task.most)):
        precision = _largest_precision(partial(event_at, most), budget)
        contender = family.make(task, precision)
        epsilon = sound_epsilon(contender.event, budget)
        if epsilon <= budget.epsilon * _SLACK:
            return Fit(contender, precision, epsilon)
    raise InvalidValue("epsilon", budget.epsilon, rule=f"an epsilon that {family.label} can reach")


def price_row(name: str, task: SelectionTask, budget: SharedBudget) -> PriceRow:
    """Returns the noise that add/remove needs for the budget, with its price by the paper and two sound prices."""
    family = FAMILIES[name]
    add_remove, replace_one = (
        replace(task, adjacency=a) for a in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
    )
    fitted = fit(name, task=add_remove, budget=budget)
    paper, paper_is = _paper(name, task, budget, fitted.precision)
    doubled = sound_epsilon(family.make(replace_one, fitted.precision).event, budget)
    return PriceRow(family.label, paper, paper_is, add_remove=fitted.epsilon, replace_one=doubled)


def theorem_11(rho: float, *, target_delta: float) -> float:
    """Returns Theorem 11 of Zhu & Wang (2022) as printed, rho + sqrt(2 rho log(1 / delta)): false for any adjacency."""
    return rho + math.sqrt(2 * rho * math.log(1 / target_delta))


def _paper(
    name: str, task: SelectionTask, budget: SharedBudget, precision: float
) -> tuple[float | None, str]:
    """Returns the paper's price for add/remove and its formula; the precision is one over a scale of noise."""
    if name in ("stable", "stable_loose"):
        left = budget.delta - budget.releases * task.failure_prob
        return theorem_11(2 * precision**2 * budget.releases, target_delta=left), "false"
    if name == "peeling":
        rho = budget.releases * precision**2 / (8 * task.k)
        return zcdp_to_epsilon_classic(rho, target_delta=budget.delta), "a bound"
    return None, "not stated"


def _largest_precision(event_for: Callable[[float], Event], budget: SharedBudget) -> float:
    """Returns the largest precision by the better of the accountants."""

    def by(accountant: type[RdpAccountant] | type[PureDpAccountant]) -> float:
        return 1 / calibrate(
            lambda noise: SelfComposedEvent(event_for(1 / noise), count=budget.releases),
            target_epsilon=budget.epsilon,
            target_delta=budget.delta,
            accountant=accountant,
        )

    return max(by(kind) for kind in _accountants(event_for(1.0)))


def _accountants(event: Event) -> tuple[type[RdpAccountant] | type[PureDpAccountant], ...]:
    """Returns the accountants that know the event: the second needs pure DP outside the failures."""
    try:
        PureDpAccountant().compose(event)
    except InvalidValue:
        return (RdpAccountant,)
    return RdpAccountant, PureDpAccountant
