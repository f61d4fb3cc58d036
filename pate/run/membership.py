"""The membership attack on a student: what it tells of who is among the private records. For the owner alone."""

import numpy as np

from pate.aggregators import TrainingSet
from pate.data import Dataset
from pate.models import LogisticStudent, StudentModel
from pate.report.metrics import Membership, label_losses, log_odds, unusual

_MOST_TRIED = 10_000  # records of a split
_REFERENCE = LogisticStudent(penalties=(1e-3,))
_REFERENCES = 8
_FEWEST_REFERRED = 100
_MOST_REFERRED = 2000
_MOST_WEIGHTS = 2**15


def membership(
    model: StudentModel, training: TrainingSet, dataset: Dataset, *, seed: int
) -> Membership | None:
    """Measures what a student tells of who is private, on 10,000 records of each split at most, one of each group.

    Its losses on private records are compared with those on test records, as an attacker would. Where it is cheap, an
    attacker also has reference models, which were trained on public records alone. No epsilon covers the figures.
    """
    splits = []
    for split in (dataset.private, dataset.test):  # in order, evenly: records of one group depend
        firsts = np.sort(np.unique(split.group_ids, return_index=True)[1])
        number = min(len(firsts), _MOST_TRIED)
        splits.append(split.take(firsts[np.arange(number) * len(firsts) // max(number, 1)]))
    predictions = [model.predict_proba(split.inputs) for split in splits]
    losses = [
        label_losses(probabilities, split.labels)
        for probabilities, split in zip(predictions, splits, strict=True)
    ]
    # Models that anybody could train, each on half of some public records, where that is cheap: by the labels of the
    # public records, or those that were released where the pool has none.
    rows = training.inputs
    bits = training.labels
    if dataset.public_labeled:
        rows = dataset.public.inputs
        bits = dataset.public.labels
    has_few = len(rows) < _FEWEST_REFERRED or not all(map(len, splits))
    if has_few or dataset.kind != "features" or rows.shape[1] * bits.shape[1] > _MOST_WEIGHTS:
        return Membership.of(losses[0], losses[1])
    count = min(len(rows), _MOST_REFERRED)
    rng = np.random.default_rng(seed)
    halves = [rng.permutation(count)[: count // 2] for _ in range(_REFERENCES)]
    models = [_REFERENCE.fit(np.asarray(rows[half]), bits[half], seed=seed) for half in halves]
    labels = np.concatenate([split.labels for split in splits])
    reference_odds = [
        log_odds(
            np.concatenate([reference.predict_proba(split.inputs) for split in splits]), labels
        )
        for reference in models
    ]
    odds = unusual(log_odds(np.concatenate(predictions), labels), np.stack(reference_odds))
    private, test = np.split(odds, [len(splits[0])])
    return Membership.of(losses[0], losses[1], by_reference=(private, test))
