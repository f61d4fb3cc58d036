"""Teachers that are any scikit-learn estimator."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.teachers.fitted_labels import FittedLabels, minds_scale, stretched
from pate.teachers.teacher import PICKLE, Shard, State, Teacher, as_rows, require_shards
from pate.validation import InvalidValue, require_probability


@dataclass(frozen=True)
class SklearnTeacher(Teacher):
    """Fits a clone of a classifier or regressor for each teacher.

    An estimator that takes several targets at once (its tag `multi_output`: trees, nearest neighbors,
    `MLPClassifier`, …) is fitted once, any other once for each label. Labels that are the same for all
    records of a shard are not fitted but repeated. Every parameter called `random_state` is set from the
    teacher's seed. Confidences come from `predict_proba`, else `decision_function` through the logistic
    function, else `predict` cut to [0, 1].

    **Trust.** The state holds the fitted estimators as a pickle, and reading a pickle runs code that its author chose.
    A `CheckpointStore` signs it and reads none that its own key did not sign; a state from elsewhere is the caller's to
    trust.

    Attributes:
        estimator: unfitted; it is cloned, never changed.
        threshold: confidence from which a label is voted for, in (0, 1).

    Raises:
        InvalidValue: no estimator, or a threshold outside its range.
    """

    votes_in_rounds: ClassVar[bool] = False  # as in PATEClassifier, and inputs may be missing

    estimator: Any = field(metadata={"public": True, "kind": "estimator"})
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

    @property
    def minds_scale(self) -> bool:
        """See `Voter.minds_scale`."""
        return minds_scale(self.estimator)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one shard after the other. The loss is the mean squared error on the shard itself."""
        require_shards(shards, seeds)
        return [self._fit(shard, seed) for shard, seed in zip(shards, seeds, strict=True)]

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Confidences, stretched piecewise linearly so that the threshold is at 0.5."""
        rows = as_rows(inputs)
        raw = np.stack([pickle.loads(state[PICKLE].tobytes()).confidences(rows) for state in states])
        return stretched(raw, self.threshold)

    def _fit(self, shard: Shard, seed: int) -> State:
        fitted = FittedLabels.fit(self.estimator, as_rows(shard.inputs), shard.labels, seed)
        loss = np.square(fitted.confidences(as_rows(shard.inputs)) - shard.labels).mean()
        return {
            PICKLE: np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8),
            "loss_curve": np.array([loss], np.float32),
        }
