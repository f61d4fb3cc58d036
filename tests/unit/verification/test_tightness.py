"""Lower bounds by exact laws of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import PureDpAccountant, PureDpEvent
from pate.verification import lower_bound
from pate.verification.tightness import Pair


def answer(counts: np.ndarray) -> dict[str, float]:
    """Randomized response on the first count, at epsilon 0.3."""
    true, false = np.exp(0.3) / (1 + np.exp(0.3)), 1 / (1 + np.exp(0.3))
    return {"yes": true, "no": false} if counts[0] else {"yes": false, "no": true}


PAIR: Pair = (np.array([1]), np.array([0]))


@pytest.mark.parametrize("num_releases", [1, 7, 40])
def test_randomized_response_needs_what_optimal_composition_says(num_releases: int) -> None:
    found = lower_bound(answer, [PAIR], num_releases=num_releases, target_delta=1e-3)
    priced = PureDpAccountant().compose(PureDpEvent(0.3), num_releases).get_epsilon(1e-3)
    assert found.epsilon <= priced * (1 + 1e-9)
    assert found.epsilon == pytest.approx(priced, rel=1e-6)
    assert {found.first, found.second} == {(0,), (1,)}


def test_the_worst_pair_is_the_witness_whatever_the_order() -> None:
    def bit(counts: np.ndarray) -> dict[bool, float]:
        above = float(ndtr((counts[0] - 50) / 10))
        return {True: above, False: 1 - above}

    pairs = [(np.array([n]), np.array([n - 1])) for n in (95, 51, 20, 70)]
    found = [lower_bound(bit, some, num_releases=300, target_delta=1e-5) for some in (pairs, pairs[::-1])]
    assert {(bound.first, bound.second) for bound in found} <= {((51,), (50,)), ((50,), (51,))}
    assert found[0].epsilon == found[1].epsilon


def test_no_pair_is_an_error() -> None:
    with pytest.raises(ValueError, match="pairs: expected at least one"):
        lower_bound(answer, [], num_releases=1, target_delta=0.1)
