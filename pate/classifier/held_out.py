"""The private test records of a fit, whose people pay for released scores and for nothing else."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.accounting import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.array_types import BoolArray, Float32Array, IntArray
from pate.classifier.frames import as_pandas
from pate.classifier.public_labels import read_labels
from pate.classifier.tasks import Task
from pate.data import Dataset
from pate.models.student_model import Predictor
from pate.report.released_scores import ReleasedScores
from pate.run.random_streams import seed_name
from pate.run.score_release import ScoreCharge, ScorePrice
from pate.validation import InvalidValue, require, require_positive
from pate.votes.label_gaps import UNKNOWN

_GAPS_RULE = (
    "no missing label, as y has none; numpy.ma.masked_invalid(y) says that labels may be missing"
)


@dataclass(frozen=True, eq=False)
class HeldOutRecords:
    """The private test records of a fit, which no teacher and no student learns from."""

    inputs: Float32Array  # private, float32 `[m, d]`, or a sparse matrix, or a DataFrame
    targets: BoolArray  # private, `[m, L]`
    groups: IntArray  # `[m]`
    known: BoolArray | None = (
        None  # private, `[m, L]`, which labels are known; None if y has no gaps
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOutArguments:
    """The arguments of a fit that are about its test records, as the user passes them."""

    inputs: Any = None
    labels: Any = None
    groups: Any = None

    def require_price(
        self, score_epsilon: float | None, *, has_estimators: bool, groups: Any
    ) -> None:
        """Raises `InvalidValue` unless test records have a price, and a price has test records.

        Args:
            score_epsilon: the price of scores; None for no scores.
            has_estimators: whether the teachers are estimators, whose student has no scores.
            groups: the group of each private record; None if each record is a group.
        """
        arguments = {"X_test": self.inputs, "y_test": self.labels, "groups_test": self.groups}
        if score_epsilon is None:
            for name, value in arguments.items():
                rule = "None without score_epsilon, the price of scores on private test records"
                require(value is None, name, "given", rule)
            return
        require_positive("score_epsilon", score_epsilon)
        rule = "None beside estimators: only the student of private groups has scores with a price"
        require(not has_estimators, "score_epsilon", score_epsilon, rule)
        for name in ("X_test", "y_test"):
            rule = "private test records beside score_epsilon: their people pay for the scores"
            require(arguments[name] is not None, name, None, rule)
        if groups is None:
            rule = "None without groups, as then each row by itself is protected"
            require(self.groups is None, "groups_test", "given", rule)
            return
        rule = "the group of each test record, as groups has those of private records"
        require(self.groups is not None, "groups_test", None, rule)
        column = getattr(groups, "name", None)
        test_column = getattr(self.groups, "name", None)
        if column is not None and test_column is not None:
            rule = f"{column}, the column of groups"
            require(test_column == column, "groups_test.name", str(test_column), rule)

    def targets(
        self, task: Task, *, num_records: int, has_gaps: bool
    ) -> tuple[BoolArray, BoolArray | None]:
        """Returns the label bits and which of them are known, `[num_records, num_labels]` both; None if all are.

        Args:
            task: the kind of labels of the fit.
            num_records: the number of test records.
            has_gaps: whether labels of private records may be missing.

        Raises:
            InvalidValue: the labels have another form than the private ones, or gaps where these have none.
        """
        labels = read_labels("y_test", as_pandas(self.labels), task)
        rule = f"{num_records}, the number of rows of X_test"
        require(len(labels) == num_records, "len(y_test)", len(labels), rule)
        bits = np.asarray(labels == 1)
        known = np.asarray(labels != UNKNOWN) if labels.dtype == np.int8 else np.ones_like(bits)
        if not has_gaps and not known.all():
            raise InvalidValue("y_test", rule=_GAPS_RULE)
        return bits, known if has_gaps else None


@dataclass(frozen=True, eq=False, kw_only=True)
class FitScores:
    """The scores of a fit's student on private test records, which are priced and not drawn yet.

    Attributes:
        price: the price of all scores together.
        records: the test records, as the user passed them.
        dataset: the data set with the public samples and the test records.
        num_queries: the number of queries, the first public samples.
    """

    price: ScorePrice
    records: HeldOutRecords
    dataset: Dataset
    num_queries: int

    def release(
        self, model: Predictor, account: Ledger, *, seed: int | None, rng: np.random.Generator
    ) -> ReleasedScores:
        """Returns the scores of a student, whose noisy sums are committed with their charge.

        Args:
            model: the student, as it predicts.
            account: the ledger that is charged.
            seed: the seed of the fit; None for noise from the operating system.
            rng: the source of the noise.

        Raises:
            InvalidValue: the ledger cannot pay; nothing is charged then.
        """
        name = seed_name(seed)
        note = ChargeNote(
            description="scores of a fit on test records",
            seed_name=f"{name}, scores" if name else "",
        )
        charge = ScoreCharge(price=self.price, account=account, key=uuid.uuid4().hex, note=note)
        return charge.release(model, self.dataset, num_queries=self.num_queries, rng=rng)
