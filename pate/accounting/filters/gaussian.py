"""The Gaussian filter: a sum of mu squared, exact for Gaussian releases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting.conversion import gaussian_epsilon
from pate.accounting.events import Event, GaussianEvent, NoOpEvent, WinnerEvent
from pate.accounting.failure_probability import failure_probability
from pate.accounting.filters.privacy_filter import FilterRule, PrivacyFilter
from pate.accounting.filters.renyi import RenyiFilter
from pate.accounting.rdp import count_leaves
from pate.validation import InvalidValue

_ROUNDING = 1e-9
_COUNTED = (GaussianEvent, WinnerEvent, NoOpEvent)


@dataclass(frozen=True)
class GaussianFilter(PrivacyFilter):
    """Adds 1 / noise_multiplier**2 of Gaussian events, and refuses all others.

    Formal guarantees, for the adjacency that the events were made for:
        * Everything admitted is (max_epsilon, target_delta)-DP together, whatever was chosen on the way.
        * Without failures it admits whatever one Gaussian release under the cap could pay: nothing is lost.

    Args:
        max_epsilon: the cap, > 0.
        target_delta: in (0, 1).
        max_failure_prob: see `FilterRule`; None for none at all, as a Gaussian cannot fail.

    Source: Smith & Thakurta 2022; docs/proofs/filters.md.

    >>> from pate.accounting.filters import Spent
    >>> GaussianFilter(4.0, 1e-6).affords(Spent(), GaussianEvent(30.0))
    631
    """

    max_failure_prob: float | None = 0.0

    name: ClassVar[str] = "gaussian"

    @property
    def unit(self) -> str:
        """Mu squared."""
        return "mu squared of Gaussian DP"

    def amount(self, event: Event) -> float:
        """The sum of 1 / noise_multiplier**2 over an event's parts.

        Raises:
            InvalidValue: a part that is not Gaussian.
        """
        spent = count_leaves(event)
        if unknown := [kind.__name__ for kind in spent if kind not in _COUNTED]:
            rule = "GaussianEvent alone, which this ledger's filter counts; filter=RenyiFilter counts others too"
            raise InvalidValue(f"event={unknown[0]}: expected {rule}")
        counted: list[Any] = [pair for kind in _COUNTED[:2] for pair in zip(*spent.get(kind, ([], [])), strict=True)]
        return math.fsum(
            math.inf
            if leaf.noise_multiplier == 0
            else times * getattr(leaf, "num_moving", 1) / leaf.noise_multiplier / leaf.noise_multiplier
            for leaf, times in counted
        )

    def epsilon(self, amount: float) -> float:
        """The exact epsilon of one Gaussian release of that mu, rounded up."""
        if math.isinf(amount):
            return math.inf
        return gaussian_epsilon(math.sqrt(amount), target_delta=self.conversion_delta) * (1 + _ROUNDING)


@dataclass(frozen=True)
class GaussianOrRenyi(FilterRule):
    """The Gaussian filter if a data set's first event has Gaussian parts only, and otherwise the Renyi filter.

    Args:
        max_epsilon: the cap, > 0.
        target_delta: in (0, 1).
        max_failure_prob: of the Renyi filter; see `FilterRule`.
        order: of the Renyi filter; None for its default.
    """

    order: float | None = None

    name: ClassVar[str] = "gaussian_or_renyi"

    def __post_init__(self) -> None:
        super().__post_init__()
        made = RenyiFilter(self.max_epsilon, self.target_delta, self.max_failure_prob, self.order)
        object.__setattr__(self, "order", made.order)

    def fixed_by(self, first: Event) -> PrivacyFilter:
        """The filter that the kinds of the first event decide for."""
        if count_leaves(first).keys() <= {GaussianEvent, NoOpEvent}:
            allowed = 0.0 if failure_probability(first) == 0 else None
            allowed = allowed if self.max_failure_prob is None else self.max_failure_prob
            return GaussianFilter(self.max_epsilon, self.target_delta, allowed).fixed_by(first)
        return RenyiFilter(self.max_epsilon, self.target_delta, self.max_failure_prob, self.order).fixed_by(first)
