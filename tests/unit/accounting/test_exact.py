"""The exact accountant against closed forms and strongest adversaries in rational numbers; its parts and its limits."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from pate import accounting
from pate.accounting import exact_blocks
from pate.accounting.covered_step import winner_step
from pate.accounting.discrete_pairs import Pair
from pate.accounting.exact_blocks import Block, RepeatedStep, compose_in_blocks
from pate.accounting.exact_grid import LossGrid, Profile, rounded_spacing
from pate.accounting.exact_pairs import Box, DominatingPairs, Span, dominating_pairs
from pate.accounting.winner import WinnerPairs
from pate.aggregators import StableTopK
from pate.array_types import FloatArray


def binomial_delta(epsilon: float, count: int, target_epsilon: float) -> float:
    """Returns the delta, at epsilon `target_epsilon`, of `count` randomized responses with `epsilon` each.

    The delta is summed term by term (Kairouz, Oh & Viswanath 2015).
    """
    prob_of_truth = 1 / (1 + math.exp(-epsilon))
    terms = []
    for num_truths in range(count + 1):
        num_lies = count - num_truths
        prob = (
            math.comb(count, num_truths)
            * prob_of_truth**num_truths
            * (1 - prob_of_truth) ** num_lies
        )
        loss = (num_truths - num_lies) * epsilon
        terms.append(prob * max(0.0, -math.expm1(target_epsilon - loss)))
    return math.fsum(terms)


@pytest.mark.parametrize(
    ("epsilon", "count"), [(0.01, 40), (0.3, 1), (0.3, 12), (1.7, 5), (6.0, 3)]
)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.45, 0.8, 0.99])
def test_composed_pure_dp_bounds_the_exact_sum_over_binomials(
    epsilon: float, count: int, share: float
) -> None:
    """The exact accountant's delta for `count` pure-DP events is at least that of `count` randomized responses, and
    at most 1% more.

    Both deltas are compared at the epsilon `share * epsilon * count`.
    """
    target_epsilon = share * epsilon * count
    exact_delta = binomial_delta(epsilon=epsilon, count=count, target_epsilon=target_epsilon)
    accountant = accounting.ExactAccountant().compose(accounting.PureDpEvent(epsilon), count=count)
    charged_delta = accountant.get_delta(target_epsilon)
    assert exact_delta * (1 - 1e-12) <= charged_delta <= exact_delta * (1 + 1e-2) + 1e-12


def strongest_delta(
    pairs_of_steps: list[list[tuple[Fraction, Fraction]]], exp_epsilon: Fraction
) -> Fraction:
    """Returns the strongest adversary's delta, by trying every pair of each step after every history.

    Args:
        pairs_of_steps: for each step, the two-point pairs among which the adversary chooses. A pair is the probability
            of the first outcome on each of two neighbors.
        exp_epsilon: e^epsilon of the returned delta.
    """
    if not pairs_of_steps:
        return max(Fraction(0), 1 - exp_epsilon)
    pairs = pairs_of_steps[0]
    pairs_of_later_steps = pairs_of_steps[1:]

    def delta_of_pair(p: Fraction, q: Fraction) -> Fraction:
        """Returns the largest delta if the adversary chooses the pair (p, q) in the first step."""
        after_first = strongest_delta(pairs_of_later_steps, exp_epsilon=exp_epsilon * q / p)
        after_second = strongest_delta(
            pairs_of_later_steps, exp_epsilon=exp_epsilon * (1 - q) / (1 - p)
        )
        return p * after_first + (1 - p) * after_second

    return max(delta_of_pair(p=p, q=q) for p, q in pairs)


def bit_pairs(one_probs: list[Fraction], reach: int) -> list[tuple[Fraction, Fraction]]:
    """Returns the two-point pairs of a noisy bit, for neighbors at most `reach` statistics apart, in both directions.

    A pair is the probability of a 1 on each of two neighbors. `one_probs` has this probability for each statistic.
    """
    pairs = [(p, q) for i, p in enumerate(one_probs) for q in one_probs[i + 1 : i + 1 + reach]]
    return [pair for p, q in pairs for pair in ((p, q), (q, p))]


def bounded_range_pairs(
    loss_ratio: Fraction, num_intervals: int
) -> list[tuple[Fraction, Fraction]]:
    """Returns `num_intervals - 1` two-point pairs whose outcomes have the likelihood ratios s and s / loss_ratio.

    A pair is the probability of the first outcome on each of two neighbors. The values of s are evenly spaced between
    1 and `loss_ratio`.
    """
    pairs = []
    for k in range(1, num_intervals):
        s = 1 + (loss_ratio - 1) * Fraction(k, num_intervals)
        q = (1 - s / loss_ratio) / (s - s / loss_ratio)
        pairs.append((s * q, q))
    return pairs


ONE_PROBS = [Fraction(n, 40) for n in (1, 7, 19, 33, 37)]
LOGITS = tuple(math.log(p / (1 - p)) for p in ONE_PROBS)
PLAYS: dict[str, tuple[list[accounting.Event], list[list[tuple[Fraction, Fraction]]]]] = {
    "bits": (
        [accounting.OneBitEvent(logits=LOGITS, reach=1)] * 3,
        [bit_pairs(one_probs=ONE_PROBS, reach=1)] * 3,
    ),
    "far bits": (
        [accounting.OneBitEvent(logits=LOGITS, reach=3)] * 2,
        [bit_pairs(one_probs=ONE_PROBS, reach=3)] * 2,
    ),
    "range": (
        [accounting.BoundedRangeEvent(epsilon=math.log(2))] * 2,
        [bounded_range_pairs(loss_ratio=Fraction(2), num_intervals=24)] * 2,
    ),
    "small range": (
        [accounting.BoundedRangeEvent(epsilon=math.log(1.1))] * 3,
        [bounded_range_pairs(loss_ratio=Fraction(11, 10), num_intervals=20)] * 3,
    ),
    "range, bit, pure": (
        [
            accounting.BoundedRangeEvent(epsilon=math.log(1.5)),
            accounting.OneBitEvent(logits=LOGITS, reach=2),
            accounting.PureDpEvent(epsilon=math.log(3)),
        ],
        [
            bounded_range_pairs(loss_ratio=Fraction(3, 2), num_intervals=16),
            bit_pairs(one_probs=ONE_PROBS, reach=2),
            [(Fraction(3, 4), Fraction(1, 4))],
        ],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
@pytest.mark.parametrize(
    "exp_epsilon", [Fraction(1), Fraction(21, 20), Fraction(5, 4), Fraction(2), Fraction(7, 2)]
)
def test_exact_delta_is_a_close_bound_on_the_strongest_adversary(
    name: str, exp_epsilon: Fraction
) -> None:
    """The exact accountant's delta is at least that of the strongest adversary, and at most 1% more.

    The adversary chooses each pair of distributions after all earlier outcomes; its delta is
    computed in rational numbers.
    """
    events, pairs_of_steps = PLAYS[name]
    searched_delta = float(strongest_delta(pairs_of_steps, exp_epsilon=exp_epsilon))
    accountant = accounting.ExactAccountant().compose_all((event, 1) for event in events)
    charged_delta = accountant.get_delta(target_epsilon=math.log(exp_epsilon))
    assert charged_delta >= searched_delta * (1 - 1e-12)
    assert charged_delta <= searched_delta * 1.01 + 5e-6  # the search tries few pairs of a range


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cheaper"),
    [
        ("bits", accounting.OneBitEvent(logits=tuple(0.9 * logit for logit in LOGITS), reach=1)),
        ("range", accounting.BoundedRangeEvent(epsilon=0.9 * math.log(2))),
        ("small range", accounting.BoundedRangeEvent(epsilon=0.9 * math.log(1.1))),
    ],
)
def test_events_10_percent_too_small_fail_the_adversary_check(
    name: str, cheaper: accounting.Event
) -> None:
    """Negative control: for logits or ranges 10% too small, the delta is under 97% of the strongest adversary's."""
    events, pairs_of_steps = PLAYS[name]
    exp_epsilon = Fraction(21, 20)
    accountant = accounting.ExactAccountant().compose(cheaper, count=len(events))
    charged_delta = accountant.get_delta(target_epsilon=math.log(exp_epsilon))
    searched_delta = float(strongest_delta(pairs_of_steps, exp_epsilon=exp_epsilon))
    assert charged_delta < searched_delta * 0.97


