"""Prices that guesses refute, by docs/proofs/attack.md, against linear programs, exact tails and many Gaussian runs."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from pate.accounting import ExactAccountant, GaussianEvent
from pate.auditing.attack.guesses import Guesses, PriceCurve

PRICE_CURVES = {
    "pure": PriceCurve(epsilons=np.array([1.0]), deltas=np.array([0.0])),
    "approximate": PriceCurve(epsilons=np.array([0.5]), deltas=np.array([0.01])),
    "many points": PriceCurve(
        epsilons=np.array([2.0, 1.0, 0.2]), deltas=np.array([0.0, 0.01, 0.1])
    ),
}


def gaussian_price(noise_multiplier: float) -> PriceCurve:
    """Returns the price curve of one Gaussian release with a noise multiplier, by the exact accountant."""
    return PriceCurve.from_accountant(
        ExactAccountant().compose(GaussianEvent(noise_multiplier=noise_multiplier))
    )


def smallest_mass(curve: PriceCurve, guesses_of_attack: Guesses, *, tail_prob: float) -> float:
    """Returns the smallest total weight of a law of the number of right guesses that a price allows.

    Numbers from `guesses_of_attack.num_correct` on have the weight `tail_prob` together. If the result exceeds 1, the
    price allows no probability law with this tail. The result is infinite if no weights fit. One linear program has all
    constraints.
    """
    num_right = np.arange(guesses_of_attack.num_guesses + 1)
    num_wrong = guesses_of_attack.num_guesses - num_right
    coefficients = []
    limits = []
    for level in range(1, guesses_of_attack.num_guesses + 1):
        right_share = np.where(num_right >= level, num_right, 0) / guesses_of_attack.num_canaries
        wrong_share = (
            np.where(num_right >= level - 1, num_wrong, 0) / guesses_of_attack.num_canaries
        )
        for epsilon, delta in zip(curve.epsilons, curve.deltas, strict=True):
            coefficients += [
                right_share - np.exp(epsilon) * wrong_share,
                np.exp(epsilon) * right_share - wrong_share,
            ]
            limits += [delta, np.exp(epsilon) - (1 - delta)]
    is_in_tail = (num_right >= guesses_of_attack.num_correct).astype(float)
    solution = linprog(
        c=np.ones(len(num_right)),
        A_ub=np.array(coefficients),
        b_ub=np.array(limits),
        A_eq=is_in_tail[None],
        b_eq=[tail_prob],
        bounds=(0, None),
    )
    return float(solution.fun) if solution.success else np.inf


@pytest.mark.parametrize("name", PRICE_CURVES)
@pytest.mark.parametrize(("num_canaries", "num_guesses"), [(6, 6), (12, 8), (20, 5)])
def test_the_recursion_is_the_optimum_of_a_linear_program(
    name: str, num_canaries: int, num_guesses: int
) -> None:
    """Guesses refute a price if and only if no law that the price allows makes so many right guesses likely enough.

    The attack guesses which of two variants each of some canaries, planted records, has. Likely enough is a probability
    of 1 minus the confidence. A linear program searches for the law.
    """
    verdicts = set()
    for num_correct in range(num_guesses + 1):
        for confidence in (0.5, 0.95):
            guesses_of_attack = Guesses(
                num_canaries=num_canaries, num_guesses=num_guesses, num_correct=num_correct
            )
            mass = smallest_mass(PRICE_CURVES[name], guesses_of_attack, tail_prob=1 - confidence)
            if abs(mass - 1) > 1e-7:
                refuted = guesses_of_attack.refute(PRICE_CURVES[name], confidence=confidence)
                assert refuted == (mass > 1)
                verdicts.add(refuted)
    assert verdicts == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("num_guesses", [10, 60, 200])
def test_randomized_response_is_refuted_no_more_often_than_allowed(
    epsilon: float, num_guesses: int
) -> None:
    """Guesses about randomized response, which attains its price, refute this price with probability at most 5%.

    A price of a third of epsilon is refuted with probability over 5%, or over 0 for 10 guesses at epsilon 0.3 or 1.
    """
    right_prob = np.exp(epsilon) / (1 + np.exp(epsilon))  # the largest of any epsilon-DP coin
    nums_correct = np.arange(num_guesses + 1)
    probs_of_nums = binom.pmf(nums_correct, n=num_guesses, p=right_prob)
    guesses_by_num_correct = [
        Guesses(num_canaries=300, num_guesses=num_guesses, num_correct=num_correct)
        for num_correct in nums_correct.tolist()
    ]
    true_price = PriceCurve(epsilons=np.array([epsilon]), deltas=np.array([0.0]))
    low_price = PriceCurve(epsilons=np.array([epsilon / 3]), deltas=np.array([0.0]))
    is_refuted_by_num_correct = [
        guesses_of_attack.refute(true_price) for guesses_of_attack in guesses_by_num_correct
    ]
    is_low_refuted_by_num_correct = [
        guesses_of_attack.refute(low_price) for guesses_of_attack in guesses_by_num_correct
    ]
    assert is_refuted_by_num_correct == sorted(is_refuted_by_num_correct)
    assert probs_of_nums @ is_refuted_by_num_correct <= 0.05
    assert probs_of_nums @ is_low_refuted_by_num_correct > (
        0.05 if num_guesses > 10 or epsilon > 1 else 0
    )


@pytest.mark.slow
def test_lower_bounds_exceed_the_price_as_rarely_as_chance_allows() -> None:
    """Of 200 attacks on Gaussian scores, not many more than 5% refute the true price.

    Over half of them refute the price of three times the noise. With the fewest right guesses that refute the true
    price, the lower bound on epsilon is at least the price. With one fewer it is below. Both are within 10% of the
    price.
    """
    rng = np.random.default_rng(1)
    num_attacks = 200
    num_canaries = 200
    num_guesses = 84

    def gaussian_account_at(noise_multiplier: float) -> ExactAccountant:
        return ExactAccountant().compose(GaussianEvent(noise_multiplier=noise_multiplier))

    # the scores of a Gaussian release with noise multiplier 1; positive ones are guessed right
    scores = rng.normal(loc=0.5, size=(num_attacks, num_canaries))
    surest = np.argsort(-np.abs(scores), axis=1)[:, :num_guesses]
    nums_correct = (np.take_along_axis(scores, surest, axis=1) > 0).sum(axis=1)
    price = gaussian_account_at(noise_multiplier=1.0).get_epsilon(target_delta=1e-6)
    guesses_by_num_correct = [
        Guesses(num_canaries=num_canaries, num_guesses=num_guesses, num_correct=num_correct)
        for num_correct in range(num_guesses + 1)
    ]

    def smallest_refuting_num_correct(noise_multiplier: float) -> int:
        """Returns the smallest number of right guesses that refutes the price of a noise multiplier."""
        claimed_price = gaussian_price(noise_multiplier)
        return next(
            guesses_of_attack.num_correct
            for guesses_of_attack in guesses_by_num_correct
            if guesses_of_attack.refute(claimed_price)
        )

    num_correct_refuting_true_price = smallest_refuting_num_correct(noise_multiplier=1.0)
    num_correct_refuting_low_price = smallest_refuting_num_correct(noise_multiplier=3.0)
    bound_below, bound_above = (
        guesses_by_num_correct[num_correct].least_price(gaussian_account_at, target_delta=1e-6)
        for num_correct in (num_correct_refuting_true_price - 1, num_correct_refuting_true_price)
    )
    assert 0.9 * price < bound_below < price <= bound_above < 1.1 * price
    most_by_chance = binom.ppf(0.99, n=num_attacks, p=0.05)
    assert int((nums_correct >= num_correct_refuting_true_price).sum()) <= most_by_chance
    assert int((nums_correct >= num_correct_refuting_low_price).sum()) > num_attacks / 2


@pytest.mark.slow
def test_lower_bounds_are_below_the_price_and_rise_with_the_guesses() -> None:
    """With 95 of 190 guesses right, both lower bounds on epsilon at delta 1e-6 are 0; with 125 and 185 they are larger.

    The bound that is told of Gaussian noise is larger than the one for any (epsilon, delta).
    """

    def gaussian_account_at(noise_factor: float) -> ExactAccountant:
        return ExactAccountant().compose(GaussianEvent(noise_multiplier=2 * noise_factor))

    def lower_bounds(num_correct: int) -> tuple[float, float]:
        """Returns the bound for any (epsilon, delta), and the bound for Gaussian noise."""
        guesses_of_attack = Guesses(num_canaries=1000, num_guesses=190, num_correct=num_correct)
        return guesses_of_attack.least_epsilon(delta=1e-6), guesses_of_attack.least_price(
            gaussian_account_at, target_delta=1e-6
        )

    assert lower_bounds(num_correct=95) == (0.0, 0.0)
    any_bound_of_125, gaussian_bound_of_125 = lower_bounds(num_correct=125)
    any_bound_of_185, gaussian_bound_of_185 = lower_bounds(num_correct=185)
    assert 0 < any_bound_of_125 < gaussian_bound_of_125 < gaussian_bound_of_185
    assert any_bound_of_125 < any_bound_of_185 < gaussian_bound_of_185
