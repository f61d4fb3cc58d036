"""The best of a secret random number K of runs costs at most its price, by exact laws of small candidates.

A candidate is a run with one setting.
"""

import math
from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import norm

from pate import accounting
from pate.accounting.run_counts import RunCount
from pate.array_types import FloatArray
from tests.privacy.divergences import ORDERS, largest_delta, largest_renyi

EPSILONS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 5.0)
RUN_COUNT_DISTRIBUTIONS = (
    accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.1),
    accounting.TruncatedNegativeBinomial(eta=1.0, gamma=0.25),
    accounting.TruncatedNegativeBinomial(eta=-0.6, gamma=0.05),
    accounting.TruncatedNegativeBinomial(eta=3.0, gamma=0.5),
    accounting.Poisson(mean=0.3),
    accounting.Poisson(mean=3.0),
    accounting.Poisson(mean=12.0),
)
every_distribution = pytest.mark.parametrize("distribution", RUN_COUNT_DISTRIBUTIONS, ids=str)
ProbOfNone = Callable[[FloatArray], FloatArray]
"""The probability that none of the runs has a property, from the probability that one run has it."""


def make_prob_of_none_at_random_count(distribution: RunCount) -> ProbOfNone:
    """Returns a function that computes the probability that no run has a property, for a random number of runs.

    It is the generating function of that number at 1 - p, as Papernot & Steinke (2022) print it.
    """

    def compute_prob_of_none(probs: FloatArray) -> FloatArray:
        lack_probs = 1 - probs
        match distribution:
            case accounting.Poisson(mean=mean):
                return np.asarray(np.exp(mean * (lack_probs - 1)))
            case accounting.TruncatedNegativeBinomial(eta=0.0, gamma=gamma):
                return np.asarray(np.log(1 - (1 - gamma) * lack_probs) / math.log(gamma))
            case accounting.TruncatedNegativeBinomial(eta=eta, gamma=gamma):
                return np.asarray(
                    ((1 - (1 - gamma) * lack_probs) ** -eta - 1) / (gamma**-eta - 1),
                )
        raise TypeError(distribution)

    return compute_prob_of_none


def make_prob_of_none_at_fixed_count(num_runs: int) -> ProbOfNone:
    """Returns a function that computes the probability that no run has a property, for a fixed number of runs."""

    def compute_prob_of_none(probs: FloatArray) -> FloatArray:
        return (1 - probs) ** num_runs

    return compute_prob_of_none


def law_of_best(candidate_laws: FloatArray, compute_prob_of_none: ProbOfNone) -> FloatArray:
    """Returns the law of the best outcome of K runs, with P(K = 0) as its last entry, `[..., num_outcomes + 1]`.

    Args:
        candidate_laws: the laws of one run, outcomes from the worst to the best, `[..., num_outcomes]`.
        compute_prob_of_none: computes the probability that none of K runs has a property.
    """
    prob_at_least = np.cumsum(candidate_laws[..., ::-1], axis=-1)[..., ::-1]
    nothing_above = np.zeros((*candidate_laws.shape[:-1], 1))
    prob_at_least = np.concatenate([prob_at_least, nothing_above], axis=-1)
    # the probability that no run has the outcome or a better one, from the worst outcome on
    prob_all_below = compute_prob_of_none(np.minimum(prob_at_least, 1.0))
    certainty = np.ones((*candidate_laws.shape[:-1], 1))
    prob_of_zero_runs = compute_prob_of_none(certainty)
    return np.concatenate([np.diff(prob_all_below, axis=-1), prob_of_zero_runs], axis=-1)


