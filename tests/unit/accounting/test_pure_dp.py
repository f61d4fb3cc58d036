"""The pure-DP accountant against exhaustive enumeration of randomized responses."""

import math
from itertools import product

import numpy as np
import pytest

from pate import accounting
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.pure_epsilon import pure_epsilon

MIXTURES: list[dict[float, int]] = [
    {0.3: 5, 0.5: 3, 0.11: 4},
    {1.0: 1, 0.05: 11},
    {2.0: 2, 0.3: 3},
    {0.1: 1, 0.2: 1},
]


def delta_of_enumerated_answers(
    counts_by_epsilon: dict[float, int], target_epsilon: float
) -> float:
    """Returns delta at epsilon `target_epsilon` by enumerating all answers of several randomized responses.

    `counts_by_epsilon` has the number of responses with each epsilon.
    """
    epsilons = [epsilon for epsilon, count in counts_by_epsilon.items() for _ in range(count)]
    total = 0.0
    for signs in product((1, -1), repeat=len(epsilons)):
        loss = sum(sign * epsilon for sign, epsilon in zip(signs, epsilons, strict=True))
        mass = math.prod(
            1 / (1 + math.exp(-sign * epsilon))
            for sign, epsilon in zip(signs, epsilons, strict=True)
        )
        total += mass * max(0.0, -math.expm1(target_epsilon - loss))
    return total


def accountant_with(counts_by_epsilon: dict[float, int]) -> accounting.PureDpAccountant:
    """Returns a pure-DP accountant that has composed the given number of events of each epsilon."""
    accountant = accounting.PureDpAccountant()
    for epsilon, count in counts_by_epsilon.items():
        accountant.compose(accounting.PureDpEvent(epsilon), count=count)
    return accountant


@pytest.mark.slow
@pytest.mark.parametrize("counts", MIXTURES, ids=repr)
def test_releases_with_several_epsilons_are_bounded_closely(counts: dict[float, int]) -> None:
    """The pure-DP accountant's delta is at least that of randomized responses, and at most 0.3% more.

    The reference enumerates all answers. `get_epsilon` inverts `get_delta`.
    """
    for target in (0.0, 0.2, 0.7, 1.5):
        exact = delta_of_enumerated_answers(counts_by_epsilon=counts, target_epsilon=target)
        delta = accountant_with(counts_by_epsilon=counts).get_delta(target)
        assert exact <= delta <= exact * 1.003 + 1e-300
        if delta > 1e-200 and target > 0:
            assert accountant_with(counts_by_epsilon=counts).get_epsilon(delta) == pytest.approx(
                target, rel=1e-9
            )


def test_epsilons_10_percent_too_small_fail() -> None:
    """Negative control: with epsilons 10% too small, the bound is below the enumerated delta."""
    shrunk = {0.9 * epsilon: count for epsilon, count in MIXTURES[0].items()}
    assert accountant_with(counts_by_epsilon=shrunk).get_delta(
        target_epsilon=0.7
    ) < delta_of_enumerated_answers(counts_by_epsilon=MIXTURES[0], target_epsilon=0.7)


def test_too_many_releases_are_bounded_by_renyi_and_the_sum() -> None:
    """For 1,000,001 releases, or 65 different epsilons, the pure-DP accountant has the Renyi accountant's epsilon.

    The accountant does not compose so many optimally. At delta 1e-30, the sum of 65 larger epsilons is below the Renyi
    accountant's epsilon, and is returned.
    """
    many_releases = accounting.PureDpAccountant().compose(
        accounting.PureDpEvent(epsilon=1e-4), count=1_000_001
    )
    assert many_releases.get_epsilon(target_delta=1e-6) == accounting.RdpAccountant().compose(
        accounting.PureDpEvent(epsilon=1e-4), count=1_000_001
    ).get_epsilon(target_delta=1e-6)
    pure_accountant = accounting.PureDpAccountant()
    renyi_accountant = accounting.RdpAccountant()
    for step in range(65):
        pure_accountant.compose(accounting.PureDpEvent(epsilon=0.1 + step / 1000))
        renyi_accountant.compose(accounting.PureDpEvent(epsilon=0.1 + step / 1000))
    assert pure_accountant.get_epsilon(target_delta=1e-6) == renyi_accountant.get_epsilon(
        target_delta=1e-6
    )
    large_epsilons = [3.0 + step / 1000 for step in range(65)]
    pure_accountant = accounting.PureDpAccountant()
    renyi_accountant = accounting.RdpAccountant()
    for epsilon in large_epsilons:
        pure_accountant.compose(accounting.PureDpEvent(epsilon))
        renyi_accountant.compose(accounting.PureDpEvent(epsilon))
    epsilon_of_all = pure_accountant.get_epsilon(target_delta=1e-30)
    assert epsilon_of_all == pytest.approx(sum(large_epsilons), rel=1e-11)
    assert epsilon_of_all < renyi_accountant.get_epsilon(target_delta=1e-30)


def test_every_pure_event_is_priced_by_its_epsilon() -> None:
    """`pure_epsilon` of a pure or bounded-range event is its epsilon; that of a noisy bit is its largest loss.

    The epsilon of a bit that can be certain, and of an event without privacy, is infinite.
    """
    assert (
        pure_epsilon(accounting.PureDpEvent(epsilon=0.7))
        == pure_epsilon(accounting.BoundedRangeEvent(epsilon=0.7))
        == 0.7
    )
    bit = accounting.OneBitEvent(logits=(-2.0, 0.0, 1.0), reach=1)
    assert pure_epsilon(bit) == pytest.approx(math.log(0.5 * (1 + math.exp(2.0))), rel=1e-12)
    assert pure_epsilon(bit) >= math.log(0.5 * (1 + math.exp(2.0)))
    assert pure_epsilon(accounting.OneBitEvent(logits=(-2.0, 0.0, 1.0), reach=2)) > pure_epsilon(
        bit
    )
    assert pure_epsilon(accounting.OneBitEvent(logits=(1.0,), reach=2)) == 0
    assert pure_epsilon(accounting.OneBitEvent(logits=(-math.inf, 0.0), reach=1)) == math.inf
    assert pure_epsilon(accounting.NonPrivateEvent()) == math.inf


