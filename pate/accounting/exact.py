"""The exact accountant: optimal adaptive composition by dynamic programming, as a guaranteed upper bound.

A *step* is one release. The adversary chooses two neighbors for each step, and sees each privacy loss before the next
step. Let V_n(x) be the largest delta at epsilon = x that the adversary can still reach in the last n steps. Without a
step

    V_0(x) = max(0, 1 - e^x),

the hockey stick of two distributions whose loss is 0. Each step replaces V by the largest expectation of V(x - loss)
over the pairs of distributions that the step allows:

    V_(n+1)(x) = max over pairs (P, Q) of  E_(y ~ P) V_n(x - log P(y) / Q(y)).

The neighbors may differ from step to step, so the maximum is inside the recursion. With V of all steps,
delta(epsilon) = V(epsilon) (docs/proofs/exact_composition.md). `exact_grid` represents a function V by its values on a
grid. `exact_pairs` has the pairs of each event, `exact_steps` composes one step, and `exact_blocks` composes many.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from pate.accounting import events
from pate.accounting.conversion import gaussian_delta, gaussian_epsilon, rdp_to_epsilons
from pate.accounting.event_tree import priced_by_accesses
from pate.accounting.events import Event, LeafEvent
from pate.accounting.exact_blocks import (
    RepeatedStep,
    Steps,
    are_composed_one_by_one,
    compose_steps,
    largest_loss,
    work_in_blocks,
    work_of_step,
)
from pate.accounting.exact_grid import Profile
from pate.accounting.exact_pairs import DominatingPairs, FixedPair, dominating_pairs
from pate.accounting.gaussian_pairs import SampledPair, ShiftedMaximum
from pate.accounting.loss_accountant import LossAccountant
from pate.accounting.noisy_maximum import NoisyMaximum
from pate.accounting.tuning import TuningAccountant
from pate.accounting.winner import WinnerPairs
from pate.validation import require_count

# The time that the profile of one noisy maximum takes, in units of `ExactAccountant.work`. One profile serves all steps
# with the same noise.
_WORK_OF_MAXIMUM = 240
# A profile is computed for deltas down to 10**-level, with the first of these levels that is deep enough.
_LEVELS = (12, 24, 48, 96, 192)
# The smallest delta of a profile is so much smaller than the target delta, or than the delta of the Renyi accountant.
_MARGIN = 1e-4
_RENYI_MARGIN = 1e-6
# A smaller float may have lost its digits.
_SMALLEST_ACCURATE = 1e-290
# The largest epsilon of a grid lies between both. Other epsilons are those of the Renyi accountant.
_SMALLEST_REACH = 1e-200
_LARGEST_REACH = 500.0
# Relative, and above the rounding errors of a bound that is read off the grid.
_BOUND_ROUNDING = 1e-9


@dataclass(frozen=True)
class _GaussianTotal:
    """The exact bounds for Gaussian releases alone, which cost as much as one Gaussian release.

    `mu` is the l2 sensitivity / noise std of that one release.
    """

    mu: float

    def epsilon(self, target_delta: float) -> float:
        """Returns the epsilon of all Gaussian releases together at `target_delta`."""
        return gaussian_epsilon(mu=self.mu, target_delta=target_delta)

    def delta(self, target_epsilon: float) -> float:
        """Returns the delta of all Gaussian releases together at `target_epsilon`."""
        return gaussian_delta(self.mu, epsilon=target_epsilon)


@dataclass(frozen=True)
class _GridTotal:
    """The bounds for all releases from their privacy profile on a grid; infinite where no grid can hold them."""

    profile: Profile | None

    def epsilon(self, target_delta: float) -> float:
        """Returns the epsilon of all releases together at `target_delta`; infinity without a profile."""
        return math.inf if self.profile is None else self.profile.epsilon(target_delta)

    def delta(self, target_epsilon: float) -> float:
        """Returns the delta of all releases together at `target_epsilon`, rounded up; infinity without a profile."""
        if self.profile is None:
            return math.inf
        return max(self.profile.delta(target_epsilon), _SMALLEST_ACCURATE) * (1 + _BOUND_ROUNDING)


class ExactAccountant(LossAccountant):
    """An accountant that computes the optimal composition of bits, bounded ranges, pure DP and Gaussian releases.

    Formal guarantees, for the adjacency that the events were made for:
        * The totals bound the strongest adversary, who chooses two neighbors for every release after seeing all earlier
          losses. Rounding errors are included.
        * The total of Gaussians alone is exact. Sampled Gaussians have one worst pair of distributions, whose losses
          are summed. A noisy maximum with Gaussian noise is replaced by one pair that dominates it, so its total is a
          bound and not optimal.
        * A total is never above that of `RdpAccountant`. It is also at most the price of releasing all noisy counts
          where only the winner is released, and at most the price of a session by its hits.
        * A tuned release alone has the bound of its privacy profile. If there are other releases beside it, the total
          is that of `RdpAccountant`.

    Edge cases: the bound is for releases in the order of the events. Gaussians, sampled Gaussians and noisy maxima
    count as the first releases, because that gives the adversary the most freedom later. Unless all releases are
    Gaussian, epsilons above 500 and deltas below about 1e-187 are those of `RdpAccountant`. Releases with optimal
    tables of the stability test, whose losses can be enormous, are composed one by one whatever their number. Source:
    Murtagh & Vadhan 2016; Zhu, Dong & Wang 2022; docs/proofs/exact_composition.md.

    Args:
        in_blocks: True composes more than 180 releases (72 winners of noisy counts) in blocks, with a total some tenths
            of a percent above the optimum. False composes every release by itself, which takes some milliseconds for
            each.
        any_event_order: True replaces each release by one pair that dominates it, so that the bound holds for every
            order of the events, whatever `in_blocks` is.

    >>> from pate.accounting import BoundedRangeEvent, RdpAccountant, SelfComposedEvent
    >>> event = SelfComposedEvent(BoundedRangeEvent(0.1), 20)
    >>> [round(kind().compose(event).get_epsilon(1e-6), 2) for kind in (RdpAccountant, ExactAccountant)]
    [0.98, 0.93]
    """

    name = "exact"

    def __init__(self, *, in_blocks: bool = True, any_event_order: bool = False) -> None:
        super().__init__()
        self.in_blocks = in_blocks
        self.any_event_order = any_event_order
        # `_Releases` explains these four.
        self._steps: list[RepeatedStep] = []
        self._tuned_releases: list[events.TuningEvent] = []
        self._mu_squared = 0.0
        self._mu_squared_of_winner_counts = 0.0
        # The result of `_ways_to_compose` for each smallest delta of a profile; None stands for no profile.
        self._ways: dict[float | None, list[list[_GaussianTotal | _GridTotal]]] = {}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, by the pairs of distributions that dominate it.

        Returns this accountant. Raises `InvalidValue`, and adds nothing, where an event within `event` has no known
        dominating pairs.
        """
        releases = _releases_of(event, require_count("count", count, minimum=0))
        # Nothing is added before every part has its pairs.
        self._compose_renyi(event, num_times=count)
        self._steps += releases.repeated_steps
        self._tuned_releases += releases.tuned_releases
        if releases.mu_squared:
            self._mu_squared = _rounded_up(self._mu_squared + releases.mu_squared)
        if releases.mu_squared_of_winner_counts:
            self._mu_squared_of_winner_counts = _rounded_up(
                self._mu_squared_of_winner_counts + releases.mu_squared_of_winner_counts
            )
        self._ways = {}
        return self

    def work(self) -> int:
        """Returns the estimated time of the first epsilon or delta, in quarters of the time of one ordinary release.

        The composition of an ordinary release takes some milliseconds, and that of a winner two and a half times as
        long, which quarters state as an integer.
        """
        repeated_steps = tuple(self._steps)
        maxima = {
            step_pairs for step_pairs, _ in repeated_steps if isinstance(step_pairs, NoisyMaximum)
        }
        work_of_maxima = _WORK_OF_MAXIMUM * len(maxima)
        composes_one_by_one = not self.in_blocks or are_composed_one_by_one(repeated_steps)
        if composes_one_by_one and not self.any_event_order:
            return work_of_maxima + sum(
                num_times * work_of_step(step_pairs) for step_pairs, num_times in repeated_steps
            )
        return work_of_maxima + work_in_blocks(repeated_steps, any_event_order=self.any_event_order)

    def _epsilon(self, target_delta: float, renyi_epsilon: float) -> float:
        if self._tuned_releases:
            tuning = self._tuning_alone()
            return math.inf if tuning is None else tuning.get_epsilon(target_delta)
        # Each way gives a bound, which is that of the worse of its two directions. So the smallest of them holds.
        epsilon_bounds = [
            max(total.epsilon(target_delta) for total in totals)
            for totals in self._ways_to_compose(smallest_delta=target_delta * _MARGIN)
        ]
        return min(epsilon_bounds) * (1 + _BOUND_ROUNDING)

    def _delta(self, target_epsilon: float, renyi_delta: float) -> float:
        if self._tuned_releases:
            tuning = self._tuning_alone()
            return 1.0 if tuning is None else tuning.get_delta(target_epsilon)
        delta_bounds = [
            max(total.delta(target_epsilon) for total in totals)
            for totals in self._ways_to_compose(smallest_delta=renyi_delta * _RENYI_MARGIN)
        ]
        return min(delta_bounds)

    def _tuning_alone(self) -> TuningAccountant | None:
        """Returns an accountant with the tuned release as its only event; None where there are other events."""
        if len(self._tuned_releases) > 1 or self._steps or self._mu_squared:
            return None
        return TuningAccountant(candidate_accountant=ExactAccountant).compose(
            self._tuned_releases[0]
        )

    def _ways_to_compose(self, *, smallest_delta: float) -> list[list[_GaussianTotal | _GridTotal]]:
        """Returns the totals of all events for each way to compose them, one total for each direction.

        A direction is an order of the two neighbors. The first way composes the winner of noisy counts by its own
        pairs. The second way, which is left out without winners, composes it as a Gaussian release of all counts. Both
        ways give a bound, so the smaller one holds. Of the directions of one way the larger total is the bound.

        Args:
            smallest_delta: the smallest delta for which the profiles have to be accurate. It is rounded down to one of
                a few levels, so that one profile answers many calls.
        """
        level_deltas = (10.0**-level for level in _LEVELS)
        smallest_accurate_delta = next(
            (delta for delta in level_deltas if delta <= smallest_delta), None
        )
        # The search for one point of a trade-off curve asks for dozens of deltas, nearly all at one level.
        if smallest_accurate_delta not in self._ways:
            mu = _rounded_up(math.sqrt(self._mu_squared))
            ways = [
                self._totals(self._steps, mu=mu, smallest_accurate_delta=smallest_accurate_delta)
            ]
            if self._mu_squared_of_winner_counts:
                mu_squared = _rounded_up(self._mu_squared + self._mu_squared_of_winner_counts)
                mu = _rounded_up(math.sqrt(mu_squared))
                repeated_steps = [
                    step for step in self._steps if not isinstance(step.pairs, WinnerPairs)
                ]
                ways.append(
                    self._totals(
                        repeated_steps, mu=mu, smallest_accurate_delta=smallest_accurate_delta
                    )
                )
            self._ways[smallest_accurate_delta] = ways
        return self._ways[smallest_accurate_delta]

    def _totals(
        self,
        repeated_steps: list[RepeatedStep],
        *,
        mu: float,
        smallest_accurate_delta: float | None,
    ) -> list[_GaussianTotal | _GridTotal]:
        """Returns the totals of some releases and a Gaussian release, one for each direction between two neighbors.

        The directions are the two orders (D, D') and (D', D) of neighbors. They differ only where a sampled Gaussian
        adds or removes a unit; otherwise the list has one total.

        Args:
            repeated_steps: the releases other than Gaussian ones, with the pairs of distributions that dominate them.
            mu: the mu of all Gaussian releases together, >= 0.
            smallest_accurate_delta: the smallest delta for which the totals are accurate. None makes them infinite
                where there are steps.
        """
        if not repeated_steps:
            return [_GaussianTotal(mu)]
        # A sampled Gaussian costs something else if the two neighbors are exchanged. A unit is added at all steps or
        # removed at all steps, so all steps are exchanged together.
        exchanged_steps = [
            RepeatedStep(pairs=step.pairs.exchanged, num_times=step.num_times)
            if isinstance(step.pairs, SampledPair)
            else step
            for step in repeated_steps
        ]
        directions = (
            [repeated_steps]
            if exchanged_steps == repeated_steps
            else [repeated_steps, exchanged_steps]
        )
        return [
            _GridTotal(
                self._profile(
                    direction_steps, mu=mu, smallest_accurate_delta=smallest_accurate_delta
                )
            )
            for direction_steps in directions
        ]

    def _profile(
        self,
        repeated_steps: list[RepeatedStep],
        *,
        mu: float,
        smallest_accurate_delta: float | None,
    ) -> Profile | None:
        """Returns the privacy profile of some releases and a Gaussian release; None where no grid can hold it.

        Args:
            repeated_steps: the releases other than Gaussian ones, with the pairs of distributions that dominate them.
            mu: the mu of all Gaussian releases together, >= 0.
            smallest_accurate_delta: the smallest delta for which the profile is accurate. None stands for a delta that
                no profile reaches, and the function then returns None.
        """
        if smallest_accurate_delta is None:
            return None
        ordered_steps = _with_fixed_pairs_first(repeated_steps, mu=mu)
        epsilons = rdp_to_epsilons(
            self._rdp.orders, self._rdp.rdp, target_delta=smallest_accurate_delta
        )
        # Beyond the sum of the largest losses delta is 0.
        sum_of_losses = math.fsum(
            num_times * largest_loss(step_pairs, loss_if_unbounded=math.inf)
            for step_pairs, num_times in ordered_steps
        )
        largest_epsilon = min(float(epsilons.min()), sum_of_losses)
        if not _SMALLEST_REACH < largest_epsilon < _LARGEST_REACH:
            return None
        return compose_steps(
            ordered_steps,
            largest_epsilon=largest_epsilon,
            smallest_delta=smallest_accurate_delta,
            in_blocks=self.in_blocks,
            any_event_order=self.any_event_order,
        )


