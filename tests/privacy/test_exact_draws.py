"""Draws have exactly the law that their price is computed for; a sampler in floats does not, and is refuted here.

Words of the generator are chosen by hand: where u lies by less than a float can tell, the answer must still be right.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, BoundedRangeEvent
from pate.accounting.target_charging import tight_boundary
from pate.array_types import FloatArray
from pate.mechanisms import BoundaryWrapper, GapSelection, LipschitzTopK, PeelingTopK, gap_selection
from pate.mechanisms.noise import comparisons, exponential_coins, weighted_index
from pate.mechanisms.noise.comparisons import _probability_below, are_normally_above
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.exponential_coins import _first_weights, toss_rare_exponential
from pate.mechanisms.noise.kinds import KINDS, UNIT_NOISES
from pate.mechanisms.noise.lazy_uniforms import LazyBitsUniform, LazyUniforms
from pate.mechanisms.noise.weighted_index import (
    Weights,
    boundary_weights,
    index_of,
    softmax_weights,
)
from pate.testing import neighbors
from tests.contract.aggregator_cases import CASES, NUM_LABELS, NUM_TEACHERS, Case
from tests.privacy.case import SmallInstance
from tests.privacy.shipped import CASES as SHIPPED

ONES = 2**64 - 1
DIGITS = 60


class ChosenWords:
    """A generator of 64-bit words that returns the words of a list and then zeros."""

    def __init__(self, words: list[int]) -> None:
        self.words = words[::-1]

    def integers(self, low: int, high: int, *, size: tuple[int, ...], dtype: Any) -> np.ndarray:
        drawn = [self.words.pop() if self.words else 0 for _ in range(math.prod(size))]
        return np.array(drawn, dtype=dtype).reshape(size)


def generator_of(random_words: list[int]) -> Any:
    """Returns a generator of 64-bit words that returns `random_words` and then zeros."""
    return ChosenWords(random_words)


def draw_from_floats(deficits: np.ndarray, uniform: float) -> int:
    """Draws k as earlier versions did, from a float uniform number and cumulated sums in floats."""
    cumulated = np.cumsum(np.exp(-deficits))
    return int((cumulated <= uniform * cumulated[-1]).sum())


def probability_intervals(weights: Weights) -> list[tuple[Fraction, Fraction]]:
    """Returns each probability as an interval between two fractions."""
    intervals = weights(DIGITS)
    least, most = (sum(interval[side] for interval in intervals) for side in (0, 1))
    return [(Fraction(low, most), Fraction(high, least)) for low, high in intervals]


def test_floats_gave_outcomes_that_a_neighbor_never_gives() -> None:
    """In floats, an outcome was drawn for 6 of 2^53 uniform numbers on one histogram and for none
    on its neighbor, at a claimed log ratio of 4.

    The exact probabilities have a log ratio of at most 4.
    """
    grid = [1 - j / 2**53 for j in range(1, 64)]
    found = [
        sum(draw_from_floats(np.array([0.0, deficit]), uniform=u) == 1 for u in grid)
        for deficit in (34.7, 38.7)
    ]
    assert found[0] >= 6
    assert found[1] == 0
    now = [
        probability_intervals(softmax_weights(np.array([0.0, deficit]), noise_scale=1.0))[1]
        for deficit in (34.7, 38.7)
    ]
    assert now[1][0] > 0
    assert math.log(now[0][1] / now[1][0]) <= 4.0 + 1e-12


@pytest.mark.parametrize("deficit", [36.0, 100.0, 1000.0])
def test_an_outcome_of_any_probability_is_possible(deficit: float) -> None:
    """An outcome of probability exp(-deficit) / (1 + exp(-deficit)) is drawn when the random words
    begin with enough ones.

    With fewer ones the other outcome is drawn.
    """
    bits = deficit / math.log(2)
    enough = math.floor(bits / 64) + 1
    few = math.floor(bits / 64)
    assert enough * 64 > bits + 1 or deficit != 36.0
    selection = GapSelection(noise_scale=1.0, num_labels=3, num_teachers=2000)
    votes = np.array([int(deficit), 0, 0])  # gaps: deficit, 0
    for ones, k in ((enough + 1, 2), (few, 1)):
        assert selection(votes, rng=numpy_generator_of(random_words=[ONES] * ones)) == k


def numpy_generator_of(random_words: list[int]) -> Any:
    """Returns a real numpy generator whose integers are chosen by the test, for calls that check the type of
    their generator.
    """

    class Chosen(np.random.Generator):
        def integers(self, *args: Any, **options: Any) -> Any:  # type: ignore[override]
            return source.integers(*args, **options)

    source = ChosenWords(random_words)
    return Chosen(np.random.PCG64(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "deficits", [[0.0, 3.0, 80.0, 80.0, 5.0], [2.0, 0.0, 0.0], [0.0, 700.0, 1.0]]
)
def test_every_boundary_is_where_it_should_be(deficits: list[float]) -> None:
    """A uniform number just below the cumulated exact weight of an index gives this index, and one
    just above gives the next.
    """
    weights = softmax_weights(np.array(deficits), noise_scale=1.5)
    intervals = weights(900)
    total = sum(low for low, _ in intervals)
    running = 0
    for index, (low, _) in enumerate(intervals[:-1]):
        running += low
        at = (running << 2048) // total
        for shift, expected in ((-1, index), (1, index + 1)):
            u = at + (shift << 320)
            words = [(u >> (2048 - 64 * (place + 1))) & ONES for place in range(32)]
            assert (
                index_of(
                    LazyBitsUniform(words[0], rng=generator_of(random_words=words[1:])), weights
                )
                == expected
            )


@pytest.mark.parametrize("noise", sorted(UNIT_NOISES))
def test_a_count_far_behind_can_win(noise: str) -> None:
    """A count 100 noise scales below the largest count wins with chosen random words.

    In floats, with noise up to 37 scales, it never did.
    """
    mechanism = LipschitzTopK(k=1, noise=noise, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE)
    counts = np.array([[100, 0]])
    middle = 1 << 63
    assert mechanism.draw(counts, generator_of(random_words=[middle, ONES])).tolist() == [[0]]
    assert mechanism.draw(counts, generator_of(random_words=[middle, *[ONES] * 5])).tolist() == [
        [1]
    ]


def test_ties_in_floats_are_broken_by_further_bits() -> None:
    """Two labels have equal counts and equal first random words: the next words decide which comes
    first.
    """
    mechanism = PeelingTopK(k=2, epsilon=2.0)
    word = 3 << 61
    # for the later place first
    for more, order in (([5, 9], [0, 1]), ([9, 5], [1, 0]), ([7, 7, 1, 0], [1, 0])):
        assert mechanism.draw(
            np.array([[4, 4]]), generator_of(random_words=[word, word, *more])
        ).tolist() == [order]


DRAWN = (
    *(
        f"GapSelection-{noise}-3.0-padded=True"
        for noise in ("gumbel", "laplace", "exponential", "gaussian")
    ),
    "LipschitzTopK-2-epsilon=4.0",
    "CanonicalTopK-2-epsilon=4.0",
    "PeelingTopK-3",
    "JointTopK-3",
    "PermuteAndFlipJointTopK-2-epsilon=4.0",
    "PermuteAndFlipTopK-3",
    "LaplaceTopK-2-epsilon=4.0",
    "GammaTopK-1-epsilon=2.0",
    "LimitedDomainTopK-2-domain_size=4-epsilon=2.0",
    "TopStableTopK",
)
MECHANISMS = {
    case.name: case.mechanism_for(
        SmallInstance(Adjacency.REPLACE_ONE, num_labels=5, num_teachers=16)
    )
    for case in SHIPPED
    if case.name.startswith(DRAWN)
}
COUNTING = [case for case in CASES if not case.reads_teachers]
COUNTS = np.random.default_rng(0).integers(low=0, high=17, size=(12, 5))


def decide_by_intervals(patch: pytest.MonkeyPatch) -> None:
    """Makes the error bounds of floats so large that every comparison is decided by exact
    intervals.
    """
    patch.setattr(weighted_index, "FEW_OPERATIONS", 1e9)
    patch.setattr(exponential_coins, "FEW_OPERATIONS", 1e9)
    patch.setattr(comparisons, "SMALL_ERROR", 1e9)


def require_equal_draws(draw: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails unless `draw` gives the same outcomes by floats and, with `decide_by_intervals`, by exact
    intervals.
    """
    by_floats = draw()
    decide_by_intervals(monkeypatch)
    np.testing.assert_array_equal(draw(), by_floats)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_floats_decide_as_fractions_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same random words give a mechanism the same outcomes when exact intervals decide all
    comparisons.
    """
    mechanism = MECHANISMS[name]

    def draw() -> Any:
        outcome = mechanism(COUNTS, rng=np.random.default_rng(7))
        return getattr(outcome, "indices", outcome)

    require_equal_draws(draw, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", COUNTING, ids=[case.name for case in COUNTING])
def test_releases_are_the_same_without_floats(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exact intervals in place of floats, an aggregator releases the same labels from the same
    seed.
    """
    counts = np.random.default_rng(0).integers(low=0, high=NUM_TEACHERS + 1, size=(40, NUM_LABELS))

    def draw() -> Any:
        release = case.released(counts, rng=3)
        return np.column_stack([release.labels, release.answered])

    require_equal_draws(draw, monkeypatch)


