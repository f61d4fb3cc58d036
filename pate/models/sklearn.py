"""Teachers that are any scikit-learn estimator, fitted to label bits."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.models.shards import Shard, as_rows, require_shards
from pate.models.teacher import PICKLE, State, Teacher
from pate.validation import InvalidValue, require, require_probability
from pate.votes.source import TeacherVotes, VoteSource

if TYPE_CHECKING:
    from pate.data import Dataset

_BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))
_SHOWN = 120
_REHEARSED = 200  # public samples that an estimator of frames is tried on


@dataclass(frozen=True)
class SklearnTeacher(Teacher):
    """Fits a clone of a classifier or regressor for each teacher.

    An estimator that takes several targets at once (its tag `multi_output`: trees, nearest neighbors, `MLPClassifier`,
    …) is fitted once, any other once for each label. Labels that are the same for all records of a shard are not fitted
    but repeated. Every parameter called `random_state` is set from the teacher's seed. Confidences come from
    `predict_proba`, else `decision_function` through the logistic function, else `predict` cut to [0, 1].

    **Trust.** The state holds the fitted estimators as a pickle, and reading a pickle runs code that its author chose.
    A `CheckpointStore` signs it and reads none that its own key did not sign; a state from elsewhere is the caller's to
    trust.

    Attributes:
        estimator: unfitted; it is cloned, never changed.
        threshold: confidence from which a label is voted for, in (0, 1).
        frames: whether the estimator is given a table's rows as a DataFrame, columns by name, words and missing cells
            as they are: for a pipeline with a `ColumnTransformer`. Numbers are cut to the public range, words that the
            public file does not have are "other".
    """

    gives: ClassVar[type[VoteSource]] = (
        TeacherVotes  # in one cast, as in PATEClassifier; inputs may be missing
    )

    estimator: Any = field(metadata={"public": True, "kind": "estimator"})
    threshold: float = 0.5
    frames: bool = False

    def __post_init__(self) -> None:
        predicts = hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")
        if not predicts or isinstance(self.estimator, type):
            raise InvalidValue(
                "estimator", f"{self.estimator!r}", rule="an unfitted scikit-learn estimator"
            )
        require_probability("threshold", self.threshold)

    def for_data(self, dataset: Dataset, num_queries: int) -> SklearnTeacher:
        """With `frames` it is rehearsed on public samples, so that a wrong estimator is told before anything else."""
        if not self.frames:
            return self
        form = dataset.preprocessing
        if not hasattr(form, "frame"):
            raise InvalidValue(
                "teacher.frames", "true", rule="data=table, whose columns have names and kinds"
            )
        framed = _FramedTeacher(self.estimator, self.threshold, form=form)
        rows = dataset.public.inputs[: min(num_queries, _REHEARSED)]
        bits = np.zeros((len(rows), dataset.num_labels), np.bool_)
        bits[::2] = True  # labels that say nothing
        try:
            framed.predict_many(framed.fit_many([Shard(rows, bits)], [0]), rows)
        except (ValueError, TypeError) as error:
            reason = " ".join(str(error.__cause__ or error).split())[:_SHOWN]
            rule = f"one that takes the columns of the table, such as a pipeline with a ColumnTransformer ({reason})"
            raise InvalidValue(
                "teacher.estimator", type(self.estimator).__name__, rule=rule
            ) from error
        return framed

    @property
    def is_isolated(self) -> bool:
        """True where each teacher is trained by itself: the estimator says so."""
        return True

    @property
    def is_scale_sensitive(self) -> bool:
        """True where inputs of very different widths make the estimator worse."""
        return is_scale_sensitive(self.estimator)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one shard after the other. The loss is the mean squared error on the shard itself."""
        require_shards(shards, seeds)
        states: list[State] = []
        for shard, seed in zip(shards, seeds, strict=True):
            rows = self._rows(shard.inputs)
            with of_a_part(self.estimator, "teacher.estimator"):
                fitted = FittedLabels.fit(self.estimator, rows, shard.labels, seed)
                loss = np.square(fitted.confidences(rows) - shard.labels).mean()
            pickled = np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8)
            states.append({PICKLE: pickled, "loss_curve": np.array([loss], np.float32)})
        return states

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Confidences, stretched piecewise linearly so that the threshold is at 0.5."""
        rows = self._rows(inputs)
        with of_a_part(self.estimator, "teacher.estimator"):
            raw = np.stack(
                [pickle.loads(state[PICKLE].tobytes()).confidences(rows) for state in states]
            )
        return stretched(raw, self.threshold)

    def _rows(self, inputs: NDArray[np.float32]) -> Any:
        return as_rows(inputs)


@dataclass(frozen=True)
class _FramedTeacher(SklearnTeacher):
    """One whose estimator is given DataFrames."""

    form: Any = None  # makes frames of inputs, as `pate.data.TableSchema` does; public

    def _rows(self, inputs: NDArray[np.float32]) -> Any:
        return self.form.frame(as_rows(inputs))


@dataclass(frozen=True, eq=False)
class FittedLabels:
    """An estimator fitted to all labels of some records."""

    # `[num_labels]`, bits of the first record, which say all of labels that never vary
    first: NDArray[np.float64]
    varying: NDArray[np.int64]  # the labels that vary and were fitted
    models: list[Any]  # what was fitted to them: one estimator for all, or one for each

    @classmethod
    def fit(
        cls, estimator: Any, rows: NDArray[np.float32], labels: NDArray[np.bool_], seed: int
    ) -> Self:
        """Fits clones of the estimator to rows `[n, d]`, n > 0, and labels `[n, num_labels]`."""
        share = labels.mean(axis=0)
        varying = np.flatnonzero((share > 0) & (share < 1))
        targets = labels[:, varying].astype(np.int64)
        models = []
        if len(varying) and estimator.__sklearn_tags__().target_tags.multi_output:
            models = [
                seeded(estimator, seed).fit(rows, targets if len(varying) > 1 else targets[:, 0])
            ]
        else:
            for label, column in zip(varying, targets.T, strict=True):
                try:
                    models.append(seeded(estimator, seed).fit(rows, column))
                except Exception as error:
                    error.add_note(
                        f"label {label}, which {column.sum()} of {len(column)} records have"
                    )
                    raise
        return cls(labels[0].astype(np.float64), varying, models)

    def confidences(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        """Returns the confidences of fitted estimators, float32 `[n, L]`."""
        confidences = np.tile(self.first, (len(rows), 1))
        if self.models:
            width = len(self.varying) // len(self.models)  # labels a model
            columns = []
            for model in self.models:
                if hasattr(model, "predict_proba"):
                    probabilities = model.predict_proba(rows)
                    if isinstance(probabilities, list):  # one [n, 2] a label
                        probabilities = np.stack([label[:, 1] for label in probabilities], axis=1)
                    elif width == 1:
                        probabilities = probabilities[:, 1:]
                elif hasattr(model, "decision_function"):
                    probabilities = 0.5 + 0.5 * np.tanh(
                        np.reshape(model.decision_function(rows), (len(rows), width)) / 2
                    )
                else:
                    probabilities = (
                        np.asarray(model.predict(rows), np.float64)
                        .clip(0, 1)
                        .reshape(len(rows), width)
                    )
                columns.append(probabilities)
                require(
                    probabilities.shape == (len(rows), width),
                    "predictions.shape",
                    probabilities.shape,
                    f"({len(rows)}, {width})",
                )
                require(
                    bool(np.isfinite(probabilities).all()),
                    "predictions",
                    "NaN or infinity",
                    "finite numbers",
                )
            confidences[:, self.varying] = np.concatenate(columns, axis=1)
        return confidences


@contextmanager
def of_a_part(estimator: Any, name: str = "estimator") -> Iterator[None]:
    """Says of whatever goes wrong inside that the estimator cannot be fitted to one teacher's part.

    Which part it is depends on private records, and nothing has paid for saying so: the line is the owner's alone.
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:_SHOWN]
        where = "; ".join((*getattr(error, "__notes__", ()), f"{type(error).__name__}: {reason}"))
        rule = "one that can be fitted to every teacher's part, or fewer teachers, so that parts are larger"
        raise InvalidValue(name, type(estimator).__name__, rule=f"{rule} ({where})") from error


