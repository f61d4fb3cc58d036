"""Teachers that are scikit-learn estimators of any kind, fitted to label bits."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.models.shards import Shard, as_rows, require_shards
from pate.models.teacher import PICKLE, State, Teacher
from pate.validation import InvalidValue, require, require_probability
from pate.votes.source import TeacherVotes, VoteSource

if TYPE_CHECKING:
    from pate.data import Dataset

_BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))  # the largest confidence that is no vote
_MAX_SHOWN = 120  # the largest number of characters of an estimator's own error in a message
# The largest number of public samples on which an estimator of frames is tested.
_MAX_TEST_SAMPLES = 200


@dataclass(frozen=True)
class SklearnTeacher(Teacher):
    """A recipe for teachers that are clones of a scikit-learn classifier or regressor.

    An estimator that accepts several targets (its tag `multi_output`: trees, nearest neighbors, `MLPClassifier`, …) is
    fitted once. Any other estimator, and any estimator for labels with gaps, is fitted once for each label. A label
    that all records of a shard agree on is not fitted: the teacher predicts it always or never. Every parameter called
    `random_state` is set from the teacher's seed. Confidences come from `predict_proba`. If the estimator lacks it,
    they are the logistic function of `decision_function`. If it lacks both, they are `predict`, clipped to [0, 1].

    **Trust.** The state of a teacher holds the fitted estimators as a pickle, and reading a pickle runs code that its
    author chose. A `CheckpointStore` signs the state and reads only states that its own key has signed. If you read a
    state from another source, you have to trust its author.

    Attributes:
        estimator: an unfitted estimator; it is cloned and never changed.
        threshold: a label gets a vote if its confidence is at least this number in (0, 1).
        frames: true passes the rows of a table to the estimator as a DataFrame, with columns by name and with words and
            missing cells as they are. A pipeline with a `ColumnTransformer` needs this. Numbers are clipped to the
            public range. Words that the public file lacks become "other".
    """

    # Votes are cast once, as in `PATEClassifier`: rounds need features of the inputs, which may have missing values.
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
        """Returns the recipe for a data set; with `frames`, fits the estimator to public samples first, as a test.

        Raises:
            InvalidValue: `frames` is true and the data are no table, or the estimator cannot be fitted to the table's
                columns.
        """
        if not self.frames:
            return self
        preprocessing = dataset.preprocessing
        rule = "data=table, whose columns have names and kinds"
        require(hasattr(preprocessing, "frame"), "teacher.frames", "true", rule)
        framed_teacher = _FramedTeacher(
            estimator=self.estimator, threshold=self.threshold, form=preprocessing
        )
        test_inputs = dataset.public.inputs[: min(num_queries, _MAX_TEST_SAMPLES)]
        made_up_labels = np.zeros((len(test_inputs), dataset.num_labels), np.bool_)
        made_up_labels[::2] = True  # any labels, half of them present
        test_shard = Shard(inputs=test_inputs, labels=made_up_labels)
        # Fitted and asked only to raise the errors of the estimator, before teachers are trained.
        try:
            states = framed_teacher.fit_many(shards=[test_shard], seeds=[0])
            framed_teacher.predict_many(states, inputs=test_inputs)
        except (ValueError, TypeError) as error:
            error_text = " ".join(str(error.__cause__ or error).split())[:_MAX_SHOWN]
            rule = (
                "one that takes the columns of the table, such as a pipeline with a ColumnTransformer "
                f"({error_text})"
            )
            raise InvalidValue(
                "teacher.estimator", type(self.estimator).__name__, rule=rule
            ) from error
        return framed_teacher

    @property
    def is_isolated(self) -> bool:
        """True, as each teacher is trained by itself."""
        return True

    @property
    def is_scale_sensitive(self) -> bool:
        """Whether the estimator becomes worse when the ranges of its features differ greatly."""
        return is_scale_sensitive(self.estimator)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher after the other, each to its shard.

        The loss of a teacher is the mean squared error of its confidences on its own shard, for known labels.
        """
        require_shards(shards, seeds=seeds)
        states: list[State] = []
        for shard, seed in zip(shards, seeds, strict=True):
            input_rows = self._rows(shard.inputs)
            with fit_errors_hidden(self.estimator, estimator_name="teacher.estimator"):
                if shard.known is None:
                    fitted = FittedLabels.fit(
                        self.estimator, inputs=input_rows, labels=shard.labels, seed=seed
                    )
                else:
                    fitted = FittedLabels.fit_known(
                        self.estimator,
                        inputs=input_rows,
                        labels=shard.labels,
                        known_label_mask=shard.known,
                        seed=seed,
                    )
                squared_errors = np.square(fitted.confidences(input_rows) - shard.labels)
                counted_label_mask = (
                    np.ones_like(shard.labels) if shard.known is None else shard.known
                )
                mean_loss = (
                    squared_errors.mean(where=counted_label_mask)
                    if counted_label_mask.any()
                    else 0.0
                )
            pickled = np.frombuffer(pickle.dumps(fitted, protocol=5), np.uint8)
            states.append({PICKLE: pickled, "loss_curve": np.array([mean_loss], np.float32)})
        return states

    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the confidences, `[num_states, num_queries, num_labels]`; `map_to_half` maps `threshold` to 0.5."""
        input_rows = self._rows(inputs)
        with fit_errors_hidden(self.estimator, estimator_name="teacher.estimator"):
            raw_confidences = np.stack(
                [pickle.loads(state[PICKLE].tobytes()).confidences(input_rows) for state in states]
            )
        return map_to_half(confidences=raw_confidences, threshold=self.threshold)

    def _rows(self, inputs: Float32Array) -> Any:
        """Returns the inputs as an array `[num_rows, num_features]`; `_FramedTeacher` returns a DataFrame."""
        return as_rows(inputs)


@dataclass(frozen=True)
class _FramedTeacher(SklearnTeacher):
    """A recipe for teachers whose estimator takes DataFrames.

    Attributes:
        form: makes DataFrames of inputs, as `pate.data.TableSchema` does; public.
    """

    form: Any = None

    def _rows(self, inputs: Float32Array) -> Any:
        """Returns inputs as a DataFrame."""
        return self.form.frame(as_rows(inputs))


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class FittedLabels:
    """An estimator that was fitted to all labels of some records.

    Attributes:
        first_labels: `[num_labels]`, the bit of each label in the first record for which it is known, or 0 without
            such a record. If a label does not vary among the records, this bit is its confidence.
        varying: the indices of the labels that vary among the records, and so were fitted.
        models: the fitted estimators: one for all varying labels together, or one for each.
    """

    first_labels: FloatArray
    varying: IntArray
    models: list[Any]

    @classmethod
    def fit(cls, estimator: Any, *, inputs: Float32Array, labels: BoolArray, seed: int) -> Self:
        """Fits clones of an estimator: one to all labels that vary if it accepts several targets, or one to each.

        Args:
            estimator: the unfitted estimator.
            inputs: the inputs, an array `[num_rows, num_features]` or a DataFrame, with at least one row.
            labels: the labels, bool `[num_rows, num_labels]`.
            seed: the value of every `random_state`.
        """
        label_shares = labels.mean(axis=0)
        varying_label_indices = np.flatnonzero((label_shares > 0) & (label_shares < 1))
        targets = labels[:, varying_label_indices].astype(np.int64)
        models = []
        if len(varying_label_indices) and estimator.__sklearn_tags__().target_tags.multi_output:
            target_columns = targets if len(varying_label_indices) > 1 else targets[:, 0]
            models = [clone_with_seed(estimator, seed=seed).fit(inputs, target_columns)]
        else:
            for label_index, target_column in zip(varying_label_indices, targets.T, strict=True):
                try:
                    models.append(clone_with_seed(estimator, seed=seed).fit(inputs, target_column))
                except Exception as error:
                    count_text = f"{target_column.sum()} of {len(target_column)}"
                    error.add_note(f"label {label_index}, which {count_text} records have")
                    raise
        return cls(
            first_labels=labels[0].astype(np.float64), varying=varying_label_indices, models=models
        )

    @classmethod
    def fit_known(
        cls,
        estimator: Any,
        *,
        inputs: Any,
        labels: BoolArray,
        known_label_mask: BoolArray,
        seed: int,
    ) -> Self:
        """Fits a clone of an estimator for each label, to the records for which the label is known.

        A label that no record knows has the confidence 0.

        Args:
            estimator: the unfitted estimator.
            inputs: the inputs, an array `[num_rows, num_features]` or a DataFrame.
            labels: the labels, bool `[num_rows, num_labels]`.
            known_label_mask: which of them are known, bool `[num_rows, num_labels]`.
            seed: the value of every `random_state`.
        """
        first_labels = np.zeros(known_label_mask.shape[1])
        varying_label_indices = []
        models = []
        for label_index in np.flatnonzero(known_label_mask.any(axis=0)).tolist():
            known_row_indices = np.flatnonzero(known_label_mask[:, label_index])
            known_inputs = getattr(inputs, "iloc", inputs)[known_row_indices]
            fitted = cls.fit(
                estimator,
                inputs=known_inputs,
                labels=labels[known_row_indices, label_index, None],
                seed=seed,
            )
            first_labels[label_index] = fitted.first_labels[0]
            varying_label_indices += [label_index] * len(fitted.models)
            models += fitted.models
        return cls(
            first_labels=first_labels,
            varying=np.array(varying_label_indices, dtype=np.int64),
            models=models,
        )

    def confidences(self, inputs: Float32Array) -> NDArray[Any]:
        """Returns the confidences in all labels, `[num_rows, num_labels]`, before any threshold is mapped to 0.5."""
        confidences = np.tile(self.first_labels, (len(inputs), 1))
        if self.models:
            num_labels = len(self.varying) // len(self.models)  # the labels of each model
            columns_of_models = [
                _probabilities(fitted_estimator, inputs=inputs, num_labels=num_labels)
                for fitted_estimator in self.models
            ]
            confidences[:, self.varying] = np.concatenate(columns_of_models, axis=1)
        return confidences


def _probabilities(estimator: Any, inputs: Float32Array, num_labels: int) -> NDArray[Any]:
    """Returns the probabilities that a fitted estimator predicts, `[num_rows, num_labels]`.

    If the estimator has no `predict_proba`, the result is the logistic function of `decision_function`. If it lacks
    that, too, the result is `predict`, clipped to [0, 1].

    Args:
        estimator: the fitted estimator.
        inputs: the inputs, an array `[num_rows, num_features]` or a DataFrame.
        num_labels: the number of labels that the estimator was fitted to.
    """
    expected_shape = (len(inputs), num_labels)
    if hasattr(estimator, "predict_proba"):
        label_probabilities = estimator.predict_proba(inputs)
        if isinstance(label_probabilities, list):  # [n, 2] for each label
            label_probabilities = np.stack(
                [bit_probabilities[:, 1] for bit_probabilities in label_probabilities], axis=1
            )
        elif num_labels == 1:
            label_probabilities = label_probabilities[:, 1:]
    elif hasattr(estimator, "decision_function"):
        decision_scores = np.reshape(estimator.decision_function(inputs), expected_shape)
        label_probabilities = 0.5 + 0.5 * np.tanh(decision_scores / 2)
    else:
        predictions = np.asarray(estimator.predict(inputs), np.float64)
        label_probabilities = predictions.clip(min=0, max=1).reshape(expected_shape)
    require(
        label_probabilities.shape == expected_shape,
        "predictions.shape",
        label_probabilities.shape,
        f"{expected_shape}",
    )
    is_finite = bool(np.isfinite(label_probabilities).all())
    require(is_finite, "predictions", "NaN or infinity", "finite numbers")
    return np.asarray(label_probabilities)


@contextmanager
def fit_errors_hidden(estimator: Any, estimator_name: str = "estimator") -> Iterator[None]:
    """Replaces any error in a `with` block by an `InvalidValue` that does not name the teacher.

    Which teacher failed depends on private records, and no price was paid for it. The new error quotes the notes and
    the beginning of the text of the original error. These may depend on private records too, so only the owner may see
    them.

    Args:
        estimator: the estimator that is fitted in the block.
        estimator_name: the name of the estimator in the error.
    """
    try:
        yield
    except Exception as error:
        error_text = " ".join(str(error).split())[:_MAX_SHOWN]
        details = (*getattr(error, "__notes__", ()), f"{type(error).__name__}: {error_text}")
        rule = (
            "one that can be fitted to every teacher's part, or fewer teachers, so that parts are larger "
            f"({'; '.join(details)})"
        )
        raise InvalidValue(estimator_name, type(estimator).__name__, rule=rule) from error


def map_to_half(confidences: FloatArray, *, threshold: float = 0.5) -> Float32Array:
    """Returns confidences after a piecewise linear function that keeps 0 and 1 and maps `threshold` to 0.5.

    A result of at least 0.5 is a vote.
    """
    votes_against = np.minimum(confidences / (2 * threshold), _BELOW_HALF)
    votes_for = 0.5 + (confidences - threshold) / (2 * (1 - threshold))
    return np.where(confidences < threshold, votes_against, votes_for).astype(np.float32)


def is_scale_sensitive(estimator: Any) -> bool:
    """Returns True if an estimator becomes worse when the ranges of its features differ greatly.

    The result is True for linear models and support vector machines of scikit-learn alone.
    """
    return type(estimator).__module__.startswith(("sklearn.linear_model", "sklearn.svm"))


def clone_with_seed(estimator: Any, *, seed: int) -> Any:
    """Returns an unfitted clone of an estimator, with every `random_state` in it set to `seed`."""
    # This import stands here so that workers with other teachers start in half the time.
    from sklearn.base import clone

    unfitted_clone = clone(estimator)
    for parameter_name in unfitted_clone.get_params():
        if parameter_name.split("__")[-1] == "random_state":
            unfitted_clone.set_params(**{parameter_name: seed})
    return unfitted_clone


def takes_nan(estimator: Any) -> bool:
    """Returns True if an estimator has the tag that it accepts missing inputs.

    For a pipeline, its first step decides; steps that are None or "passthrough" are left out.
    """
    pipeline_steps = [
        pipeline_step
        for _, pipeline_step in getattr(estimator, "steps", ())
        if pipeline_step not in (None, "passthrough")
    ]
    if pipeline_steps:
        return takes_nan(estimator=pipeline_steps[0])
    has_tags = not isinstance(estimator, type) and hasattr(estimator, "__sklearn_tags__")
    return has_tags and bool(estimator.__sklearn_tags__().input_tags.allow_nan)