def excess_over_price(
    first_laws: FloatArray, second_laws: FloatArray, event: accounting.Event
) -> float:
    """Returns the largest amount by which pairs of laws, in both directions, exceed the price of an event.

    Renyi divergences exceed it at an order, or hockey sticks at an epsilon. A result above 0 refutes the price.
    """
    first_of_both = np.concatenate([first_laws, second_laws])
    second_of_both = np.concatenate([second_laws, first_laws])
    curve = accounting.RdpAccountant(ORDERS).compose(event).rdp
    renyi_excess = largest_renyi(first_of_both, second_of_both, renyi_orders=ORDERS) - curve
    spent = accounting.AutoAccountant().compose(event)
    delta_excess = [
        largest_delta(first_of_both, second_of_both, epsilon)
        - spent.get_delta(target_epsilon=epsilon)
        for epsilon in EPSILONS
    ]
    return max(float(renyi_excess.max()), *delta_excess)


def in_all_orders(law: FloatArray) -> FloatArray:
    """Returns a law `[num_outcomes]` with its outcomes in all orders, `[num_orders, num_outcomes]`."""
    return np.array(list(permutations(law)))


def randomized_response(epsilon: float) -> tuple[FloatArray, FloatArray]:
    """Returns the laws of two neighbors on four outcomes, in all orders, `[24, 4]` each.

    The ratios are the largest and the smallest that pure DP allows.
    """
    growth = math.exp(epsilon)
    outcome_weights = np.array([1.0, 0.02, 1.0, 0.02])
    first_weights = outcome_weights * [growth, growth, 1.0, 1.0]
    second_weights = outcome_weights * [1.0, 1.0, growth, growth]
    # both sums agree, as the weights are symmetric
    return (
        in_all_orders(first_weights / first_weights.sum()),
        in_all_orders(second_weights / second_weights.sum()),
    )


def binned_gaussians(mean_shift: float) -> tuple[FloatArray, FloatArray]:
    """Returns the laws of two normals `mean_shift` apart, cut into six intervals, in all orders of the intervals."""
    edges = np.array(
        [-np.inf, -2.5, -1.0, mean_shift / 2, 1.0 + mean_shift, 2.5 + mean_shift, np.inf]
    )
    return (
        in_all_orders(np.diff(norm.cdf(edges))),
        in_all_orders(np.diff(norm.cdf(edges - mean_shift))),
    )


CANDIDATES: dict[str, tuple[accounting.Event, tuple[FloatArray, FloatArray]]] = {
    "pure": (accounting.PureDpEvent(epsilon=0.5), randomized_response(epsilon=0.5)),
    "gaussian": (accounting.GaussianEvent(noise_multiplier=2.0), binned_gaussians(mean_shift=0.5)),
    "little_noise": (
        accounting.GaussianEvent(noise_multiplier=0.7),
        binned_gaussians(mean_shift=1 / 0.7),
    ),
}