def stretched(confidences: NDArray[np.float64], threshold: float = 0.5) -> NDArray[np.float32]:
    """Confidences as float32, piecewise linearly so that the threshold is at 0.5: what a vote is."""
    below = np.minimum(confidences / (2 * threshold), _BELOW_HALF)
    above = 0.5 + (confidences - threshold) / (2 * (1 - threshold))
    return np.where(confidences < threshold, below, above).astype(np.float32)


def is_scale_sensitive(estimator: Any) -> bool:
    """Whether scikit-learn fits it to columns as they are, the widest first: linear models and support vectors."""
    return type(estimator).__module__.startswith(("sklearn.linear_model", "sklearn.svm"))


def seeded(estimator: Any, seed: int) -> Any:
    """An unfitted clone, every `random_state` in it set to the seed."""
    # here, so that workers with other teachers start in half the time
    from sklearn.base import clone

    copy = clone(estimator)
    names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))


def takes_nan(estimator: Any) -> bool:
    """Whether an estimator, or the first step of a pipeline, says that inputs may be missing."""
    steps = [
        step for _, step in getattr(estimator, "steps", ()) if step not in (None, "passthrough")
    ]
    if steps:
        return takes_nan(steps[0])
    says = not isinstance(estimator, type) and hasattr(estimator, "__sklearn_tags__")
    return says and bool(estimator.__sklearn_tags__().input_tags.allow_nan)
