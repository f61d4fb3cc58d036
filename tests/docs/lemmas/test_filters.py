"""Filters by docs/proofs/filters.md: exact deltas of the best adaptive adversary, against filters and totals."""

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

STEP = 0.2
UNITS = (1, 5, 15)
MOST = (40, 6, 4)
EPSILONS = tuple(unit * STEP for unit in UNITS)
Counts = tuple[int, ...]


def worst_delta(admits: Callable[[Counts], bool], cap: float) -> float:
    """Returns the largest delta at epsilon `cap` of an adversary who chooses each release after the outcomes so far.

    Every release is randomized response with one of the epsilons in `EPSILONS`, the worst pair of that price. After
    every outcome the adversary stops or picks the next release, as long as `admits` is true of the numbers of releases
    at each epsilon, which are limited by `MOST`. Delta is the mean of (1 - e^(cap - loss))^+. It is computed backwards
    over the numbers of releases, with all losses at once.
    """
    reach = sum(unit * most for unit, most in zip(UNITS, MOST, strict=True))
    losses = np.arange(-reach, reach + 1) * STEP
    values: dict[Counts, np.ndarray] = {}
    for counts in sorted(
        itertools.product(*(range(most + 1) for most in MOST)), key=lambda counts: -sum(counts)
    ):
        if not admits(counts):
            continue
        value = np.maximum(0.0, -np.expm1(cap - losses))
        for place, unit in enumerate(UNITS):
            after = values.get(
                tuple(count + (other == place) for other, count in enumerate(counts))
            )
            if after is not None:
                truth = 1 / (1 + math.exp(-unit * STEP))
                higher = np.append(after[unit:], np.ones(unit))
                lower = np.append(np.zeros(unit), after[:-unit])
                value = np.maximum(value, truth * higher + (1 - truth) * lower)
        values[counts] = value
    return float(values[0, 0, 0][reach])


def by_total(
    make_accountant: Callable[[], Accountant], *, cap_epsilon: float, delta: float
) -> Callable[[Counts], bool]:
    """Returns a rule that admits numbers of releases at each epsilon if an accountant's total epsilon is within the
    cap.
    """

    def admits(counts: Counts) -> bool:
        accountant = make_accountant()
        for epsilon, count in zip(EPSILONS, counts, strict=True):
            accountant.compose(PureDpEvent(epsilon), count)
        return accountant.get_epsilon(target_delta=delta) <= cap_epsilon

    return admits


def by_filter(filter_of_cap: PrivacyFilter) -> Callable[[Counts], bool]:
    """Returns a rule that admits numbers of releases at each epsilon if a filter admits their sum."""
    prices = [filter_of_cap.price(PureDpEvent(epsilon)) for epsilon in EPSILONS]

    def admits(counts: Counts) -> bool:
        spent = Spent()
        for price, count in zip(prices, counts, strict=True):
            spent = spent.plus(price, num_times=count)
        return filter_of_cap.admits(spent, event=NoOpEvent())

    return admits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "cap", "delta", "excess"),
    [(PureDpAccountant, 4.0, 1e-2, 1.9), (RdpAccountant, 4.0, 1e-2, 1.05)],
)
def test_an_adaptive_adversary_breaks_a_cap_on_the_total(
    make: Callable[[], Accountant], cap: float, delta: float, excess: float
) -> None:
    """An adversary who chooses each release after earlier outcomes has over `excess` times delta at the cap.

    It chooses as long as the accountant's total is within the cap: each path keeps the cap, but their mixture does not.
    """
    assert (
        worst_delta(admits=by_total(make, cap_epsilon=cap, delta=delta), cap=cap) > excess * delta
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        RenyiFilter,
        GaussianFilter,
        GaussianAndRenyi,
        partial(RenyiFilter, order=5.0),
        partial(RenyiFilter, order=20.0),
    ],
)
@pytest.mark.parametrize(("cap", "delta"), [(4.0, 1e-2), (1.2, 1e-2)])
def test_an_adaptive_adversary_keeps_the_cap_of_a_filter(
    kind: Callable[[float, float], PrivacyFilter], cap: float, delta: float
) -> None:
    """The adversary of `worst_delta`, admitted by a filter, has at most delta at the cap.

    At the larger cap it has more than a hundredth of delta (a thousandth for the Gaussian filter).
    """
    filter_of_kind = kind(cap, delta)
    delta_reached = worst_delta(admits=by_filter(filter_of_kind), cap=cap)
    assert delta_reached <= delta
    if cap > 2:
        # a Gaussian filter counts pure releases as Gaussians, which is loose
        least = delta / 1000 if kind is GaussianFilter else delta / 100
        assert delta_reached > least, "the adversary reaches a part of delta"