@pytest.mark.slow
def test_a_gaussian_and_a_bit_agree_with_a_quadrature() -> None:
    """The exact accountant's delta for a Gaussian and a bit is at least the reference, and at most 2% more.

    The reference integrates the strongest adversary's delta on the bit over the losses of the
    Gaussian.
    """
    mu = 0.5
    epsilon = 2.5
    losses = np.linspace(mu * mu / 2 - 9 * mu, mu * mu / 2 + 9 * mu, 2001)
    loss_weights = np.exp(-0.5 * ((losses - mu * mu / 2) / mu) ** 2)
    pairs_of_bit = bit_pairs(one_probs=ONE_PROBS, reach=2)
    deltas_of_bit = [
        float(strongest_delta([pairs_of_bit], exp_epsilon=Fraction(math.exp(epsilon - loss))))
        for loss in losses.tolist()
    ]
    expected_delta = float(np.dot(loss_weights / loss_weights.sum(), deltas_of_bit))
    accountant = (
        accounting.ExactAccountant()
        .compose(accounting.GaussianEvent(noise_multiplier=1 / mu))
        .compose(accounting.OneBitEvent(logits=LOGITS, reach=2))
    )
    assert expected_delta <= accountant.get_delta(epsilon) <= expected_delta * 1.02


def test_gaussian_steps_may_come_in_any_order_and_a_failure_uses_up_delta() -> None:
    """Two Gaussians before and after a pure-DP event cost as much as this event and one merged Gaussian.

    The merged Gaussian has the sum of both squared inverse multipliers. A failure probability of
    4e-5 leaves 6e-5 of a delta of 1e-4.
    """

    def epsilon_of(events: tuple[accounting.Event, ...], *, delta: float) -> float:
        return (
            accounting.ExactAccountant()
            .compose(accounting.ComposedEvent(events))
            .get_epsilon(delta)
        )

    pure = accounting.PureDpEvent(epsilon=0.3)
    merged = accounting.GaussianEvent(noise_multiplier=(1 / 4 + 1 / 9) ** -0.5)
    expected = epsilon_of(
        (
            accounting.GaussianEvent(noise_multiplier=2.0),
            pure,
            accounting.GaussianEvent(noise_multiplier=3.0),
        ),
        delta=1e-4,
    )
    assert epsilon_of((pure, merged), delta=1e-4) == pytest.approx(expected, rel=1e-9)
    failing = accounting.ApproximateEvent(event=merged, failure_prob=4e-5)
    assert epsilon_of((pure, failing), delta=1e-4) == pytest.approx(
        epsilon_of((pure, merged), delta=6e-5), rel=1e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize(("noise_multiplier", "num_candidates"), [(2.0, 2), (4.0, 5), (1.0, 40)])
def test_the_profile_of_a_noisy_maximum_uses_both_bounds(
    noise_multiplier: float, num_candidates: int
) -> None:
    """The exact accountant's delta for a noisy maximum is between that of the smaller of two curves and 0.1% more.

    One curve bounds the probability that the winner is in a set if the counts in the set rise. The other bounds it if
    the counts outside fall (docs/proofs/pld.md). The reference takes the worst size of the set. With 11% more noise,
    the delta is below the reference.
    """
    shift = 2 / noise_multiplier
    probs = np.concatenate([np.geomspace(1e-14, 1e-3, 1000), np.linspace(1e-3, 1 - 1e-9, 60_000)])
    accountant = accounting.ExactAccountant().compose(
        accounting.NoisyMaxGaussianEvent(
            noise_multiplier=noise_multiplier, num_candidates=num_candidates
        )
    )
    cheaper = accounting.ExactAccountant().compose(
        accounting.NoisyMaxGaussianEvent(
            noise_multiplier=noise_multiplier / 0.9, num_candidates=num_candidates
        )
    )
    for epsilon in (0.05, 0.3, 1.0, 2.0):
        envelope = 0.0
        for inside in range(1, num_candidates):
            outside = num_candidates - inside
            # the curve of a maximum inside of the set that rises, and of one outside that falls
            thresholds = ndtri(np.exp(np.log1p(-probs) / inside))
            rising_curve = -np.expm1(inside * np.log(ndtr(thresholds - shift)))
            falling_curve = ndtr(ndtri(probs ** (1 / outside)) + shift) ** outside
            smaller_curve = np.minimum(rising_curve, falling_curve)
            envelope = max(envelope, float(np.max(smaller_curve - math.exp(epsilon) * probs)))
        charged_delta = accountant.get_delta(epsilon)
        assert envelope * (1 - 1e-9) <= charged_delta <= envelope * (1 + 1e-3) + 1e-12
        assert cheaper.get_delta(epsilon) < envelope


@pytest.mark.slow
def test_opposed_maxima_agree_with_dp_accounting() -> None:
    """The exact accountant's epsilon for 100 opposed maxima is within 0.2% of the PLD accountant's at two noise levels.

    Opposed maxima are noisy maxima with a second bound, between maxima that move in opposite directions. The PLD
    accountant composes the same profile with dp-accounting.
    """
    for noise_multiplier in (12.5, 50.0):
        event = accounting.OpposedMaximaEvent(noise_multiplier, num_candidates=39)
        expected = (
            accounting.PldAccountant().compose(event, count=100).get_epsilon(target_delta=1e-6)
        )
        actual = (
            accounting.ExactAccountant().compose(event, count=100).get_epsilon(target_delta=1e-6)
        )
        assert actual == pytest.approx(expected, rel=2e-3)


@pytest.mark.slow
def test_the_bound_for_any_order_composes_single_pairs() -> None:
    """With `any_event_order=True`, all six orders of three kinds of event have one epsilon.

    This epsilon bounds every order, so it may exceed the epsilon of one given order; rounding may put it below by at
    most 0.1%. The PLD accountant's epsilon differs by at most 1%.
    """
    parts = [
        accounting.OpposedMaximaEvent(noise_multiplier=10.0, num_candidates=5),
        accounting.OneBitEvent(logits=LOGITS, reach=1),
        accounting.PureDpEvent(epsilon=0.1),
    ]

    def price(order: list[accounting.Event], *, any_event_order: bool) -> float:
        spent = accounting.ExactAccountant(any_event_order=any_event_order).compose_all(
            (part, 10) for part in order
        )
        return spent.get_epsilon(target_delta=1e-6)

    prices = [price(list(order), any_event_order=True) for order in itertools.permutations(parts)]
    assert prices == pytest.approx([prices[0]] * 6, rel=1e-9)
    assert price(parts, any_event_order=False) * (1 - 1e-3) <= prices[0]
    expected = (
        accounting.PldAccountant()
        .compose_all((part, 10) for part in parts)
        .get_epsilon(target_delta=1e-6)
    )
    assert prices[0] == pytest.approx(expected, rel=1e-2)


@pytest.mark.slow
def test_the_papers_experiment_has_the_independent_epsilon() -> None:
    """The exact accountant prices the paper's release of 600 queries and 40 labels at an epsilon near 3.44.

    Composed one by one, the releases have an epsilon between 3.438 and 3.46. In blocks of releases, which give a looser
    bound, it lies between 3.45 and 3.47. An independent program gives 3.44, and a lower bound without adaptive choices
    is 3.438.
    """
    aggregator = StableTopK(
        selection_scale=38.985, test_std=60.0, failure_prob=1e-9, adjacency="add_remove"
    )
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    one_by_one = accounting.ExactAccountant(in_blocks=False).compose(event)
    assert 3.438 < one_by_one.get_epsilon(target_delta=1e-6) < 3.46
    in_blocks = accounting.ExactAccountant().compose(event)
    assert 3.45 < in_blocks.get_epsilon(target_delta=1e-6) < 3.47


def test_work_counts_every_release_where_blocks_are_off() -> None:
    """The work, an estimated time, of 1,000 releases one by one is 1,000 times that of one release.

    In blocks, that is, groups of releases that are composed once, the work is less than half of that.
    """
    event = accounting.SelfComposedEvent(accounting.BoundedRangeEvent(0.01), 1000)
    work_of_one = accounting.ExactAccountant().compose(event.event).work()
    assert accounting.ExactAccountant(in_blocks=False).compose(event).work() == 1000 * work_of_one
    assert accounting.ExactAccountant().compose(event).work() < 500 * work_of_one


def test_a_step_of_a_winner_is_nowhere_below_its_expectation() -> None:
    """One composition step of a winner, a noisy maximum, is the mean of the later deltas, or at most 1e-11 more.

    One of the pair's two losses lies just above a negative multiple of the grid's spacing, and must not be moved down
    to it. The later deltas at x minus a loss are interpolated linearly in e^x.
    """
    spacing = rounded_spacing(1e-4)
    grid = LossGrid(first_index=-2000, num_points=12001, spacing=spacing)
    ratio_less_one = math.expm1(-200 * spacing * (1 - 9e-9))
    ratios_less_one = np.array([-ratio_less_one, ratio_less_one])
    pair = Pair(q_masses=np.array([0.5, 0.5]), ratios_less_one=ratios_less_one)
    variance_of_ratios = 1.0
    winner_pairs = WinnerPairs(roots=(pair,), variance=variance_of_ratios, largest_loss=0.02)
    later_deltas = 0.5 * np.exp(-30 * np.maximum(grid.points, 0.0))

    def delta_at(epsilons: FloatArray) -> FloatArray:
        indices = np.floor(epsilons / spacing).astype(int) - grid.first_index
        shares = np.expm1(epsilons - grid.points[indices]) / np.expm1(spacing)
        return np.asarray((1 - shares) * later_deltas[indices] + shares * later_deltas[indices + 1])

    inner_points = slice(300, -300)
    expectation = sum(
        0.5 * (1 + ratio) * delta_at(grid.points[inner_points] - math.log1p(ratio))
        for ratio in ratios_less_one.tolist()
    )
    step = winner_step(grid, winner_pairs, negligible_delta=0.0)
    excess = step(later_deltas)[inner_points] / expectation - 1
    assert excess.min() >= 0
    assert excess.max() < 1e-11


def boxes_of_single_pairs(box: Box) -> Iterator[Box]:
    """Splits a box of two-point pairs in halves again and again, and yields the boxes of one pair each."""
    if not box.dominated_pairs:
        yield box
    for half_box in box.dominated_pairs:
        yield from boxes_of_single_pairs(box=half_box)


def test_a_bit_has_only_its_undominated_pairs() -> None:
    """The box of a noisy bit has exactly the pairs that no other pair dominates.

    A pair has one positive and one negative loss. Another pair dominates it if both of the other pair's losses are at
    least as large in absolute value. At least one of the pairs here is dominated.
    """
    one_probs = [0.05, 0.2, 0.45, 0.8]
    logits = tuple(math.log(p / (1 - p)) for p in one_probs)
    box = dominating_pairs(accounting.OneBitEvent(logits=logits, reach=2))
    assert isinstance(box, Box)
    actual = {
        (round(pair.largest_up_loss, 9), round(pair.smallest_down_loss, 9))
        for pair in boxes_of_single_pairs(box=box)
    }
    all_pairs = set()
    for p, q in ((0.05, 0.45), (0.2, 0.8), (0.45, 0.8)):
        loss_of_one = math.log(q / p)
        loss_of_zero = math.log((1 - q) / (1 - p))
        all_pairs |= {
            (round(loss_of_one, 9), round(loss_of_zero, 9)),
            (round(-loss_of_zero, 9), round(-loss_of_one, 9)),
        }
    dominated = {
        pair
        for pair in all_pairs
        for other in all_pairs
        if pair != other and pair[0] <= other[0] and pair[1] >= other[1]
    }
    assert actual == all_pairs - dominated
    assert dominated


def test_losses_of_bits_bound_those_in_high_precision() -> None:
    """For 200 random pairs of neighboring logits, as near as 1e-9, both losses of a bit bound those in 60 digits.

    Losses are compared by absolute value, in both directions.
    """
    rng = np.random.default_rng(0)
    lower_logits = rng.uniform(low=-40, high=40, size=200)
    logit_steps = 10 ** rng.uniform(low=-9, high=1, size=200)
    for logit, step in zip(lower_logits.tolist(), logit_steps.tolist(), strict=True):
        logits = (logit, logit + step)
        box = dominating_pairs(accounting.OneBitEvent(logits, reach=1))
        assert isinstance(box, Box)
        losses = [
            (pair.largest_up_loss, -pair.smallest_down_loss)
            for pair in boxes_of_single_pairs(box=box)
        ]
        with mpmath.workdps(60):
            lower, higher = (mpmath.log1p(mpmath.exp(-mpmath.mpf(logit))) for logit in logits)
            loss_of_one = lower - higher
            loss_of_zero = mpmath.mpf(logits[1]) - mpmath.mpf(logits[0]) - loss_of_one
            for exact_up, exact_down in ((loss_of_one, loss_of_zero), (loss_of_zero, loss_of_one)):
                assert any(
                    exact_up <= up <= exact_up * (1 + 1e-5) + 2e-13 and down >= exact_down
                    for up, down in losses
                )


BOX_OF_ONE_PAIR = Box(up_losses=np.array([0.05]), down_losses=np.array([-0.05]))
WIDE_BIT = accounting.OneBitEvent(logits=tuple(np.linspace(-3, 3, 60).tolist()), reach=1)


def dominating_pairs_of(event: accounting.Event) -> DominatingPairs:
    """Returns the dominating pairs of an event that costs something."""
    pairs = dominating_pairs(event)
    assert pairs is not None
    return pairs


def profile_of_block(block: Block) -> Profile:
    """Returns the privacy profile of a block of composed events, at losses of 0 and more."""
    deltas = block.profile()[len(block.loss_masses) // 2 :]
    return Profile(
        grid=LossGrid(first_index=0, num_points=len(deltas), spacing=block.spacing), deltas=deltas
    )


def test_a_repeated_pair_is_a_sum_over_binomials() -> None:
    """900 equal pairs composed in blocks give a delta between the sum over binomials and 2% more.

    Negative control: losses 10% too small give a delta at least 20% below the sum.
    """
    result = profile_of_block(
        block=compose_in_blocks(
            repeated_steps=(RepeatedStep(pairs=BOX_OF_ONE_PAIR, num_times=900),),
            spacing=rounded_spacing(spacing=0.0125),
            largest_finite_loss=12.0,
            negligible_delta=1e-20,
        )
    )
    for target in (0.0, 2.0, 4.0, 6.5):
        truth = binomial_delta(epsilon=0.05, count=900, target_epsilon=target)
        assert truth * (1 - 1e-11) <= result.delta(target) <= truth * 1.02 + 1e-13
    cheaper = Box(up_losses=np.array([0.045]), down_losses=np.array([-0.045]))
    result = profile_of_block(
        block=compose_in_blocks(
            repeated_steps=(RepeatedStep(pairs=cheaper, num_times=900),),
            spacing=0.01125,
            largest_finite_loss=12.0,
            negligible_delta=1e-20,
        )
    )
    assert result.delta(4.0) < binomial_delta(epsilon=0.05, count=900, target_epsilon=4.0) * 0.8


@pytest.mark.slow
@pytest.mark.parametrize("family", ["span", "bit", "both"])
def test_blocks_bound_the_composition_step_by_step_closely(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """150 spans (bounded-range events), 150 noisy bits or 150 of each cost at most 3% more in small blocks than in one.

    The epsilon of the small blocks is at most 0.02% below that of the single block.
    """
    span_step = RepeatedStep(pairs=Span(length=0.1), num_times=1)
    bit_step = RepeatedStep(pairs=dominating_pairs_of(WIDE_BIT), num_times=1)
    steps_of_family = {"span": (span_step,), "bit": (bit_step,), "both": (span_step, bit_step)}
    repeated_steps = steps_of_family[family] * 150
    monkeypatch.setattr(exact_blocks, "WORK_OF_FULL_BLOCK", 10**9)
    in_one_block = profile_of_block(
        block=compose_in_blocks(
            repeated_steps, spacing=0.005, largest_finite_loss=6.0, negligible_delta=1e-18
        )
    )
    monkeypatch.setattr(exact_blocks, "WORK_OF_FULL_BLOCK", 4 * 40)
    in_small_blocks = profile_of_block(
        block=compose_in_blocks(
            repeated_steps, spacing=0.005, largest_finite_loss=6.0, negligible_delta=1e-18
        )
    )
    for delta in (1e-3, 1e-6, 1e-9):
        assert (
            in_one_block.epsilon(delta) * (1 - 2e-4)
            <= in_small_blocks.epsilon(delta)
            <= in_one_block.epsilon(delta) * 1.03
        )


@pytest.mark.slow
def test_blocks_of_two_steps_bound_an_exhaustive_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit, a range and a bit composed in blocks give a delta at least that of the strongest adversary.

    Negative control: bits with logits 20% too small give a delta below the adversary's.
    """
    monkeypatch.setattr(exact_blocks, "WORK_OF_FULL_BLOCK", 8)
    dominating_pairs_of_bit = dominating_pairs_of(accounting.OneBitEvent(logits=LOGITS, reach=1))
    bit_step = RepeatedStep(pairs=dominating_pairs_of_bit, num_times=1)
    dominating_pairs_of_range = dominating_pairs_of(
        accounting.BoundedRangeEvent(epsilon=math.log(1.5))
    )
    range_step = RepeatedStep(pairs=dominating_pairs_of_range, num_times=1)
    repeated_steps = (bit_step, range_step, bit_step)
    result = profile_of_block(
        block=compose_in_blocks(
            repeated_steps,
            spacing=rounded_spacing(spacing=0.01),
            largest_finite_loss=8.0,
            negligible_delta=1e-15,
        )
    )
    pairs_of_steps = [
        bit_pairs(one_probs=ONE_PROBS, reach=1),
        bounded_range_pairs(loss_ratio=Fraction(3, 2), num_intervals=12),
        bit_pairs(one_probs=ONE_PROBS, reach=1),
    ]
    for exp_epsilon in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(7, 2)):
        searched_delta = float(strongest_delta(pairs_of_steps, exp_epsilon=exp_epsilon))
        assert result.delta(math.log(exp_epsilon)) >= searched_delta * (1 - 1e-12)
    cheaper_logits = tuple(0.8 * logit for logit in LOGITS)
    cheaper_pairs = dominating_pairs_of(accounting.OneBitEvent(logits=cheaper_logits, reach=1))
    cheaper_step = RepeatedStep(pairs=cheaper_pairs, num_times=1)
    repeated_steps = (cheaper_step, range_step, cheaper_step)
    cheaper_result = profile_of_block(
        block=compose_in_blocks(
            repeated_steps,
            spacing=rounded_spacing(spacing=0.01),
            largest_finite_loss=8.0,
            negligible_delta=1e-15,
        )
    )
    searched_delta = float(strongest_delta(pairs_of_steps, exp_epsilon=Fraction(2)))
    assert cheaper_result.delta(math.log(2)) < searched_delta


def test_the_profile_of_a_block_bounds_its_values_and_mirror_image() -> None:
    """The profile of a block bounds the true deltas from above, by at most 0.2%, if one given delta is 0.1% too large.

    The block is made from deltas at a grid of losses; the larger one makes them non-convex. The mirror image of the
    profile, for both neighbors exchanged, also bounds the true one.

    A convolution that is cut to three losses moves smaller losses up to the first of them and larger losses to
    infinity, and keeps all probability.
    """
    spacing = 0.07
    losses = np.arange(60) * spacing
    values = np.array([accounting.gaussian_delta(mu=0.8, epsilon=x) for x in losses.tolist()])
    values[10] *= 1.001  # no longer convex
    result = Block.from_profile(deltas=values, spacing=spacing)
    profile = result.profile()
    truth = np.array([accounting.gaussian_delta(mu=0.8, epsilon=x) for x in losses.tolist()])
    assert (profile[59:] >= truth).all()
    assert (profile[59:] <= truth * 1.002).all()
    mirrored = -np.expm1(-losses) + np.exp(-losses) * truth
    assert (profile[59::-1] >= mirrored).all()
    assert 1 <= result.total_with_infinite_loss <= 1 + 1e-3
    block = Block(loss_masses=np.array([0.1, 0.2, 0.7]), infinite_loss_prob=0.0, spacing=1.0)
    convolved_block = block.convolved(block, largest_multiple=1)
    assert convolved_block.loss_masses == pytest.approx([0.01 + 0.04, 0.18, 0.28])
    assert convolved_block.infinite_loss_prob == pytest.approx(0.49)
    assert convolved_block.total_with_infinite_loss >= 1


def test_epsilon_of_a_profile_is_zero_at_large_deltas_infinite_at_small() -> None:
    """If a profile falls from 0.6 at loss 0 to 0.2 at its end, epsilon is 0 at delta 0.6 and infinite at delta 0.1.

    At delta 0.59, epsilon is between 0 and one spacing of the losses. Delta beyond the last loss is 0.2.
    """
    grid = LossGrid(first_index=-3, num_points=8, spacing=rounded_spacing(spacing=0.1))
    profile = Profile(grid=grid, deltas=np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]))
    assert profile.epsilon(delta=0.6) == 0
    assert profile.epsilon(delta=0.1) == math.inf
    assert profile.delta(epsilon=0.0) == 0.6
    assert 0 < profile.epsilon(delta=0.59) < grid.spacing
    assert profile.delta(epsilon=5.0) == 0.2
