"""Steps of docs/proofs/stability_test.md."""

import numpy as np
import pytest
from scipy.special import expit, logit

from pate.accounting import Adjacency
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.mechanisms import StabilityTest, optimal_stability_table

Probability = float | np.ndarray


def bit_renyi(first_prob: Probability, second_prob: Probability, renyi_order: float) -> np.ndarray:
    """Returns the Renyi divergence of a first bit from a second one; each bit is given by its probability of a 1."""
    ones = first_prob**renyi_order * second_prob ** (1 - renyi_order)
    zeros = (1 - first_prob) ** renyi_order * (1 - second_prob) ** (1 - renyi_order)
    return np.log(ones + zeros) / (renyi_order - 1)


def larger_bit_renyi(
    first_prob: Probability, second_prob: Probability, renyi_order: float
) -> np.ndarray:
    """Returns the larger Renyi divergence of both directions between two bits, given their probabilities of a 1."""
    return np.maximum(
        bit_renyi(first_prob, second_prob, renyi_order),
        bit_renyi(first_prob=second_prob, second_prob=first_prob, renyi_order=renyi_order),
    )


@pytest.mark.slow
def test_no_random_admissible_table_is_above_the_optimal_one() -> None:
    """None of 200 random tables has a pass probability above that of the optimal table at any level of the gap.

    The Renyi divergence between neighboring levels of a random table is at most the budget, in both directions.
    """
    order = 4.0
    budget = 0.03
    failure_prob = 0.02
    optimal = optimal_stability_table(
        order=order, rdp_budget=budget, failure_prob=failure_prob, num_levels=12
    )
    optimal_probs = expit(np.array(optimal.logits))
    rng = np.random.default_rng(0)
    for _ in range(200):
        pass_probs = [failure_prob * rng.uniform(low=0.5)]
        while len(pass_probs) < len(optimal_probs):
            last_prob = pass_probs[-1]
            proposed_probs = expit(logit(last_prob) + np.linspace(-0.5, 4, 400))
            divergences = larger_bit_renyi(proposed_probs, second_prob=last_prob, renyi_order=order)
            admissible = proposed_probs[divergences <= budget]
            pass_probs.append(float(rng.choice(admissible[-20:])))
        assert (np.array(pass_probs) <= optimal_probs * (1 + 1e-9)).all()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_levels_may_be_rounded_but_not_skipped(
    adjacency: Adjacency,
) -> None:
    """A stability test by a table costs the budget if each gap sensitivity is one level of the table.

    Gaps in between are rounded up or down. Negative control: two levels for each gap sensitivity cost over twice the
    budget. Rounded up, no larger gap is needed to pass with probability 0.5 than rounded down.
    """
    order = 5.0
    budget = 0.02
    num_teachers = 60
    sens = adjacency.gap_sensitivity
    table = optimal_stability_table(
        order=order, rdp_budget=budget, failure_prob=1e-3, num_levels=61
    )
    excess = np.maximum(np.arange(num_teachers + 1) - sens, 0)
    levels_of_gaps = {
        "down": excess // sens,
        "up": -(-excess // sens),
        "twice": 2 * (excess // sens),
    }
    price_by_rounding = {}
    gap_to_pass_by_rounding = {}
    for rounding, levels in levels_of_gaps.items():
        probs = expit(np.array(table.logits))[np.minimum(levels, len(table.logits) - 1)]
        probs[: sens + 1] = np.minimum(probs[: sens + 1], 1e-3)
        test = StabilityTest(pass_probs=tuple(probs), failure_prob=1e-3, adjacency=adjacency)
        price_by_rounding[rounding] = rdp_curve(count_leaves(test.event), orders=np.array([order]))[
            0
        ]
        gap_to_pass_by_rounding[rounding] = test.gap_to_pass(probability=0.5)
    assert price_by_rounding["down"] == pytest.approx(budget, rel=1e-6)
    assert price_by_rounding["up"] == pytest.approx(budget, rel=1e-6)
    assert price_by_rounding["twice"] > 2 * budget
    assert gap_to_pass_by_rounding["up"] <= gap_to_pass_by_rounding["down"]
