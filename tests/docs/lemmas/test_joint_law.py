"""Joint laws by docs/proofs/joint_law.md: laws that satisfy the rows stay below the bound, for convex divergences."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from pate.accounting import ApproximateEvent, BoundedRangeEvent, OneBitEvent, SelectThenTestEvent
from pate.accounting.worst_joint_law import CandidateTypes, largest_divergence

Array = np.ndarray


def renyi(renyi_order: float) -> Callable[[Array], Array]:
    """Returns a convex function of the ratio x = Q/P.

    Its mean under P is e^((renyi_order - 1) D) - 1, where D is the Renyi divergence of P from Q at the Renyi order.
    """
    return lambda x: (
        np.exp((1 - renyi_order) * np.log(np.maximum(x, 1e-300))) - 1 + (renyi_order - 1) * (x - 1)
    )


def hockey_stick(epsilon: float) -> Callable[[Array], Array]:
    """Returns a convex function of the ratio x = Q/P, whose mean under P is the hockey stick of P over Q at epsilon.

    The value of the hockey stick for two equal laws is subtracted.
    """
    flat = max(0.0, 1 - np.exp(epsilon))
    return lambda x: (
        np.maximum(1 - np.exp(epsilon) * x, 0.0)
        - flat
        + (np.exp(epsilon) * (x - 1) if flat else 0.0)
    )


DIVERGENCES = [
    renyi(renyi_order=1.5),
    renyi(renyi_order=4.0),
    renyi(renyi_order=12.0),
    hockey_stick(epsilon=0.05),
    hockey_stick(epsilon=0.3),
    hockey_stick(epsilon=-0.1),
]


def divergence_of(
    types: CandidateTypes, type_weights: Array, convex_function: Callable[[Array], Array]
) -> float:
    """Returns the divergence F of docs/proofs/joint_law.md by its definition.

    Args:
        type_weights: the weight of each candidate type.
        convex_function: a convex function of the ratio of two probabilities.
    """
    growth = float(type_weights @ types.moved)
    refused = float(type_weights @ types.fails)
    refused_after = float(type_weights @ (types.moved * types.moved_fails)) / growth
    passed = types.passes > 0
    ratios = types.moved[passed] * types.moved_passes[passed] / growth / types.passes[passed]
    return float(
        (type_weights[passed] * types.passes[passed]) @ convex_function(ratios)
        + refused * convex_function(np.array(refused_after / refused))
    )


def extreme_law(types: CandidateTypes, rng: np.random.Generator) -> Array:
    """Returns a vertex, in a random direction, of the laws of candidate types that satisfy the rows of the proof.

    Such a vertex has weight on at most four types.
    """
    count = len(types.moved)
    solved = linprog(
        rng.normal(size=count),
        A_ub=types.limits,
        b_ub=np.zeros(3),
        A_eq=np.ones((1, count)),
        b_eq=[1.0],
    )
    return np.asarray(np.maximum(solved.x, 0.0) / np.maximum(solved.x, 0.0).sum())


def some_types(logit_reach: int, num_teachers: int, num_candidates: int) -> CandidateTypes:
    """Returns the candidate types of a selection with a test whose logits rise evenly with the
    votes.
    """
    logits = tuple(np.linspace(-6.0, 6.0, num_teachers + 1).tolist())
    test = ApproximateEvent(OneBitEvent(logits, logit_reach), failure_prob=1e-3)
    return CandidateTypes.from_event(
        SelectThenTestEvent(
            events=(BoundedRangeEvent(epsilon=0.6), test), num_candidates=num_candidates
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("number", range(len(DIVERGENCES)))
def test_no_law_that_satisfies_the_rows_is_above_the_bound(number: int, reach: int) -> None:
    """Random laws of candidate types that satisfy the proof's rows have divergences within the bound.

    There are six convex divergences. Negative control: for the Renyi order 4, a law that breaks the rows exceeds the
    bound.
    """
    types = some_types(reach, num_teachers=30, num_candidates=20)
    rng = np.random.default_rng(number)
    f = DIVERGENCES[number]
    bound = largest_divergence(types, divergence=f)
    vertices = [extreme_law(types, rng) for _ in range(60)]
    laws = [
        share * first + (1 - share) * second
        for (first, second), share in zip(pairwise(vertices), rng.random(59), strict=True)
    ]
    assert max(float((types.limits @ law).max()) for law in laws) < 1e-9
    divergences = [
        divergence_of(types, type_weights=law, convex_function=f) for law in vertices + laws
    ]
    assert 0 < max(divergences) <= bound
    lawless = np.zeros(len(types.moved))
    middle = np.abs(types.passes - 0.5).argsort(kind="stable")
    # half of all weight on a gap of 15 votes that grows
    for move in (types.moved.max(), types.moved.min()):
        lawless[middle[types.moved[middle] == move][0]] = 0.5
    # without the rows the bound does not hold
    assert divergence_of(types, type_weights=lawless, convex_function=f) > bound or number != 1


def test_rows_allow_a_small_part_of_one_candidate() -> None:
    """A law with half of its weight on the gap of all votes and half on a gap of 0 satisfies the rows.

    So the largest gap may have a weight that stands for only e^-4.5 of a candidate.
    """
    types = some_types(logit_reach=2, num_teachers=30, num_candidates=20)
    law = np.zeros(len(types.moved))
    still = np.flatnonzero(types.moved == 1.0)
    law[[still[types.passes[still].argmin()], still[types.passes[still].argmax()]]] = 0.5
    assert (types.limits @ law).max() <= 0
