"""The price of tuning against the theorems of Papernot & Steinke (2022), and random numbers of runs against sums."""

import math

import mpmath
import numpy as np
import pytest

from pate import accounting
from pate.accounting.run_counts import RunCount
from tests.refusals import refused_parameter

ORDERS = np.array([1.1, 1.5, 2.0, 4.0, 8.0, 20.0, 100.0, 1000.0])
SHAPES = [(0.0, 0.1), (1.0, 0.25), (-0.6, 0.05), (3.0, 0.5), (0.5, 1e-3)]


def probabilities(eta: float, gamma: float, number: int = 4000) -> list[mpmath.mpf]:
    """Returns P(K = k) of a truncated negative binomial for k = 1 .. `number` - 1, by its definition, in 40 digits."""
    with mpmath.workdps(40):
        if eta == 0:
            weights = [(1 - mpmath.mpf(gamma)) ** k / k for k in range(1, number)]
            return [weight / mpmath.log(1 / mpmath.mpf(gamma)) for weight in weights]
        scale = mpmath.mpf(gamma) ** -eta - 1
        return [
            (1 - mpmath.mpf(gamma)) ** k / scale * mpmath.rf(eta, k) / mpmath.factorial(k)
            for k in range(1, number)
        ]


@pytest.mark.slow
@pytest.mark.parametrize(("eta", "gamma"), SHAPES[:4])
def test_means_and_generating_functions_are_sums_over_all_numbers(eta: float, gamma: float) -> None:
    """The mean number of runs, and the probability that any run has a property, are sums over all numbers of runs.

    Both are at least the exact sums, up to the rounding of floats, and at most 1e-10 larger.
    """
    probs = probabilities(eta, gamma)
    distribution = accounting.TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    with mpmath.workdps(40):
        mean = float(sum(k * prob for k, prob in enumerate(probs, start=1)))
        assert float(sum(probs)) == pytest.approx(1, abs=1e-15)
        assert mean <= distribution.mean == pytest.approx(mean, rel=1e-10)
        for prob_in_one_run in (1e-9, 0.01, 0.4, 1.0):
            prob_in_no_run = sum(
                prob * (1 - mpmath.mpf(prob_in_one_run)) ** k
                for k, prob in enumerate(probs, start=1)
            )
            prob_in_any_run = float(1 - prob_in_no_run)
            assert distribution.prob_of_any(prob_in_one_run) >= prob_in_any_run * (1 - 1e-15)
            assert distribution.prob_of_any(prob_in_one_run) == pytest.approx(
                prob_in_any_run, rel=1e-10
            )


@pytest.mark.parametrize("mean", [1.5, 4.0, 30.0])
@pytest.mark.parametrize("eta", [0.0, 1.0, -0.5])
def test_a_distribution_of_a_mean_has_that_mean(mean: float, eta: float) -> None:
    """A truncated negative binomial from `of_mean` has the given mean."""
    assert accounting.TruncatedNegativeBinomial.of_mean(mean, eta=eta).mean == pytest.approx(
        mean, rel=1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "distribution",
    [
        *(accounting.TruncatedNegativeBinomial(eta, gamma) for eta, gamma in SHAPES[:4]),
        accounting.Poisson(mean=3.0),
    ],
    ids=str,
)
def test_drawn_numbers_have_their_distribution(distribution: RunCount) -> None:
    """In 20,000 draws, each small number of runs is as frequent as it should be, within five standard errors."""
    rng = np.random.default_rng(7)
    run_counts = np.array([distribution.draw(rng) for _ in range(20_000)])
    match distribution:
        case accounting.TruncatedNegativeBinomial(eta=eta, gamma=gamma):
            probs = [0.0, *map(float, probabilities(eta, gamma, number=8))]
        case _:
            probs = [math.exp(-3) * 3**k / math.factorial(k) for k in range(8)]
    for num_runs, prob in enumerate(probs):
        error = math.sqrt(prob * (1 - prob) / len(run_counts))
        assert abs(np.mean(run_counts == num_runs) - prob) <= 5 * error
    assert abs(run_counts.mean() - distribution.mean) <= 5 * run_counts.std() / math.sqrt(
        len(run_counts)
    )


BASES = (
    accounting.GaussianEvent(noise_multiplier=3.0),
    accounting.PureDpEvent(epsilon=0.2),
    accounting.SelfComposedEvent(accounting.BoundedRangeEvent(epsilon=0.1), count=20),
)


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
@pytest.mark.parametrize(("eta", "gamma"), SHAPES)
def test_curve_is_at_most_theorem_2_as_printed(
    base: accounting.Event, eta: float, gamma: float
) -> None:
    """The Renyi curve of a tuning is at most that of Papernot & Steinke's Theorem 2, with the best second order.

    The curve is at least that of a single run.
    """
    distribution = accounting.TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    event = accounting.TuningEvent(base, score=accounting.NoOpEvent(), distribution=distribution)
    curve = accounting.RdpAccountant(orders=ORDERS).compose(event).rdp
    accountant_of_one_run = accounting.RdpAccountant().compose(base)
    smallest_second_term = np.min(
        (1 - 1 / accountant_of_one_run.orders) * accountant_of_one_run.rdp
        + math.log(1 / gamma) / accountant_of_one_run.orders,
    )
    one_run = accounting.RdpAccountant(orders=ORDERS).compose(base).rdp
    printed = (
        one_run + (1 + eta) * smallest_second_term + math.log(distribution.mean) / (ORDERS - 1)
    )
    assert (curve <= printed * (1 + 1e-9)).all()
    assert (curve >= one_run).all()