class _Releases(NamedTuple):
    """The releases of an event, by the way in which they are composed.

    Attributes:
        repeated_steps: the releases that are composed on a grid, in their order.
        tuned_releases: the tuned releases.
        mu_squared: mu^2 of all Gaussian releases together. Gaussian releases of mu_1, mu_2, … cost as much as one
            release with mu^2 = mu_1^2 + mu_2^2 + … (Dong, Roth & Su 2022).
        mu_squared_of_winner_counts: mu^2 of all winners of noisy counts, if every winner is priced as the release of
            its counts. The winners are among the steps, too.
    """

    repeated_steps: list[RepeatedStep]
    tuned_releases: list[events.TuningEvent]
    mu_squared: float
    mu_squared_of_winner_counts: float


def _releases_of(event: Event, count: int) -> _Releases:
    """Returns the releases of an event that is released `count` times.

    Releases that cost nothing are left out. So are releases without protection, for which `LossAccountant` returns the
    Renyi bound, which is infinite.

    Raises `InvalidValue` where an event within `event` has no known dominating pairs.
    """
    repeated_steps: list[RepeatedStep] = []
    tuned_releases: list[events.TuningEvent] = []
    mu_squared = 0.0
    mu_squared_of_winner_counts = 0.0
    for leaf, num_times in _leaves_in_order(event=priced_by_accesses(event), num_releases=count):
        if num_times == 0 or _has_no_protection(leaf):
            continue
        if isinstance(leaf, events.TuningEvent):
            tuned_releases += [leaf] * num_times
            continue
        if isinstance(leaf, events.GaussianEvent):
            added_mu_squared = _mu_squared(leaf.noise_multiplier, num_releases=num_times)
            mu_squared = _rounded_up(mu_squared + added_mu_squared)
            continue
        step_pairs = dominating_pairs(leaf)
        if step_pairs is not None:
            repeated_steps.append(RepeatedStep(pairs=step_pairs, num_times=num_times))
        if isinstance(leaf, events.WinnerEvent):
            num_counts = leaf.num_moving * num_times
            mu_squared_of_counts = _mu_squared(leaf.noise_multiplier, num_releases=num_counts)
            mu_squared_of_winner_counts = _rounded_up(
                mu_squared_of_winner_counts + mu_squared_of_counts
            )
    return _Releases(
        repeated_steps=repeated_steps,
        tuned_releases=tuned_releases,
        mu_squared=mu_squared,
        mu_squared_of_winner_counts=mu_squared_of_winner_counts,
    )


