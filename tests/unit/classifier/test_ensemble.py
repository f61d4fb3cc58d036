"""The teachers of a fit: whole groups, one vote each for one change, and the aggregator's own form of votes."""

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
from tests.refusals import refused

RNG = np.random.default_rng(0)
INPUTS = RNG.standard_normal((240, 3)).astype(np.float32)
LABEL_BITS = INPUTS + 0.3 * RNG.standard_normal((240, 3)) > 0
CLASS_BITS = (INPUTS + 0.3 * RNG.standard_normal((240, 3))).argmax(axis=1)[:, None] == np.arange(3)
GROUPS = np.arange(240) // 6
QUERIES = RNG.standard_normal((50, 3)).astype(np.float32)
TASKS = [(Task(count=3), LABEL_BITS), (OneClass(names=np.arange(3)), CLASS_BITS)]


def source_of_votes(
    task: Task,
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
        task: the form of the labels.
        label_bits: the labels as bits, `[num_records, num_labels]`.
        inputs: the private inputs.
        groups: the group of each record.
        estimator: the teachers' estimator; by default naive Bayes.
        num_jobs: the number of workers.
        keep_confidences: whether confidences are kept beside the votes.
    """
    pools = Pools(
        inputs=inputs,
        targets=label_bits,
        groups=groups,
        public=QUERIES,
        public_groups=np.arange(len(QUERIES)),
    )
    streams = RandomStreams(entropy=3)
    return train_and_vote(
        EstimatorLearner(task=task, estimator=GaussianNB() if estimator is None else estimator),
        pools,
        partition=Partition.draw(groups, num_teachers=10, rng=streams.generator("partition")),
        queries=QUERIES,
        seeds=streams.seeds("teachers", num_seeds=10),
        keep_confidences=keep_confidences,
        num_jobs=num_jobs,
        verbose=0,
    )


def votes_of_teachers(
    task: Task, label_bits: np.ndarray, inputs: np.ndarray = INPUTS
) -> np.ndarray:
    """Returns the votes of ten teachers, `[teachers, queries, labels]`."""
    return np.concatenate(
        list(source_of_votes(task=task, label_bits=label_bits, inputs=inputs).bits())
    )


@pytest.mark.parametrize(("task", "targets"), TASKS, ids=["many", "one"])
@pytest.mark.parametrize("group", [0, 7, 39])
def test_replacing_one_group_changes_one_teacher_at_most(
    task: Task, targets: np.ndarray, group: int
) -> None:
    """Inputs and labels of one group are replaced. The votes of exactly one of ten teachers change."""
    inputs = INPUTS.copy()
    changed = targets.copy()
    inputs[group == GROUPS] *= -5
    changed[group == GROUPS] = changed[group == GROUPS][:, ::-1]
    moved = (
        votes_of_teachers(task=task, label_bits=targets)
        != votes_of_teachers(task=task, label_bits=changed, inputs=inputs)
    ).any(axis=(1, 2))
    assert moved.sum() == 1


def test_a_teacher_with_one_class_votes_for_that_class() -> None:
    """All private records have class 1. Each teacher votes for class 1 on all queries."""
    targets = np.tile([False, True, False], (240, 1))
    np.testing.assert_array_equal(
        votes_of_teachers(task=TASKS[1][0], label_bits=targets),
        np.tile([False, True, False], (10, 50, 1)),
    )


@pytest.mark.parametrize(
    "aggregator",
    [GaussianVotes(noise_std=1e-9), PowersetGNMax(noise_std=1e-9)],
    ids=["counts", "teachers"],
)
def test_votes_have_the_form_that_the_aggregator_reads(
    aggregator: GaussianVotes | PowersetGNMax,
) -> None:
    """Aggregators of counts and of single teachers' votes release the majority of clear queries, with one charge."""
    task, targets = TASKS[0]
    cast = votes_of_teachers(task=task, label_bits=targets)
    ledger = Ledger(target_delta=1e-6)
    votes_source = source_of_votes(task=task, label_bits=targets)
    record = record_that_charges(ledger, aggregator=aggregator, votes=votes_source)
    release = aggregator.release(votes_source, rng=np.random.default_rng(3), record=record)
    clear = np.abs(cast.sum(axis=0) - 5).min(axis=1) >= 3  # the same whatever is counted
    np.testing.assert_array_equal(release.labels[clear], cast.sum(axis=0)[clear] > 5)
    assert [entry.event for entry in ledger.entries] == [release.event]


class _Failing(GaussianNB):
    """An estimator that fails in one way.

    With the way `singular`, `fit` raises an error on a part with fewer than two records of the label. With `shape` the
    probabilities lack a row, and with `nan` they are NaN.
    """

    def __init__(self, way: str = "fit") -> None:
        super().__init__()
        self.way = way

    def fit(self, X, y):  # noqa: N803
        if self.way == "singular" and y.sum() < 2:
            raise np.linalg.LinAlgError("Singular\nmatrix")
        return super().fit(X, y)

    def predict_proba(self, X):  # noqa: N803
        probabilities = super().predict_proba(X)
        return {
            "shape": probabilities[:-1],
            "nan": probabilities * np.nan,
            "singular": probabilities,
        }[self.way]


SINGULAR = r"label 2, which 1 of \d+ records have; LinAlgError: Singular matrix\)"


@pytest.mark.parametrize(
    ("way", "words", "num_jobs"),
    [
        ("singular", SINGULAR, None),
        pytest.param("singular", SINGULAR, 2, marks=pytest.mark.process),
        ("shape", "InvalidValue: predictions.shape", None),
        ("nan", "InvalidValue: predictions=NaN or infinity: expected finite numbers", None),
    ],
)
def test_an_estimator_that_fails_on_a_part_is_named_with_the_label(
    way: str, words: str, num_jobs: int | None
) -> None:
    """Label 2 is so rare that an estimator fails on a teacher's part.

    The refusal names the estimator, the label and the error, also from another process.
    """
    targets = LABEL_BITS.copy()
    targets[:, 2] = np.arange(240) % 24 == 0
    with pytest.raises(
        InvalidValue, match=rf"^estimator=_Failing: expected one that can be fitted .*part.*{words}"
    ):
        source_of_votes(
            task=Task(count=3),
            label_bits=targets,
            groups=np.arange(240),
            estimator=_Failing(way),
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
    ids=lambda each: type(each).__name__,
)
def test_nothing_is_charged_for_votes_that_cannot_be_read(aggregator: Aggregator) -> None:
    """Reading the votes fails. The aggregator raises that error, and its ledger stays empty."""
    ledger = Ledger(target_delta=1e-5)
    unreadable = source_of_votes(task=Task(count=3), label_bits=LABEL_BITS)

    def fail() -> Any:
        raise InvalidValue(name="votes", rule="votes")

    unreadable.bits = unreadable.confidences = unreadable.label_shares = fail  # type: ignore[method-assign]
    with refused("votes", rule="votes"):
        record = record_that_charges(ledger, aggregator=aggregator, votes=unreadable)
        aggregator.release(unreadable, rng=np.random.default_rng(3), record=record)
    assert ledger.entries == []


@pytest.mark.filterwarnings("ignore::pate.classifier.DoubtfulPlan")
def test_a_fit_whose_teachers_fail_charges_nothing(tmp_path: Path) -> None:
    """Teachers give NaN as probabilities. The fit refuses the estimator, and its ledger stays empty."""
    path = tmp_path / "ledger.db"
    model = PATEClassifier(
        estimator=_Failing("nan"), n_teachers=10, target_delta=1e-5, ledger=path, allow_useless=True
    )
    with refused("estimator", value="_Failing"):
        model.fit(INPUTS, LABEL_BITS.astype(int), X_public=QUERIES)
    assert Ledger(path, target_delta=1e-5).entries == []


def test_confidences_are_kept_only_if_the_aggregator_reads_them() -> None:
    """With confidences kept, they have many values; their votes are those above 1/2.

    Without, confidences are the votes.
    """
    task, targets = TASKS[0]
    stored = source_of_votes(task=task, label_bits=targets)
    bits_alone = source_of_votes(task=task, label_bits=targets, keep_confidences=False)
    confidences = np.concatenate(list(stored.confidences()))
    assert len(np.unique(confidences)) > 2
    bits = np.concatenate(list(bits_alone.bits()))
    np.testing.assert_array_equal(bits, confidences >= 0.5)
    np.testing.assert_array_equal(np.concatenate(list(bits_alone.confidences())), bits)