def test_a_wrong_enclosure_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the two tests above: exact intervals for another noise scale give other
    outcomes.
    """
    true_weights = softmax_weights

    def weights_of_wrong_scale(deficits: FloatArray, noise_scale: float) -> Weights:
        return true_weights(deficits, noise_scale=2 * noise_scale)

    monkeypatch.setattr(gap_selection, "softmax_weights", weights_of_wrong_scale)
    with pytest.raises(AssertionError):
        test_floats_decide_as_fractions_do("GapSelection-gumbel-3.0-padded=True", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
@pytest.mark.parametrize("noise_scale", [0.05, 1.0])
def test_the_exact_law_keeps_its_range_on_all_neighbors(
    adjacency: Adjacency, noise_scale: float
) -> None:
    """The log ratios of the exact probabilities on all neighbors stay within the price, also inside
    the boundary wrapper.

    With a noise scale of 0.05 votes, most outcomes have probabilities that floats never reach.
    """
    selection = GapSelection(
        noise_scale=noise_scale, num_labels=3, num_teachers=3, padded=True, adjacency=adjacency
    )
    event = selection.event
    assert isinstance(event, BoundedRangeEvent)
    pairs = neighbors(num_labels=3, num_teachers=3, adjacency=adjacency)
    laws: list[Any] = [selection.weights(votes) for votes in pairs.histograms]
    wrapped = tight_boundary(event.epsilon).epsilon
    for wrap, bound in ((lambda w: w, event.epsilon), (boundary_weights, wrapped)):
        table = [probability_intervals(wrap(weights_of_votes)) for weights_of_votes in laws]
        worst = max(
            math.log(ours[1] / theirs[0])
            for first, second in zip(pairs.first, pairs.second, strict=True)
            for ours, theirs in zip(table[first], table[second], strict=True)
            if theirs[0] > 0 or ours[1] > Fraction(1, 10 ** (DIGITS - 6))
        )
        assert worst <= bound * (1 + 1e-9)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-3, 1e300])
def test_gap_selection_with_tiny_and_with_huge_noise(scale: float) -> None:
    """10^9 teachers: with tiny noise the largest gap is always selected, with huge noise every
    candidate is selected sometimes.
    """
    votes = np.array([[10**9, 10**9, 999_999_999, 0], [7, 7, 7, 7]])
    for noise in ("gumbel", "laplace", "exponential", "gaussian"):
        selection = GapSelection(noise_scale=scale, noise=noise, num_labels=4, num_teachers=10**9)
        k = selection(np.tile(votes, (200, 1)), rng=np.random.default_rng(0)).reshape(200, 2)
        assert set(k[:, 1].tolist()) == {1, 2, 3}  # ties
        assert set(k[:, 0].tolist()) == ({3} if scale < 1 else {1, 2, 3})


def test_rare_coins_show_true_with_their_exact_probability() -> None:
    """One uniform number decides which of two rare coins is the first to show True, or that none does.

    Their probabilities are e^-50 and e^-60. With a random word of 0 both coins show True, and with a word of 2^40 or
    more none does. By exact weights, the first coin is the first with probability e^-50, and the second with nearly
    e^-60.
    """
    deficits = np.array([[50, 60]])
    for word, shown in ((0, [True, True]), (1 << 40, [False, False]), (1 << 63, [False, False])):
        assert toss_rare_exponential(
            deficits, noise_scale=1.0, rng=generator_of(random_words=[word])
        ).tolist() == [shown]
    first, second, none = probability_intervals(_first_weights(deficits[0], noise_scale=1.0))
    assert float(first[0]) == pytest.approx(math.exp(-50), rel=1e-9)
    assert float(second[0]) == pytest.approx(math.exp(-60), rel=1e-6)
    assert none[1] >= 1 - first[1] - second[1] > 0


def test_a_session_that_is_continued_reads_the_same_bits() -> None:
    """Random words that were drawn in advance are used before words of the generator, which differs
    after a continuation: both give the same index.
    """
    weights = softmax_weights(np.array([0.0, 36.0]), noise_scale=1.0)
    first_uniforms = LazyUniforms(
        np.array([ONES], dtype=np.uint64),
        np.random.default_rng(0),
        np.array([[0]], dtype=np.uint64),
    )
    continued_uniforms = LazyUniforms(
        np.array([ONES], dtype=np.uint64),
        np.random.default_rng(9),
        np.array([[0]], dtype=np.uint64),
    )
    assert (
        index_of(first_uniforms.entry(index=(0,)), weights)
        == index_of(continued_uniforms.entry(index=(0,)), weights)
        == 1
    )
    assert (
        first_uniforms.entry(index=(0,)).bounds() == continued_uniforms.entry(index=(0,)).bounds()
    )


def test_a_wrapper_claims_no_pure_price_for_a_law_that_it_knows_in_floats_alone() -> None:
    """The exact law of a selection with Laplace noise is unknown, so its boundary wrapper has a
    failure probability; with Gumbel or exponential noise it has none.

    The exact law with exponential noise agrees with the probabilities in floats.
    """
    for noise, has_exact_law in (("gumbel", True), ("exponential", True), ("laplace", False)):
        wrapper = BoundaryWrapper(
            GapSelection(noise_scale=2.0, noise=noise, num_labels=3, num_teachers=9)
        )
        assert (wrapper.failure_prob == 0) is has_exact_law
    selection = GapSelection(
        noise_scale=2.0, noise="exponential", num_labels=4, num_teachers=9, padded=True
    )
    votes = np.array([8, 5, 5, 1])
    exact_weights = selection.weights(votes)
    assert exact_weights is not None
    probabilities = [float(low) for low, _ in probability_intervals(exact_weights)]
    np.testing.assert_allclose(probabilities, selection.probabilities(votes), rtol=1e-12)


@pytest.mark.slow
def test_floats_of_noise_lie_within_their_error_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floats of every kind of noise lie within their stated error of the exact values."""
    for kind in KINDS:
        noise = draw_noise(kind, shape=(1, 40), rng=np.random.default_rng(1))
        for place in range(40):
            low, high = noise.exact(0, place).bounds()
            slack = noise.rounding_error + 2.0**-46 * (1 + abs(noise.values[0, place]))
            assert (
                low - Fraction(slack) <= Fraction(noise.values[0, place]) <= high + Fraction(slack)
            )


