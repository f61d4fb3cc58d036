"""The pure-DP accountant: composes events with a finite largest loss, and nothing else, optimally.

Among n epsilon-DP releases the worst is n-fold randomized response, whose privacy loss is (2k - n) epsilon with
k ~ Bin(n, 1 / (1 + exp(-epsilon))) (Kairouz, Oh & Viswanath 2015, Theorem 3.3; Murtagh & Vadhan 2016). Its hockey
stick is the largest over thresholds j of P(k > j) - e^x P'(k > j), so both directions are closed forms.

Releases of several epsilons have the product of their randomized responses as the worst case. Its loss is moved to a
grid by splitting every value between its two neighbors, which only makes the pair easier to tell apart.
"""

import math
from collections.abc import Mapping
from typing import Self

import numpy as np

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.event_tree import by_accesses, failure_probability, leaves
from pate.accounting.events import Event, LeafEvent, PureDpEvent
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.accounting.renyi import LOG_ROUNDING
from pate.accounting.special import Array, log_choices, log_expit
from pate.validation import InvalidValue, require_count, require_non_negative, require_probability

_MOST_RELEASES = 1_000_000
_MOST_KINDS = 64
_GRID_POINTS = 4096
# Hoeffding: the loss leaves a range of so many deviations with probability exp(-72)
_DEVIATIONS = 12.0
_LOG_ROUNDING = 2.0**-50
_DENORMAL = 1e-290
# relative: of the masses, whose logarithms are differences of large ones, and of their sums
_ROUNDING = 1e-12