@pytest.mark.slow
@every_distribution
@pytest.mark.parametrize("name", CANDIDATES)
def test_best_of_candidates_in_any_order_is_within_its_price(
    name: str, distribution: RunCount
) -> None:
    """Whatever the order of outcomes from worst to best, the best of K runs costs at most its price."""
    base, (first, second) = CANDIDATES[name]
    best_laws = [
        law_of_best(
            candidate_laws=laws,
            compute_prob_of_none=make_prob_of_none_at_random_count(distribution),
        )
        for laws in (first, second)
    ]
    assert best_laws[0].sum(axis=-1) == pytest.approx(1)
    event = accounting.tuning_event(base, score=accounting.NoOpEvent(), distribution=distribution)
    assert (
        excess_over_price(first_laws=best_laws[0], second_laws=best_laws[1], event=event) <= 1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
@pytest.mark.parametrize(
    ("distribution", "num_runs"),
    [
        (accounting.TruncatedNegativeBinomial.of_mean(mean=6.0), 6),
        (accounting.Poisson(mean=6.0), 6),
        (accounting.TruncatedNegativeBinomial.of_mean(mean=6.0, eta=1.0), 6),
    ],
    ids=str,
)
def test_a_fixed_number_of_runs_exceeds_the_price(
    name: str, distribution: RunCount, num_runs: int
) -> None:
    """Negative control: the best of as many runs exceeds the price if their number is not random."""
    base, (first, second) = CANDIDATES[name]
    event = accounting.tuning_event(base, score=accounting.NoOpEvent(), distribution=distribution)
    best_of_random_number = [
        law_of_best(
            candidate_laws=laws,
            compute_prob_of_none=make_prob_of_none_at_random_count(distribution),
        )
        for laws in (first, second)
    ]
    assert (
        excess_over_price(
            first_laws=best_of_random_number[0], second_laws=best_of_random_number[1], event=event
        )
        <= 1e-12
    )
    best_of_fixed_number = [
        law_of_best(
            candidate_laws=laws, compute_prob_of_none=make_prob_of_none_at_fixed_count(num_runs)
        )
        for laws in (first, second)
    ]
    assert (
        excess_over_price(
            first_laws=best_of_fixed_number[0], second_laws=best_of_fixed_number[1], event=event
        )
        > 1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distribution", "charged_share"),
    [
        (accounting.TruncatedNegativeBinomial(eta=1.0, gamma=0.01), 0.75),
        (accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.01), 0.75),
        (accounting.Poisson(mean=12.0), 0.7),
    ],
    ids=str,
)
def test_price_is_close_to_the_worst_order(distribution: RunCount, charged_share: float) -> None:
    """Negative control: the price is exceeded if a run is charged 75% (or 70%) of its epsilon."""
    base = accounting.PureDpEvent(epsilon=charged_share * 0.5)
    first, second = randomized_response(epsilon=0.5)
    best_laws = [
        law_of_best(
            candidate_laws=laws,
            compute_prob_of_none=make_prob_of_none_at_random_count(distribution),
        )
        for laws in (first, second)
    ]
    event = accounting.tuning_event(base, score=accounting.NoOpEvent(), distribution=distribution)
    assert excess_over_price(first_laws=best_laws[0], second_laws=best_laws[1], event=event) > 1e-4


RELEASE_EPSILON = 0.4
SCORE_EPSILON = 0.3
NUM_RECORDS = 3


def noisy_count_law(count: int, epsilon: float) -> FloatArray:
    """Returns the law of a count of up to three records by the exponential mechanism, `[4]`.

    The utility -|outcome - count| moves by at most 1 between neighbors. So the law, whose weights are exp(-epsilon / 2
    |outcome - count|), is epsilon-DP.
    """
    weights = np.exp(-epsilon / 2 * np.abs(np.arange(NUM_RECORDS + 1) - count))
    return np.asarray(weights / weights.sum())


def law_of_candidate(records: tuple[int, ...]) -> FloatArray:
    """Returns the law of one run on a data set of bits, outcomes from the worst to the best, `[32]`.

    One setting releases a noisy number of ones, the other one of zeros. The score is a noisy number of records that
    agree with the release. Equal scores are ordered by the setting, then by the release.
    """
    law = {}
    for setting, release in product(range(2), range(NUM_RECORDS + 1)):
        count = sum(bit != setting for bit in records)
        agreeing = count if release >= 2 else len(records) - count
        for score in range(NUM_RECORDS + 1):
            law[score, setting, release] = (
                0.5
                * noisy_count_law(count, RELEASE_EPSILON)[release]
                * noisy_count_law(agreeing, SCORE_EPSILON)[score]
            )
    return np.array([law[triple] for triple in sorted(law)])


def laws_on_neighbors(adjacency: accounting.Adjacency) -> tuple[FloatArray, FloatArray]:
    """Returns the laws of one run on neighboring data sets of bits.

    Under replace-one all pairs of three bits are taken. Under add-remove a last bit is added to up to two others, as
    the order of bits does not change the law.
    """
    data_sets = list(product(range(2), repeat=NUM_RECORDS))
    if adjacency is accounting.Adjacency.REPLACE_ONE:
        pairs = [
            (records, (*records[:changed], 1 - records[changed], *records[changed + 1 :]))
            for records in data_sets
            for changed in range(NUM_RECORDS)
        ]
    else:
        smaller = [
            records for size in range(NUM_RECORDS) for records in product((0, 1), repeat=size)
        ]
        pairs = [((*records, bit), records) for records in smaller for bit in range(2)]
    first = np.array([law_of_candidate(records) for records, _ in pairs])
    second = np.array([law_of_candidate(records) for _, records in pairs])
    return first, second


