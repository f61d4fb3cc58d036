"""Divergences between finite distributions: limits, removal of failures, and compositions with known values."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.stats import binom, norm

from pate.accounting import gaussian_delta
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick, logs, renyi, without_failures
from tests.privacy.divergences import largest_delta, largest_log_ratio, largest_range, largest_renyi

FIRST_LAWS = np.array([[0.5, 0.5]])
SECOND_LAWS = np.array([[0.25, 0.75]])


def test_mass_on_one_side_or_on_none_and_high_orders() -> None:
    """The Renyi divergence is infinite if an outcome of the first distribution is impossible under the second.

    An outcome that is impossible under both changes nothing.
    At Renyi order 1e6 the divergence is the largest log ratio.
    """
    first_laws = np.array([[0.5, 0.5, 0.0]])
    second_laws = np.array([[0.5, 0.0, 0.5]])
    assert np.isposinf(
        largest_renyi(first_laws=first_laws, second_laws=second_laws, renyi_orders=[1.5, 64.0])
    ).all()
    assert largest_delta(first_laws=first_laws, second_laws=second_laws, epsilon=1000.0) == 0.5
    assert math.isinf(largest_log_ratio(first_laws, second_laws))
    padded_first, padded_second = (
        np.append(laws, [[0.0]], axis=1) for laws in (FIRST_LAWS, SECOND_LAWS)
    )
    renyi_at_2 = largest_renyi(
        first_laws=padded_first, second_laws=padded_second, renyi_orders=[2.0]
    )[0]
    assert renyi_at_2 == pytest.approx(math.log(4 / 3))
    largest_ratio, smallest_ratio = 0.5 / 0.25, 0.5 / 0.75
    loss_range = math.log(largest_ratio / smallest_ratio)
    assert largest_range(padded_first, padded_second) == pytest.approx(loss_range)
    assert without_failures(padded_first, padded_second, failure_prob=0.1)[0][0, 2] == 0
    assert largest_renyi(first_laws=FIRST_LAWS, second_laws=SECOND_LAWS, renyi_orders=[1e6])[
        0
    ] == pytest.approx(math.log(2), abs=1e-5)
    assert renyi(
        logs(FIRST_LAWS), log_second_laws=logs(FIRST_LAWS), renyi_orders=[1.05, 1e6]
    ).max() == pytest.approx(0.0, abs=1e-13)


def least_factor(first: np.ndarray, second: np.ndarray, failure_prob: float) -> float:
    """Returns the factor c for which the sum of min(first, c * second) is 1 - `failure_prob`."""

    def excess_mass_of_factor(factor: float) -> float:
        """Returns by how much the sum exceeds 1 - `failure_prob`."""
        return float(np.minimum(first, factor * second).sum() - (1 - failure_prob))

    return float(brentq(excess_mass_of_factor, a=0.0, b=1e9, xtol=1e-13))


@pytest.mark.parametrize("failure_prob", [0.01, 0.1])
def test_trimmed_pair_has_the_form_of_the_proof(
    failure_prob: float,
) -> None:
    """`without_failures` removes the failure probability from two distributions, which become as close as possible.

    Both results are equal if the distance of the distributions is at most the failure probability. Otherwise they have
    the form of the proof: their ratio is that of the distributions, clipped at both ends.
    """
    for first, second in pairs_of_distributions(num_pairs=30):
        distance = np.maximum(first - second, 0).sum()
        for factor, is_equal in ((1.01, True), (0.99, False)):
            trimmed_first, trimmed_second = without_failures(
                first, second, failure_prob=factor * distance
            )
            assert np.allclose(trimmed_first, trimmed_second, rtol=1e-9) is is_equal
        if distance <= failure_prob:
            continue
        up = least_factor(first=first, second=second, failure_prob=failure_prob)
        down = least_factor(first=second, second=first, failure_prob=failure_prob)
        assert min(up, down) > 1
        trimmed_first, trimmed_second = without_failures(first, second, failure_prob=failure_prob)
        expected_first = np.minimum(first, up * second) / (1 - failure_prob)
        expected_second = np.minimum(second, down * first) / (1 - failure_prob)
        expected_ratio = np.clip(first / second, 1 / down, up)
        np.testing.assert_allclose(trimmed_first, expected_first, rtol=1e-6)
        np.testing.assert_allclose(trimmed_second, expected_second, rtol=1e-6)
        np.testing.assert_allclose(trimmed_first / trimmed_second, expected_ratio, rtol=1e-6)
        assert np.maximum(first - up * second, 0).sum() == pytest.approx(failure_prob, rel=1e-6)


def pairs_of_distributions(num_pairs: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns pairs of random distributions over four outcomes, each of shape `[1, 4]`."""
    rng = np.random.default_rng(3)
    return [
        (rng.dirichlet(np.full(4, 0.7))[None], rng.dirichlet(np.full(4, 0.7))[None])
        for _ in range(num_pairs)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("failure_prob", [0.02, 0.2])
def test_trimmed_distributions_are_dominated_and_minimize_every_hockey_stick(
    failure_prob: float,
) -> None:
    """The trimmed pair is dominated by the original pair divided by 1 - `failure_prob`.

    Its hockey-stick divergences, in both directions, are the smallest of all such pairs by a linear
    program.
    """
    for first, second in pairs_of_distributions(num_pairs=25):
        trimmed_first, trimmed_second = without_failures(first, second, failure_prob=failure_prob)
        for trimmed, original in ((trimmed_first, first), (trimmed_second, second)):
            assert trimmed.sum() == pytest.approx(1)
            assert (trimmed <= original / (1 - failure_prob) * (1 + 1e-6) + 1e-9).all()
        for epsilon in (0.0, 0.3, 1.0):
            [[forward_delta]] = hockey_stick(
                first_laws=trimmed_first, second_laws=trimmed_second, epsilons=[epsilon]
            )
            [[backward_delta]] = hockey_stick(
                first_laws=trimmed_second, second_laws=trimmed_first, epsilons=[epsilon]
            )
            least_forward_delta = least_hockey_stick(
                first=first[0],
                second=second[0],
                failure_prob=failure_prob,
                factor=math.exp(epsilon),
            )
            least_backward_delta = least_hockey_stick(
                first=second[0],
                second=first[0],
                failure_prob=failure_prob,
                factor=math.exp(epsilon),
            )
            assert forward_delta == pytest.approx(least_forward_delta, abs=1e-7)
            assert backward_delta == pytest.approx(least_backward_delta, abs=1e-7)


def least_hockey_stick(
    first: np.ndarray, second: np.ndarray, failure_prob: float, factor: float
) -> float:
    """Returns the smallest hockey-stick divergence of all trimmed pairs of distributions, by a linear program.

    The first distribution of a trimmed pair is at most `first` / (1 - `failure_prob`) at every outcome, and the second
    one at most `second` / (1 - `failure_prob`).

    Args:
        first: the first distribution, `[n]`.
        second: the second distribution, `[n]`.
        failure_prob: the probability of the removed failures.
        factor: e to the power of the divergence's epsilon.
    """
    # The variables are both distributions, and for each outcome the excess of the first over the second.
    n = len(first)
    costs = np.concatenate([np.zeros(2 * n), np.ones(n)])
    excess_rows = np.hstack([np.eye(n), -factor * np.eye(n), -np.eye(n)])
    rows_of_total_mass = np.zeros((2, 3 * n))
    rows_of_total_mass[0, :n] = 1
    rows_of_total_mass[1, n : 2 * n] = 1
    bounds = [(0, prob / (1 - failure_prob)) for prob in (*first, *second)] + [(0, None)] * n
    solution = linprog(
        costs,
        A_ub=excess_rows,
        b_ub=np.zeros(n),
        A_eq=rows_of_total_mass,
        b_eq=[1, 1],
        bounds=bounds,
    )
    return float(solution.fun)


def test_randomized_response_is_exact() -> None:
    """11 composed randomized responses have the delta of the binomial formula of Kairouz, Oh and Viswanath."""
    epsilon = 0.3
    count = 11
    true_prob = math.exp(epsilon) / (1 + math.exp(epsilon))
    response = np.array([true_prob, 1 - true_prob])
    first, second = compose(first=response, second=response[::-1], count=count)
    assert len(first) == count + 1
    num_true = np.arange(count + 1)
    probs = binom.pmf(num_true, n=count, p=true_prob)
    losses = (2 * num_true - count) * epsilon
    for target_epsilon in (0.0, 0.5, 2.0):
        expected = (probs * np.maximum(0, 1 - np.exp(target_epsilon - losses))).sum()
        [[delta]] = hockey_stick(first[None], second_laws=second[None], epsilons=[target_epsilon])
        assert delta == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_merged_outcomes_never_cost_more_and_little_less() -> None:
    """The delta of 100 releases with merged outcomes is at most the Gaussian's for mu = 1/2, and at least 98% of it.

    Each release has Gaussian noise that is cut into cells, and outcomes of the composition are merged.
    """
    cell_edges = np.concatenate([[-np.inf], np.arange(-160, 160, 1.0), [np.inf]])
    first_law = np.diff(norm.cdf(cell_edges / 20))
    second_law = np.diff(norm.cdf((cell_edges - 1) / 20))
    composed_first, composed_second = compose(first_law, second=second_law, count=100)
    assert len(composed_first) <= 1100
    for epsilon in (0.5, 1.5):
        exact = gaussian_delta(mu=0.5, epsilon=epsilon)
        [[delta]] = hockey_stick(
            first_laws=composed_first[None], second_laws=composed_second[None], epsilons=[epsilon]
        )
        assert 0.98 * exact < delta <= exact * (1 + 1e-9)
