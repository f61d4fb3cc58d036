"""Teachers that are any scikit-learn estimator."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.teachers.fitted_labels import FittedLabels, minds_scale, of_a_part, stretched
from pate.teachers.teacher import PICKLE, Shard, State, Teacher, as_rows, require_shards
from pate.validation import InvalidValue, require_probability
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble

_REHEARSED = 200
_SHOWN = 120


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
        frames: whether the estimator is given a table's rows as a DataFrame, columns by name, words and missing cells
            as they are: for a pipeline with a `ColumnTransformer`. Numbers are cut to the public range, words that the
            public file does not have are "other".

    Raises:
        InvalidValue: no estimator, or a threshold outside its range.
    """

    votes_in_rounds: ClassVar[bool] = False  # as in PATEClassifier, and inputs may be missing

    estimator: Any = field(metadata={"public": True, "kind": "estimator"})
    threshold: float = 0.5
    frames: bool = False

    def __post_init__(self) -> None:
        predicts = hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")
        if not predicts or isinstance(self.estimator, type):
            raise InvalidValue(f"estimator={self.estimator!r}: expected an unfitted scikit-learn estimator")
        require_probability("threshold", self.threshold)

    def votes_of(self, ensemble: Ensemble) -> VoteSource:
        """See `Voter.votes_of`."""
        if not self.frames:
            return super().votes_of(ensemble)
        form = ensemble.dataset.preprocessing
        if not hasattr(form, "frame"):
            raise InvalidValue("teacher.frames=true: expected data=table, whose columns have names and kinds")
        teacher = _FramedTeacher(self.estimator, self.threshold, form=form)
        teacher.rehearse(ensemble.queries.inputs, ensemble.dataset.num_labels)
        return ensemble.trained_votes(teacher)

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
        rows = self._rows(inputs)
        with of_a_part(self.estimator, "teacher.estimator"):
            raw = np.stack([pickle.loads(state[PICKLE].tobytes()).confidences(rows) for state in states])
        return stretched(raw, self.threshold)

    def _rows(self, inputs: NDArray[np.float32]) -> Any:
        """What the estimator is given for inputs."""
        return as_rows(inputs)

    def _fit(self, shard: Shard, seed: int) -> State:
        rows = self._rows(shard.inputs)
        with of_a_part(self.estimator, "teacher.estimator"):
            fitted = FittedLabels.fit(self.estimator, rows, shard.labels, seed)
            loss = np.square(fitted.confidences(rows) - shard.labels).mean()
        return {
            PICKLE: np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8),
            "loss_curve": np.array([loss], np.float32),
        }


@dataclass(frozen=True)
class _FramedTeacher(SklearnTeacher):
    """One whose estimator is given DataFrames.

    Attributes:
        form: makes them of inputs, as `pate.data.TableSchema` does; public.
    """

    form: Any = None

    def rehearse(self, public: NDArray[np.float32], num_labels: int) -> None:
        """Fits the estimator to public samples and labels that say nothing, before a private record is read.

        Raises:
            InvalidValue: it cannot take such columns.
        """
        some = public[:_REHEARSED]
        bits = np.zeros((len(some), num_labels), np.bool_)
        bits[::2] = True
        try:
            self.predict_many([self._fit(Shard(some, bits), 0)], some)
        except (ValueError, TypeError) as error:
            said = " ".join(str(error.__cause__ or error).split())[:_SHOWN]
            rule = f"one that takes the columns of the table, such as a pipeline with a ColumnTransformer ({said})"
            raise InvalidValue(f"teacher.estimator={type(self.estimator).__name__}: expected {rule}") from error

    def _rows(self, inputs: NDArray[np.float32]) -> Any:
        return self.form.frame(as_rows(inputs))