@pytest.mark.parametrize("noise_multiplier", [1.0, 5.0])
@pytest.mark.parametrize("mean_num_runs", [2.0, 20.0])
def test_curve_of_poisson_is_theorem_6_as_printed(
    noise_multiplier: float, mean_num_runs: float
) -> None:
    """For Gaussian noise, the Renyi curve of a tuning exceeds Papernot & Steinke's Theorem 6 by at most 2%.

    The theorem is taken at the largest epsilon that it allows at a Renyi order, plus a term for the chance of no run.
    The curve is at least that of a single run.
    """
    event = accounting.TuningEvent(
        base=accounting.GaussianEvent(noise_multiplier=noise_multiplier),
        score=accounting.NoOpEvent(),
        distribution=accounting.Poisson(mean=mean_num_runs),
    )
    curve = accounting.RdpAccountant(orders=ORDERS).compose(event).rdp
    one_run = ORDERS / (2 * noise_multiplier**2)
    deltas = np.array(
        [
            accounting.gaussian_delta(1 / noise_multiplier, epsilon=math.log(order / (order - 1)))
            for order in ORDERS
        ]
    )
    log_moments = (ORDERS - 1) * (one_run + mean_num_runs * deltas) + math.log(mean_num_runs)
    printed = np.logaddexp(log_moments, -mean_num_runs) / (ORDERS - 1)
    assert (curve <= printed * 1.02).all()
    assert (curve >= one_run).all()


@pytest.mark.parametrize("eta", [0.0, 1.0, 4.0])
def test_pure_dp_costs_two_and_eta_times_as_much(eta: float) -> None:
    """The best of epsilon-DP runs costs at most (2 + eta) epsilon (Corollary 4), also of over 70,000 expected runs."""
    distribution = accounting.TruncatedNegativeBinomial(eta=eta, gamma=1e-6)
    event = accounting.TuningEvent(
        base=accounting.PureDpEvent(epsilon=0.1),
        score=accounting.NoOpEvent(),
        distribution=distribution,
    )
    epsilon = accounting.AutoAccountant().compose(event).get_epsilon(target_delta=1e-12)
    assert epsilon <= (2 + eta) * 0.1 * (1 + 1e-3)


@pytest.mark.parametrize(
    ("base", "epsilon"), [(accounting.NoOpEvent(), 0.0), (accounting.NonPrivateEvent(), math.inf)]
)
@pytest.mark.parametrize(
    "distribution",
    [accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.1), accounting.Poisson(mean=3.0)],
)
def test_nothing_costs_nothing_and_no_noise_costs_infinity(
    base: accounting.Event, epsilon: float, distribution: RunCount
) -> None:
    """A tuning of runs that release nothing is free, and one of runs without noise costs infinity."""
    event = accounting.TuningEvent(base, score=accounting.NoOpEvent(), distribution=distribution)
    assert accounting.AutoAccountant().compose(event).get_epsilon(target_delta=1e-6) == epsilon


def test_a_second_release_beside_a_tuned_one_adds_its_price() -> None:
    """A tuned release and a plain one cost more than the tuned one, and less than two tuned ones."""
    tuned = accounting.TuningEvent(
        base=accounting.GaussianEvent(noise_multiplier=5.0),
        score=accounting.NoOpEvent(),
        distribution=accounting.Poisson(mean=3.0),
    )
    alone = accounting.AutoAccountant().compose(tuned).get_epsilon(target_delta=1e-6)
    both = (
        accounting.AutoAccountant()
        .compose(tuned)
        .compose(accounting.GaussianEvent(noise_multiplier=5.0))
        .get_epsilon(target_delta=1e-6)
    )
    twice = accounting.AutoAccountant().compose(tuned, count=2).get_epsilon(target_delta=1e-6)
    assert alone < both < twice


def test_failures_are_moved_out_of_the_runs() -> None:
    """`TuningEvent` refuses runs that may fail, and `tuning_event` moves their failure probability out of the tuning.

    The failure probability outside is multiplied by the mean number of runs.
    """
    base = accounting.ApproximateEvent(accounting.PureDpEvent(epsilon=0.1), failure_prob=1e-6)
    distribution = accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.1)
    with refused_parameter("base.failure_prob", value=1e-6):
        accounting.TuningEvent(base, score=accounting.NoOpEvent(), distribution=distribution)
    event = accounting.tuning_event(base, score=accounting.NoOpEvent(), distribution=distribution)
    assert isinstance(event, accounting.ApproximateEvent)
    assert event.failure_prob == pytest.approx(1e-6 * distribution.mean, rel=1e-4)


@pytest.mark.parametrize(
    ("eta", "gamma", "name"),
    [
        (-1.0, 0.1, "eta"),
        (math.inf, 0.1, "eta"),
        (1e-12, 0.1, "eta"),
        (0.0, 0.0, "gamma"),
        (0.0, 1.0, "gamma"),
    ],
)
def test_impossible_distributions_are_refused(eta: float, gamma: float, name: str) -> None:
    """A truncated negative binomial refuses an eta or a gamma out of range, and names it."""
    with refused_parameter(name, value={"eta": eta, "gamma": gamma}[name]):
        accounting.TruncatedNegativeBinomial(eta=eta, gamma=gamma)
