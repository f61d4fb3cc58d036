"""The price of the best of a secret number of runs, from bounds on a single run.

A candidate is one run of a mechanism together with its score. K candidates are run on the same private data, and the
one with the best score is published. Let delta(epsilon) be the privacy profile of a candidate. The choice of the best
multiplies likelihood ratios by at most a factor that depends on delta and on the distribution of K (`selection_ratio`,
and for Poisson's Renyi curve a factor for each order). These factors are at most those of Papernot & Steinke (2022),
Theorems 2 and 6, and make the profile of Koskela, Redberg & Wang (2024) smaller (docs/proofs/tuning.md).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from pate.accounting import rdp
from pate.accounting.accountant import Accountant
from pate.accounting.conversion import gaussian_delta
from pate.accounting.event_tree import failure_probability, leaves, without_failures
from pate.accounting.events import ApproximateEvent, Event, NoOpEvent, TuningEvent
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.accounting.run_counts import Poisson, RunCount, TruncatedNegativeBinomial
from pate.array_types import FloatArray
from pate.validation import InvalidValue

# The relative rounding error of a bound.
_ROUNDING = 2.0**-40
# The largest epsilon of a search, whose exponential is a float.
_LARGEST_EPSILON = 600.0
# A candidate with a larger mu is bounded by its accountant alone.
_LARGEST_MU = 1e6
# A search halves its interval so often.
_NUM_HALVINGS = 50
# The epsilons at which the privacy profile of a candidate is computed for the Renyi curve with a Poisson distribution.
_EPSILON_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 5.0, 200)])


def tuning_event(base: Event, score: Event, distribution: RunCount) -> Event:
    """Returns the price of the best of a secret number of runs, also where a run may fail.

    Failures of single runs become one failure of all runs together, with the probability that any run fails.

    Args:
        base: the price of the release of one run.
        score: the price of the score of one run.
        distribution: the distribution of the number of runs.

    >>> from pate.accounting import GaussianEvent
    >>> tuning_event(GaussianEvent(20.0), NoOpEvent(), Poisson(mean=4.0)).distribution
    Poisson(mean=4.0)
    """
    failure_prob_of_run = failure_probability(base) + failure_probability(score)
    tuned = TuningEvent(
        base=without_failures(base), score=without_failures(score), distribution=distribution
    )
    if failure_prob_of_run == 0:
        return tuned
    return ApproximateEvent(
        tuned, failure_prob=distribution.prob_of_any(prob=min(failure_prob_of_run, 1.0))
    )


class Candidate:
    """Bounds on one candidate (one run) of a tuned release, which hold for both orders of two neighbors.

    Args:
        accountant: the accountant of the release and the score of one run, with both composed.
    """

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant

    @classmethod
    def from_event(cls, tuned_event: TuningEvent, accountant: Accountant) -> Self:
        """Returns the bounds on one run of a tuned release.

        Args:
            tuned_event: the price of the tuned release.
            accountant: an empty accountant, to which the release and the score of one run are added.
        """
        return cls(accountant.compose(tuned_event.base).compose(tuned_event.score))

    @cached_property
    def _mu(self) -> float:
        """A mu for which the release and the score of one run are mu-GDP; infinite where none is known."""
        return self._accountant._delta_free_bounds().mu

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on the delta of one run at a positive or negative epsilon."""
        if epsilon < 0:
            # The two neighbors are exchanged.
            exp_epsilon = math.exp(epsilon)
            return min(1 - exp_epsilon + exp_epsilon * self.delta(epsilon=-epsilon), 1.0)
        if epsilon == math.inf:
            return 0.0
        delta = self._accountant.get_delta(epsilon)
        if self._mu >= _LARGEST_MU:
            return delta
        return min(delta, gaussian_delta(self._mu, epsilon=epsilon))