def _with_fixed_pairs_first(repeated_steps: list[RepeatedStep], *, mu: float) -> Steps:
    """Returns steps (releases) in the order of their composition: Gaussians, fixed pairs, and then all others.

    A fixed pair is a single pair of distributions that dominates a release (`FixedPair`). All Gaussians become one
    step, and all releases with the same fixed pair become one repeated step. The others keep their order.

    Args:
        repeated_steps: the releases other than Gaussian ones, with the pairs that dominate them.
        mu: the mu of all Gaussian releases together, >= 0.
    """
    gaussian_steps = []
    if mu > 0:
        gaussian_pair = ShiftedMaximum(num_normals=1, shift_of_maximum=mu)
        gaussian_steps.append(RepeatedStep(pairs=gaussian_pair, num_times=1))
    times_of_fixed_pair: Counter[DominatingPairs] = Counter()
    for step_pairs, num_times in repeated_steps:
        if isinstance(step_pairs, FixedPair):
            times_of_fixed_pair[step_pairs] += num_times
    fixed_steps = [
        RepeatedStep(pairs=step_pairs, num_times=num_times)
        for step_pairs, num_times in times_of_fixed_pair.items()
    ]
    other_steps = [step for step in repeated_steps if step.pairs not in times_of_fixed_pair]
    return (*gaussian_steps, *fixed_steps, *other_steps)


