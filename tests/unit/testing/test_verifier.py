"""The verifier checks prices by exact distributions, densities and draws, and names the pair that refutes one."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    BoundedRangeEvent,
    ExactAccountant,
    GaussianEvent,
    PureDpEvent,
    RdpAccountant,
)
from pate.testing import (
    Claim,
    PriceRefuted,
    Verdict,
    verify,
    verify_densities,
    verify_distributions,
    verify_samples,
)
from pate.testing.neighbors import Neighbors, neighbors
from pate.testing.verdict import WorstPair
from tests.privacy.divergences import largest_renyi
from tests.refusals import ANY, refused_parameter


def exponential_mechanism(histogram: np.ndarray, *, epsilon: float = 1.0) -> dict[int, float]:
    """Returns the distribution of the exponential mechanism with weights exp(epsilon h_i / 2) for counts h_i.

    The mechanism has bounded range epsilon.
    """
    weights = np.exp(epsilon * histogram / 2)
    return dict(enumerate((weights / weights.sum()).tolist()))


def test_a_right_price_holds_and_one_10_percent_too_small_is_refuted_with_its_pair() -> None:
    """A right price holds for the exponential mechanism, and a price 10% too small is refuted with the worst pair.

    The mechanism of bounded range 1 is verified on 84 ordered pairs of histograms, and nearly attains its price.
    """
    verdict = verify(
        exponential_mechanism,
        event=BoundedRangeEvent(epsilon=1.0),
        num_labels=2,
        num_teachers=3,
        adjacency=Adjacency.REPLACE_ONE,
    )
    assert (verdict.sound, verdict.refuted) == (True, False)
    assert verdict.require() is verdict
    assert 0.99 < verdict.ratio <= 1
    assert verdict.num_pairs == (4 + 3 + 3) ** 2 - 4**2
    assert str(verdict).startswith("holds on 84 ordered pairs\n  Renyi divergence at order ")

    verdict = verify(
        exponential_mechanism,
        event=BoundedRangeEvent(epsilon=0.9),
        num_labels=2,
        num_teachers=3,
        adjacency=Adjacency.REPLACE_ONE,
    )
    assert (verdict.sound, verdict.refuted) == (False, True)
    assert str(verdict).startswith("REFUTED on 84 ordered pairs\n")
    worst = verdict.renyi
    assert np.abs(np.subtract(worst.first, worst.second)).tolist() == [1, 1]
    with pytest.raises(
        PriceRefuted, match=r"price refuted: .* claimed .* of it; \(\d, \d\) -> \(\d, \d\)"
    ):
        verdict.require()


def test_exact_divergences_equal_those_computed_by_hand() -> None:
    """The verifier finds delta(0) = 1/4 and D_2(1/2 || 1/4) = log(4/3) for a coin, as computed by hand.

    D_2 is the Renyi divergence at order 2. One teacher votes on one label, and the coin shows True with
    probability 1/4 or 1/2.
    """

    def coin_distribution(histogram: np.ndarray) -> dict[bool, float]:
        return {True: (1 + histogram[0]) / 4, False: (3 - histogram[0]) / 4}

    claim = Claim(renyi=((2.0, 1.0),), deltas=((0.0, 1.0),))
    verdict = verify(
        coin_distribution,
        event=claim,
        num_labels=1,
        num_teachers=1,
        adjacency="add_remove",
    )
    assert verdict.renyi.exact == pytest.approx(math.log(4 / 3))
    assert (verdict.renyi.first, verdict.renyi.second) == ((1,), (0,))
    assert verdict.delta.exact == pytest.approx(0.25)


def test_each_histogram_is_seen_once_and_symmetry_changes_no_figure() -> None:
    """The verifier asks for the distribution of each of 16 histograms once.

    With `symmetric`, it compares one of several pairs that are equal up to a permutation of the labels. The
    divergences and the number of pairs stay the same.
    """
    seen_histograms: list[tuple[int, ...]] = []

    def recording_distribution(histogram: np.ndarray) -> dict[int, float]:
        seen_histograms.append(tuple(histogram.tolist()))
        return exponential_mechanism(histogram=histogram)

    verify(
        recording_distribution,
        event=BoundedRangeEvent(epsilon=1.0),
        num_labels=2,
        num_teachers=3,
        adjacency=Adjacency.REPLACE_ONE,
    )
    assert sorted(seen_histograms) == sorted(set(seen_histograms))
    assert len(seen_histograms) == 16
    verdict_on_all_pairs, verdict_on_kinds = (
        verify(
            exponential_mechanism,
            event=BoundedRangeEvent(epsilon=1.0),
            symmetric=symmetric,
            num_labels=2,
            num_teachers=3,
            adjacency=Adjacency.REPLACE_ONE,
        )
        for symmetric in (False, True)
    )
    assert [pair.exact for pair in verdict_on_kinds.worst_pairs] == pytest.approx(
        [pair.exact for pair in verdict_on_all_pairs.worst_pairs], abs=1e-12
    )
    assert verdict_on_kinds.num_pairs == verdict_on_all_pairs.num_pairs


def leaky_distribution(histogram: np.ndarray, *, leak: float = 0.1) -> dict[Any, float]:
    """Returns the distribution of a mechanism that publishes the histogram with probability `leak`, and nothing
    otherwise.
    """
    return {tuple(histogram.tolist()): leak, None: 1 - leak}


def test_a_failure_is_trimmed_and_no_more_than_that() -> None:
    """A claimed failure probability of 0.1 covers a mechanism that publishes its histogram with probability 0.1.

    A probability of 0.11 is refuted. Without a claimed failure probability, 0.1 is refuted too.
    """
    event = ApproximateEvent(PureDpEvent(epsilon=0.01), failure_prob=0.1)
    assert verify(
        leaky_distribution,
        event=event,
        num_labels=2,
        num_teachers=3,
        adjacency=Adjacency.REPLACE_ONE,
    ).sound
    verdict = verify(
        partial(leaky_distribution, leak=0.11),
        event=event,
        num_labels=2,
        num_teachers=3,
        adjacency=Adjacency.REPLACE_ONE,
    )
    assert math.isinf(verdict.renyi.exact)
    assert verdict.delta.ratio == pytest.approx(1.1, rel=1e-3)
    # Without a claimed failure probability.
    assert math.isinf(
        verify(
            leaky_distribution,
            event=PureDpEvent(epsilon=5.0),
            num_labels=2,
            num_teachers=3,
            adjacency=Adjacency.REPLACE_ONE,
        ).renyi.exact
    )


@pytest.mark.parametrize("accountant_class", [RdpAccountant, ExactAccountant])
def test_what_each_accountant_prints_is_checked(accountant_class: type) -> None:
    """The claimed delta at epsilon 0.2 is that of the given accountant, and it holds."""
    event = PureDpEvent(epsilon=1.0)
    verdict = verify(
        exponential_mechanism,
        event=event,
        accountant=accountant_class,
        epsilons=(0.2,),
        deltas=(),
        num_labels=2,
        num_teachers=3,
        adjacency=Adjacency.REPLACE_ONE,
    )
    assert verdict.sound
    assert verdict.delta.claimed == accountant_class().compose(event).get_delta(target_epsilon=0.2)


@pytest.mark.parametrize(
    "law",
    [{0: 0.5, 1: 0.49}, {0: math.nan, 1: 1.0}, {0: 1.5, 1: -0.5}, [0.5, 0.5], {}],
    ids=["sum of 0.99", "nan", "negative probability", "no mapping", "no outcome"],
)
def test_invalid_distribution_is_refused(law: Any) -> None:
    """An invalid distribution is refused, with the histogram that it belongs to."""

    def invalid_distribution(histogram: np.ndarray) -> Any:
        return law

    with refused_parameter("distribution((0, 0))", value=ANY):
        verify(
            invalid_distribution,
            event=PureDpEvent(epsilon=1.0),
            num_labels=2,
            num_teachers=3,
            adjacency=Adjacency.REPLACE_ONE,
        )


def test_given_distributions_are_compared_in_one_direction() -> None:
    """`verify_distributions` compares the first distribution with the second only.

    A claimed Renyi divergence of 0.25 at order 2 is refuted; with both distributions exchanged it holds. In batches,
    the verdict names the pair by its row or by `names`.
    """
    first = np.array([0.5, 0.5])
    second = np.array([0.25, 0.75])
    # The divergence of `first` from `second` is 0.288, and that of `second` from `first` is 0.223.
    claim = Claim(renyi=((2.0, 0.25),))
    assert verify_distributions(first, second, event=claim).refuted
    assert not verify_distributions(second, first, event=claim).refuted
    assert (
        verify_distributions([first, second], [second, first], event=claim).worst.first
        == "first[0]"
    )
    assert (
        verify_distributions(first, second, event=claim, names=name_neighbors).worst.second == "D'"
    )


def name_neighbors(row: int) -> tuple[str, str]:
    """Returns the names of the two distributions of every pair."""
    return "D", "D'"


def gaussian_log_density(mean: float, std: float) -> Any:
    """Returns the logarithm of a normal density."""
    return norm(loc=mean, scale=std).logpdf


@pytest.mark.slow
def test_a_gaussian_attains_its_renyi_curve_and_what_the_exact_accountant_prints() -> None:
    """Two Gaussian densities attain the Renyi curve and the exact accountant's delta of their event.

    The densities are integrated numerically. A standard deviation 10% too small is refuted in both directions.
    """
    verdict = verify_densities(
        gaussian_log_density(mean=0.0, std=3.0),
        gaussian_log_density(mean=1.0, std=3.0),
        event=Claim.from_event(GaussianEvent(noise_multiplier=3.0), orders=(1.5, 4.0, 16.0)),
        low=-400.0,
        high=400.0,
    )
    assert verdict.sound
    assert verdict.renyi.ratio == pytest.approx(1, rel=1e-9)
    event = Claim.from_event(
        GaussianEvent(noise_multiplier=1.0),
        accountant=ExactAccountant,
        orders=(),
        epsilons=(),
        deltas=(1e-3, 1e-6),
    )
    verdict = verify_densities(
        gaussian_log_density(mean=0.0, std=1.0),
        gaussian_log_density(mean=1.0, std=1.0),
        num_panels=40_000,
        event=event,
        low=-400.0,
        high=400.0,
    )
    assert verdict.ratio == pytest.approx(1, rel=1e-5)
    for first_mean, second_mean in ((0.0, 1.0), (1.0, 0.0)):
        assert verify_densities(
            gaussian_log_density(mean=first_mean, std=2.7),
            gaussian_log_density(mean=second_mean, std=2.7),
            event=Claim.from_event(GaussianEvent(noise_multiplier=3.0), orders=(2.0,)),
            low=-400.0,
            high=400.0,
        ).refuted


def draw_noisy_best(
    histogram: np.ndarray, num_samples: int, rng: np.random.Generator, *, scale: float = 1.0
) -> np.ndarray:
    """Draws `num_samples` times the label with the largest count after Gumbel noise.

    The mechanism has bounded range 2 / scale.
    """
    return (histogram + rng.gumbel(loc=0.0, scale=scale, size=(num_samples, 2))).argmax(axis=1)


def verdict_of(noise_scale: float, seed: int) -> Any:
    """Returns the verdict on 4,000 samples of the noisy label, whose claimed bounded range is 2."""
    return verify_samples(
        partial(draw_noisy_best, scale=noise_scale),
        event=BoundedRangeEvent(epsilon=2.0),
        rng=np.random.default_rng(seed),
        num_samples=4000,
        num_labels=2,
        num_teachers=2,
        adjacency="replace_one",
    )


@pytest.mark.slow
def test_the_right_scale_is_not_refuted_and_half_of_it_is() -> None:
    """Verdicts from 4,000 samples do not refute the claimed noise scale, for five seeds.

    With half of the noise, the range is twice the claimed one and is refuted.
    """
    for seed in range(5):
        verdict = verdict_of(noise_scale=1.0, seed=seed)
        assert not verdict.refuted
        assert verdict.require() is verdict
    assert str(verdict).startswith("not refuted at confidence 0.99, 8 tests")
    verdict = verdict_of(noise_scale=0.5, seed=0)
    assert verdict.refuted
    assert verdict.worst.exact > verdict.worst.claimed
    with pytest.raises(
        PriceRefuted,
        match=r"price refuted at confidence 0\.99: delta at epsilon .* \(\d, \d\) -> \(",
    ):
        verdict.require()


PROB_OF_LARGER_COUNT = 1 / (1 + np.exp(-1.0))  # (1, 0) against (0, 1), scale 1


@pytest.mark.slow
def test_a_claim_that_is_attained_is_rarely_refuted_and_one_10_percent_too_small_is() -> None:
    """If the exact delta at epsilon 0 is claimed, at most half of 40 seeds refute it at confidence 1/2.

    A claim 10% too small is refuted at confidence 0.99.
    """

    def is_refuted(claimed_delta: float, seed: int, num_samples: int, confidence: float) -> bool:
        return verify_samples(
            draw_noisy_best,
            event=Claim(deltas=((0.0, claimed_delta),)),
            rng=np.random.default_rng(seed),
            num_samples=num_samples,
            confidence=confidence,
            num_labels=2,
            num_teachers=2,
            adjacency="replace_one",
        ).refuted

    exact_delta = 2 * PROB_OF_LARGER_COUNT - 1
    verdicts = [
        is_refuted(claimed_delta=exact_delta, seed=seed, num_samples=400, confidence=0.5)
        for seed in range(40)
    ]
    assert sum(verdicts) <= 20
    assert is_refuted(claimed_delta=0.9 * exact_delta, seed=0, num_samples=40_000, confidence=0.99)


@pytest.mark.slow
def test_chance_among_many_outcomes_refutes_nothing() -> None:
    """A claimed delta of 0.05 is not refuted by chance if one of 300 outcomes is drawn uniformly, whatever the votes.

    Outcomes that seem likely by chance in the first half of the draws are not likely in the second half, which tests
    them.
    """

    def draw_one_of_300(histogram: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(300, size=count)

    for seed in range(5):
        assert not verify_samples(
            draw_one_of_300,
            event=Claim(deltas=((0.0, 0.05),)),
            rng=np.random.default_rng(seed),
            num_samples=2000,
            num_labels=2,
            num_teachers=2,
            adjacency="replace_one",
        ).refuted


def draw_three_outcomes(
    histogram: np.ndarray, num_samples: int, rng: np.random.Generator
) -> list[int]:
    """Returns three outcomes, whatever number of samples is asked for."""
    return [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "verify_invalidly"),
    [
        ("rng", lambda: verified_samples(rng=7)),
        ("confidence", lambda: verified_samples(confidence=1.0)),
        ("num_samples", lambda: verified_samples(num_samples=1)),
        ("deltas", lambda: verified_samples(event=Claim(renyi=((2.0, 1.0),)))),
        ("num_labels", lambda: verified_samples(num_labels=1, one_vote=True)),
        ("sampler", lambda: verified_samples(sampler=draw_three_outcomes)),
    ],
)
def test_invalid_argument_of_verifier_is_refused(
    name: str, verify_invalidly: Callable[[], object]
) -> None:
    """`verify_samples` refuses an invalid argument, and the error is about its `name`."""
    with refused_parameter(name, value=ANY):
        verify_invalidly()


def verified_samples(
    *,
    sampler: Any = draw_noisy_best,
    event: Any = GaussianEvent(noise_multiplier=1.0),  # noqa: B008 - frozen
    rng: Any = None,
    num_labels: int = 2,
    num_samples: int = 20_000,
    confidence: float = 0.99,
    one_vote: bool = False,
) -> Any:
    """Returns the verdict of `verify_samples` on the votes of two teachers.

    Args:
        sampler: draws outcomes of the mechanism.
        event: the claimed price, a privacy event or a `Claim`.
        rng: the random generator; None for one with seed 0.
        num_labels: the number of labels.
        num_samples: the number of draws for each histogram.
        confidence: the confidence of a refutation.
        one_vote: whether each teacher votes for exactly one label.
    """
    return verify_samples(
        sampler,
        event=event,
        rng=np.random.default_rng(0) if rng is None else rng,
        num_labels=num_labels,
        num_teachers=2,
        adjacency="replace_one",
        num_samples=num_samples,
        confidence=confidence,
        one_vote=one_vote,
    )


def test_claim_of_an_event_has_its_price() -> None:
    """The claim of a Gaussian event with a failure, composed three times, has the price of the Renyi accountant.

    These are the Renyi divergences, the delta and the failure probability.
    """
    event = ApproximateEvent(GaussianEvent(noise_multiplier=2.0), failure_prob=0.01)
    claim = Claim.from_event(event, orders=(2.0, 8.0), epsilons=(1.0,), deltas=(0.001,), count=3)
    spent = RdpAccountant().compose(event, count=3)
    assert claim.renyi == ((2.0, pytest.approx(3 * 2 / 8)), (8.0, pytest.approx(3 * 8 / 8)))
    assert claim.failure_prob == pytest.approx(0.03)
    assert claim.deltas[0] == (1.0, spent.get_delta(target_epsilon=1.0))
    assert claim.deltas[1] == (spent.get_epsilon(target_delta=0.031), pytest.approx(0.031))


def worst_pair(exact: float, claimed: float) -> WorstPair:
    """Returns a pair of histograms with an exact and a claimed delta."""
    return WorstPair(measure="delta", at=1.0, exact=exact, claimed=claimed, first=(1,), second=(0,))


@pytest.mark.parametrize(
    ("exact", "claimed", "ratio", "exceeds"),
    [
        (0.2, 0.1, 2.0, True),
        (0.1, 0.1, 1.0, False),
        (0.1 + 5e-11, 0.1, 1.0, False),
        (0.1 + 5e-10, 0.1, 1.0, True),
        (5e-14, 0.0, 0.0, False),
        (1e-9, 0.0, math.inf, True),
        (math.inf, math.inf, 0.0, False),
    ],
)
def test_ratio_and_excess_of_a_pair_allow_for_rounding(
    exact: float, claimed: float, ratio: float, exceeds: bool
) -> None:
    """A pair of an exact and a claimed divergence has the ratio of both.

    The pair exceeds its claim if the difference is more than rounding explains. The ratio is 0 if both divergences are
    infinite, or if the claimed one is 0 and the exact one is explained by rounding.
    """
    assert worst_pair(exact=exact, claimed=claimed).ratio == pytest.approx(ratio)
    assert worst_pair(exact=exact, claimed=claimed).exceeds is exceeds


def test_a_verdict_with_one_refuted_pair_is_refuted() -> None:
    """If one of three pairs exceeds its claim, the verdict's text says REFUTED and shows this pair."""
    pairs = tuple(worst_pair(exact=exact, claimed=0.1) for exact in (0.09, 0.2, 0.1))
    verdict = Verdict(pairs, num_pairs=4)
    assert verdict.worst.exact == 0.2
    assert verdict.renyi is None
    assert str(verdict) == (
        "REFUTED on 4 ordered pairs\n  delta at epsilon 1: exact 0.2, claimed 0.1, 2 of it; (1,) -> (0,)"
    )