class PureDpAccountant(AccountantBesideRenyi):
    """Composes epsilon-DP releases as randomized response; refuses noise that is not pure DP, such as a Gaussian.

    Every event is charged as the epsilon-DP release that it is: bounded range and one bit lose what they are better
    than that, so the other accountants are tighter for them. Releases of one epsilon compose optimally (Kairouz, Oh &
    Viswanath 2015, Theorem 3.3), of several up to a grid that errs upwards (docs/proofs/pure_dp.md). Never above the
    sum of the epsilons, nor above the Renyi bound: these serve alone beyond a million releases or 64 epsilons.

    >>> round(PureDpAccountant().compose(PureDpEvent(0.05), 600).get_epsilon(1e-6), 3)
    6.142
    """

    name = "pure_dp"
    any_order = True

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[float, int] = {}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times, by its pure epsilon."""
        event = by_accesses(event)
        spent = leaves(event, count=require_count("count", count, minimum=0))
        for epsilon, times in [(pure_epsilon(leaf), times) for leaf, times in spent if times]:
            if epsilon > 0:
                self._counts[epsilon] = self._counts.get(epsilon, 0) + times
                self._rdp.compose(PureDpEvent(epsilon), times)
        self.failure_prob += count * failure_probability(event)
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon of the optimal composition of pure epsilons."""
        left = self.remaining_delta(target_delta)
        whole, searched = self._sum()
        bound = min(self._rdp.get_epsilon(left), whole)
        return min(bound, _epsilon(_mixed_log_tails(self._counts), left)) if searched else bound

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta of the optimal composition of pure epsilons."""
        require_non_negative("target_epsilon", target_epsilon)
        whole, searched = self._sum()
        bound = 0.0 if whole <= target_epsilon else self._rdp.get_delta(target_epsilon)
        if bound > 0 and searched:  # the largest P(loss >= l) - e^x P'(loss >= l) over thresholds l
            log_tail, after = _mixed_log_tails(self._counts)
            worth = log_tail > target_epsilon + after
            deltas = np.exp(log_tail[worth]) * -np.expm1(target_epsilon + (after - log_tail)[worth])
            bound = min(bound, float(np.max(deltas, initial=0.0)))
        return min(1.0, bound + self.failure_prob)

    def _sum(self) -> tuple[float, bool]:
        """The sum of the epsilons, and whether the losses of all releases can be summed."""
        with np.errstate(over="ignore"):
            total = sum(np.float64(epsilon) * count for epsilon, count in self._counts.items()) * (
                1 + 1e-12
            )
        few = 0 < sum(self._counts.values()) <= _MOST_RELEASES and len(self._counts) <= _MOST_KINDS
        return float(total), few and math.isfinite(total)


def pure_dp_composition_epsilon(epsilon: float, *, count: int, target_delta: float) -> float:
    """The smallest epsilon at which `count` adaptive epsilon-DP releases are (epsilon, target_delta)-DP."""
    require_probability("target_delta", target_delta)
    return min(count * epsilon, _epsilon(_log_tails(epsilon, count), target_delta))


def _epsilon(log_tails: tuple[Array, Array], target_delta: float) -> float:
    """The smallest x >= 0 at which no threshold has more than that delta."""
    log_delta = math.log(target_delta)
    kept, after = (tails[log_tails[0] > log_delta] for tails in log_tails)
    with np.errstate(divide="ignore"):
        epsilons = kept + np.log(-np.expm1(log_delta - kept)) - after
    return float(np.max(epsilons, initial=0.0))


def _log_tails(epsilon: float, count: int) -> tuple[Array, Array]:
    """Logarithms of P(k >= j), j = n, ..., 0, for n-fold randomized response and its neighbor, each `[n + 1]`."""
    require_non_negative("epsilon", epsilon)
    n = require_count("count", count, minimum=0)
    k = np.arange(n, -1, -1, dtype=np.float64)
    log_mass = log_choices(n) + k * log_expit(epsilon) + (n - k) * log_expit(-epsilon)
    tail = np.logaddexp.accumulate(log_mass)
    tail_after = np.logaddexp.accumulate(log_mass - (2 * k - n) * epsilon)
    # of terms that cancel in the logarithms
    rounding = _LOG_ROUNDING * (math.lgamma(n + 1) + n * (1 + epsilon))
    return np.minimum(tail + rounding, 0.0), np.asarray(tail_after - rounding)


def _mixed_log_tails(counts: Mapping[float, int]) -> tuple[Array, Array]:
    """The same logarithms for the product of all releases, on a grid of losses that falls from infinity."""
    if len(counts) == 1:
        [(epsilon, count)] = counts.items()
        return _log_tails(epsilon, count)
    variance = math.fsum(count * epsilon**2 for epsilon, count in counts.items())
    spacing = 2 * _DEVIATIONS * math.sqrt(variance) / _GRID_POINTS
    lowest = 0
    never = 0.0
    mass = np.ones(1)
    for epsilon, count in counts.items():
        # A loss between two points is split so that both distributions keep their mass; those below the range move up,
        # and those above it count as infinite.
        k = np.arange(count + 1, dtype=np.float64)
        each = np.exp(
            log_choices(count) + k * log_expit(epsilon) + (count - k) * log_expit(-epsilon)
        )
        at_losses = (2 * k - count) * epsilon
        middle = count * epsilon * math.tanh(epsilon / 2)
        reach = _DEVIATIONS * math.sqrt(count) * epsilon
        first = math.floor((middle - reach) / spacing)
        last = math.ceil((middle + reach) / spacing)
        inside = at_losses <= last * spacing
        position = np.clip(at_losses[inside] / spacing - first, 0.0, float(last - first))
        below = np.minimum(np.floor(position), float(last - first - 1))
        upper = each[inside] * np.clip(
            np.expm1(-(position - below) * spacing) / math.expm1(-spacing), 0.0, 1.0
        )
        at = below.astype(np.int64)
        size = last - first + 1
        group = np.bincount(at, each[inside] - upper, size) + np.bincount(at + 1, upper, size)
        lowest = lowest + first
        never = never + float(each[~inside].sum())
        mass = np.asarray(np.convolve(mass, group), dtype=np.float64)
    losses = (lowest + np.arange(len(mass))) * spacing
    rounding = _ROUNDING * (1 + sum(counts.values()) / 100)
    never = max(never, float(np.finfo(float).tiny))
    tail = np.cumsum(mass[::-1]) * (1 + rounding) + never
    kept = mass > _DENORMAL  # the others have no digits, and their neighbors' masses none of theirs
    after = np.exp(np.minimum(np.log(np.where(kept, mass, 1.0)) - losses, 0.0)) * kept
    tail_after = np.cumsum(after[::-1]) * (1 - rounding)
    with np.errstate(divide="ignore"):
        return np.log(np.append(never, tail)), np.log(np.append(0.0, tail_after))


def pure_epsilon(event: LeafEvent) -> float:
    """Returns the largest loss of an event: the smallest epsilon for which it is known to be epsilon-DP.

    The epsilon may be infinite. Raises `InvalidValue` for an event that is not pure DP, such as a Gaussian.
    """
    match event:
        case events.NoOpEvent():
            return 0.0
        case events.NonPrivateEvent():
            return math.inf
        case events.PureDpEvent() | events.BoundedRangeEvent():
            return event.epsilon
        case events.SessionEvent():  # all calls, rounded up
            return event.num_calls * event.epsilon * (1 + 2.0**-50) if event.num_calls else 0.0
        case events.BitEvent():
            # the largest loss of a 1 or a 0 between statistics within reach, rounded up
            lower_logits, higher_logits = bit_pairs(event)
            loss_of_one = _difference_of_logs(log_expit(higher_logits), log_expit(lower_logits))
            loss_of_zero = _difference_of_logs(log_expit(-lower_logits), log_expit(-higher_logits))
            return max(
                float(np.max(loss_of_one, initial=0.0)), float(np.max(loss_of_zero, initial=0.0))
            )
    rule = "an event that is pure DP, or another accountant"
    raise InvalidValue("event", type(event).__name__, rule=rule)


def _difference_of_logs(larger: Array, smaller: Array) -> Array:
    """Returns the difference of log probabilities, never below the true one."""
    return np.asarray(larger - smaller - LOG_ROUNDING * smaller)
