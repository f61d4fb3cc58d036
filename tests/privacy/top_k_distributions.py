"""The distributions of a StableTopK release for every pair of neighbors, from the parts' exact distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import StableTopK
from tests.privacy.distributions import selection_distribution
from tests.privacy.histograms import GapPairs

Array = NDArray[np.float64]


def distributions_outside_failure(aggregator: StableTopK, pairs: GapPairs) -> tuple[Array, Array]:
    """Both distributions given that no unstable set is released: `[N, n + 1]`, a column for each k and one for the
    refusal.

    Where the sets of the k best differ, a pass is the failure (`failure_mass` bounds it) and k ends in a refusal.
    """
    return tuple(_refusal_last(*_parts(aggregator, pairs, side), pairs.same_set) for side in (0, 1))


def distributions_end_to_end(aggregator: StableTopK, pairs: GapPairs) -> tuple[Array, Array]:
    """Both distributions as released: `[N, 2 n + 1]`, where sets that differ are different outcomes."""
    distributions = []
    for side in (0, 1):
        chosen, passed = _parts(aggregator, pairs, side)
        released = chosen * passed
        agreed, own = np.where(pairs.same_set, released, 0.0), np.where(pairs.same_set, 0.0, released)
        separate = [own, np.zeros_like(own)] if side == 0 else [np.zeros_like(own), own]
        refused = (chosen * (1 - passed)).sum(axis=1)
        distributions.append(np.column_stack([agreed, *separate, refused]))
    return distributions[0], distributions[1]


def failure_mass(aggregator: StableTopK, pairs: GapPairs) -> float:
    """The largest probability with which a set passes that the neighbor does not have."""
    passed = np.stack([_parts(aggregator, pairs, side)[1] for side in (0, 1)])
    return float(np.where(pairs.same_set, 0.0, passed).max())


def _parts(aggregator: StableTopK, pairs: GapPairs, side: int) -> tuple[Array, Array]:
    """The distribution of k `[N, n]` and the probability that its set is then released `[N, n]`."""
    gaps = (pairs.first, pairs.second)[side]
    chosen = selection_distribution(aggregator.selection_noise, gaps, aggregator.selection_scale)
    test = aggregator.stability_test(num_teachers=pairs.num_teachers)
    passed = np.where(pairs.constant_set, 1.0, np.array(test.pass_probs)[gaps])
    return chosen, passed


def _refusal_last(chosen: Array, passed: Array, same_set: NDArray[np.bool_]) -> Array:
    refused = np.where(same_set, chosen * (1 - passed), chosen).sum(axis=1)
    return np.column_stack([np.where(same_set, chosen * passed, 0.0), refused])