class Doubled(RenyiFilter):
    """A wrong filter that counts half of each event's cost."""

    def amount(self, event: object) -> float:
        return super().amount(event) / 2  # type: ignore[arg-type]


class Quartered(GaussianAndRenyi):
    """A wrong filter that counts a quarter of each event's mu squared."""

    def price(self, event: Event) -> Spent:
        price = super().price(event)
        return replace(price, second_amount=price.second_amount / 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Doubled, Quartered])
def test_a_filter_that_counts_less_fails(kind: Callable[[float, float], PrivacyFilter]) -> None:
    """Negative control: with a filter that counts half of the cost, or a quarter of mu squared, the
    adversary exceeds delta.
    """
    assert worst_delta(admits=by_filter(kind(4.0, 1e-2)), cap=4.0) > 1e-2


def test_one_order_bounds_the_hockey_stick_by_a_power_of_the_ratio() -> None:
    """(x - e^cap)_+ <= delta x^a exp(-(a - 1) budget) for all x at one Renyi order a, and the bound
    is attained.

    This is the bound of the stopped supermartingale.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        order = rng.uniform(1.1, 40)
        cap = rng.uniform(0.2, 8)
        delta = 10 ** rng.uniform(-9, -1)
        budget = cap - float(conversion_penalty(np.array([order]), target_delta=delta)[0])
        log_x = np.linspace(-5, cap + 20, 4001)
        bound = np.log(delta) + order * log_x - (order - 1) * budget
        with np.errstate(divide="ignore"):
            stick = log_x + np.log(-np.expm1(np.minimum(cap - log_x, 0)))
        assert (stick <= bound + 1e-9).all()
        assert (stick - bound).max() > -0.02, "the bound is attained"


def best_second_gaussian(first_mu: float, mu_squared_budget: float, cap_epsilon: float) -> float:
    """Returns the largest delta at epsilon `cap_epsilon` of a Gaussian and a second one chosen after its outcome.

    The first has mu `first_mu`. The squares of both mus sum to at most `mu_squared_budget`. The adversary may also stop
    after the first.
    """
    loss = first_mu * np.linspace(-9, 9, 4001) + first_mu * first_mu / 2
    weights = norm.pdf(np.linspace(-9, 9, 4001)) * 18 / 4000
    best = np.maximum(0.0, -np.expm1(cap_epsilon - loss))
    for second in np.sqrt(np.linspace(0, mu_squared_budget - first_mu * first_mu, 12)[1:]):
        upper = (loss - cap_epsilon) / second + second / 2
        lower = (loss - cap_epsilon) / second - second / 2
        best = np.maximum(best, norm.cdf(upper) - np.exp(cap_epsilon - loss) * norm.cdf(lower))
    return float(weights @ best)


@pytest.mark.slow
@pytest.mark.parametrize(("cap", "delta"), [(4.0, 1e-6), (1.0, 1e-3)])
def test_a_sum_of_mu_squared_bounds_adaptive_gaussians(cap: float, delta: float) -> None:
    """An adversary chooses a second Gaussian after the outcome of the first, within a filter's budget for sums of mu
    squared.

    Its delta at the cap is that of one Gaussian of the whole budget, at most the filter's delta. With 10% more budget
    it exceeds 1.2 times delta.
    """
    budget = GaussianFilter(max_epsilon=cap, target_delta=delta).budget
    for share in (0.1, 0.5, 0.9):
        delta_reached = best_second_gaussian(
            first_mu=math.sqrt(share * budget), mu_squared_budget=budget, cap_epsilon=cap
        )
        assert delta_reached <= delta * (1 + 1e-6)
        assert delta_reached == pytest.approx(
            gaussian_delta(math.sqrt(budget), epsilon=cap), rel=1e-4
        ), "the bound is attained"
        assert (
            best_second_gaussian(
                first_mu=math.sqrt(share * budget), mu_squared_budget=1.1 * budget, cap_epsilon=cap
            )
            > 1.2 * delta
        )


def delta_of_stopping(epsilon_per_release: float, epsilon_bounds: list[float]) -> float:
    """Returns the delta of an adversary who stops adaptively, at the epsilon `epsilon_bounds[t]` if after t releases.

    Every release is randomized response of epsilon `epsilon_per_release`. After each outcome the better of stopping and
    going on is taken, backwards from the last release, with all losses at once.
    """
    most = len(epsilon_bounds) - 1
    losses = np.arange(-most, most + 1) * epsilon_per_release
    truth = 1 / (1 + math.exp(-epsilon_per_release))
    value = np.maximum(0.0, -np.expm1(epsilon_bounds[most] - losses))
    for number in range(most - 1, -1, -1):
        higher = np.append(value[1:], 1.0)
        lower = np.append(0.0, value[:-1])
        stopped = np.maximum(0.0, -np.expm1(epsilon_bounds[number] - losses))
        value = np.maximum(stopped, truth * higher + (1 - truth) * lower)
    return float(value[most])


@pytest.mark.slow
def test_a_cap_but_no_total_bounds_adaptive_stopping() -> None:
    """An adversary who stops adaptively has over 3 times delta at the accountant's total for its number of releases.

    At the cap of the ledger it has at most delta. For a fixed number of releases, the total is exact.
    """
    step = 0.2
    most = 60
    delta = 1e-3
    ledger = Ledger(target_delta=delta, max_epsilon=6.0, accountant=PureDpAccountant)
    totals = [0.0]
    while len(totals) <= most and ledger.affords(PureDpEvent(epsilon=step)):
        ledger.charge(PureDpEvent(epsilon=step), adjacency=ledger.adjacency)
        totals.append(ledger.spent_epsilon)
    assert len(totals) > 20
    fixed = [math.inf] * (len(totals) - 1) + [totals[-1]]
    assert delta_of_stopping(epsilon_per_release=step, epsilon_bounds=fixed) == pytest.approx(
        delta, rel=0.02
    ), "the delta of a fixed number is exact"
    assert delta_of_stopping(epsilon_per_release=step, epsilon_bounds=totals) > 3 * delta, (
        "spent_epsilon is for prices that were fixed beforehand"
    )
    assert ledger.guaranteed_epsilon == 6.0
    assert delta_of_stopping(epsilon_per_release=step, epsilon_bounds=[6.0] * len(totals)) <= delta


def test_a_release_at_the_whole_cap_leaves_room_for_none() -> None:
    """A first release of 40 randomized responses costs the whole cap and is admitted by the ledger; nothing more is.

    Negative control: one more adaptive release would exceed delta.
    """
    step = 0.2
    count = 40
    delta = 1e-3
    first = SelfComposedEvent(PureDpEvent(epsilon=step), count)
    cap = PureDpAccountant().compose(first).get_epsilon(target_delta=delta)
    assert not RenyiFilter(max_epsilon=cap, target_delta=delta).admits(Spent(), event=first)
    ledger = Ledger(target_delta=delta, max_epsilon=cap, accountant=PureDpAccountant)
    assert ledger.affords(first) == 1
    ledger.charge(first, adjacency=ledger.adjacency)
    assert ledger.affords(PureDpEvent(epsilon=step)) == ledger.affords(NoOpEvent()) == 0
    at_the_end = [math.inf] * count
    assert delta_of_stopping(
        epsilon_per_release=step, epsilon_bounds=[*at_the_end, cap]
    ) == pytest.approx(delta, rel=0.02)
    control = delta_of_stopping(epsilon_per_release=step, epsilon_bounds=[*at_the_end, cap, cap])
    assert control > 1.05 * delta, "the control: one more adaptive release exceeds delta"
