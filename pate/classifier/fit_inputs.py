"""The reading of the arguments of a fit, which become private records and public samples.

`InputReader.read` checks the arguments of `PATEClassifier.fit` and returns `FitInputs`. A fit without estimators
encodes DataFrames as numbers, and reads labels of public samples and test records. A fit with estimators passes
DataFrames to them, with the column types of the public samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import check_X_y, validate_data

from pate.array_types import BoolArray
from pate.classifier.frames import as_pandas, fit_schema
from pate.classifier.held_out import HeldOutArguments, HeldOutRecords
from pate.classifier.inputs import (
    as_series_if_one_column,
    column_labels,
    dense,
    is_frame,
    require_moderate_numbers,
    require_order_of_rows,
    require_readable,
    require_same_columns,
    require_same_kind,
    require_samples,
    warn_of_shared_rows,
    with_own_types,
    with_public_types,
)
from pate.classifier.missing_labels import require_labels, without_gaps
from pate.classifier.public_labels import read_public_labels
from pate.classifier.samples import Pools, disjoint_group_ids
from pate.classifier.tasks import LabelSets, OneClass, Task, task_of
from pate.data import TableSchema
from pate.validation import InvalidValue, require, require_array
from pate.votes.label_gaps import GapLabels

_ESTIMATOR_METHODS = ("fit", "predict", "get_params")  # that teachers and students must have


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class FitArguments:
    """The arguments of `PATEClassifier.fit`, as the user passes them.

    Attributes:
        inputs: the private inputs, `X`.
        labels: the private labels, `y`.
        public_inputs: the public inputs, `X_public`; None if a part of `X` is public.
        groups: the group of each private record; None if each record is a group.
        public_groups: the group of each public sample, `groups_public`, or None.
        public_labels: labels of the first public samples, `y_public`, or None.
        held_out_arguments: the arguments about private test records.
    """

    inputs: Any
    labels: Any
    public_inputs: Any
    groups: Any
    public_groups: Any
    public_labels: Any
    held_out_arguments: HeldOutArguments = field(default_factory=HeldOutArguments)

    def require_order_of_rows(self) -> None:
        """Raises `InvalidValue` if labels or groups of pandas have the index of their inputs in another order."""
        require_order_of_rows("y", self.labels, self.inputs, rows_name="X")
        require_order_of_rows("groups", self.groups, self.inputs, rows_name="X")
        require_order_of_rows(
            "groups_public", self.public_groups, self.public_inputs, rows_name="X_public"
        )
        require_order_of_rows(
            "y_public", self.public_labels, self.public_inputs, rows_name="X_public"
        )
        self.held_out_arguments.require_order_of_rows()

    def in_pandas(self) -> Self:
        """Returns a copy whose inputs and labels of other libraries, such as polars, are tables or columns of pandas.

        Groups stay as they are.
        """
        return replace(
            self,
            inputs=as_pandas(self.inputs),
            labels=as_pandas(self.labels),
            public_inputs=as_pandas(self.public_inputs),
            public_labels=as_pandas(self.public_labels),
            held_out_arguments=self.held_out_arguments.in_pandas(),
        )


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class FitInputs:
    """The data of a fit after all checks.

    Attributes:
        label_task: the kind of labels.
        data_pools: the private records and the public samples.
        label_names: the name of each label, public.
        table_schema: encodes the rows of DataFrames as numbers; None if the inputs are not encoded.
        public_labels: labels of the first public samples, `[num_labeled, num_labels]`, bool, or int8 if some are
            unknown; None for none.
        held_out_records: the private test records; None without scores.
        num_features: the number of features, which scikit-learn calls `n_features_in_`.
        feature_names: the names of the columns of a DataFrame, `feature_names_in_`; None for other inputs.
    """

    label_task: Task
    data_pools: Pools
    label_names: tuple[str, ...]
    table_schema: TableSchema | None
    public_labels: GapLabels | None
    held_out_records: HeldOutRecords | None
    num_features: int
    feature_names: NDArray[Any] | None


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class InputReader:
    """The parameters of a classifier that decide how the arguments of a fit are read.

    Attributes:
        validation_estimator: a copy of the classifier. scikit-learn's `validate_data` compares inputs with the number
            and the names of the features that an estimator has stored, or stores those of new inputs. A copy stores
            them here, so that the classifier itself does not change before its release is paid.
        teacher_estimator: the unfitted estimator of the teachers.
        student_estimator: the unfitted estimator of the student.
        votes_by_group: whether private groups vote by themselves, without estimators.
        classes: all classes, or all words of sets, public; None takes those that occur in the labels.
        public_fraction: the share of the private inputs that is declared public; None if `X_public` is passed.
    """

    validation_estimator: BaseEstimator
    teacher_estimator: Any
    student_estimator: Any
    votes_by_group: bool
    classes: Any
    public_fraction: float | None

    def read(self, fit_arguments: FitArguments) -> FitInputs:
        """Checks the arguments of a fit, and returns its data: private records, public samples, kind of labels, names.

        Raises:
            InvalidValue: an argument is missing, cannot be read, or does not fit the others.
        """
        fit_arguments.held_out_arguments.require_price(
            has_estimators=not self.votes_by_group, groups=fit_arguments.groups
        )
        if fit_arguments.public_labels is not None:
            self._require_public_labels_allowed(fit_arguments)
        fit_arguments.require_order_of_rows()
        if self.votes_by_group:
            fit_arguments = fit_arguments.in_pandas()
        require_same_columns("y_public", fit_arguments.public_labels, fit_arguments.labels)
        require_same_columns(
            "y_test", fit_arguments.held_out_arguments.labels, fit_arguments.labels
        )

        self._require_estimators()
        label_task, data_pools = self._read_pools(fit_arguments)
        table_schema = None
        if self.votes_by_group and is_frame(data_pools.public_inputs):
            table_schema = fit_schema(data_pools.public_inputs)
        public_labels = None
        if fit_arguments.public_labels is not None:
            public_labels = read_public_labels(
                fit_arguments.public_labels,
                label_task,
                num_public=data_pools.public_inputs.shape[0],
                classes_are_stated=self.classes is not None,
            )
        return FitInputs(
            label_task=label_task,
            data_pools=data_pools,
            label_names=column_labels(as_series_if_one_column(fit_arguments.labels))
            or label_task.label_names,
            table_schema=table_schema,
            public_labels=public_labels,
            held_out_records=self._read_test_records(fit_arguments, label_task, data_pools),
            num_features=self.validation_estimator.n_features_in_,
            feature_names=getattr(self.validation_estimator, "feature_names_in_", None),
        )

    def _require_public_labels_allowed(self, fit_arguments: FitArguments) -> None:
        """Raises `InvalidValue` if the classifier cannot use `y_public`, the labels of public samples.

        It cannot with estimators, and not if a share of X is declared public.
        """
        if not self.votes_by_group:
            rule = (
                "None with estimators: only the student of private groups begins at public labels"
            )
            raise InvalidValue("y_public", "given", rule=rule)
        if fit_arguments.public_inputs is None:
            rule = "None with public_fraction, which takes the public samples and their labels from X and y"
            raise InvalidValue("y_public", "given", rule=rule)

    def _require_estimators(self) -> None:
        """Raises `InvalidValue` unless teacher and student have the methods of a scikit-learn estimator."""
        for argument_name, estimator in (
            ("estimator", self.teacher_estimator),
            ("student", self.student_estimator),
        ):
            is_estimator = not isinstance(estimator, type) and all(
                hasattr(estimator, method_name) for method_name in _ESTIMATOR_METHODS
            )
            if not is_estimator:
                rule = "a scikit-learn estimator, such as LogisticRegression()"
                raise InvalidValue(argument_name, estimator, rule=rule)

    def _require_classifiers(self) -> None:
        """Raises `InvalidValue` if teacher or student is a regressor, which predicts no class."""
        for argument_name, estimator in (
            ("estimator", self.teacher_estimator),
            ("student", self.student_estimator),
        ):
            if is_regressor(estimator):
                rule = "a classifier, as y holds classes"
                raise InvalidValue(argument_name, type(estimator).__name__, rule=rule)

    def _read_pools(self, fit_arguments: FitArguments) -> tuple[Task, Pools]:
        """Checks inputs and labels; returns the kind of the labels, and the private records with the public samples."""
        require_readable("X", fit_arguments.inputs)
        if is_frame(fit_arguments.inputs):
            columns = fit_arguments.inputs.columns
            if len(columns) != len(set(columns)):
                raise InvalidValue("X.columns", rule="each name once")
        if fit_arguments.public_inputs is not None:
            require_readable("X_public", fit_arguments.public_inputs)
            require_same_kind(fit_arguments.inputs, fit_arguments.public_inputs, name="X_public")
        if fit_arguments.labels is not None:  # scikit-learn has its own error for None
            require_samples("y", fit_arguments.labels)
        y_without_gaps, known_label_mask = _fill_gaps(as_series_if_one_column(fit_arguments.labels))
        label_sets = LabelSets.from_labels(y_without_gaps, self.classes)
        if label_sets is None:
            inputs, label_array = self._validate_records(fit_arguments, y_without_gaps)
            label_task, targets = task_of(label_array, self.classes)
        else:
            inputs, bits = self._validate_records(fit_arguments, label_sets.encode(y_without_gaps))
            label_task = label_sets
            targets = bits.astype(np.bool_)
        if isinstance(label_task, OneClass):
            self._require_classifiers()
        data_pools = Pools.cut(
            inputs=inputs,
            targets=targets,
            groups=fit_arguments.groups,
            public_inputs=self._validate_public_inputs(fit_arguments, inputs),
            public_fraction=self.public_fraction,
            public_groups=fit_arguments.public_groups,
            known_label_mask=known_label_mask,
        )
        if not self.votes_by_group and is_frame(data_pools.public_inputs):
            data_pools = _with_column_types(
                data_pools, is_cut_from_records=fit_arguments.public_inputs is None
            )
        return label_task, data_pools

    def _validate_records(
        self, fit_arguments: FitArguments, y_without_gaps: Any
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Checks private inputs and labels as scikit-learn does, and returns both.

        A DataFrame of inputs is returned as it is. Other inputs become float32, and labels an array.

        Args:
            fit_arguments: the arguments of the fit.
            y_without_gaps: the private labels with gaps filled, as numbers or classes.
        """
        if is_frame(fit_arguments.inputs):
            inputs = validate_inputs(self.validation_estimator, fit_arguments.inputs, reset=True)
            num_rows = len(inputs)
            require(num_rows > 0, "X", "a DataFrame without rows", "at least one record")
            # `check_X_y` checks labels only beside an array of inputs, which zeros stand in for.
            stand_in_inputs = np.zeros((num_rows, 1))
            _, labels = check_X_y(
                stand_in_inputs,
                y_without_gaps,
                multi_output=True,
                estimator=self.validation_estimator,
            )
        else:
            inputs, labels = validate_data(
                self.validation_estimator,
                fit_arguments.inputs,
                y_without_gaps,
                multi_output=True,
                dtype=np.float32,
                accept_sparse="csr",
                ensure_all_finite=_finite_rule(self.validation_estimator),
            )
        require_moderate_numbers("X", inputs)
        return inputs, np.asarray(dense(labels))

    def _validate_public_inputs(self, fit_arguments: FitArguments, private_inputs: Any) -> Any:
        """Checks the public inputs as scikit-learn does, and returns them; None if a share of X is declared public.

        A DataFrame is returned as it is, and other inputs become float32. A warning is given if most rows are also
        private.

        Args:
            fit_arguments: the arguments of the fit.
            private_inputs: the private inputs, checked.
        """
        if fit_arguments.public_inputs is None:
            return None
        public_inputs = validate_inputs(
            self.validation_estimator, fit_arguments.public_inputs, reset=False
        )
        require_moderate_numbers("X_public", public_inputs)
        warn_of_shared_rows(
            private_inputs,
            public_inputs,
            name="X_public",
            consequence="inputs that are public are not protected",
        )
        return public_inputs

    def _read_test_records(
        self, fit_arguments: FitArguments, label_task: Task, data_pools: Pools
    ) -> HeldOutRecords | None:
        """Returns the private test records; None without a price of scores.

        Args:
            fit_arguments: the arguments of the fit.
            label_task: the kind of labels of the fit.
            data_pools: the private records and the public samples.
        """
        held_out_arguments = fit_arguments.held_out_arguments
        if held_out_arguments.score_epsilon is None:
            return None
        require_readable("X_test", held_out_arguments.inputs)
        require_same_kind(data_pools.private_inputs, held_out_arguments.inputs, name="X_test")
        inputs = validate_inputs(self.validation_estimator, held_out_arguments.inputs, reset=False)
        require_moderate_numbers("X_test", inputs)
        warn_of_shared_rows(
            data_pools.private_inputs,
            inputs,
            name="X_test",
            consequence="whoever is in both pays for the release and for the scores",
        )
        num_test_records = inputs.shape[0]
        targets, known_label_mask = held_out_arguments.targets(
            label_task,
            num_records=num_test_records,
            has_gaps=data_pools.known_label_mask is not None,
        )
        group_ids = np.arange(num_test_records)
        if held_out_arguments.groups is not None:
            other_groups_by_argument = {"groups": fit_arguments.groups}
            if fit_arguments.public_groups is not None:
                other_groups_by_argument["groups_public"] = fit_arguments.public_groups
            group_ids = disjoint_group_ids(
                "groups_test",
                held_out_arguments.groups,
                num_rows=num_test_records,
                other_groups_by_argument=other_groups_by_argument,
            )
        return HeldOutRecords(
            score_epsilon=held_out_arguments.score_epsilon,
            inputs=inputs,
            targets=targets,
            group_ids=group_ids,
            known_label_mask=known_label_mask,
        )