Pair = tuple[tuple[int, ...], tuple[int, ...]]


def histogram_pairs(pairs: Neighbors) -> list[Pair]:
    """Returns the pairs of neighboring histograms as tuples of counts."""
    return list(zip(*(map(tuple, histograms.tolist()) for histograms in pairs.pairs), strict=True))


def pairs_by_definition(
    num_labels: int, num_teachers: int, adjacency: Adjacency, *, one_vote: bool
) -> set[Pair]:
    """Returns every pair of neighboring histograms, from every matrix of votes and every change of one teacher.

    With `one_vote`, each teacher votes for exactly one label.
    """
    all_ballots = [np.array(bits) for bits in product((0, 1), repeat=num_labels)]
    ballots = all_ballots
    if one_vote:
        ballots = [ballot for ballot in all_ballots if ballot.sum() == 1]
    # The first ballot of all is empty: a teacher without votes counts like a removed one.
    new_ballots = ballots if adjacency == Adjacency.REPLACE_ONE else all_ballots[:1]
    pairs = set()
    for ballots_of_teachers in product(ballots, repeat=num_teachers):
        votes = np.array(ballots_of_teachers)
        histogram = tuple(votes.sum(axis=0).tolist())
        for new_ballot in new_ballots:
            changed_votes = np.vstack([new_ballot, votes[1:]])
            neighboring_histogram = tuple(changed_votes.sum(axis=0).tolist())
            if histogram != neighboring_histogram:
                pairs.add((histogram, neighboring_histogram))
                pairs.add((neighboring_histogram, histogram))
    return pairs


