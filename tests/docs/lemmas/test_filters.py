"""Privacy filters and totals of accountants, by docs/proofs/filters.md, against the best adaptive adversary's delta."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import (
    Accountant,
    Event,
    Ledger,
    NoOpEvent,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    gaussian_delta,
)
from pate.accounting.conversion import conversion_penalty
from pate.accounting.filters import (
    GaussianAndRenyi,
    GaussianFilter,
    PrivacyFilter,
    RenyiFilter,
    Spent,
)

LOSS_STEP = 0.2  # the losses of all releases are multiples of it
STEPS_OF_RELEASES = (1, 5, 15)  # the epsilons of releases in steps
MAX_COUNTS_OF_RELEASES = (40, 6, 4)  # the largest number of releases at each epsilon
EPSILONS = tuple(unit * LOSS_STEP for unit in STEPS_OF_RELEASES)
Counts = tuple[int, ...]
"""The numbers of releases at each of `EPSILONS`."""


def largest_adaptive_delta(is_admitted: Callable[[Counts], bool], cap_epsilon: float) -> float:
    """Returns the largest delta at the epsilon of a cap, for an adversary who chooses releases one by one.

    The adversary chooses each release after the outcomes so far. Every release is randomized response with one of the
    epsilons in `EPSILONS`, the worst pair of that price. After every outcome the adversary stops or picks the next
    release. The numbers of releases at each epsilon must be admitted, and are limited by `MAX_COUNTS_OF_RELEASES`.
    Delta is the mean of (1 - e^(cap - loss))^+, and is computed backwards over the numbers of releases, with all losses
    at once.
    """
    most_steps = sum(
        epsilon_in_steps * max_count
        for epsilon_in_steps, max_count in zip(
            STEPS_OF_RELEASES, MAX_COUNTS_OF_RELEASES, strict=True
        )
    )
    losses = np.arange(-most_steps, most_steps + 1) * LOSS_STEP
    all_counts_of_releases = itertools.product(
        *(range(max_count + 1) for max_count in MAX_COUNTS_OF_RELEASES)
    )
    deltas_by_counts: dict[Counts, np.ndarray] = {}
    for counts_of_releases in sorted(all_counts_of_releases, key=sum, reverse=True):
        if not is_admitted(counts_of_releases):
            continue
        deltas_of_losses = np.maximum(0.0, -np.expm1(cap_epsilon - losses))
        for index, epsilon_in_steps in enumerate(STEPS_OF_RELEASES):
            counts_with_one_more = (
                *counts_of_releases[:index],
                counts_of_releases[index] + 1,
                *counts_of_releases[index + 1 :],
            )
            next_deltas_of_losses = deltas_by_counts.get(counts_with_one_more)
            if next_deltas_of_losses is not None:
                truth_prob = 1 / (1 + math.exp(-epsilon_in_steps * LOSS_STEP))
                after_truth = np.append(
                    next_deltas_of_losses[epsilon_in_steps:], np.ones(epsilon_in_steps)
                )
                after_lie = np.append(
                    np.zeros(epsilon_in_steps), next_deltas_of_losses[:-epsilon_in_steps]
                )
                deltas_of_losses = np.maximum(
                    deltas_of_losses, truth_prob * after_truth + (1 - truth_prob) * after_lie
                )
        deltas_by_counts[counts_of_releases] = deltas_of_losses
    deltas_before_any_release = deltas_by_counts[0, 0, 0]
    index_of_zero_loss = most_steps
    return float(deltas_before_any_release[index_of_zero_loss])


def admit_by_total(
    make_accountant: Callable[[], Accountant], *, cap_epsilon: float, delta: float
) -> Callable[[Counts], bool]:
    """Returns a rule that admits numbers of releases at each epsilon if an accountant's total is within the cap."""

    def is_admitted(counts_of_releases: Counts) -> bool:
        accountant = make_accountant()
        for epsilon, count in zip(EPSILONS, counts_of_releases, strict=True):
            accountant.compose(PureDpEvent(epsilon=epsilon), count=count)
        return accountant.get_epsilon(target_delta=delta) <= cap_epsilon

    return is_admitted


