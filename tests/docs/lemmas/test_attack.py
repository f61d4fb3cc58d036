"""Prices that guesses refute, against linear programs, exact tails and many Gaussian runs."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from pate.accounting import ExactAccountant, GaussianEvent
from pate.auditing.attack.guesses import Guesses, PriceCurve

CURVES = {
    "pure": PriceCurve(epsilons=np.array([1.0]), deltas=np.array([0.0])),
    "approximate": PriceCurve(epsilons=np.array([0.5]), deltas=np.array([0.01])),
    "many points": PriceCurve(
        epsilons=np.array([2.0, 1.0, 0.2]), deltas=np.array([0.0, 0.01, 0.1])
    ),
}


def gaussian(multiplier: float) -> PriceCurve:
    """Returns the price curve of one Gaussian release with a noise multiplier, by the exact accountant."""
    return PriceCurve.from_accountant(
        ExactAccountant().compose(GaussianEvent(noise_multiplier=multiplier))
    )


def least_mass(curve: PriceCurve, guesses: Guesses, tail: float) -> float:
    """Returns the least total mass of nonnegative weights of the numbers of right guesses that a price allows.

    The numbers from `guesses.num_correct` on have the weight `tail` in all. If the result exceeds 1, the price allows
    no law with this tail. The result is infinity if no weights fit. One linear program has all constraints.
    """
    most = guesses.num_guesses
    count = guesses.num_canaries
    correct = guesses.num_correct
    levels = np.arange(most + 1)
    rows = []
    limits = []
    for level in range(1, most + 1):
        right = np.where(levels >= level, levels, 0) / count
        wrong = np.where(levels >= level - 1, most - levels, 0) / count
        for epsilon, delta in zip(curve.epsilons, curve.deltas, strict=True):
            rows += [right - np.exp(epsilon) * wrong, np.exp(epsilon) * right - wrong]
            limits += [delta, np.exp(epsilon) - (1 - delta)]
    at_least_correct = (levels >= correct).astype(float)[None]
    solution = linprog(
        np.ones(most + 1),
        np.array(rows),
        np.array(limits),
        A_eq=at_least_correct,
        b_eq=[tail],
        bounds=(0, None),
    )
    return float(solution.fun) if solution.success else np.inf


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize(("canaries", "guessed"), [(6, 6), (12, 8), (20, 5)])
def test_the_recursion_is_the_optimum_of_a_linear_program(
    name: str, canaries: int, guessed: int
) -> None:
    """Guesses refute a price exactly if no law that the price allows makes as many right guesses likely enough.

    Likely enough is a probability of 1 less the confidence; a linear program searches for the law.
    """
    verdicts = set()
    for correct in range(guessed + 1):
        for confidence in (0.5, 0.95):
            guesses = Guesses(num_canaries=canaries, num_guesses=guessed, num_correct=correct)
            mass = least_mass(CURVES[name], guesses, tail=1 - confidence)
            if abs(mass - 1) > 1e-7:
                refuted = guesses.refute(CURVES[name], confidence=confidence)
                assert refuted == (mass > 1)
                verdicts.add(refuted)
    assert verdicts == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("guessed", [10, 60, 200])
def test_randomized_response_is_refuted_no_more_often_than_allowed(
    epsilon: float, guessed: int
) -> None:
    """Guesses about randomized response, which attains its price, refute this price with probability at most 5%.

    They refute a price of a third of epsilon with probability over 5%, or over 0 for 10 guesses at epsilon 0.3 or 1.
    """
    right = np.exp(epsilon) / (1 + np.exp(epsilon))  # the most of any epsilon-DP coin
    curve = PriceCurve(epsilons=np.array([epsilon]), deltas=np.array([0.0]))
    counts = np.arange(guessed + 1)
    outcomes = [
        Guesses(num_canaries=300, num_guesses=guessed, num_correct=int(count)) for count in counts
    ]
    refuted = [guesses.refute(curve) for guesses in outcomes]
    assert refuted == sorted(refuted)
    chance = float(binom.pmf(counts, guessed, right) @ np.array(refuted))
    assert chance <= 0.05
    # a price too low is refuted more often than that
    cheap = PriceCurve(epsilons=np.array([epsilon / 3]), deltas=np.array([0.0]))
    caught = [guesses.refute(cheap) for guesses in outcomes]
    assert float(binom.pmf(counts, guessed, right) @ np.array(caught)) > (
        0.05 if guessed > 10 or epsilon > 1 else 0
    )


@pytest.mark.slow
def test_lower_bounds_exceed_the_price_as_rarely_as_chance_allows() -> None:
    """Attacks on Gaussian scores, 200 of them, refute the true price about as rarely as 5% allows.

    Over half of them refute the price of three times the noise. With the fewest right guesses that refute the true
    price, the lower bound on epsilon is at least the price; with one fewer it is below. Both are within 10% of the
    price.
    """
    rng = np.random.default_rng(1)
    shift = 1.0
    count = 200
    guessed = 84

    def spent(scale: float) -> ExactAccountant:
        return ExactAccountant().compose(GaussianEvent(noise_multiplier=scale / shift))

    scores = rng.normal(shift / 2, 1, (200, count))
    surest = np.argsort(-np.abs(scores), axis=1)[:, :guessed]
    correct = (np.take_along_axis(scores, surest, 1) > 0).sum(axis=1)
    price = spent(1.0).get_epsilon(target_delta=1e-6)

    outcomes = [
        Guesses(num_canaries=count, num_guesses=guessed, num_correct=c) for c in range(guessed + 1)
    ]
    # right guesses that refute a price: the true one, and that of three times the noise
    last, fewest = (
        next(guesses.num_correct for guesses in outcomes if guesses.refute(gaussian(scale / shift)))
        for scale in (1, 3)
    )
    below, above = (
        outcomes[place].least_price(spent, target_delta=1e-6) for place in (last - 1, last)
    )
    assert 0.9 * price < below < price <= above < 1.1 * price
    assert int((correct >= last).sum()) <= binom.ppf(0.99, 200, 0.05)
    assert int((correct >= fewest).sum()) > 100


@pytest.mark.slow
def test_lower_bounds_are_below_the_price_and_rise_with_the_guesses() -> None:
    """With 95 of 190 guesses right, both lower bounds on epsilon at delta 1e-6 are 0; they are larger with 125 and with
    185.

    The bound that knows that the noise is Gaussian is larger than that for any (epsilon, delta).
    """

    def spent(scale: float) -> ExactAccountant:
        return ExactAccountant().compose(GaussianEvent(noise_multiplier=2 * scale))

    def found(correct: int) -> tuple[float, float]:
        guesses = Guesses(num_canaries=1000, num_guesses=190, num_correct=correct)
        return guesses.least_epsilon(delta=1e-6), guesses.least_price(spent, target_delta=1e-6)

    assert found(correct=95) == (0.0, 0.0)
    bounds_of_125 = found(correct=125)
    bounds_of_185 = found(correct=185)
    assert (
        0 < bounds_of_125[0] < bounds_of_125[1] < bounds_of_185[1]
        and bounds_of_125[0] < bounds_of_185[0] < bounds_of_185[1]
    )