def selection_ratio(tuned_event: TuningEvent, bounds_on_one_run: Candidate) -> float:
    """Returns the logarithm of the largest likelihood ratio of the selection, rounded up.

    The selection of the run with the best score multiplies the likelihood ratios of one run by at most this ratio. Let
    delta(r) be the delta of one run at epsilon = r. For a truncated negative binomial the logarithm is
    (1 + eta) r, for the least r >= 0 with

        delta(r) <= (e^r - 1) gamma / (1 - gamma).

    For Poisson it is E[K] delta(0).

    Args:
        tuned_event: the price of the tuned release.
        bounds_on_one_run: the bounds on one candidate.
    """
    match tuned_event.distribution:
        case TruncatedNegativeBinomial(eta=eta, gamma=gamma):
            low_epsilon = 0.0
            high_epsilon = -math.log(gamma) + _ROUNDING  # there the right side is 1
            for _ in range(_NUM_HALVINGS):
                middle_epsilon = (low_epsilon + high_epsilon) / 2
                largest_delta = math.expm1(middle_epsilon) * gamma / (1 - gamma)
                if bounds_on_one_run.delta(epsilon=middle_epsilon) <= largest_delta * (
                    1 - _ROUNDING
                ):
                    high_epsilon = middle_epsilon
                else:
                    low_epsilon = middle_epsilon
            return (1 + eta) * high_epsilon * (1 + _ROUNDING)
        case Poisson(mean=mean_num_runs):
            return mean_num_runs * bounds_on_one_run.delta(epsilon=0.0) * (1 + _ROUNDING)
    name_of_class = type(tuned_event.distribution).__name__
    raise InvalidValue("distribution", name_of_class, rule="a distribution with a price")