def admit_by_filter(privacy_filter: PrivacyFilter) -> Callable[[Counts], bool]:
    """Returns a rule that admits numbers of releases at each epsilon if a filter admits their sum."""
    prices = [privacy_filter.price(PureDpEvent(epsilon=epsilon)) for epsilon in EPSILONS]

    def is_admitted(counts_of_releases: Counts) -> bool:
        spent = Spent()
        for price, count in zip(prices, counts_of_releases, strict=True):
            spent = spent.plus(price, num_times=count)
        return privacy_filter.admits(spent, event=NoOpEvent())

    return is_admitted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_accountant", "excess"), [(PureDpAccountant, 1.9), (RdpAccountant, 1.05)]
)
def test_an_adaptive_adversary_breaks_a_cap_on_the_total(
    make_accountant: Callable[[], Accountant], excess: float
) -> None:
    """An adversary who chooses each release after earlier outcomes has over `excess` times delta at the cap.

    The adversary goes on as long as the accountant's total is within the cap. Each path keeps the cap, but their
    mixture does not.
    """
    cap_epsilon = 4.0
    delta = 1e-2
    is_admitted = admit_by_total(make_accountant, cap_epsilon=cap_epsilon, delta=delta)
    assert largest_adaptive_delta(is_admitted, cap_epsilon=cap_epsilon) > excess * delta


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_filter",
    [
        RenyiFilter,
        GaussianFilter,
        GaussianAndRenyi,
        partial(RenyiFilter, order=5.0),
        partial(RenyiFilter, order=20.0),
    ],
)
@pytest.mark.parametrize("cap_epsilon", [4.0, 1.2])
def test_an_adaptive_adversary_keeps_the_cap_of_a_filter(
    make_filter: Callable[..., PrivacyFilter], cap_epsilon: float
) -> None:
    """If a filter admits the releases of an adaptive adversary, its delta at the cap is at most the filter's.

    At the larger cap it is more than a hundredth of that (a thousandth for the Gaussian filter).
    """
    delta = 1e-2
    privacy_filter = make_filter(max_epsilon=cap_epsilon, target_delta=delta)
    reached_delta = largest_adaptive_delta(admit_by_filter(privacy_filter), cap_epsilon=cap_epsilon)
    assert reached_delta <= delta
    if cap_epsilon > 2:
        # a Gaussian filter counts pure releases as Gaussians, which is loose
        share = 1 / 1000 if make_filter is GaussianFilter else 1 / 100
        assert reached_delta > share * delta, "the adversary reaches a part of delta"


class HalvingFilter(RenyiFilter):
    """A wrong filter that counts half of each event's cost."""

    def amount(self, event: object) -> float:
        return super().amount(event) / 2  # type: ignore[arg-type]


class QuarteringFilter(GaussianAndRenyi):
    """A wrong filter that counts a quarter of each event's mu squared."""

    def price(self, event: Event) -> Spent:
        price = super().price(event)
        return replace(price, second_amount=price.second_amount / 4)


@pytest.mark.slow
@pytest.mark.parametrize("make_filter", [HalvingFilter, QuarteringFilter])
def test_a_filter_that_counts_less_fails(make_filter: Callable[..., PrivacyFilter]) -> None:
    """Negative control: if half of the cost is counted, or a quarter of mu squared, the adversary exceeds delta."""
    wrong_filter = make_filter(max_epsilon=4.0, target_delta=1e-2)
    assert largest_adaptive_delta(admit_by_filter(wrong_filter), cap_epsilon=4.0) > 1e-2


