"""Teachers that are scikit-learn estimators of any kind, fitted to label bits."""

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
_MOST_SHOWN = 120  # characters of an estimator's own error
_MOST_REHEARSED = 200  # public samples that an estimator of frames is tried on


@dataclass(frozen=True)
class SklearnTeacher(Teacher):
    """Teachers that are clones of a classifier or regressor.

    An estimator that takes several targets at once (its tag `multi_output`: trees, nearest neighbors, `MLPClassifier`,
    …) is fitted once, any other once for each label. Labels that are the same for all records of a shard are not fitted
    but repeated. Every parameter called `random_state` is set from the teacher's seed. Confidences come from
    `predict_proba`, or else `decision_function` through the logistic function, or else `predict` cut to [0, 1].

    **Trust.** The state holds the fitted estimators as a pickle, and reading a pickle runs code that its author chose.
    A `CheckpointStore` signs it and reads none that its own key did not sign. Whoever reads a state from elsewhere has
    to trust its author.

    Attributes:
        estimator: unfitted; it is cloned, never changed.
        threshold: confidence from which a label is voted for, in (0, 1).
        frames: whether the estimator gets a table's rows as a DataFrame, columns by name, words and missing cells as
            they are: for a pipeline with a `ColumnTransformer`. Numbers are cut to the public range; words that the
            public file lacks become "other".
    """

    # in one cast, as in PATEClassifier; inputs may be missing
    gives: ClassVar[type[VoteSource]] = TeacherVotes

    estimator: Any = field(metadata={"public": True, "kind": "estimator"})
    threshold: float = 0.5
    frames: bool = False

    def __post_init__(self) -> None:
        has_methods = hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")
        is_estimator = has_methods and not isinstance(self.estimator, type)
        rule = "an unfitted scikit-learn estimator"
        require(is_estimator, "estimator", f"{self.estimator!r}", rule)
        require_probability("threshold", self.threshold)

    def for_data(self, dataset: Dataset, num_queries: int) -> SklearnTeacher:
        """Returns the recipe; with `frames` the estimator is first tried on public samples.

        Raises:
            InvalidValue: `frames` without a table, or an estimator that cannot take its columns.
        """
        if not self.frames:
            return self
        form = dataset.preprocessing
        rule = "data=table, whose columns have names and kinds"
        require(hasattr(form, "frame"), "teacher.frames", "true", rule)
        framed = _FramedTeacher(self.estimator, self.threshold, form=form)
        rows = dataset.public.inputs[: min(num_queries, _MOST_REHEARSED)]
        labels = np.zeros((len(rows), dataset.num_labels), np.bool_)
        labels[::2] = True  # made up
        try:
            states = framed.fit_many([Shard(rows, labels)], seeds=[0])
            framed.predict_many(states, rows)
        except (ValueError, TypeError) as error:
            reason = " ".join(str(error.__cause__ or error).split())[:_MOST_SHOWN]
            rule = f"one that takes the columns of the table, such as a pipeline with a ColumnTransformer ({reason})"
            raise InvalidValue(
                "teacher.estimator", type(self.estimator).__name__, rule=rule
            ) from error
        return framed

    @property
    def is_isolated(self) -> bool:
        """True: each teacher is trained by itself."""
        return True

    @property
    def is_scale_sensitive(self) -> bool:
        """True if features of very different widths make the estimator worse."""
        return is_scale_sensitive(self.estimator)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one shard after the other. The loss is the mean squared error on the shard itself."""
        require_shards(shards, seeds)
        states: list[State] = []
        for shard, seed in zip(shards, seeds, strict=True):
            rows = self._rows(shard.inputs)
            with fit_errors_hidden(self.estimator, "teacher.estimator"):
                fitted = FittedLabels.fit(self.estimator, rows, shard.labels, seed)
                loss = np.square(fitted.confidences(rows) - shard.labels).mean()
            pickled = np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8)
            states.append({PICKLE: pickled, "loss_curve": np.array([loss], np.float32)})
        return states

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns confidences, stretched piecewise linearly so that the threshold is at 0.5."""
        rows = self._rows(inputs)
        with fit_errors_hidden(self.estimator, "teacher.estimator"):
            raw = np.stack(
                [pickle.loads(state[PICKLE].tobytes()).confidences(rows) for state in states]
            )
        return stretched(raw, self.threshold)

    def _rows(self, inputs: NDArray[np.float32]) -> Any:
        """Returns inputs in the form that the estimator takes."""
        return as_rows(inputs)


