"""A membership inference attack on the student: how well can its predictions distinguish private from test records?

The results are computed from private records without noise, so only the owner may see them.
"""

import numpy as np

from pate.aggregators import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.data import Dataset, Split
from pate.models import LogisticStudent, StudentModel
from pate.report.membership import Membership, label_losses, log_odds, unusual

# The most records of a split that the attack is tried on.
_MAX_TRIED = 10_000
# The recipe of the reference models, how many of them there are, and how many public records they learn from.
_REFERENCE = LogisticStudent(penalties=(1e-3,))
_NUM_REFERENCES = 8
_MIN_REFERENCE_RECORDS = 100
_MAX_REFERENCE_RECORDS = 2000
# The most weights of a reference model, inputs times labels: eight larger ones would take longer than the student.
_MAX_REFERENCE_WEIGHTS = 2**15


def membership(
    model: StudentModel, training: TrainingSet, dataset: Dataset, *, seed: int
) -> Membership | None:
    """Attacks a student with membership inference, and returns the attack's success; None if it cannot be measured.

    The attacker compares the student's losses on private records with its losses on test records. One record of each
    group takes part, and at most 10,000 records of each split. If the public records are at least 100 and have
    features, and the number of features times that of labels is at most 2**15, the attacker also compares the student
    with reference models. Anybody could train these on public records.

    Args:
        model: the student.
        training: the queries and released labels that the student learned from.
        dataset: the private, public and test records.
        seed: the seed of the reference models.
    """
    splits = [_one_of_each_group(split) for split in (dataset.private, dataset.test)]
    predictions = [model.predict_proba(split.inputs) for split in splits]
    private_losses, test_losses = (
        label_losses(probabilities, true_labels=split.labels, known=split.known)
        for probabilities, split in zip(predictions, splits, strict=True)
    )
    # Reference models learn the true labels of public records, or the released ones where the pool has no labels.
    inputs = training.inputs
    labels = training.labels
    known = None
    if dataset.public_labeled:
        inputs = dataset.public.inputs
        labels = dataset.public.labels
        known = dataset.public.known
    has_enough = len(inputs) >= _MIN_REFERENCE_RECORDS and all(map(len, splits))
    is_cheap = (
        dataset.kind == "features" and inputs.shape[1] * labels.shape[1] <= _MAX_REFERENCE_WEIGHTS
    )
    if not (has_enough and is_cheap):
        return Membership.from_losses(private_losses, test_losses=test_losses)
    references = _reference_models(inputs, labels, known, seed=seed)
    true_labels = np.concatenate([split.labels for split in splits])
    # None where all labels of both splits are known
    is_known = None
    if any(split.known is not None for split in splits):
        is_known = np.concatenate(
            [np.ones_like(split.labels) if split.known is None else split.known for split in splits]
        )
    reference_odds = []
    for reference in references:
        probabilities = np.concatenate([reference.predict_proba(split.inputs) for split in splits])
        reference_odds.append(log_odds(probabilities, true_labels=true_labels, known=is_known))
    student_odds = log_odds(np.concatenate(predictions), true_labels=true_labels, known=is_known)
    odds = unusual(student_odds, reference_log_odds=np.stack(reference_odds))
    private_unusual, test_unusual = np.split(odds, [len(splits[0])])
    return Membership.from_losses(
        private_losses,
        test_losses=test_losses,
        private_deviations=private_unusual,
        test_deviations=test_unusual,
    )


def _one_of_each_group(split: Split) -> Split:
    """Returns the first record of each group, as records of one group are not independent.

    If there are more groups than the attack uses, groups at equal distances in the split are taken.
    """
    first_rows = np.sort(np.unique(split.group_ids, return_index=True)[1])
    num_tried = min(len(first_rows), _MAX_TRIED)
    return split.take(first_rows[np.arange(num_tried) * len(first_rows) // max(num_tried, 1)])


def _reference_models(
    inputs: Float32Array,
    labels: BoolArray,
    known: BoolArray | None,
    *,
    seed: int,
) -> list[StudentModel]:
    """Trains several models, each on a random half of the first public records.

    Args:
        inputs: the inputs of public records, `[num_records, num_features]`.
        labels: the labels of these records, `[num_records, num_labels]`.
        known: which of these labels are known, `[num_records, num_labels]`; None where all are.
        seed: the seed of the halves and of the training.
    """
    num_records = min(len(inputs), _MAX_REFERENCE_RECORDS)
    rng = np.random.default_rng(seed)
    halves = [rng.permutation(num_records)[: num_records // 2] for _ in range(_NUM_REFERENCES)]
    no_pool = inputs[:0]
    return [
        _REFERENCE.learn(
            TrainingSet(
                np.asarray(inputs[half]),
                labels[half],
                known=None if known is None else known[half],
            ),
            pool=no_pool,
            seed=seed,
        )
        for half in halves
    ]
