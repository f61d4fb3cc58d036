"""Draws have exactly the law that is priced, while a sampler in floats has not, and is refuted here.

Many tests choose the random words of the generator. The draw must be right even where words decide by less than a float
can resolve.
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
from pate.mechanisms import (
    BoundaryWrapper,
    CanonicalTopK,
    GammaTopK,
    GapSelection,
    JointTopK,
    LaplaceTopK,
    LimitedDomainTopK,
    LipschitzTopK,
    PeelingTopK,
    PermuteAndFlipJointTopK,
    PermuteAndFlipTopK,
    TopStableTopK,
    gap_selection,
)
from pate.mechanisms.gap_selection import SELECTION_NOISES
from pate.mechanisms.noise import comparisons, exponential_coins, weighted_index
from pate.mechanisms.noise.comparisons import _probability_below, noisy_at_least
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.exponential_coins import _first_coin_encloser, toss_rare_exponential
from pate.mechanisms.noise.kinds import KINDS, UNIT_NOISES
from pate.mechanisms.noise.lazy_uniforms import LazyUniform, LazyUniforms
from pate.mechanisms.noise.weighted_index import (
    WeightEncloser,
    boundary_encloser,
    index_of,
    softmax_encloser,
)
from pate.testing import neighbors
from tests.contract.aggregator_cases import CASES, NUM_LABELS, NUM_TEACHERS, Case

ONES = 2**64 - 1
DIGITS = 60


class ChosenWords(np.random.Generator):
    """A generator whose 64-bit words are those of a list, and then zeros."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(np.random.PCG64(0))
        self.words = words[::-1]

    def integers(  # type: ignore[override]
        self, low: int, high: int, *, size: tuple[int, ...], dtype: Any
    ) -> np.ndarray:
        drawn_words = [self.words.pop() if self.words else 0 for _ in range(math.prod(size))]
        return np.array(drawn_words, dtype=dtype).reshape(size)


def draw_from_floats(deficits: np.ndarray, uniform: float) -> int:
    """Draws an index as earlier versions did, from a float uniform number and cumulated sums in floats."""
    cumulated = np.cumsum(np.exp(-deficits))
    return int((cumulated <= uniform * cumulated[-1]).sum())


def probability_intervals(enclose_weights: WeightEncloser) -> list[tuple[Fraction, Fraction]]:
    """Returns each probability as an interval between two fractions."""
    intervals = enclose_weights(DIGITS)
    smallest_total = sum(low for low, _ in intervals)
    largest_total = sum(high for _, high in intervals)
    return [
        (Fraction(low, largest_total), Fraction(high, smallest_total)) for low, high in intervals
    ]


def test_floats_gave_outcomes_that_a_neighbor_never_gives() -> None:
    """In floats, at least 6 of 2^53 uniform numbers give an outcome on one histogram that its neighbor never gives.

    The claimed log ratio is 4, which the exact probabilities keep.
    """
    largest_uniforms = [1 - j / 2**53 for j in range(1, 64)]
    deficits = np.array([0.0, 34.7])
    neighboring_deficits = np.array([0.0, 38.7])
    num_draws, num_neighboring_draws = (
        sum(draw_from_floats(gaps, uniform=uniform) == 1 for uniform in largest_uniforms)
        for gaps in (deficits, neighboring_deficits)
    )
    assert num_draws >= 6
    assert num_neighboring_draws == 0
    (_, high), (neighboring_low, _) = (
        probability_intervals(softmax_encloser(gaps, noise_scale=1.0))[1]
        for gaps in (deficits, neighboring_deficits)
    )
    assert neighboring_low > 0
    assert math.log(high / neighboring_low) <= 4.0 + 1e-12


@pytest.mark.parametrize("deficit", [36.0, 100.0, 1000.0])
def test_an_outcome_of_any_probability_is_possible(deficit: float) -> None:
    """An outcome whose odds are exp(-deficit) is drawn if the random words begin with enough ones.

    With fewer ones the other outcome is drawn.
    """
    num_bits = deficit / math.log(2)
    too_few_words = math.floor(num_bits / 64)
    enough_words = too_few_words + 2
    assert (enough_words - 1) * 64 > num_bits + 1 or deficit != 36.0
    selection = GapSelection(noise_scale=1.0, num_labels=3, num_teachers=2000)
    votes = np.array([int(deficit), 0, 0])  # gaps: deficit, 0
    assert selection(votes, rng=ChosenWords([ONES] * enough_words)) == 2
    assert selection(votes, rng=ChosenWords([ONES] * too_few_words)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "deficits", [[0.0, 3.0, 80.0, 80.0, 5.0], [2.0, 0.0, 0.0], [0.0, 700.0, 1.0]]
)
def test_every_boundary_is_where_it_should_be(deficits: list[float]) -> None:
    """A uniform number just below the cumulated exact weight of an index gives that index.

    One just above gives the next. The weight of an index is exp(-deficit / 1.5).
    """
    enclose_weights = softmax_encloser(np.array(deficits), noise_scale=1.5)
    num_digits = 900
    intervals = enclose_weights(num_digits)
    total_weight = sum(low for low, _ in intervals)
    cumulated_weight = 0
    for index, (low, _) in enumerate(intervals[:-1]):
        cumulated_weight += low
        boundary = (cumulated_weight << 2048) // total_weight  # in steps of 2^-2048
        for sign, expected in ((-1, index), (1, index + 1)):
            steps = boundary + (sign << 320)
            words = [(steps >> (2048 - 64 * (number + 1))) & ONES for number in range(32)]
            uniform = LazyUniform(words[0], rng=ChosenWords(words[1:]))
            assert index_of(uniform, enclose_weights=enclose_weights) == expected