def tuning_rdp(tuned_event: TuningEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the Renyi curve of the best of a secret number of runs, `[num_orders]`.

    Args:
        tuned_event: the price of the tuned release.
        orders: the orders a > 1, `[num_orders]`.
    """
    # A divergence is at most that of a larger order. At larger orders the term log E[K] / (a - 1) is smaller.
    all_orders = np.concatenate([orders, rdp.DEFAULT_ORDERS])
    rdp_of_all_orders = rdp.rdp_curve_of(tuned_event.candidate)(all_orders)
    if not rdp_of_all_orders.any():
        return np.zeros_like(orders)
    orders_less_one = all_orders - 1
    with np.errstate(over="ignore", invalid="ignore"):
        match tuned_event.distribution:
            case TruncatedNegativeBinomial(mean=mean_num_runs):
                rdp_of_all_orders = (
                    rdp_of_all_orders
                    + _renyi_selection_ratio(tuned_event)
                    + math.log(mean_num_runs) / orders_less_one
                )
            case Poisson(mean=mean_num_runs):
                poisson_penalty = mean_num_runs * _poisson_deltas(tuned_event, all_orders)
                log_moment = math.log(mean_num_runs) + orders_less_one * (
                    rdp_of_all_orders + poisson_penalty
                )
                rdp_of_all_orders = np.logaddexp(-mean_num_runs, log_moment) / orders_less_one
            case _:
                name_of_class = type(tuned_event.distribution).__name__
                raise InvalidValue(
                    "distribution", name_of_class, rule="a distribution with a price"
                )
    rdp_of_all_orders = np.where(np.isnan(rdp_of_all_orders), np.inf, rdp_of_all_orders) * (
        1 + _ROUNDING
    )
    indices_by_falling_order = np.argsort(-all_orders, kind="stable")
    smallest_rdp = np.empty(len(all_orders))  # of all orders that are at least as large
    smallest_rdp[indices_by_falling_order] = np.minimum.accumulate(
        rdp_of_all_orders[indices_by_falling_order]
    )
    return smallest_rdp[: len(orders)]


def _poisson_deltas(tuned_event: TuningEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the delta of one run at epsilon = log(a / (a - 1)) for each order a, `[num_orders]`.

    The delta at the next smaller epsilon of a fixed grid is the bound, because deltas fall as epsilon rises.
    """
    deltas_on_grid = _deltas_on_grid(tuned_event)
    epsilons = -np.log1p(-1 / orders) * (1 - _ROUNDING)
    grid_indices = np.searchsorted(_EPSILON_GRID, epsilons, side="right") - 1
    return np.asarray(deltas_on_grid[grid_indices])


@lru_cache(maxsize=256)  # needed again for each grid of orders
def _deltas_on_grid(tuned_event: TuningEvent) -> FloatArray:
    """Returns an upper bound on the delta of one run of a tuned release at each of `_EPSILON_GRID`, from a cache."""
    bounds_on_one_run = Candidate.from_event(tuned_event, accountant=rdp.RdpAccountant())
    return np.array([bounds_on_one_run.delta(epsilon=float(epsilon)) for epsilon in _EPSILON_GRID])


@lru_cache(maxsize=256)  # needed again for each grid of orders
def _renyi_selection_ratio(tuned_event: TuningEvent) -> float:
    """Returns `selection_ratio` of a tuned release, with one run bounded by its Renyi curve, from a cache."""
    return selection_ratio(
        tuned_event, Candidate.from_event(tuned_event, accountant=rdp.RdpAccountant())
    )


class TuningAccountant(AccountantBesideRenyi):
    """An accountant that bounds one tuned release by its privacy profile, and other releases as `RdpAccountant` does.

    The epsilon is the smaller one of the privacy profile and of the Renyi curve. If other releases were composed, or
    several tuned releases, the Renyi curve alone is used. Source: docs/proofs/tuning.md.

    Args:
        candidate_accountant: makes an empty accountant for one candidate.
    """

    name = "tuning"
    any_event_order = True

    def __init__(self, candidate_accountant: type[Accountant] = rdp.RdpAccountant) -> None:
        super().__init__()
        self._candidate_accountant = candidate_accountant
        self._tuned: TuningEvent | None = None
        self._is_alone = True  # whether at most one tuned release was composed, and nothing else

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, and returns this accountant."""
        self._rdp.compose(event, count=count)
        self.failure_prob = self._rdp.failure_prob
        for leaf, times in leaves(event, num_releases=count):
            if times == 0 or isinstance(leaf, NoOpEvent):
                continue
            self._is_alone &= isinstance(leaf, TuningEvent) and times == 1 and self._tuned is None
            if isinstance(leaf, TuningEvent):
                self._tuned = leaf
        self.__dict__.pop("_bounds", None)
        return self

    @cached_property
    def _bounds(self) -> tuple[Candidate, float] | None:
        """The bounds on one run, and the logarithm of the largest likelihood ratio of the selection.

        None unless exactly one tuned release was composed, and nothing else that costs anything.
        """
        tuned_event = self._tuned
        if tuned_event is None or not self._is_alone:
            return None
        bounds_on_one_run = Candidate.from_event(
            tuned_event, accountant=self._candidate_accountant()
        )
        return bounds_on_one_run, selection_ratio(tuned_event, bounds_on_one_run)

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the smaller epsilon, at `target_delta`, of the privacy profile and of the Renyi curve.

        Raises `InvalidValue` where the failure probabilities of the events sum to `target_delta` or more.
        """
        remaining_delta = self.remaining_delta(target_delta)
        high_epsilon = self._rdp.get_epsilon(target_delta)
        if self._bounds is None or not 0 < high_epsilon < _LARGEST_EPSILON:
            return high_epsilon
        if self._delta(epsilon=high_epsilon) > remaining_delta:
            return high_epsilon
        low_epsilon = 0.0
        for _ in range(_NUM_HALVINGS):
            middle_epsilon = (low_epsilon + high_epsilon) / 2
            if self._delta(epsilon=middle_epsilon) > remaining_delta:
                low_epsilon = middle_epsilon
            else:
                high_epsilon = middle_epsilon
        return high_epsilon

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the smaller delta, at `target_epsilon`, of the privacy profile and of the Renyi curve.

        Failure probabilities are included.
        """
        renyi_delta = self._rdp.get_delta(target_epsilon)
        if self._bounds is None:
            return renyi_delta
        return min(renyi_delta, self._delta(epsilon=target_epsilon) + self.failure_prob)

    def _delta(self, epsilon: float) -> float:
        """Returns the delta of the tuned release by its privacy profile, without failures; 1 without such a profile."""
        if self._bounds is None or self._tuned is None:
            return 1.0
        bounds_on_one_run, log_ratio = self._bounds
        return self._tuned.distribution.prob_of_any(
            prob=bounds_on_one_run.delta(epsilon=epsilon - log_ratio)
        )
