"""A membership inference attack on the student: how well can its predictions distinguish private from test records?

The results are computed from private records without noise, so only the owner may see them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import TrainingSet
from pate.array_types import FloatArray
from pate.data import Dataset, Split
from pate.models import LogisticStudent, StudentModel
from pate.report.membership import (
    Membership,
    deviations_from_references,
    label_losses,
    summed_log_odds,
)

# The attack is tried on at most this many records of a split.
_MAX_TRIED = 10_000
# The recipe of the reference models, their number, and the number of public records that they learn from.
_REFERENCE = LogisticStudent(penalties=(1e-3,))
_NUM_REFERENCES = 8
_MIN_REFERENCE_RECORDS = 100
_MAX_REFERENCE_RECORDS = 2000
# A reference model has at most this many weights, inputs times labels: eight larger ones would take longer than the
# student.
_MAX_REFERENCE_WEIGHTS = 2**15


def attack_membership(
    model: StudentModel, *, training_set: TrainingSet, dataset: Dataset, seed: int
) -> Membership | None:
    """Attacks a student with membership inference, and returns the attack's success; None if it cannot be measured.

    The attacker compares the student's losses on private records with its losses on test records. One record of each
    group takes part, and at most 10,000 records of each split. The attacker also compares the student with reference
    models, which anybody could train on public records. These need at least 100 public records with features, and the
    number of features times that of labels must be at most 2**15.

    Args:
        model: the student.
        training_set: the queries and released labels that the student learned from. Reference models learn from them
            if the public pool has no labels.
        dataset: the private, public and test records.
        seed: the seed of the reference models.
    """
    private_and_test_splits = (
        _one_of_each_group(dataset.private),
        _one_of_each_group(dataset.test),
    )
    probabilities_of_splits = [
        model.predict_proba(split.inputs) for split in private_and_test_splits
    ]
    private_losses, test_losses = (
        label_losses(probabilities, true_labels=split.labels, known=split.known)
        for probabilities, split in zip(
            probabilities_of_splits, private_and_test_splits, strict=True
        )
    )
    public_records = _public_records(dataset, training_set=training_set)
    has_records = all(len(split) > 0 for split in private_and_test_splits)
    if not (has_records and dataset.kind == "features" and _has_references(public_records)):
        return Membership.from_losses(private_losses, test_losses=test_losses)
    log_odds_deviations = _log_odds_deviations(
        student_probabilities=np.concatenate(probabilities_of_splits),
        private_and_test_splits=private_and_test_splits,
        reference_models=_reference_models(public_records, seed=seed),
    )
    private_log_odds_deviations, test_log_odds_deviations = np.split(
        log_odds_deviations, [len(private_losses)]
    )
    return Membership.from_losses(
        private_losses,
        test_losses=test_losses,
        private_log_odds_deviations=private_log_odds_deviations,
        test_log_odds_deviations=test_log_odds_deviations,
    )


def _one_of_each_group(split: Split) -> Split:
    """Returns the first record of each group of a split, as records of one group are not independent.

    If there are more than 10,000 groups, 10,000 groups at equal distances in the split are taken.
    """
    first_row_of_groups = np.sort(np.unique(split.group_ids, return_index=True)[1])
    num_tried = min(len(first_row_of_groups), _MAX_TRIED)
    return split.take(
        first_row_of_groups[np.arange(num_tried) * len(first_row_of_groups) // max(num_tried, 1)]
    )


def _public_records(dataset: Dataset, *, training_set: TrainingSet) -> TrainingSet:
    """Returns the public records with their true labels, from which reference models learn.

    If the public pool has no true labels, the queries with their released labels are returned.

    Args:
        dataset: the data set with the public pool.
        training_set: the queries with their released labels.
    """
    if not dataset.public_labeled:
        return TrainingSet(training_set.inputs, labels=training_set.labels)
    public_records = dataset.public
    return TrainingSet(
        public_records.inputs, labels=public_records.labels, known=public_records.known
    )


def _has_references(public_records: TrainingSet) -> bool:
    """Returns True if there are enough public records for reference models, and if these models are small.

    Enough are 100 records. A model is small if the number of features times that of labels is at most 2**15.
    """
    num_weights = public_records.inputs.shape[1] * public_records.labels.shape[1]
    return (
        len(public_records.inputs) >= _MIN_REFERENCE_RECORDS
        and num_weights <= _MAX_REFERENCE_WEIGHTS
    )


def _reference_models(public_records: TrainingSet, *, seed: int) -> list[StudentModel]:
    """Trains the 8 reference models of the attack, each on a random half of the first 2,000 public records.

    These are not the models of `pate.run.reference_models`, with which a report compares the student. If there are
    fewer public records, each model learns from a half of all of them. Each half is drawn anew, so two halves may have
    records in common.

    Args:
        public_records: public records with features and labels.
        seed: the seed of the halves and of the training.
    """
    num_records = min(len(public_records.inputs), _MAX_REFERENCE_RECORDS)
    rng = np.random.default_rng(seed)
    row_indices_of_halves = [
        rng.permutation(num_records)[: num_records // 2] for _ in range(_NUM_REFERENCES)
    ]
    return [
        _REFERENCE.learn(
            TrainingSet(
                np.asarray(public_records.inputs[row_indices]),
                labels=public_records.labels[row_indices],
                known=None if public_records.known is None else public_records.known[row_indices],
            ),
            pool=public_records.inputs[:0],
            seed=seed,
        )
        for row_indices in row_indices_of_halves
    ]


def _log_odds_deviations(
    student_probabilities: NDArray[np.floating],
    *,
    private_and_test_splits: Sequence[Split],
    reference_models: Sequence[StudentModel],
) -> FloatArray:
    """Returns how far the student's log-odds of true labels are below those of reference models, `[num_records]`.

    The distance is in standard deviations over reference models, as `deviations_from_references` computes it.

    Args:
        student_probabilities: the student's probabilities for the records of all splits, `[num_records, num_labels]`.
        private_and_test_splits: the splits of records that are tried, in the order of the probabilities.
        reference_models: models that have not learned from any of these records.
    """
    true_labels = np.concatenate([split.labels for split in private_and_test_splits])
    known_label_mask = None
    if any(split.known is not None for split in private_and_test_splits):
        known_label_mask = np.concatenate(
            [
                np.ones_like(split.labels) if split.known is None else split.known
                for split in private_and_test_splits
            ]
        )
    reference_log_odds = []
    for reference in reference_models:
        reference_probabilities = np.concatenate(
            [reference.predict_proba(split.inputs) for split in private_and_test_splits]
        )
        reference_log_odds.append(
            summed_log_odds(
                reference_probabilities, true_labels=true_labels, known=known_label_mask
            )
        )
    return deviations_from_references(
        summed_log_odds(student_probabilities, true_labels=true_labels, known=known_label_mask),
        reference_log_odds=np.stack(reference_log_odds),
    )