def test_one_order_bounds_the_hockey_stick_by_a_power_of_the_ratio() -> None:
    """(x - e^cap)_+ <= delta x^a exp(-(a - 1) budget) holds for each ratio x at a Renyi order a, and is attained.

    The budget is the Renyi divergence of order a that converts to epsilon = cap at delta. The bound on the stopped
    supermartingale follows. 50 random orders, caps and deltas are tried.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        renyi_order = rng.uniform(low=1.1, high=40)
        cap_epsilon = rng.uniform(low=0.2, high=8)
        delta = 10 ** rng.uniform(low=-9, high=-1)
        rdp_budget = cap_epsilon - float(
            conversion_penalty(np.array([renyi_order]), target_delta=delta)[0]
        )
        log_ratios = np.linspace(-5, cap_epsilon + 20, 4001)
        log_bound = np.log(delta) + renyi_order * log_ratios - (renyi_order - 1) * rdp_budget
        with np.errstate(divide="ignore"):
            log_stick = log_ratios + np.log(-np.expm1(np.minimum(cap_epsilon - log_ratios, 0)))
        assert (log_stick <= log_bound + 1e-9).all()
        assert (log_stick - log_bound).max() > -0.02, "the bound is attained"


def largest_delta_of_two_gaussians(
    *, first_mu: float, mu_squared_budget: float, cap_epsilon: float
) -> float:
    """Returns the largest delta at `cap_epsilon` of two Gaussians; the first's outcome decides the second.

    The first has mu `first_mu`. The squares of both mus sum to at most `mu_squared_budget`. The adversary may also stop
    after the first.
    """
    outcomes = np.linspace(-9, 9, 4001)
    outcome_probs = norm.pdf(outcomes) * 18 / 4000
    losses = first_mu * outcomes + first_mu * first_mu / 2
    largest_deltas_of_outcomes = np.maximum(0.0, -np.expm1(cap_epsilon - losses))
    second_mus_squared = np.linspace(0, mu_squared_budget - first_mu * first_mu, 12)[1:]
    for second_mu in np.sqrt(second_mus_squared):
        upper = (losses - cap_epsilon) / second_mu + second_mu / 2
        lower = (losses - cap_epsilon) / second_mu - second_mu / 2
        deltas_of_outcomes = norm.cdf(upper) - np.exp(cap_epsilon - losses) * norm.cdf(lower)
        largest_deltas_of_outcomes = np.maximum(largest_deltas_of_outcomes, deltas_of_outcomes)
    return float(outcome_probs @ largest_deltas_of_outcomes)


@pytest.mark.slow
@pytest.mark.parametrize(("cap_epsilon", "delta"), [(4.0, 1e-6), (1.0, 1e-3)])
def test_a_sum_of_mu_squared_bounds_adaptive_gaussians(cap_epsilon: float, delta: float) -> None:
    """If the first Gaussian's outcome decides the second, delta is that of one Gaussian with the whole budget.

    The budget limits the sum of mu squared, and the delta is at most the filter's. With 10% more budget the adversary
    exceeds 1.2 times the filter's delta.
    """
    budget = GaussianFilter(max_epsilon=cap_epsilon, target_delta=delta).budget
    delta_of_one_gaussian = gaussian_delta(mu=math.sqrt(budget), epsilon=cap_epsilon)
    for share_of_first in (0.1, 0.5, 0.9):
        delta_within_budget, delta_beyond_budget = (
            largest_delta_of_two_gaussians(
                first_mu=math.sqrt(share_of_first * budget),
                mu_squared_budget=mu_squared_budget,
                cap_epsilon=cap_epsilon,
            )
            for mu_squared_budget in (budget, 1.1 * budget)
        )
        assert delta_within_budget <= delta * (1 + 1e-6)
        assert delta_within_budget == pytest.approx(delta_of_one_gaussian, rel=1e-4), (
            "it is attained"
        )
        assert delta_beyond_budget > 1.2 * delta


def delta_of_stopping(*, epsilon_per_release: float, epsilon_bounds: list[float]) -> float:
    """Returns the delta of an adversary who decides after each release whether to stop.

    If it stops after t releases, the loss counts above `epsilon_bounds[t]`. Each release is randomized response of
    epsilon `epsilon_per_release`. The better of stopping and going on is taken, backwards from the last release, with
    all losses at once.
    """
    max_releases = len(epsilon_bounds) - 1
    losses = np.arange(-max_releases, max_releases + 1) * epsilon_per_release
    truth_prob = 1 / (1 + math.exp(-epsilon_per_release))
    deltas_of_losses = np.maximum(0.0, -np.expm1(epsilon_bounds[max_releases] - losses))
    for num_releases in range(max_releases - 1, -1, -1):
        after_truth = np.append(deltas_of_losses[1:], 1.0)
        after_lie = np.append(0.0, deltas_of_losses[:-1])
        deltas_if_stopped = np.maximum(0.0, -np.expm1(epsilon_bounds[num_releases] - losses))
        deltas_if_continued = truth_prob * after_truth + (1 - truth_prob) * after_lie
        deltas_of_losses = np.maximum(deltas_if_stopped, deltas_if_continued)
    index_of_zero_loss = max_releases
    return float(deltas_of_losses[index_of_zero_loss])


@pytest.mark.slow
def test_a_cap_but_no_total_bounds_adaptive_stopping() -> None:
    """An adversary who stops adaptively has over 3 times delta at the accountant's total for its number of releases.

    At the cap of the ledger it has at most delta. If the number of releases is fixed, the total is exact.
    """
    epsilon = 0.2
    event = PureDpEvent(epsilon=epsilon)
    delta = 1e-3
    ledger = Ledger(target_delta=delta, max_epsilon=6.0, accountant=PureDpAccountant)
    totals = [0.0]
    while len(totals) <= 60 and ledger.affords(event):
        ledger.charge(event, adjacency=ledger.adjacency)
        totals.append(ledger.spent_epsilon)
    assert len(totals) > 20
    stopping_at_the_end = [math.inf] * (len(totals) - 1) + [totals[-1]]
    delta_of_fixed_num_releases, delta_at_totals, delta_at_cap = (
        delta_of_stopping(epsilon_per_release=epsilon, epsilon_bounds=epsilon_bounds)
        for epsilon_bounds in (stopping_at_the_end, totals, [6.0] * len(totals))
    )
    assert delta_of_fixed_num_releases == pytest.approx(delta, rel=0.02), "the total is exact"
    assert delta_at_totals > 3 * delta, "spent_epsilon is for prices that were fixed beforehand"
    assert ledger.guaranteed_epsilon == 6.0
    assert delta_at_cap <= delta


def test_a_release_at_the_whole_cap_leaves_room_for_none() -> None:
    """The ledger admits a first release that costs the whole cap, 40 randomized responses, and nothing after it.

    Negative control: one more adaptive release would exceed delta.
    """
    epsilon_of_response = 0.2
    num_responses = 40
    delta = 1e-3
    first_event = SelfComposedEvent(PureDpEvent(epsilon=epsilon_of_response), count=num_responses)
    cap = PureDpAccountant().compose(first_event).get_epsilon(target_delta=delta)
    assert not RenyiFilter(max_epsilon=cap, target_delta=delta).admits(Spent(), event=first_event)
    ledger = Ledger(target_delta=delta, max_epsilon=cap, accountant=PureDpAccountant)
    assert ledger.affords(first_event) == 1
    ledger.charge(first_event, adjacency=ledger.adjacency)
    assert (
        ledger.affords(PureDpEvent(epsilon=epsilon_of_response)) == ledger.affords(NoOpEvent()) == 0
    )
    without_stopping = [math.inf] * num_responses
    delta_of_first, delta_of_one_more = (
        delta_of_stopping(epsilon_per_release=epsilon_of_response, epsilon_bounds=epsilon_bounds)
        for epsilon_bounds in ([*without_stopping, cap], [*without_stopping, cap, cap])
    )
    assert delta_of_first == pytest.approx(delta, rel=0.02)
    assert delta_of_one_more > 1.05 * delta