@pytest.mark.parametrize("noise", sorted(UNIT_NOISES))
def test_a_count_far_behind_can_win(noise: str) -> None:
    """A count that is 100 noise scales below the largest one wins with suitable random words.

    With noise in floats, of at most 37 scales, it never could.
    """
    mechanism = LipschitzTopK(k=1, noise=noise, epsilon=1.0, adjacency=Adjacency.ADD_REMOVE)
    counts = np.array([[100, 0]])
    middle = 1 << 63
    for words, winner in (([middle, ONES], 0), ([middle, *[ONES] * 5], 1)):
        assert mechanism.draw(counts, rng=ChosenWords(words)).tolist() == [[winner]]


def test_ties_in_floats_are_broken_by_further_bits() -> None:
    """If two labels have equal counts and equal first random words, the next words decide which comes first."""
    mechanism = PeelingTopK(k=2, epsilon=2.0)
    counts = np.array([[4, 4]])
    tied_first_words = [3 << 61] * 2
    # the next word of the second label comes first
    for tie_breaking_words, order in (([5, 9], [0, 1]), ([9, 5], [1, 0]), ([7, 7, 1, 0], [1, 0])):
        rng = ChosenWords([*tied_first_words, *tie_breaking_words])
        assert mechanism.draw(counts, rng=rng).tolist() == [order]


# The mechanisms whose draws are compared, for the votes of 16 teachers on five labels, by the id of the test.
MECHANISMS: dict[str, Any] = {
    **{
        f"gap_selection-{noise}": GapSelection(
            noise=noise, noise_scale=3.0, num_labels=5, num_teachers=16, padded=True
        )
        for noise in SELECTION_NOISES
    },
    **{
        f"lipschitz_top_k-{noise}": LipschitzTopK(k=2, epsilon=4.0, noise=noise)
        for noise in UNIT_NOISES
    },
    **{
        f"canonical_top_k-{noise}-{gamma}": CanonicalTopK(
            k=2, epsilon=4.0, noise=noise, gamma=gamma
        )
        for noise in UNIT_NOISES
        for gamma in (0.5, 1.0)
    },
    "peeling_top_k": PeelingTopK(k=3, epsilon=2.0),
    "joint_top_k": JointTopK(k=3, epsilon=2.0),
    "permute_and_flip_joint_top_k": PermuteAndFlipJointTopK(k=2, epsilon=4.0),
    "permute_and_flip_top_k": PermuteAndFlipTopK(k=3, epsilon=2.0),
    "laplace_top_k": LaplaceTopK(k=2, epsilon=4.0),
    "gamma_top_k": GammaTopK(k=1, epsilon=2.0),
    "limited_domain_top_k": LimitedDomainTopK(k=2, epsilon=2.0, domain_size=4, failure_prob=1e-3),
    "top_stable_top_k": TopStableTopK(k=2, epsilon=2.0, failure_prob=1e-3, domain_size=2),
}
COUNTING = [case for case in CASES if not case.reads_teachers]
COUNTS = np.random.default_rng(0).integers(low=0, high=17, size=(12, 5))


