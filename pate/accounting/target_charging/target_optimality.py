"""The definition of a target, solved exactly for one pair of laws, and the law of a call in the boundary wrapper."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import require, require_positive

Array = NDArray[np.float64]

_SUM_TOLERANCE = 1e-9


def exact_hit_prob(first: ArrayLike, second: ArrayLike, *, in_target: ArrayLike, epsilon: float) -> float:
    """The largest q for which a set is a q-target of one pair of neighboring laws; 1 where the laws are equal.

    The common part C may take c(y) = (e^epsilon min - max) / (e^epsilon - 1) off the target and nothing on it: more
    would break the epsilon of the rest, less would make the target rarer in it.

    Args:
        first: `[Y]` the law on one data set.
        second: `[Y]` the law on a neighbor, within e^epsilon of the first.
        in_target: bool `[Y]`.
        epsilon: > 0.

    Raises:
        InvalidValue: laws that do not sum to 1, shapes that differ, or laws farther apart than epsilon.
    """
    laws = np.stack([_require_law("first", first), _require_law("second", second)])
    target = np.asarray(in_target, dtype=bool)
    require(target.shape == laws.shape[1:], "in_target.shape", target.shape, f"{laws.shape[1:]}")
    low, high = laws.min(axis=0), laws.max(axis=0)
    growth = np.exp(require_positive("epsilon", epsilon))
    near = bool(np.all(high <= growth * low * (1 + _SUM_TOLERANCE)))
    require(near, "epsilon", epsilon, "at least the largest log-ratio of the two laws")
    common = np.maximum(growth * low - high, 0) / (growth - 1)
    accessed = 1 - common[~target].sum()
    if accessed <= 0:
        return 1.0
    return float(min(1.0, laws[:, target].sum(axis=1).min() / accessed))


def boundary_distribution(probabilities: ArrayLike) -> Array:
    """The law of a call in the boundary wrapper: `[..., Y + 1]`, the boundary outcome last, at most 1/3.

    The wrapper knows the law of the call. With pi = min(1 - largest probability, 1/2) it answers "boundary" with
    probability pi / (1 + pi) and otherwise runs the call. Pi is the sum of the other probabilities: no digits cancel.

    Args:
        probabilities: `[..., Y]` the law of the call on the data.

    Raises:
        InvalidValue: probabilities that are negative or do not sum to 1.
    """
    law = np.asarray(probabilities, dtype=np.float64)
    _require_sums("probabilities", law)
    others = law.copy()
    np.put_along_axis(others, law.argmax(axis=-1, keepdims=True), 0.0, axis=-1)
    rest = np.minimum(others.sum(axis=-1, keepdims=True), 0.5)
    return np.asarray(np.concatenate([law, rest], axis=-1) / (1 + rest))


def _require_law(name: str, values: Any) -> Array:
    law = np.asarray(values, dtype=np.float64)
    require(law.ndim == 1, f"{name}.shape", law.shape, "[num_outcomes]")
    _require_sums(name, law)
    return law


def _require_sums(name: str, laws: Array) -> None:
    require(laws.ndim > 0 and laws.shape[-1] > 0, f"{name}.shape", laws.shape, "at least one outcome")
    proper = bool(np.all(laws >= 0)) and bool(np.all(np.abs(laws.sum(axis=-1) - 1) <= _SUM_TOLERANCE))
    require(proper, name, "…", "probabilities that sum to 1")