@dataclass(frozen=True)
class _FramedTeacher(SklearnTeacher):
    """Teachers whose estimator gets DataFrames."""

    form: Any = None  # makes DataFrames of inputs, as `pate.data.TableSchema` does; public

    def _rows(self, inputs: NDArray[np.float32]) -> Any:
        return self.form.frame(as_rows(inputs))


@dataclass(frozen=True, eq=False)
class FittedLabels:
    """An estimator fitted to all labels of some records."""

    # `[num_labels]`, the bits of the first record, which are those of all for labels that never vary
    first: NDArray[np.float64]
    varying: NDArray[np.int64]  # the labels that vary and were fitted
    models: list[Any]  # fitted estimators: one for all varying labels, or one for each

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
            columns = targets if len(varying) > 1 else targets[:, 0]
            models = [seeded(estimator, seed).fit(rows, columns)]
        else:
            for label, column in zip(varying, targets.T, strict=True):
                try:
                    models.append(seeded(estimator, seed).fit(rows, column))
                except Exception as error:
                    count = f"{column.sum()} of {len(column)}"
                    error.add_note(f"label {label}, which {count} records have")
                    raise
        return cls(labels[0].astype(np.float64), varying, models)

    def confidences(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        """Returns the confidences of fitted estimators, `[n, num_labels]`."""
        confidences = np.tile(self.first, (len(rows), 1))
        if self.models:
            num_labels = len(self.varying) // len(self.models)  # of each model
            columns = [_probabilities(model, rows, num_labels) for model in self.models]
            confidences[:, self.varying] = np.concatenate(columns, axis=1)
        return confidences


def _probabilities(model: Any, rows: NDArray[np.float32], num_labels: int) -> NDArray[Any]:
    """Returns a fitted estimator's probabilities `[n, num_labels]`, or what it has in their place."""
    shape = (len(rows), num_labels)
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(rows)
        if isinstance(probabilities, list):  # [n, 2] for each label
            probabilities = np.stack([label[:, 1] for label in probabilities], axis=1)
        elif num_labels == 1:
            probabilities = probabilities[:, 1:]
    elif hasattr(model, "decision_function"):
        scores = np.reshape(model.decision_function(rows), shape)
        probabilities = 0.5 + 0.5 * np.tanh(scores / 2)
    else:
        predictions = np.asarray(model.predict(rows), np.float64)
        probabilities = predictions.clip(0, 1).reshape(shape)
    require(probabilities.shape == shape, "predictions.shape", probabilities.shape, f"{shape}")
    is_finite = bool(np.isfinite(probabilities).all())
    require(is_finite, "predictions", "NaN or infinity", "finite numbers")
    return np.asarray(probabilities)


@contextmanager
def fit_errors_hidden(estimator: Any, name: str = "estimator") -> Iterator[None]:
    """Turns errors of its body into `InvalidValue`: the estimator cannot be fitted to one teacher's part.

    The message does not tell which part: that depends on private records, and no price was paid for it. The line of the
    error is the owner's alone.
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:_MOST_SHOWN]
        details = (*getattr(error, "__notes__", ()), f"{type(error).__name__}: {reason}")
        rule = "one that can be fitted to every teacher's part, or fewer teachers, so that parts are larger"
        rule = f"{rule} ({'; '.join(details)})"
        raise InvalidValue(name, type(estimator).__name__, rule=rule) from error


def stretched(confidences: NDArray[np.float64], threshold: float = 0.5) -> NDArray[np.float32]:
    """Returns confidences stretched piecewise linearly, so that the threshold is at 0.5, where votes begin."""
    votes_against = np.minimum(confidences / (2 * threshold), _BELOW_HALF)
    votes_for = 0.5 + (confidences - threshold) / (2 * (1 - threshold))
    return np.where(confidences < threshold, votes_against, votes_for).astype(np.float32)


def is_scale_sensitive(estimator: Any) -> bool:
    """Returns whether columns of very different widths make an estimator worse: linear models and support vectors."""
    return type(estimator).__module__.startswith(("sklearn.linear_model", "sklearn.svm"))


def seeded(estimator: Any, seed: int) -> Any:
    """Returns an unfitted clone with every `random_state` in it set to the seed."""
    # here, so that workers with other teachers start in half the time
    from sklearn.base import clone

    copy = clone(estimator)
    names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))


def takes_nan(estimator: Any) -> bool:
    """Returns whether an estimator, or the first step of a pipeline, has the tag that inputs may be missing."""
    steps = [
        step for _, step in getattr(estimator, "steps", ()) if step not in (None, "passthrough")
    ]
    if steps:
        return takes_nan(steps[0])
    has_tags = not isinstance(estimator, type) and hasattr(estimator, "__sklearn_tags__")
    return has_tags and bool(estimator.__sklearn_tags__().input_tags.allow_nan)