def decide_by_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the error bounds of floats so high that exact intervals decide every comparison."""
    monkeypatch.setattr(weighted_index, "FEW_OPERATIONS", 1e9)
    monkeypatch.setattr(exponential_coins, "FEW_OPERATIONS", 1e9)
    monkeypatch.setattr(comparisons, "SMALL_ERROR", 1e9)


def require_equal_draws(draw: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails unless `draw` gives the same outcomes by floats and, with `decide_by_intervals`, by exact intervals."""
    by_floats = draw()
    decide_by_intervals(monkeypatch)
    np.testing.assert_array_equal(draw(), by_floats)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_floats_decide_as_fractions_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism draws the same outcomes from the same random words if exact intervals decide all comparisons."""
    mechanism = MECHANISMS[name]

    def draw() -> Any:
        outcome = mechanism(COUNTS, rng=np.random.default_rng(7))
        return getattr(outcome, "indices", outcome)

    require_equal_draws(draw, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", COUNTING, ids=[case.name for case in COUNTING])
def test_releases_are_the_same_without_floats(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregator releases the same labels from the same seed if exact intervals replace floats."""
    counts = np.random.default_rng(0).integers(low=0, high=NUM_TEACHERS + 1, size=(40, NUM_LABELS))

    def draw() -> Any:
        release = case.draw_release(counts, rng=3)
        return np.column_stack([release.labels, release.answered])

    require_equal_draws(draw, monkeypatch)


def test_a_wrong_enclosure_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: `test_floats_decide_as_fractions_do` fails if exact intervals are for another noise scale."""
    make_correct_encloser = softmax_encloser

    def make_wrong_encloser(deficits: FloatArray, noise_scale: float) -> WeightEncloser:
        return make_correct_encloser(deficits, noise_scale=2 * noise_scale)

    monkeypatch.setattr(gap_selection, "softmax_encloser", make_wrong_encloser)
    with pytest.raises(AssertionError):
        test_floats_decide_as_fractions_do("gap_selection-gumbel", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
@pytest.mark.parametrize("noise_scale", [0.05, 1.0])
def test_the_exact_law_keeps_its_range_on_all_neighbors(
    adjacency: Adjacency, noise_scale: float
) -> None:
    """The log ratios of exact probabilities on all neighbors stay within the price, with and without boundary wrapper.

    With a noise scale of 0.05 votes, over a third of the probabilities are below 2^-53, the step of uniform floats.
    """
    selection = GapSelection(
        noise_scale=noise_scale, num_labels=3, num_teachers=3, padded=True, adjacency=adjacency
    )
    event = selection.event
    assert isinstance(event, BoundedRangeEvent)
    pairs = neighbors(num_labels=3, num_teachers=3, adjacency=adjacency)
    enclosers = [selection.weights(votes) for votes in pairs.histograms]

    def largest_log_ratio(intervals: list[list[tuple[Fraction, Fraction]]]) -> float:
        """Returns the largest log ratio of probabilities on all neighbors, given intervals by histogram and outcome."""
        return max(
            math.log(high / neighboring_low)
            for first, second in zip(pairs.first_rows, pairs.second_rows, strict=True)
            for (_, high), (neighboring_low, _) in zip(
                intervals[first], intervals[second], strict=True
            )
            if neighboring_low > 0 or high > Fraction(1, 10 ** (DIGITS - 6))
        )

    plain_intervals = [probability_intervals(enclose_weights) for enclose_weights in enclosers]
    wrapped_intervals = [
        probability_intervals(boundary_encloser(enclose_weights)) for enclose_weights in enclosers
    ]
    wrapped_epsilon = tight_boundary(event.epsilon).epsilon
    assert largest_log_ratio(plain_intervals) <= event.epsilon * (1 + 1e-9)
    assert largest_log_ratio(wrapped_intervals) <= wrapped_epsilon * (1 + 1e-9)


@pytest.mark.parametrize("noise_scale", [5e-324, 1e-300, 1e-3, 1e300])
def test_gap_selection_with_tiny_and_with_huge_noise(noise_scale: float) -> None:
    """With tiny noise a gap of 999,999,999 votes is selected in all draws, and with huge noise each gap in some.

    If all gaps are 0, each is selected in some draws, whatever the noise.
    """
    two_histograms = np.array([[10**9, 10**9, 999_999_999, 0], [7, 7, 7, 7]])
    for noise in ("gumbel", "laplace", "exponential", "gaussian"):
        selection = GapSelection(
            noise_scale=noise_scale, noise=noise, num_labels=4, num_teachers=10**9
        )
        selected = selection(np.tile(two_histograms, (200, 1)), rng=np.random.default_rng(0))
        of_first_votes = set(selected[::2].tolist())
        of_tied_votes = set(selected[1::2].tolist())
        assert of_first_votes == ({3} if noise_scale < 1 else {1, 2, 3})
        assert of_tied_votes == {1, 2, 3}


def test_rare_coins_show_true_with_their_exact_probability() -> None:
    """One uniform number decides which of two rare coins shows True first, or that neither does.

    Their probabilities are e^-50 and e^-60. A random word of 0 makes both True, and one of 2^40 or of 2^63 neither. By
    exact weights, the first coin shows True first with probability e^-50, and the second with nearly e^-60.
    """
    coin_deficits = np.array([50, 60])
    for word, coins in ((0, [True, True]), (1 << 40, [False, False]), (1 << 63, [False, False])):
        tossed = toss_rare_exponential(
            coin_deficits[None], noise_scale=1.0, rng=ChosenWords([word])
        )
        assert tossed.tolist() == [coins]
    first_interval, second_interval, none_interval = probability_intervals(
        _first_coin_encloser(coin_deficits, noise_scale=1.0)
    )
    assert float(first_interval[0]) == pytest.approx(math.exp(-50), rel=1e-9)
    assert float(second_interval[0]) == pytest.approx(math.exp(-60), rel=1e-6)
    assert none_interval[1] >= 1 - first_interval[1] - second_interval[1] > 0


def test_a_session_that_is_continued_reads_the_same_bits() -> None:
    """Random words that were drawn in advance are used before words of the generator.

    So the same index is drawn after a continuation, whose generator is another.
    """
    enclose_weights = softmax_encloser(deficits=np.array([0.0, 36.0]), noise_scale=1.0)

    def draw_uniform(seed_of_generator: int) -> LazyUniform:
        uniforms = LazyUniforms(
            np.array([ONES], dtype=np.uint64),
            rng=np.random.default_rng(seed_of_generator),
            reserved_words=np.array([[0]], dtype=np.uint64),
        )
        return uniforms.entry(index=(0,))

    assert index_of(draw_uniform(seed_of_generator=0), enclose_weights=enclose_weights) == 1
    assert index_of(draw_uniform(seed_of_generator=9), enclose_weights=enclose_weights) == 1
    uniform = draw_uniform(seed_of_generator=0)
    continued_uniform = draw_uniform(seed_of_generator=9)
    assert uniform.compute_bounds_so_far() == continued_uniform.compute_bounds_so_far()


def test_a_wrapper_claims_no_pure_price_for_a_law_that_it_knows_in_floats_alone() -> None:
    """A boundary wrapper has a failure probability if the exact law of the selection is unknown, as with Laplace noise.

    With Gumbel or exponential noise it has none. The exact law with exponential noise agrees with the probabilities in
    floats.
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
    enclose_weights = selection.weights(votes)
    probabilities = [float(low) for low, _ in probability_intervals(enclose_weights)]
    np.testing.assert_allclose(probabilities, selection.probabilities(votes), rtol=1e-12)


