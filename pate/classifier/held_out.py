"""The private test records of a fit: only released scores are charged to the people in them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pate.accounting import Adjacency, Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.array_types import BoolArray, IntArray
from pate.classifier.frames import as_pandas
from pate.classifier.inputs import require_order_of_rows
from pate.classifier.past_fits import RememberedFit, RememberedPrice
from pate.classifier.public_labels import read_labels
from pate.classifier.tasks import Task
from pate.data import Dataset
from pate.models.student_model import Predictor
from pate.report.released_scores import ReleasedScores
from pate.run.random_streams import readable_seed_name
from pate.run.score_release import ScoreCharge, ScorePrice
from pate.validation import InvalidValue, require_positive
from pate.votes.label_gaps import UNKNOWN

# The rule of test labels with gaps, where the private labels of the fit have none.
_GAPS_RULE = (
    "no missing label, as y has none; numpy.ma.masked_invalid(y) says that labels may be missing"
)


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class HeldOutRecords:
    """The private test records of a fit, which no teacher and no student learns from.

    Attributes:
        score_epsilon: the price of the scores on these records.
        inputs: the inputs, private: float32 `[num_test, num_features]`, or a sparse matrix, or a DataFrame.
        targets: the label bits, private, `[num_test, num_labels]`.
        group_ids: the number of each record's group, `[num_test]`.
        known_label_mask: which labels are known, private, `[num_test, num_labels]`; None if the labels of the fit have
            no gaps.
    """

    score_epsilon: float
    inputs: Any
    targets: BoolArray
    group_ids: IntArray
    known_label_mask: BoolArray | None


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class HeldOutArguments:
    """The arguments of a fit that are about its test records, as the user passes them.

    Attributes:
        inputs: the private inputs of test records, `X_test`; None for no test records.
        labels: their private labels, `y_test`.
        groups: the group of each test record, `groups_test`, or None.
        score_epsilon: the price of scores on the test records, the parameter `score_epsilon`; None for no scores.
    """

    inputs: Any = None
    labels: Any = None
    groups: Any = None
    score_epsilon: float | None = None

    def require_price(self, *, has_estimators: bool, groups: Any) -> None:
        """Raises `InvalidValue` unless test records have a price, and a price has test records.

        A price is also refused with estimators, and if the groups of test records do not fit those of the fit.

        Args:
            has_estimators: whether the teachers are estimators, whose student has no scores.
            groups: the group of each private record; None if each record is a group.
        """
        if self.score_epsilon is None:
            self._require_none_passed()
            return
        require_positive("score_epsilon", self.score_epsilon)
        if has_estimators:
            rule = (
                "None with estimators: only the student of private groups has scores with a price"
            )
            raise InvalidValue("score_epsilon", self.score_epsilon, rule=rule)
        for name, argument in (("X_test", self.inputs), ("y_test", self.labels)):
            if argument is None:
                rule = "private test records, as score_epsilon is the price that their people pay"
                raise InvalidValue(name, None, rule=rule)
        self._require_groups_of_fit(groups)

    def _require_none_passed(self) -> None:
        """Raises `InvalidValue` if any argument is passed; called if the fit releases no scores."""
        arguments = {"X_test": self.inputs, "y_test": self.labels, "groups_test": self.groups}
        for name, argument in arguments.items():
            if argument is not None:
                rule = "None without score_epsilon, the price of scores on private test records"
                raise InvalidValue(name, "given", rule=rule)

    def _require_groups_of_fit(self, groups: Any) -> None:
        """Raises `InvalidValue` unless test records and private records both have groups, or neither has.

        If both groups have a column's name, as in pandas, the two names must be equal.

        Args:
            groups: the group of each private record; None if each record is a group.
        """
        if groups is None:
            if self.groups is not None:
                rule = "None without groups, as then each row by itself is protected"
                raise InvalidValue("groups_test", "given", rule=rule)
            return
        if self.groups is None:
            rule = "the group of each test record, as groups has those of private records"
            raise InvalidValue("groups_test", None, rule=rule)
        column_name = getattr(groups, "name", None)
        test_column_name = getattr(self.groups, "name", None)
        if (
            column_name is not None
            and test_column_name is not None
            and test_column_name != column_name
        ):
            rule = f"{column_name}, the column of groups"
            raise InvalidValue("groups_test.name", str(test_column_name), rule=rule)

    def require_order_of_rows(self) -> None:
        """Raises `InvalidValue` if labels or groups of pandas have the index of the inputs in another order."""
        require_order_of_rows("y_test", self.labels, self.inputs, rows_name="X_test")
        require_order_of_rows("groups_test", self.groups, self.inputs, rows_name="X_test")

    def in_pandas(self) -> Self:
        """Returns a copy whose inputs and labels of other libraries, such as polars, are tables or columns of pandas.

        Groups stay as they are.
        """
        return replace(self, inputs=as_pandas(self.inputs), labels=as_pandas(self.labels))

    def targets(
        self, label_task: Task, *, num_records: int, has_gaps: bool
    ) -> tuple[BoolArray, BoolArray | None]:
        """Returns the label bits of the test records, and which of them are known, both `[num_records, num_labels]`.

        The second result is None if `has_gaps` is false.

        Args:
            label_task: the kind of labels of the fit.
            num_records: the number of test records.
            has_gaps: whether labels of private records may be missing.

        Raises:
            InvalidValue: the labels have another form than the private ones, or gaps where these have none.
        """
        labels = read_labels("y_test", self.labels, label_task)
        if len(labels) != num_records:
            rule = f"{num_records}, the number of rows of X_test"
            raise InvalidValue("len(y_test)", len(labels), rule=rule)
        bits = np.asarray(labels == 1)
        known_label_mask = (
            np.asarray(labels != UNKNOWN) if labels.dtype == np.int8 else np.ones_like(bits)
        )
        if has_gaps:
            return bits, known_label_mask
        if not known_label_mask.all():
            raise InvalidValue("y_test", rule=_GAPS_RULE)
        return bits, None


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class FitScores:
    """The scores of a fit's student on private test records, which are priced and not drawn yet.

    Attributes:
        score_price: the price of all scores together.
        held_out_records: the private test records.
        dataset: the data set with the public samples and the test records.
        num_queries: the number of queries, the first public samples.
    """

    score_price: ScorePrice
    held_out_records: HeldOutRecords
    dataset: Dataset
    num_queries: int

    def fit_to_remember(self, seed: int | None) -> RememberedFit:
        """Returns the price of the scores and digests of the test records, to be remembered once the price is charged.

        A later fit without a ledger then warns if it uses these records again. The scores are not remembered.

        Args:
            seed: the seed of the noise, as no sum of prices covers fits with the same noise; None for noise from the
                operating system.
        """
        price = RememberedPrice(
            epsilon=self.score_price.epsilon,
            delta=self.score_price.delta,
            event=self.score_price.event,
            seed=seed,
            unit=self.score_price.unit,
            adjacency=Adjacency.REPLACE_ONE,
        )
        return RememberedFit.from_inputs(self.held_out_records.inputs, price=price)

    def release(
        self, model: Predictor, score_ledger: Ledger, *, seed: int | None, rng: np.random.Generator
    ) -> ReleasedScores:
        """Returns the scores of a student, whose noisy sums are committed with their charge.

        Args:
            model: the student, as it predicts.
            score_ledger: the ledger that is charged.
            seed: the seed of the fit; None for noise from the operating system.
            rng: the source of the noise.

        Raises:
            InvalidValue: the ledger cannot pay; nothing is charged then.
        """
        fit_seed_name = readable_seed_name(seed)
        charge_note = ChargeNote(
            description="scores of a fit on test records",
            seed_name=f"{fit_seed_name}, scores" if fit_seed_name else "",
        )
        score_charge = ScoreCharge(
            score_price=self.score_price,
            account=score_ledger,
            release_key=uuid.uuid4().hex,
            charge_note=charge_note,
        )
        return score_charge.release(
            model, dataset=self.dataset, num_queries=self.num_queries, rng=rng
        )
