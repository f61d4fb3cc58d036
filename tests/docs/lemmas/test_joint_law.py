"""Joint laws of selection and test, by docs/proofs/joint_law.md: divergences of laws within the rows keep the bound.

The rows are the linear inequalities that the proof shows for such laws. Divergences are convex.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from pate.accounting import ApproximateEvent, BoundedRangeEvent, OneBitEvent, SelectThenTestEvent
from pate.accounting.worst_joint_law import GapTypes, largest_divergence

Array = np.ndarray


ConvexFunction = Callable[[Array], Array]
"""A convex function of the ratio x = Q/P of two probabilities, which is 0 at x = 1."""


def renyi_function(renyi_order: float) -> ConvexFunction:
    """Returns the function of the ratio Q / P whose mean under P is e^((renyi_order - 1) D) - 1.

    D is the Renyi divergence of P from Q at the Renyi order.
    """

    def convex_function(ratios: Array) -> Array:
        powers = np.exp((1 - renyi_order) * np.log(np.maximum(ratios, 1e-300)))
        return powers - 1 + (renyi_order - 1) * (ratios - 1)

    return convex_function


def hockey_stick_function(epsilon: float) -> ConvexFunction:
    """Returns the function of Q / P whose mean under P is the hockey stick of P over Q minus that of P over P."""
    growth = np.exp(epsilon)

    def convex_function(ratios: Array) -> Array:
        stick = np.maximum(1 - growth * ratios, 0.0)
        if epsilon >= 0:
            return stick
        return stick - (1 - growth) + growth * (ratios - 1)

    return convex_function


CONVEX_FUNCTIONS = {
    "Renyi at 1.5": renyi_function(renyi_order=1.5),
    "Renyi at 4": renyi_function(renyi_order=4.0),
    "Renyi at 12": renyi_function(renyi_order=12.0),
    "hockey stick at 0.05": hockey_stick_function(epsilon=0.05),
    "hockey stick at 0.3": hockey_stick_function(epsilon=0.3),
    "hockey stick at -0.1": hockey_stick_function(epsilon=-0.1),
}


def divergence_of(
    gap_types: GapTypes, type_weights: Array, convex_function: ConvexFunction
) -> float:
    """Returns the divergence F of the selected gap and its test by the definition in docs/proofs/joint_law.md.

    Args:
        gap_types: the candidate types; a type is a gap and how far it moves between neighbors.
        type_weights: the weight of each candidate type.
        convex_function: a convex function of the ratio of two probabilities.
    """
    growth = float(type_weights @ gap_types.moved_factors)
    refused_prob = float(type_weights @ gap_types.refusal_probs)
    refused_prob_after_move = (
        float(type_weights @ (gap_types.moved_factors * gap_types.moved_refusal_probs)) / growth
    )
    may_pass = gap_types.pass_probs > 0
    pass_prob_by_type = type_weights[may_pass] * gap_types.pass_probs[may_pass]
    ratios = (
        gap_types.moved_factors[may_pass]
        * gap_types.moved_pass_probs[may_pass]
        / growth
        / gap_types.pass_probs[may_pass]
    )
    ratio_of_refusals = np.array(refused_prob_after_move / refused_prob)
    return float(
        pass_prob_by_type @ convex_function(ratios)
        + refused_prob * convex_function(ratio_of_refusals)
    )


def draw_extreme_law(gap_types: GapTypes, rng: np.random.Generator) -> Array:
    """Returns a random vertex of the laws of candidate types that satisfy the rows, the inequalities of the proof.

    Such a vertex has weight on at most four types.
    """
    num_types = len(gap_types.moved_factors)
    solution = linprog(
        c=rng.normal(size=num_types),
        A_ub=gap_types.constraint_rows,
        b_ub=np.zeros(3),
        A_eq=np.ones((1, num_types)),
        b_eq=[1.0],
    )
    weights = np.maximum(solution.x, 0.0)
    return np.asarray(weights / weights.sum())


def make_candidate_types(reach: int, *, num_teachers: int, num_candidates: int) -> GapTypes:
    """Returns the candidate types of a selection with a test whose logits rise evenly with the tested gap.

    A type is a gap and how far the gap moves between neighbors, at most by `reach` votes.
    """
    logits = tuple(np.linspace(-6.0, 6.0, num_teachers + 1).tolist())
    test = ApproximateEvent(OneBitEvent(logits=logits, reach=reach), failure_prob=1e-3)
    return GapTypes.from_event(
        SelectThenTestEvent(
            events=(BoundedRangeEvent(epsilon=0.6), test), num_candidates=num_candidates
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("name", CONVEX_FUNCTIONS)
def test_no_law_that_satisfies_the_rows_is_above_the_bound(name: str, reach: int) -> None:
    """Random laws of candidate types that satisfy the rows, inequalities of the proof, diverge at most by the bound.

    Six convex divergences are tried, with gaps that move by up to `reach` votes. Negative control: for Renyi order 4, a
    law that breaks the rows exceeds the bound.
    """
    gap_types = make_candidate_types(reach=reach, num_teachers=30, num_candidates=20)
    rng = np.random.default_rng(list(CONVEX_FUNCTIONS).index(name))
    convex_function = CONVEX_FUNCTIONS[name]
    bound = largest_divergence(gap_types, divergence_function=convex_function)
    extreme_laws = [draw_extreme_law(gap_types, rng) for _ in range(60)]
    mixtures = [
        share * first + (1 - share) * second
        for (first, second), share in zip(pairwise(extreme_laws), rng.random(59), strict=True)
    ]
    assert max(float((gap_types.constraint_rows @ law).max()) for law in mixtures) < 1e-9
    divergences = [
        divergence_of(gap_types, type_weights=law, convex_function=convex_function)
        for law in extreme_laws + mixtures
    ]
    assert 0 < max(divergences) <= bound
    if name == "Renyi at 4":
        # half of all weight on a gap of 15 votes that grows, and half on one that shrinks
        lawless_weights = np.zeros(len(gap_types.moved_factors))
        by_distance_from_half = np.abs(gap_types.pass_probs - 0.5).argsort(kind="stable")
        for move in (gap_types.moved_factors.max(), gap_types.moved_factors.min()):
            has_move = gap_types.moved_factors[by_distance_from_half] == move
            lawless_weights[by_distance_from_half[has_move][0]] = 0.5
        lawless_divergence = divergence_of(
            gap_types, type_weights=lawless_weights, convex_function=convex_function
        )
        assert lawless_divergence > bound


def test_rows_allow_a_small_part_of_one_candidate() -> None:
    """A law with half its weight on the gap of all votes and half on a gap of 0 satisfies the rows, the inequalities.

    The same weight stands for e^-4.5 times as many candidates on the largest gap as on a gap of 0, so for a small part
    of one candidate.
    """
    gap_types = make_candidate_types(reach=2, num_teachers=30, num_candidates=20)
    unmoved = np.flatnonzero(gap_types.moved_factors == 1.0)
    smallest_gap = unmoved[gap_types.pass_probs[unmoved].argmin()]
    largest_gap = unmoved[gap_types.pass_probs[unmoved].argmax()]
    law = np.zeros(len(gap_types.moved_factors))
    law[[smallest_gap, largest_gap]] = 0.5
    assert (gap_types.constraint_rows @ law).max() <= 0