@pytest.mark.slow
def test_floats_of_noise_lie_within_their_error_bound() -> None:
    """Of every kind of noise, 40 floats lie within their stated error of the bounds that hold the exact values."""
    for noise_kind in KINDS:
        noise = draw_noise(noise_kind, shape=(1, 40), rng=np.random.default_rng(1))
        only_row = 0
        for column in range(40):
            drawn_float = noise.values[only_row, column]
            low, high = noise.make_number(only_row, column).compute_bounds_so_far()
            error = Fraction(noise.rounding_error)
            assert low - error <= Fraction(drawn_float) <= high + error


@pytest.mark.parametrize("noise_std", [0.3, 40.0, 1e300])
# from a table, and where it would be longer than the counts
@pytest.mark.parametrize("max_count", [2, 801, 100_001])
def test_counts_are_compared_by_a_table_as_one_by_one(max_count: int, noise_std: float) -> None:
    """If 4900 noisy counts are compared with a threshold, a table gives the same bits as comparing them one by one.

    Both use the same random words, and leave the generator in the same state. For some counts, words next to the
    boundary between the two bits are tried, too.
    """
    counts = np.random.default_rng(3).integers(low=0, high=max_count + 1, size=(700, 7))
    first_rng = np.random.default_rng(4)
    second_rng = np.random.default_rng(4)
    threshold = 0.37 * max_count
    by_table = noisy_at_least(
        counts,
        threshold=threshold,
        noise_std=noise_std,
        rng=first_rng,
        clip_range=(0, max_count),
    )
    with np.errstate(over="ignore"):
        one_by_one = noisy_at_least(
            counts, threshold=threshold, noise_std=noise_std, rng=second_rng
        )
    assert np.array_equal(by_table, one_by_one)
    assert first_rng.integers(2**63) == second_rng.integers(2**63)
    for count in (max_count // 3, max_count // 2):
        [steps_below] = _probability_below(
            np.array([count]), threshold=threshold, noise_std=noise_std
        )
        word = int(steps_below) << 11
        if not 2**60 < word < 2**63:
            continue
        for random_word in [word + step for step in (-(2**20), -1, 0, 1, 2**20)]:
            by_table, one_by_one = (
                noisy_at_least(
                    np.array([[count]]),
                    threshold=threshold,
                    noise_std=noise_std,
                    rng=ChosenWords([random_word]),
                    clip_range=clip_range,
                )
                for clip_range in ((0, max_count), None)
            )
            assert by_table == one_by_one
