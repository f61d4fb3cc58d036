"""Teachers of a fit that are estimators: their groups, the forms of their votes, and their failures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pate import PATEClassifier
from pate.accounting import Ledger
from pate.aggregators import (
    Aggregator,
    BoundaryTopK,
    CenteredVotes,
    GaussianVotes,
    PowersetGNMax,
)
from pate.classifier.ensemble import EstimatorLearner, FittedVotes, train_and_vote
from pate.classifier.samples import Pools
from pate.classifier.tasks import OneClass, Task
from pate.data import Partition
from pate.run.random_streams import RandomStreams
from pate.validation import InvalidValue
from tests.contract.case import record_that_charges
from tests.refusals import refused_parameter

# 240 private inputs in 40 groups, their labels and their classes as bits, and 50 queries.
RNG = np.random.default_rng(0)
INPUTS = RNG.standard_normal((240, 3)).astype(np.float32)
LABEL_BITS = INPUTS + 0.3 * RNG.standard_normal((240, 3)) > 0
CLASS_BITS = (INPUTS + 0.3 * RNG.standard_normal((240, 3))).argmax(axis=1)[:, None] == np.arange(3)
GROUPS = np.arange(240) // 6
QUERIES = RNG.standard_normal((50, 3)).astype(np.float32)
MANY_LABELS = Task(num_labels=3)
ONE_CLASS = OneClass(class_names=np.arange(3))


def source_of_votes(
    label_task: Task,
    label_bits: np.ndarray,
    *,
    inputs: np.ndarray = INPUTS,
    groups: np.ndarray = GROUPS,
    estimator: Any = None,
    num_jobs: int | None = None,
    keep_confidences: bool = True,
) -> FittedVotes:
    """Trains ten teachers and returns their votes on the queries.

    Args:
        label_task: the form of the labels.
        label_bits: the labels as bits, `[num_records, num_labels]`.
        inputs: the private inputs.
        groups: the group of each record.
        estimator: the teachers' estimator; by default naive Bayes.
        num_jobs: the number of workers.
        keep_confidences: whether confidences are kept beside the votes.
    """
    private_and_public_records = Pools(
        private_inputs=inputs,
        private_targets=label_bits,
        private_group_ids=groups,
        public_inputs=QUERIES,
        public_group_ids=np.arange(len(QUERIES)),
    )
    streams = RandomStreams(entropy=3)
    learner = EstimatorLearner(
        label_task=label_task, estimator=GaussianNB() if estimator is None else estimator
    )
    return train_and_vote(
        learner,
        private_and_public_records,
        partition=Partition.draw(groups, num_teachers=10, rng=streams.generator("partition")),
        query_inputs=QUERIES,
        seeds=streams.seeds("teachers", num_seeds=10),
        keep_confidences=keep_confidences,
        num_jobs=num_jobs,
        verbose=0,
    )


def votes_of_teachers(
    label_task: Task, label_bits: np.ndarray, inputs: np.ndarray = INPUTS
) -> np.ndarray:
    """Returns the votes of ten teachers, `[num_teachers, num_queries, num_labels]`, as `source_of_votes` makes them."""
    return np.concatenate(
        list(source_of_votes(label_task=label_task, label_bits=label_bits, inputs=inputs).bits())
    )


@pytest.mark.parametrize(
    ("label_task", "label_bits"),
    [(MANY_LABELS, LABEL_BITS), (ONE_CLASS, CLASS_BITS)],
    ids=["many labels", "one class"],
)
@pytest.mark.parametrize("group", [0, 7, 39])
def test_replacing_one_group_changes_the_votes_of_one_teacher(
    label_task: Task, label_bits: np.ndarray, group: int
) -> None:
    """The votes of exactly one of ten teachers change if inputs and labels of one group are replaced."""
    is_replaced = group == GROUPS
    other_inputs = INPUTS.copy()
    other_inputs[is_replaced] *= -5
    other_bits = label_bits.copy()
    other_bits[is_replaced] = other_bits[is_replaced][:, ::-1]
    votes = votes_of_teachers(label_task=label_task, label_bits=label_bits)
    other_votes = votes_of_teachers(
        label_task=label_task, label_bits=other_bits, inputs=other_inputs
    )
    is_changed_teacher = (votes != other_votes).any(axis=(1, 2))
    assert is_changed_teacher.sum() == 1


def test_a_teacher_with_one_class_votes_for_that_class() -> None:
    """Teachers whose records all have class 1 vote for class 1 on all queries."""
    bits_of_class_1 = np.array([False, True, False])
    bits_of_records = np.tile(bits_of_class_1, reps=(240, 1))
    votes = votes_of_teachers(label_task=ONE_CLASS, label_bits=bits_of_records)
    assert (votes == bits_of_class_1).all()
    assert votes.shape == (10, 50, 3)


@pytest.mark.parametrize(
    "aggregator",
    [GaussianVotes(noise_std=1e-9), PowersetGNMax(noise_std=1e-9)],
    ids=["counts", "teachers"],
)
def test_votes_have_the_form_that_the_aggregator_reads(
    aggregator: GaussianVotes | PowersetGNMax,
) -> None:
    """With almost no noise, an aggregator of counts and one of single teachers' votes release the clear majorities.

    A majority is clear if at least eight of the ten votes agree on each label. The release is charged once.
    """
    counts = votes_of_teachers(label_task=MANY_LABELS, label_bits=LABEL_BITS).sum(axis=0)
    ledger = Ledger(target_delta=1e-6)
    vote_source = source_of_votes(label_task=MANY_LABELS, label_bits=LABEL_BITS)
    record = record_that_charges(ledger, aggregator=aggregator, votes=vote_source)
    release = aggregator.release(vote_source, rng=np.random.default_rng(3), record=record)
    is_clear = np.abs(counts - 5).min(axis=1) >= 3
    np.testing.assert_array_equal(release.labels[is_clear], counts[is_clear] > 5)
    assert [entry.event for entry in ledger.entries] == [release.event]


class _Failing(GaussianNB):
    """An estimator that fails in one of three ways.

    Attributes:
        failure: with `singular`, `fit` raises an error if fewer than two records of a teacher have the label. With
            `shape`, the probabilities lack a row, and with `nan` they are NaN.
    """

    def __init__(self, failure: str = "singular") -> None:
        super().__init__()
        self.failure = failure

    def fit(self, X, y):  # noqa: N803
        if self.failure == "singular" and y.sum() < 2:
            raise np.linalg.LinAlgError("Singular\nmatrix")
        return super().fit(X, y)

    def predict_proba(self, X):  # noqa: N803
        probabilities = super().predict_proba(X)
        if self.failure == "shape":
            return probabilities[:-1]
        if self.failure == "nan":
            return probabilities * np.nan
        return probabilities


# The end of the refusal of an estimator that fails on a teacher's part of the records.
SINGULAR = r"label 2, which 1 of \d+ records have; LinAlgError: Singular matrix\)"


@pytest.mark.parametrize(
    ("failure", "error_pattern", "num_jobs"),
    [
        ("singular", SINGULAR, None),
        pytest.param("singular", SINGULAR, 2, marks=pytest.mark.process),
        ("shape", "InvalidValue: predictions.shape", None),
        ("nan", "InvalidValue: predictions=NaN or infinity: expected finite numbers", None),
    ],
)
def test_an_estimator_that_fails_on_a_part_is_named_with_the_label(
    failure: str, error_pattern: str, num_jobs: int | None
) -> None:
    """An estimator that fails on a teacher's records is refused with its name and the reason.

    The reason is the error that it raised for label 2, which is rare, or what is wrong with its probabilities. It may
    also raise the error in another process.
    """
    label_bits = LABEL_BITS.copy()
    label_bits[:, 2] = np.arange(240) % 24 == 0
    with pytest.raises(
        InvalidValue,
        match=rf"^estimator=_Failing: expected one that can be fitted .*part.*{error_pattern}",
    ):
        source_of_votes(
            label_task=MANY_LABELS,
            label_bits=label_bits,
            groups=np.arange(240),
            estimator=_Failing(failure=failure),
            num_jobs=num_jobs,
        )


@pytest.mark.parametrize(
    "aggregator",
    [
        GaussianVotes(noise_std=3.0),
        PowersetGNMax(noise_std=3.0),
        CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0),
        BoundaryTopK(selection_scale=1.0, test_std=0.3, failure_prob=1e-9, target_hits=3),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
def test_nothing_is_charged_for_votes_that_cannot_be_read(aggregator: Aggregator) -> None:
    """If reading the votes fails, the aggregator raises that error, and its ledger stays empty."""
    ledger = Ledger(target_delta=1e-5)
    unreadable_votes = source_of_votes(label_task=MANY_LABELS, label_bits=LABEL_BITS)

    def raise_invalid_value() -> Any:
        """Raises an error in place of any kind of votes."""
        raise InvalidValue(name="votes", rule="votes")

    unreadable_votes.bits = raise_invalid_value  # type: ignore[method-assign]
    unreadable_votes.confidences = raise_invalid_value  # type: ignore[method-assign]
    unreadable_votes.label_shares = raise_invalid_value  # type: ignore[method-assign]
    record = record_that_charges(ledger, aggregator=aggregator, votes=unreadable_votes)
    with refused_parameter("votes", rule_words="votes"):
        aggregator.release(unreadable_votes, rng=np.random.default_rng(3), record=record)
    assert ledger.entries == []


@pytest.mark.filterwarnings("ignore::pate.classifier.DoubtfulPlan")
def test_a_fit_whose_teachers_fail_charges_nothing(tmp_path: Path) -> None:
    """If teachers predict NaN as probabilities, the fit refuses the estimator, and its ledger stays empty."""
    ledger_path = tmp_path / "ledger.db"
    model = PATEClassifier(
        estimator=_Failing(failure="nan"),
        n_teachers=10,
        target_delta=1e-5,
        ledger=ledger_path,
        allow_useless=True,
    )
    with refused_parameter("estimator", value="_Failing"):
        model.fit(INPUTS, LABEL_BITS.astype(int), X_public=QUERIES)
    assert Ledger(ledger_path, target_delta=1e-5).entries == []


def test_confidences_are_kept_only_if_the_aggregator_reads_them() -> None:
    """A source that keeps confidences has more than two different ones, and those of at least 1/2 are votes.

    A source that keeps votes alone returns them as confidences of 0 and 1.
    """
    with_confidences = source_of_votes(label_task=MANY_LABELS, label_bits=LABEL_BITS)
    votes_alone = source_of_votes(
        label_task=MANY_LABELS, label_bits=LABEL_BITS, keep_confidences=False
    )
    confidences = np.concatenate(list(with_confidences.confidences()))
    assert len(np.unique(confidences)) > 2
    votes = np.concatenate(list(votes_alone.bits()))
    np.testing.assert_array_equal(votes, confidences >= 0.5)
    np.testing.assert_array_equal(np.concatenate(list(votes_alone.confidences())), votes)