@pytest.mark.parametrize("one_vote", [False, True])
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
@pytest.mark.parametrize(("num_labels", "num_teachers"), [(1, 1), (1, 3), (2, 3), (3, 2), (3, 3)])
def test_pairs_are_those_of_the_definition(
    adjacency: Adjacency, num_labels: int, num_teachers: int, one_vote: bool
) -> None:
    """`neighbors` lists each ordered pair of neighboring histograms once.

    The reference tries every matrix of votes and every change of one teacher.
    """
    listed_pairs = neighbors(
        num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency, one_vote=one_vote
    )
    pairs = histogram_pairs(pairs=listed_pairs)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == pairs_by_definition(
        num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency, one_vote=one_vote
    )


def ranks_distribution(histogram: np.ndarray) -> np.ndarray:
    """Returns a distribution over labels that depends on the sorted counts and on the order of equal counts."""
    order = np.argsort(-histogram, kind="stable")
    falling_counts = histogram[order]
    weights = np.exp(0.7 * falling_counts) * (1 + 0.3 * np.arange(len(falling_counts)))
    distribution = np.zeros(len(falling_counts))
    distribution[order] = weights / weights.sum()
    return distribution


@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_one_pair_of_each_kind_has_all_divergences(adjacency: Adjacency) -> None:
    """`up_to_names` keeps less than half of the pairs, and all Renyi divergences at order 2.

    Two pairs have equal divergences if a permutation of the labels turns one into the other and keeps the rank of each
    label. Labels rank by falling counts, and labels of equal counts by their index.
    """
    pairs = neighbors(num_labels=3, num_teachers=4, adjacency=adjacency)
    pairs_up_to_names = pairs.up_to_names
    assert 2 * len(pairs_up_to_names) < len(pairs)
    assert set(histogram_pairs(pairs=pairs_up_to_names)) <= set(histogram_pairs(pairs=pairs))

    def renyi_divergences_of(chosen_pairs: Neighbors) -> set[float]:
        distributions = np.array(
            [ranks_distribution(histogram=histogram) for histogram in chosen_pairs.histograms]
        )
        return {
            round(
                float(
                    largest_renyi(
                        first_laws=distributions[[i]],
                        second_laws=distributions[[j]],
                        renyi_orders=[2.0],
                    )[0]
                ),
                10,
            )
            for i, j in zip(chosen_pairs.first_rows, chosen_pairs.second_rows, strict=True)
        }

    assert renyi_divergences_of(pairs_up_to_names) == renyi_divergences_of(pairs)


def test_a_distribution_that_changes_its_argument_leaves_later_verdicts_alone() -> None:
    """A distribution function that empties its histogram does not change the verdict of a second verification."""

    def coin_distribution(histogram: np.ndarray) -> dict[str, float]:
        """Returns the distribution of a bit whose price is above 0.5, and empties the histogram."""
        count = int(histogram[0])
        histogram[:] = 0
        return {"yes": (1 + count) / 4, "no": (3 - count) / 4}

    verdicts = [
        verify(
            coin_distribution,
            num_labels=1,
            num_teachers=2,
            adjacency=Adjacency.ADD_REMOVE,
            event=PureDpEvent(epsilon=0.5),
        )
        for _ in range(2)
    ]
    assert [verdict.sound for verdict in verdicts] == [False, False]