every_adjacency = pytest.mark.parametrize("adjacency", list(accounting.Adjacency))


@pytest.mark.slow
@every_adjacency
@every_distribution
def test_best_scored_run_on_all_neighbors_is_within_its_price(
    adjacency: accounting.Adjacency, distribution: RunCount
) -> None:
    """The best of K scored runs costs at most its price, on all neighbors of up to three records."""
    best_laws = [
        law_of_best(
            candidate_laws=laws,
            compute_prob_of_none=make_prob_of_none_at_random_count(distribution),
        )
        for laws in laws_on_neighbors(adjacency)
    ]
    event = accounting.tuning_event(
        base=accounting.PureDpEvent(RELEASE_EPSILON),
        score=accounting.PureDpEvent(SCORE_EPSILON),
        distribution=distribution,
    )
    assert (
        excess_over_price(first_laws=best_laws[0], second_laws=best_laws[1], event=event) <= 1e-12
    )


@every_adjacency
def test_a_price_without_the_score_is_too_low(adjacency: accounting.Adjacency) -> None:
    """Negative control: the best of K runs exceeds its price if the scores, by which it is chosen, are not charged."""
    distribution = accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.1)

    def law_without_release(records: tuple[int, ...]) -> FloatArray:
        """Returns the law of a run whose release does not read the records and whose score does."""
        law = [
            0.5 * noisy_count_law(sum(records) if setting else 0, SCORE_EPSILON)[score]
            for score in range(NUM_RECORDS + 1)
            for setting in range(2)
        ]
        return np.array([law])

    other = (0, 1, 1) if adjacency is accounting.Adjacency.REPLACE_ONE else (1, 1)
    best_laws = [
        law_of_best(
            candidate_laws=law_without_release(records),
            compute_prob_of_none=make_prob_of_none_at_random_count(distribution),
        )
        for records in ((1, 1, 1), other)
    ]
    charged_event = accounting.tuning_event(
        base=accounting.NoOpEvent(),
        score=accounting.PureDpEvent(SCORE_EPSILON),
        distribution=distribution,
    )
    assert (
        excess_over_price(first_laws=best_laws[0], second_laws=best_laws[1], event=charged_event)
        <= 1e-12
    )
    uncharged_event = accounting.tuning_event(
        base=accounting.NoOpEvent(), score=accounting.NoOpEvent(), distribution=distribution
    )
    assert (
        excess_over_price(first_laws=best_laws[0], second_laws=best_laws[1], event=uncharged_event)
        > 1e-3
    )


@every_distribution
def test_failing_runs_are_within_price_and_failure(distribution: RunCount) -> None:
    """If a run shows its data with a small probability, the best of K runs has at most the delta that is charged."""
    failure_prob = 1e-3
    base = accounting.ApproximateEvent(
        accounting.PureDpEvent(epsilon=0.5), failure_prob=failure_prob
    )
    first, second = randomized_response(epsilon=0.5)
    # two more outcomes, each of which only one neighbor has; the failure wins every comparison
    no_failure_column = np.zeros((len(first), 1))
    failure_column = np.full((len(first), 1), failure_prob)
    first = np.concatenate([(1 - failure_prob) * first, failure_column, no_failure_column], axis=1)
    second = np.concatenate(
        [(1 - failure_prob) * second, no_failure_column, failure_column], axis=1
    )
    best_laws = [
        law_of_best(
            candidate_laws=laws,
            compute_prob_of_none=make_prob_of_none_at_random_count(distribution),
        )
        for laws in (first, second)
    ]
    spent = accounting.AutoAccountant().compose(
        accounting.tuning_event(base, score=accounting.NoOpEvent(), distribution=distribution)
    )
    for epsilon in EPSILONS:
        delta = np.maximum(best_laws[0] - math.exp(epsilon) * best_laws[1], 0).sum(axis=-1).max()
        assert delta <= spent.get_delta(target_epsilon=epsilon) + 1e-12