def _has_no_protection(leaf: LeafEvent) -> bool:
    """Returns True for an event whose price is infinite: no pair of distributions bounds its losses."""
    match leaf:
        case events.NonPrivateEvent():
            return True
        case (
            events.GaussianEvent()
            | events.NoisyMaxGaussianEvent()
            | events.SampledGaussianEvent()
            | events.SmoothSensitivityEvent()
            | events.WinnerEvent()
        ):
            return leaf.noise_multiplier == 0
        case events.BoundedRangeEvent() | events.PureDpEvent():
            return leaf.epsilon == math.inf
    return False


def _mu_squared(noise_multiplier: float, num_releases: int) -> float:
    """Returns mu^2 = num_releases / noise_multiplier^2 of several Gaussian releases together, rounded up."""
    mu_squared = max(num_releases / noise_multiplier / noise_multiplier, _SMALLEST_ACCURATE)
    return _rounded_up(_rounded_up(mu_squared))  # two divisions, each with a rounding error


def _rounded_up(unrounded: float) -> float:
    """Returns the next larger float, which covers one rounding error; returns 0 for 0."""
    return math.nextafter(unrounded, math.inf) if unrounded else unrounded


def _leaves_in_order(event: Event, num_releases: int) -> Iterator[tuple[LeafEvent, int]]:
    """Yields the leaves of an event in the order of their releases, each with its number of releases in a row.

    A leaf is an event that is not composed of others.

    Args:
        event: the event.
        num_releases: the number of times that the event is released.
    """
    if isinstance(event, LeafEvent):
        yield event, num_releases
    elif isinstance(event, events.ApproximateEvent):
        yield from _leaves_in_order(event=event.event, num_releases=num_releases)
    elif isinstance(event, events.SelfComposedEvent) and isinstance(event.event, LeafEvent):
        yield event.event, num_releases * event.count
    elif isinstance(event, events.SelfComposedEvent):
        for _ in range(num_releases * event.count):
            yield from _leaves_in_order(event=event.event, num_releases=1)
    elif isinstance(event, events.ComposedEvent):
        for _ in range(num_releases):
            for part_event in event.events:
                if isinstance(part_event, LeafEvent):
                    yield part_event, 1
                else:
                    yield from _leaves_in_order(event=part_event, num_releases=1)
