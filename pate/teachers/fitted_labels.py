"""scikit-learn estimators fitted to label bits: a teacher of any kind of them, or a student. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require

_BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))
_SHOWN = 120


@dataclass(frozen=True, eq=False)
class FittedLabels:
    """An estimator fitted to all labels of some records.

    Attributes:
        first: float64 `[num_labels]`, the label bits of the first record, which say all of labels that never vary.
        varying: int64, the labels that vary and were fitted.
        models: what was fitted to them: one estimator for all, or one for each.
    """

    first: NDArray[np.float64]
    varying: NDArray[np.int64]
    models: list[Any]

    @classmethod
    def fit(cls, estimator: Any, rows: NDArray[np.float32], labels: NDArray[np.bool_], seed: int) -> FittedLabels:
        """Fits clones of the estimator to rows `[n, d]`, n > 0, and labels `[n, num_labels]`."""
        share = labels.mean(axis=0)
        varying = np.flatnonzero((share > 0) & (share < 1))
        targets = labels[:, varying].astype(np.int64)
        if not len(varying):
            models = []
        elif estimator.__sklearn_tags__().target_tags.multi_output:
            models = [seeded(estimator, seed).fit(rows, targets if len(varying) > 1 else targets[:, 0])]
        else:
            models = []
            for label, column in zip(varying, targets.T, strict=True):
                try:
                    models.append(seeded(estimator, seed).fit(rows, column))
                except Exception as error:
                    error.add_note(f"label {label}, which {column.sum()} of {len(column)} records have")
                    raise
        return cls(labels[0].astype(np.float64), varying, models)

    def confidences(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Confidences in [0, 1], `[n, num_labels]`."""
        confidences = np.tile(self.first, (len(rows), 1))
        if self.models:
            width = len(self.varying) // len(self.models)  # labels a model
            columns = [_columns(model, rows, width) for model in self.models]
            for found in columns:
                require(found.shape == (len(rows), width), "predictions.shape", found.shape, f"({len(rows)}, {width})")
                require(bool(np.isfinite(found).all()), "predictions", "NaN or infinity", "finite numbers")
            confidences[:, self.varying] = np.concatenate(columns, axis=1)
        return confidences


@contextmanager
def of_a_part(estimator: Any, name: str = "estimator") -> Iterator[None]:
    """Says of whatever goes wrong inside that the estimator cannot be fitted to one teacher's part.

    Which part it is depends on private records, and nothing has paid for saying so: the line is the owner's alone.

    Raises:
        InvalidValue: in place of the estimator's own error.
    """
    try:
        yield
    except Exception as error:
        said = " ".join(str(error).split())[:_SHOWN]
        where = "; ".join((*getattr(error, "__notes__", ()), f"{type(error).__name__}: {said}"))
        rule = "one that can be fitted to every teacher's part, or fewer teachers, so that parts are larger"
        raise InvalidValue(f"{name}={type(estimator).__name__}: expected {rule} ({where})") from error


def stretched(confidences: NDArray[np.float64], threshold: float = 0.5) -> NDArray[np.float32]:
    """Confidences as float32, piecewise linearly so that the threshold is at 0.5: what a vote is."""
    below = np.minimum(confidences / (2 * threshold), _BELOW_HALF)
    above = 0.5 + (confidences - threshold) / (2 * (1 - threshold))
    return np.where(confidences < threshold, below, above).astype(np.float32)


def minds_scale(estimator: Any) -> bool:
    """Whether scikit-learn fits it to columns as they are, the widest first: linear models and support vectors."""
    return type(estimator).__module__.startswith(("sklearn.linear_model", "sklearn.svm"))


def seeded(estimator: Any, seed: int) -> Any:
    """An unfitted clone, every `random_state` in it set to the seed."""
    from sklearn.base import clone  # here, so that workers with other teachers start in half the time

    copy = clone(estimator)
    names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))


def takes_nan(estimator: Any) -> bool:
    """Whether an estimator, or the first step of a pipeline, says that inputs may be missing."""
    steps = [step for _, step in getattr(estimator, "steps", ()) if step not in (None, "passthrough")]
    if steps:
        return takes_nan(steps[0])
    says = not isinstance(estimator, type) and hasattr(estimator, "__sklearn_tags__")
    return says and bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def _columns(model: Any, rows: NDArray[np.float32], width: int) -> NDArray[np.float64]:
    """Confidences of one fitted estimator, `[n, width]`."""
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(rows)
        if isinstance(proba, list):  # one [n, 2] a label
            return np.stack([label[:, 1] for label in proba], axis=1)
        return np.asarray(proba[:, 1:] if width == 1 else proba)
    if hasattr(model, "decision_function"):
        decision = np.asarray(model.decision_function(rows)).reshape(len(rows), width)
        return 0.5 + 0.5 * np.tanh(decision / 2)
    return np.asarray(model.predict(rows), np.float64).clip(0, 1).reshape(len(rows), width)
