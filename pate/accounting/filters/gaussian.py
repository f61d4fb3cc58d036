"""The Gaussian filter: a sum of mu squared, exact for Gaussian releases, and an upper bound for those of pure DP."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from pate.accounting.conversion import gaussian_epsilon
from pate.accounting.events import Event, GaussianEvent, LeafEvent, NoOpEvent, WinnerEvent
from pate.accounting.failure_probability import failure_probability
from pate.accounting.filters.privacy_filter import FilterRule, PrivacyFilter
from pate.accounting.filters.renyi import RenyiFilter, order_kept
from pate.accounting.pure_dp import pure_epsilon
from pate.accounting.rdp import count_leaves
from pate.accounting.session_event import by_accesses
from pate.accounting.special import log_expit
from pate.validation import InvalidValue

_ROUNDING = 1e-9


@dataclass(frozen=True)
class GaussianFilter(PrivacyFilter):
    """Adds 1 / noise_multiplier**2 of Gaussian events, and of pure ones what their epsilon is worth; refuses others.

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
        """The sum of mu squared over an event's parts.

        Raises:
            InvalidValue: a part that is neither Gaussian nor pure DP.
        """
        spent = count_leaves(by_accesses(event))
        return math.fsum(
            times * _mu_squared(leaf)
            for kind, (found, counts) in spent.items()
            for leaf, times in zip(found, counts, strict=True)
            if times and kind is not NoOpEvent
        )

    def epsilon(self, amount: float) -> float:
        """The exact epsilon of one Gaussian release of that mu, rounded up."""
        if math.isinf(amount):
            return math.inf
        return gaussian_epsilon(math.sqrt(amount), target_delta=self.conversion_delta) * (1 + _ROUNDING)


def _mu_squared(leaf: LeafEvent) -> float:
    """1 / noise_multiplier**2 of a Gaussian.

    A release of pure epsilon is mu-Gaussian DP with `Phi(mu / 2) = e^epsilon / (1 + e^epsilon)`: its trade-off is at
    least randomized response's, two straight lines that meet where both errors are 1 / (1 + e^epsilon). The curve of
    that Gaussian goes through the same three points and is convex, so it lies below (Dong, Roth & Su 2022).
    """
    if isinstance(leaf, (GaussianEvent, WinnerEvent)):
        moved = leaf.num_moving if isinstance(leaf, WinnerEvent) else 1
        return math.inf if leaf.noise_multiplier == 0 else moved / leaf.noise_multiplier / leaf.noise_multiplier
    try:
        epsilon = pure_epsilon(leaf)
    except InvalidValue as error:
        rule = "Gaussian or pure DP, which this ledger's filter counts; filter=RenyiFilter counts others too"
        raise InvalidValue(f"event={type(leaf).__name__}: expected {rule}") from error
    if math.isinf(epsilon):
        return math.inf
    from scipy.special import erfinv, ndtri_exp  # loads slowly, and few filters count pure releases

    small = epsilon < 1  # where a probability near 1/2 has lost its digits
    mu = 2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 2)) if small else -2 * ndtri_exp(log_expit(-epsilon))
    return float(mu * mu * (1 + _ROUNDING))


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

    def for_cap(self, max_epsilon: float) -> Self:
        """See `RenyiFilter.for_cap`."""
        return replace(self, max_epsilon=max_epsilon, order=order_kept(self.order, self.max_epsilon, self.target_delta))

    def fixed_by(self, first: Event) -> PrivacyFilter:
        """The filter that the kinds of the first event decide for."""
        if count_leaves(first).keys() <= {GaussianEvent, NoOpEvent}:
            allowed = 0.0 if failure_probability(first) == 0 else None
            allowed = allowed if self.max_failure_prob is None else self.max_failure_prob
            return GaussianFilter(self.max_epsilon, self.target_delta, allowed).fixed_by(first)
        return RenyiFilter(self.max_epsilon, self.target_delta, self.max_failure_prob, self.order).fixed_by(first)
