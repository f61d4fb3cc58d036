"""Accountants: they compose events and convert the sum into an epsilon or a delta once."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from pate.accounting.conversion import gaussian_delta
from pate.accounting.events import Event
from pate.accounting.trade_off import (
    UNBOUNDED,
    DeltaFreeBounds,
    gaussian_trade_off,
    least_mu,
    max_advantage,
    trade_off_lower_bound,
)
from pate.validation import InvalidValue, require_probability

# The largest number of characters of a value in a `repr`.
_LONGEST_VALUE = 100
# The search of the trade-off curve ends at an epsilon above which larger ones gain at most this share of alpha.
_NEGLIGIBLE_SHARE = 1e-6
# The search of mu ends at the epsilon of this delta.
_NEGLIGIBLE_DELTA = 1e-20
# The exponential of a larger epsilon may be no float.
_LARGEST_EXPONENT = 700.0


class Accountant(ABC):
    """The base class of accountants: an accountant adds up events and returns their total as (epsilon, delta).

    Every epsilon and delta is an upper bound for the adjacency that the events were made for.

    Attributes:
        name: the name of the accountant in configurations and reports.
        any_event_order: whether the figures hold for every order of the releases, and not only for the order of the
            calls of `compose`.
        failure_prob: the sum of the failure probabilities of all composed events.
    """

    name: ClassVar[str]
    any_event_order: bool = False
    failure_prob: float

    @abstractmethod
    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, and returns this accountant.

        Raises `InvalidValue`, and adds nothing, where the accountant cannot price an event within `event`.
        """

    @abstractmethod
    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon of all composed events at `target_delta`, which is in (0, 1).

        Raises `InvalidValue` where the failure probabilities of the events sum to `target_delta` or more.
        """

    @abstractmethod
    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta of all composed events at `target_epsilon`, which is >= 0.

        The delta includes the failure probabilities of the events, and is at most 1.
        """

    def trade_off(self, alpha: float) -> float:
        """Returns the least probability of a miss of all attacks that give a false alarm with probability `alpha`.

        An attack reads the releases and decides between two neighboring data sets, for instance whether one member
        takes part. The attack finds a member with a probability of at most 1 - `trade_off(alpha)`. The returned bound
        is rounded down. For Gaussian releases alone it is the exact curve of Dong, Roth & Su (2022).

        Args:
            alpha: the probability of a false alarm, in (0, 1).

        Source: docs/proofs/trade_off.md.

        >>> from pate.accounting import AutoAccountant, GaussianEvent
        >>> round(1 - AutoAccountant().compose(GaussianEvent(1.0)).trade_off(0.01), 3)
        0.092
        """
        require_probability("alpha", alpha)
        bounds = self._delta_free_bounds()
        miss_prob_by_gaussian = gaussian_trade_off(bounds.mu, alpha=alpha)
        if bounds.is_exact:
            return miss_prob_by_gaussian
        negligible_delta = _NEGLIGIBLE_SHARE * min(alpha, 1 - alpha)
        largest_epsilon = self._largest_useful_epsilon(negligible_delta=negligible_delta)
        miss_prob_by_lines = trade_off_lower_bound(
            delta_at=self._quick_delta, alpha=alpha, largest_epsilon=largest_epsilon
        )
        return max(miss_prob_by_gaussian, miss_prob_by_lines)

    def advantage(self) -> float:
        """Returns the largest difference of the probabilities of a right and of a false alarm, of all attacks.

        The result is an upper bound on the total variation distance between the releases on two neighbors. An attack
        that decides between two equally likely neighbors is right with a probability of at most (1 + advantage) / 2.
        """
        bounds = self._delta_free_bounds()
        advantage_by_gaussian = (
            gaussian_delta(bounds.mu, epsilon=0.0) if bounds.mu < math.inf else 1.0
        )
        if bounds.is_exact:
            return advantage_by_gaussian
        largest_epsilon = self._largest_useful_epsilon(negligible_delta=_NEGLIGIBLE_SHARE)
        advantage_by_lines = max_advantage(
            delta_at=self._quick_delta, largest_epsilon=largest_epsilon
        )
        return min(advantage_by_gaussian, advantage_by_lines)

    def gdp_mu(self) -> float:
        """Returns the smallest known mu for which all composed events together are mu-GDP, rounded up.

        A Gaussian release with l2 sensitivity / noise std = mu hides a member no better than the events do. For
        Gaussian releases alone, mu is exact: mu^2 is the sum of the squares. The mu is infinite where no mu is known,
        such as for events that may fail, because a Gaussian release never shows a member with certainty.

        >>> from pate.accounting import GaussianEvent, RdpAccountant
        >>> round(RdpAccountant().compose(GaussianEvent(2.0), 16).gdp_mu(), 6)
        2.0
        """
        bounds = self._delta_free_bounds()
        if bounds.is_exact or bounds.rho == math.inf:
            return bounds.mu
        largest_epsilon = self._largest_useful_epsilon(negligible_delta=_NEGLIGIBLE_DELTA)
        return least_mu(
            delta_at=self._quick_delta, largest_epsilon=largest_epsilon, delta_free_bounds=bounds
        )

    def _delta_free_bounds(self) -> DeltaFreeBounds:
        """Returns a mu, a rho and an epsilon that bound all composed events (`DeltaFreeBounds`); infinite if unknown.

        The bounds need no delta. So they also bound attacks whose alpha, the probability of a false alarm as in
        `trade_off`, is arbitrarily small. The base class knows no bound.
        """
        return UNBOUNDED

    def _quick_delta(self, epsilon: float) -> float:
        """Returns the delta of all composed events at an epsilon; a subclass may return a larger bound more quickly.

        The trade-off curve is bounded by the deltas at hundreds of epsilons, so each has to be quick.
        """
        return self.get_delta(epsilon)

    def _largest_useful_epsilon(self, negligible_delta: float) -> float:
        """Returns the largest epsilon that a trade-off curve needs: the epsilon of all events at `negligible_delta`.

        Where twice the sum of the failure probabilities is above `negligible_delta`, that number takes the place of
        `negligible_delta`. The epsilon is at most 700. Returns 0 where the epsilon is infinite, or that number is 1 or
        more.
        """
        total_failure_prob = getattr(self, "failure_prob", 0.0)
        delta = max(negligible_delta, 2 * total_failure_prob)
        epsilon = self.get_epsilon(delta) if delta < 1 else math.inf
        return min(epsilon, _LARGEST_EXPONENT) if epsilon < math.inf else 0.0

    def winner(self, target_delta: float) -> str:
        """Returns the name of the accountant that computed the epsilon of `get_epsilon(target_delta)`.

        That is this accountant's own name, except for an accountant that takes the smallest epsilon of several.
        """
        return self.name

    def resolution(self, target_delta: float) -> float:
        """Returns the relative error of `get_epsilon(target_delta)` that comes from a coarse numerical search.

        The base class returns 0, which suits an epsilon that is computed by a formula or by a fine search. Epsilons of
        two nearly equal releases may differ by this error although the exact bounds are equal.
        """
        return 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that change the computed epsilons, in types that JSON has; a ledger stores and compares them."""
        return {}

    def __repr__(self) -> str:
        """Returns the class name with the settings and figures such as the failure probability, and without an epsilon.

        An epsilon needs a delta, and may take seconds to compute.
        """
        settings = {name: abbreviated(repr(value)) for name, value in self.parameters.items()}
        text_of_argument = settings | self._counts_in_words
        arguments = ", ".join(f"{name}={text}" for name, text in text_of_argument.items())
        return f"{type(self).__name__}({arguments})"

    @property
    def _counts_in_words(self) -> dict[str, str]:
        """The figures of all composed events that `repr` shows, as texts by name, such as the failure probability."""
        return {"failure_prob": f"{self.failure_prob:g}"} if hasattr(self, "failure_prob") else {}

    def copy(self) -> Self:
        """Returns an independent accountant with the same events; adding events to the copy leaves this one as is."""
        return copy.deepcopy(self)

    def compose_all(self, counted_events: Iterable[tuple[Event, int]]) -> Self:
        """Adds several events to the total, and returns this accountant.

        Args:
            counted_events: pairs of an event and the number of times that the event is added.
        """
        for event, count in counted_events:
            self.compose(event, count=count)
        return self

    def remaining_delta(self, target_delta: float) -> float:
        """Returns `target_delta` less the failure probabilities of all composed events, a number > 0.

        Raises `InvalidValue` unless `target_delta` is in (0, 1) and above these failure probabilities together.
        """
        return delta_after_failures(target_delta, failure_prob=self.failure_prob)


def delta_after_failures(target_delta: float, *, failure_prob: float) -> float:
    """Returns `target_delta` less a failure probability, a number > 0.

    Raises `InvalidValue` unless `target_delta` is in (0, 1) and above the failure probability.
    """
    remaining_delta = require_probability("target_delta", target_delta) - failure_prob
    if remaining_delta <= 0:
        rule = (
            f"a sum over all queries below target_delta, and {failure_prob:.3g} in all "
            f"uses up target_delta={target_delta}"
        )
        raise InvalidValue("failure_prob", rule=rule)
    return remaining_delta


def require_maker(accountant: Any) -> Callable[[], Accountant]:
    """Returns `accountant` if it can be called to make an empty accountant, such as the class `RdpAccountant`.

    Raises `InvalidValue` for a value that cannot be called, such as a name or an instance of an accountant.
    """
    if not callable(accountant):
        raise InvalidValue(
            "accountant", accountant, rule="a class such as pate.accounting.RdpAccountant, uncalled"
        )
    # The first call shows whether the returned object is an accountant.
    return accountant  # type: ignore[no-any-return]  # any callable is an object of type Any


def abbreviated(text: str) -> str:
    """Returns a text, which is shortened to 100 characters, the last of them an ellipsis, where it is longer."""
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
