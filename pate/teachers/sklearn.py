"""Teachers that are any scikit-learn estimator."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.teachers.teacher import OnStep, Part, State, Teacher, as_rows, require_parts
from pate.validation import InvalidValue, require_probability


@dataclass(frozen=True)
class SklearnTeacher(Teacher):
    """Fits a clone of an estimator for each teacher; a classifier or a regressor will do.

    An estimator that takes several targets at once (its tag `multi_output`: trees, nearest neighbours,
    `MLPClassifier`, …) is fitted once, any other once for each label. Labels that are the same for all
    records of a part are not fitted but repeated. Every parameter called `random_state` is set from the
    teacher's seed. Confidences come from `predict_proba`, else `decision_function` through the logistic
    function, else `predict` cut to [0, 1].

    **Trust.** The state holds the fitted estimators as a pickle. Reading a pickle runs code that its author
    chose: load only checkpoints that this machine wrote, in a folder that nobody else can write to.

    Attributes:
        estimator: unfitted; it is cloned, never changed.
        threshold: confidence from which a label is voted for, in (0, 1).

    Raises:
        InvalidValue: no estimator, or a threshold outside its range.
    """

    estimator: Any
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "fit") or isinstance(self.estimator, type):
            raise InvalidValue(f"estimator={self.estimator!r}: expected an unfitted scikit-learn estimator")
        require_probability("threshold", self.threshold)

    @property
    def alone(self) -> bool:
        """See `Teacher.alone`."""
        return True

    def fit_many(self, parts: Sequence[Part], seeds: Sequence[int], on_step: OnStep | None = None) -> list[State]:
        """Fits one part after the other. The loss is the mean squared error on the part itself."""
        require_parts(parts, seeds)
        states = [self._fit(part, seed) for part, seed in zip(parts, seeds, strict=True)]
        if on_step is not None:
            on_step(0, np.concatenate([state["loss_curve"] for state in states]).astype(np.float32))
        return states

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Confidences, stretched piecewise linearly so that the threshold is at 0.5."""
        rows = as_rows(inputs)
        raw = np.stack([pickle.loads(state["pickle"].tobytes()).confidences(rows) for state in states])
        below = raw / (2 * self.threshold)
        above = 0.5 + (raw - self.threshold) / (2 * (1 - self.threshold))
        return np.where(raw < self.threshold, np.minimum(below, _BELOW_HALF), above).astype(np.float32)

    def _fit(self, part: Part, seed: int) -> State:
        fitted = FittedLabels.fit(self.estimator, part, seed)
        loss = np.square(fitted.confidences(part.inputs) - part.labels).mean()
        return {
            "pickle": np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8),
            "loss_curve": np.array([loss], np.float32),
        }


_BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))


@dataclass(frozen=True, eq=False)
class FittedLabels:
    """An estimator fitted to all labels of a part.

    Attributes:
        first: float64 `[num_labels]`, the label bits of the first record, which say all of labels that never vary.
        varying: int64, the labels that vary and were fitted.
        models: what was fitted to them: one estimator for all, or one for each.
    """

    first: NDArray[np.float64]
    varying: NDArray[np.int64]
    models: list[Any]

    @classmethod
    def fit(cls, estimator: Any, part: Part, seed: int) -> FittedLabels:
        """Fits clones of the estimator, every `random_state` in them set from the seed."""
        rows, share = as_rows(part.inputs), part.labels.mean(axis=0)
        varying = np.flatnonzero((share > 0) & (share < 1))
        targets = part.labels[:, varying].astype(np.int64)
        if not len(varying):
            models = []
        elif _takes_several_targets(estimator):
            models = [seeded(estimator, seed).fit(rows, targets if len(varying) > 1 else targets[:, 0])]
        else:
            models = [seeded(estimator, seed).fit(rows, column) for column in targets.T]
        return cls(part.labels[0].astype(np.float64), varying, models)

    def confidences(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Confidences in [0, 1], `[n, num_labels]`."""
        rows = as_rows(inputs)
        confidences = np.tile(self.first, (len(rows), 1))
        if self.models:
            width = len(self.varying) // len(self.models)  # labels a model
            columns = [_columns(model, rows, width) for model in self.models]
            confidences[:, self.varying] = np.concatenate(columns, axis=1)
        return confidences


def _takes_several_targets(estimator: Any) -> bool:
    if hasattr(estimator, "__sklearn_tags__"):
        return bool(estimator.__sklearn_tags__().target_tags.multi_output)
    return bool(estimator._get_tags()["multioutput"])  # scikit-learn before 1.6


def seeded(estimator: Any, seed: int) -> Any:
    """An unfitted clone, every `random_state` in it set to the seed."""
    from sklearn.base import clone  # here, so that workers with other teachers start in half the time

    copy = clone(estimator)
    names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))


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