@pytest.mark.parametrize(
    ("large", "small"), [(65.0, 1.0), (360.0, 1.0), (800.0, 1.0), (400.0, 300.0)]
)
def test_large_and_small_epsilons_together_cost_at_least_the_larger(
    large: float, small: float
) -> None:
    """A release of epsilon `large` and one of `small` together cost at least `large`, and at most their sum.

    Losses below -709, whose exponentials underflow, must not give an epsilon of 0.
    """
    spent = accountant_with(counts_by_epsilon={large: 1, small: 1})
    assert large - 1e-5 <= spent.get_epsilon(target_delta=1e-6) <= (large + small) * (1 + 1e-9)
    assert spent.get_delta(target_epsilon=large / 2) >= 0.9


def test_a_bit_has_the_larger_loss_of_both_outcomes() -> None:
    """`pure_epsilon` of a bit is the larger privacy loss of both outcomes, also with 0 and 1 exchanged.

    The probability of a 1 rises from 0.88 to 0.99995, so a 0 has a much larger privacy loss than a 1.
    """
    loss = math.log1p(math.exp(10.0)) - math.log1p(math.exp(2.0))
    for logits in ((2.0, 10.0), (-10.0, -2.0)):
        assert pure_epsilon(accounting.OneBitEvent(logits=logits, reach=1)) == pytest.approx(
            loss, rel=1e-12
        )


@pytest.mark.parametrize(("epsilon", "count"), [(0.05, 600), (0.5, 20), (3.0, 7)])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.3])
def test_epsilon_inverts_delta_and_is_below_renyi(epsilon: float, count: int, delta: float) -> None:
    """By `get_delta`, the epsilon of `count` equal pure-DP events at a delta has at most this delta.

    A slightly smaller epsilon has a larger delta, and the Renyi accountant's epsilon is not smaller.
    """
    composed_epsilon = pure_dp_composition_epsilon(epsilon, count=count, target_delta=delta)
    accountant = accountant_with(counts_by_epsilon={epsilon: count})
    assert accountant.get_delta(composed_epsilon) <= delta * (1 + 1e-6) + 1e-14
    assert composed_epsilon <= accounting.RdpAccountant().compose(
        accounting.PureDpEvent(epsilon), count=count
    ).get_epsilon(delta)
    if composed_epsilon > 0:
        assert accountant.get_delta(target_epsilon=composed_epsilon * (1 - 1e-6)) > delta


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "count", "exact"),
    [(1e-3, 10**6, 4.88654374375764913), (0.05, 600, 6.14206480167059754)],
)
def test_epsilon_bounds_the_sums_in_forty_digits(epsilon: float, count: int, exact: float) -> None:
    """The epsilon of `count` equal pure-DP events at delta 1e-6 is at least `exact`, from 40 digits.

    The epsilon exceeds `exact` by a share of at most 1e-8.
    """
    composed_epsilon = pure_dp_composition_epsilon(epsilon, count=count, target_delta=1e-6)
    assert exact <= composed_epsilon <= exact * (1 + 1e-8)


def adaptive_delta(
    epsilons: list[float], target_epsilon: float, shares_of_epsilon: np.ndarray
) -> float:
    """Returns the largest delta at `target_epsilon` of an adversary who chooses each release after earlier outcomes.

    Release i has two possible losses, one positive and one negative. Each loss is `epsilons[i]` times one of
    `shares_of_epsilon`.
    """
    if not epsilons:
        return max(0.0, -math.expm1(target_epsilon))
    best = 0.0
    up_losses = shares_of_epsilon * epsilons[0]
    for up_loss, down_loss in product(up_losses, -up_losses):
        up_prob = math.expm1(-down_loss) / (math.exp(-down_loss) - math.exp(-up_loss))
        later_deltas = [
            adaptive_delta(
                epsilons=epsilons[1:],
                target_epsilon=target_epsilon - loss,
                shares_of_epsilon=shares_of_epsilon,
            )
            for loss in (up_loss, down_loss)
        ]
        best = max(best, up_prob * later_deltas[0] + (1 - up_prob) * later_deltas[1])
    return best


@pytest.mark.parametrize("charged_share", [1.0, 0.9])
def test_adaptive_pairs_do_not_exceed_the_pure_dp_bound(
    charged_share: float,
) -> None:
    """The delta of an adversary who chooses each of three losses after earlier outcomes is at most the accountant's.

    Negative control: if only the share 0.9 of each epsilon is charged, the adversary exceeds the
    accountant's delta.
    """
    epsilons = [0.8, 0.3, 0.5]
    accountant = accounting.PureDpAccountant()
    for epsilon in epsilons:
        accountant.compose(accounting.PureDpEvent(epsilon=charged_share * epsilon))
    for target_epsilon in (0.1, 0.6, 1.2):
        attained_delta = adaptive_delta(
            epsilons=epsilons,
            target_epsilon=target_epsilon,
            shares_of_epsilon=np.array([0.2, 0.6, 1.0]),
        )
        assert (attained_delta <= accountant.get_delta(target_epsilon=target_epsilon)) == (
            charged_share == 1.0
        )
