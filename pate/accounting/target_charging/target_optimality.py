"""The largest q of a target for one pair of distributions, and the distribution of calls in the boundary wrapper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import require, require_array, require_positive

Array = NDArray[np.float64]

_SUM_TOLERANCE = 1e-9


def exact_hit_prob(first: ArrayLike, second: ArrayLike, *, in_target: ArrayLike, epsilon: float) -> float:
    """The largest q for which a set is a q-target of one pair of neighboring distributions; 1 where they are equal.

    The common part C may take c(y) = (e^epsilon min - max) / (e^epsilon - 1) off the target and nothing on it: more
    would break the epsilon of the rest, less would make the target rarer in it.

    Args:
        first: `[Y]` the distribution on one data set.
        second: `[Y]` the distribution on a neighbor, within e^epsilon of the first.
        in_target: bool `[Y]`.
        epsilon: > 0.

    Raises:
        InvalidValue: distributions that do not sum to 1, shapes that differ, or distributions farther apart than
            epsilon.
    """
    distributions = np.stack([_require_distribution("first", first), _require_distribution("second", second)])
    target = np.asarray(in_target, dtype=bool)
    require(target.shape == distributions.shape[1:], "in_target.shape", target.shape, f"{distributions.shape[1:]}")
    low, high = distributions.min(axis=0), distributions.max(axis=0)
    growth = np.exp(require_positive("epsilon", epsilon))
    near = bool(np.all(high <= growth * low * (1 + _SUM_TOLERANCE)))
    require(near, "epsilon", epsilon, "at least the largest log-ratio of the two distributions")
    common = np.maximum(growth * low - high, 0) / (growth - 1)
    accessed = 1 - common[~target].sum()
    if accessed <= 0:
        return 1.0
    return float(min(1.0, distributions[:, target].sum(axis=1).min() / accessed))


def boundary_distribution(probabilities: ArrayLike) -> Array:
    """The distribution of a call in the boundary wrapper: `[..., Y + 1]`, the boundary outcome last, at most 1/3.

    The wrapper knows the distribution of the call. With pi = min(1 - largest probability, 1/2) it answers "boundary"
    with probability pi / (1 + pi) and otherwise runs the call. Pi is the sum of the other probabilities: no digits
    cancel.

    Args:
        probabilities: `[..., Y]` the distribution of the call on the data.

    Raises:
        InvalidValue: probabilities that are negative or do not sum to 1.
    """
    distribution = require_array("probabilities", probabilities).astype(np.float64)
    _require_sums("probabilities", distribution)
    others = distribution.copy()
    np.put_along_axis(others, distribution.argmax(axis=-1, keepdims=True), 0.0, axis=-1)
    rest = np.minimum(others.sum(axis=-1, keepdims=True), 0.5)
    return np.asarray(np.concatenate([distribution, rest], axis=-1) / (1 + rest))


def _require_distribution(name: str, values: Any) -> Array:
    distribution: Array = require_array(name, values).astype(np.float64)
    require(distribution.ndim == 1, f"{name}.shape", distribution.shape, "[num_outcomes]")
    _require_sums(name, distribution)
    return distribution


def _require_sums(name: str, distributions: Array) -> None:
    require(
        distributions.ndim > 0 and distributions.shape[-1] > 0,
        f"{name}.shape",
        distributions.shape,
        "at least one outcome",
    )
    proper = (distributions >= 0).all(axis=-1) & (np.abs(distributions.sum(axis=-1) - 1) <= _SUM_TOLERANCE)
    found = f"{int((~proper).sum())} of {proper.size} distributions"  # their number only: they come from the data
    require(bool(proper.all()), name, found, "probabilities that sum to 1")
