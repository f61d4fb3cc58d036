"""Teachers that are any scikit-learn estimator."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.teachers.fitted_labels import FittedLabels, stretched
from pate.teachers.teacher import OnStep, Shard, State, Teacher, as_rows, require_parts
from pate.validation import InvalidValue, require_probability


@dataclass(frozen=True)
class SklearnTeacher(Teacher):
    """Fits a clone of an estimator for each teacher; a classifier or a regressor will do.

    An estimator that takes several targets at once (its tag `multi_output`: trees, nearest neighbors,
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

    estimator: Any = field(metadata={"public": True})
    threshold: float = 0.5

    def __post_init__(self) -> None:
        predicts = hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")
        if not predicts or isinstance(self.estimator, type):
            raise InvalidValue(f"estimator={self.estimator!r}: expected an unfitted scikit-learn estimator")
        require_probability("threshold", self.threshold)

    @property
    def is_isolated(self) -> bool:
        """See `Teacher.is_isolated`."""
        return True

    def fit_many(self, parts: Sequence[Shard], seeds: Sequence[int], on_step: OnStep | None = None) -> list[State]:
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
        return stretched(raw, self.threshold)

    def _fit(self, part: Shard, seed: int) -> State:
        fitted = FittedLabels.fit(self.estimator, as_rows(part.inputs), part.labels, seed)
        loss = np.square(fitted.confidences(as_rows(part.inputs)) - part.labels).mean()
        return {
            "pickle": np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8),
            "loss_curve": np.array([loss], np.float32),
        }