@pytest.mark.parametrize("noise_std", [0.3, 40.0, 1e300])
# from a table, and where it would be longer than the counts
@pytest.mark.parametrize("max_count", [2, 801, 100_001])
def test_counts_are_compared_by_a_table_as_one_by_one(max_count: int, noise_std: float) -> None:
    """4900 counts are compared with a threshold after Gaussian noise, by a table and one by one.

    Both give the same bits from the same random words and leave the generator in the same state,
    also for words next to the threshold.
    """
    counts = np.random.default_rng(3).integers(low=0, high=max_count + 1, size=(700, 7))
    first_rng = np.random.default_rng(4)
    second_rng = np.random.default_rng(4)
    bits = are_normally_above(
        counts,
        threshold=0.37 * max_count,
        noise_std=noise_std,
        rng=first_rng,
        clip_range=(0, max_count),
    )
    with np.errstate(over="ignore"):
        assert np.array_equal(
            bits,
            are_normally_above(
                counts, threshold=0.37 * max_count, noise_std=noise_std, rng=second_rng
            ),
        )
    assert first_rng.integers(2**63) == second_rng.integers(2**63)
    for count in (max_count // 3, max_count // 2):
        word = (
            int(
                _probability_below(
                    np.array([count]), threshold=0.37 * max_count, noise_std=noise_std
                )[0]
            )
            << 11
        )
        for random_word in [
            word + step for step in (-(2**20), -1, 0, 1, 2**20) if 2**60 < word < 2**63
        ]:
            drawn = [
                are_normally_above(
                    np.array([[count]]),
                    threshold=0.37 * max_count,
                    noise_std=noise_std,
                    rng=generator_of(random_words=[random_word]),
                    clip_range=clip_range,
                )
                for clip_range in ((0, max_count), None)
            ]
            assert drawn[0] == drawn[1]