def validate_inputs(estimator: BaseEstimator, inputs: Any, *, reset: bool) -> Any:
    """Returns inputs as scikit-learn's `validate_data` does; a DataFrame is not converted.

    Other inputs become float32. Missing values are allowed if the tags of the estimator allow them.

    Args:
        estimator: the estimator that stores the number and the names of the features.
        inputs: an array, a sparse matrix or a DataFrame.
        reset: True stores the features of these inputs; False compares these inputs with the stored features.
    """
    if is_frame(inputs):
        return validate_data(estimator, inputs, reset=reset, skip_check_array=True)
    return validate_data(
        estimator,
        inputs,
        reset=reset,
        dtype=np.float32,
        accept_sparse="csr",
        ensure_all_finite=_finite_rule(estimator),
    )


def _finite_rule(estimator: BaseEstimator) -> bool | str:
    """Returns the value for scikit-learn's `ensure_all_finite`: "allow-nan" if the tags allow NaN, otherwise True."""
    return "allow-nan" if get_tags(estimator).input_tags.allow_nan else True


def _fill_gaps(y: Any) -> tuple[Any, BoolArray | None]:
    """Returns labels with 0 where they are missing, and which ones are known, bool `[n, num_labels]`.

    If no label is missing and `y` is no masked array, the labels are unchanged, and the second result is None; see
    `without_gaps`.

    Raises:
        InvalidValue: a class is missing or masked, or the labels are a tensor that numpy cannot read.
    """
    y_without_gaps, known_label_mask = without_gaps(y)
    is_tensor = hasattr(type(y_without_gaps), "requires_grad")
    if is_tensor or np.ma.is_masked(y_without_gaps):
        require_array("y", y_without_gaps, dtype_kinds=None)
    require_labels(y_without_gaps)
    return y_without_gaps, known_label_mask


def _with_column_types(data_pools: Pools, *, is_cut_from_records: bool) -> Pools:
    """Returns the pools with column types that follow from the public samples alone.

    Args:
        data_pools: the private records and the public samples, both as DataFrames.
        is_cut_from_records: whether the public samples were cut from a DataFrame with private records.
    """
    typed_public_frame = with_own_types(
        data_pools.public_inputs, is_cut_from_records=is_cut_from_records
    )
    typed_private_frame = with_public_types(
        private_frame=data_pools.private_inputs, public_frame=typed_public_frame
    )
    return replace(data_pools, public_inputs=typed_public_frame, private_inputs=typed_private_frame)
