"""Four holders who know 20 of the 40 labels of WordNet-40 each: one release of the union, four models, and the whole.

`python -m federated_benchmarks.label_sets --epsilon 1 --seeds 3` prints average precision, also by the number of
holders who know a label, and micro-F1 on the test records. All releases are centered votes in rounds, with a kernel
teacher for each private group:

- `union`: all holders release together, and a label gets votes from the holders who know it;
- `read as no`: the same, where a label that a holder does not know is read as one that its records do not have;
- `own`: each holder releases alone from its own records, for its own 20 labels;
- `own, combined`: the mean probability of the models of those holders who know a label;
- `whole`: every holder knows all 40 labels;
- `union, on a holder's own labels`: `union` on the 20 labels of each holder, average precision and micro-F1 alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget
from pate.aggregators import CenteredVotes
from pate.aggregators.record import MemoryRecord
from pate.data import Dataset, Partition, Split, WordNet40
from pate.models import KernelTeacher, LowRankStudent
from pate.report import multilabel_metrics
from pate.report.metrics import micro_f1, per_label_metrics
from pate.votes.f1_threshold import expected_f1_threshold

HOLDERS = 4
LABELS_EACH = 20
QUERIES = 600
DELTA = 1e-6
# of the 40 labels so many are known to one, two, three and four holders; together 80 = 4 x 20
LABELS_BY_HOLDERS = (14, 16, 6, 4)

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of one way for the test records.

    Attributes:
        probabilities: `[num_test, num_labels]`.
        labels: bool `[num_test, num_labels]`.
    """

    probabilities: Floats
    labels: Bits


@dataclass(frozen=True, eq=False)
class StudentPredictions:
    """The predictions of one student.

    Attributes:
        test: the predictions for the test records.
        pool_probabilities: the probabilities on the public pool, `[num_public, num_labels]`.
    """

    test: Predictions
    pool_probabilities: Floats


@dataclass(frozen=True, eq=False)
class HolderModels:
    """The predictions for the test records of models that each learned from one holder's release.

    Attributes:
        own: the predictions of each holder's model, for the labels that the holder knows.
        combined: the mean over the models that know a label.
    """

    own: list[Predictions]
    combined: Predictions


def label_sets(num_labels: int, rng: np.random.Generator) -> Bits:
    """Returns which holder knows which label, bool `[HOLDERS, num_labels]`, with `LABELS_EACH` for each holder."""
    counts = np.repeat(np.arange(1, HOLDERS + 1), LABELS_BY_HOLDERS)
    sets = np.zeros((HOLDERS, num_labels), dtype=np.bool_)
    labels = rng.permutation(num_labels)
    order = np.argsort(-counts, kind="stable")
    for label, count in zip(labels, counts[order], strict=True):
        # those with the most room left, ties in random order
        room = LABELS_EACH - sets.sum(axis=1) + rng.random(HOLDERS)
        sets[np.argsort(-room)[:count], label] = True
    assert (sets.sum(axis=1) == LABELS_EACH).all()
    return sets


def predict_by_student(
    dataset: Dataset, private: Split, epsilon: float, seed: int
) -> StudentPredictions:
    """Returns the predictions of the student of one release.

    Args:
        dataset: the public and the test records.
        private: the private records, with as many labels as the data set.
        epsilon: the epsilon of the release.
        seed: the seed of partition and noise.
    """
    released = replace(dataset, private=private)
    partition = Partition.draw(private.group_ids, private.num_groups, np.random.default_rng(seed))
    votes = KernelTeacher().votes_of(released, partition, QUERIES)
    aggregator = CenteredVotes(noise_multiplier=1.0).fitted(
        Budget(epsilon=epsilon, delta=DELTA), votes.shape
    )
    release = aggregator.release(votes, np.random.default_rng(seed + 1), MemoryRecord())
    model = LowRankStudent().learn(
        release.training_set(dataset.public.inputs[:QUERIES]),
        pool=dataset.public.inputs[QUERIES:],
        seed=0,
    )
    inputs = dataset.test.inputs
    return StudentPredictions(
        test=Predictions(
            probabilities=model.predict_proba(inputs).astype(np.float64),
            labels=model.predict(inputs),
        ),
        pool_probabilities=model.predict_proba(dataset.public.inputs).astype(np.float64),
    )


def columns(split: Split, labels: NDArray[np.int64]) -> Split:
    """Returns a split with some of its labels, all of them known."""
    return replace(split, labels=split.labels[:, labels], known=None)


def predict_by_holders(
    dataset: Dataset, sets: Bits, holder_of: NDArray[np.int64], *, epsilon: float, seed: int
) -> HolderModels:
    """Returns the predictions of each holder's own model, and those of all four models together.

    Args:
        dataset: the whole data set.
        sets: bool `[HOLDERS, num_labels]`, the labels that each holder knows.
        holder_of: the holder of each private record.
        epsilon: the epsilon of each release; a record is at one holder, so it is protected at this epsilon.
        seed: the seed of the releases.
    """
    num_labels = dataset.num_labels
    test_sum = np.zeros((len(dataset.test), num_labels))
    pool_sum = np.zeros((len(dataset.public), num_labels))
    own = []
    for holder in range(HOLDERS):
        labels = np.flatnonzero(sets[holder])
        private = dataset.private.take(np.flatnonzero(holder_of == holder))
        of_holder = replace(
            dataset,
            label_names=tuple(dataset.label_names[label] for label in labels),
            private=columns(private, labels),
            public=columns(dataset.public, labels),
            test=columns(dataset.test, labels),
        )
        student = predict_by_student(
            of_holder, private=of_holder.private, epsilon=epsilon, seed=seed
        )
        own.append(student.test)
        test_sum[:, labels] += student.test.probabilities
        pool_sum[:, labels] += student.pool_probabilities
    num_models = sets.sum(axis=0)
    probabilities = test_sum / num_models
    threshold = expected_f1_threshold(pool_sum / num_models)
    combined = Predictions(probabilities=probabilities, labels=probabilities >= threshold)
    return HolderModels(own=own, combined=combined)


def average_precision(predictions: Predictions, true_labels: Bits) -> Floats:
    """Returns the average precision of each label, `[num_labels]`."""
    metrics = per_label_metrics(predictions.labels, predictions.probabilities, true_labels)
    return np.asarray(metrics["average_precision"])


def mean_by_num_holders(precision: Floats, num_holders: NDArray[np.int64]) -> list[float]:
    """Returns the mean precision of the labels that one, two, three and four holders know.

    Args:
        precision: the average precision of each label, `[num_labels]`.
        num_holders: the number of holders who know each label, `[num_labels]`.
    """
    return [float(precision[num_holders == count].mean()) for count in range(1, HOLDERS + 1)]


def measured(dataset: Dataset, epsilon: float, seed: int) -> Mapping[str, list[float]]:
    """Returns the figures of each way for one seed.

    They are average precision over all labels, micro-F1, and average precision over the labels that one, two, three and
    four holders know.
    """
    rng = np.random.default_rng(100 + seed)
    sets = label_sets(dataset.num_labels, rng)
    private = dataset.private
    holder_of = rng.permutation(len(private)) % HOLDERS
    known = sets[holder_of]
    num_holders = sets.sum(axis=0)
    true_labels = dataset.test.labels
    models = predict_by_holders(dataset, sets, holder_of, epsilon=epsilon, seed=seed)
    with_gaps = replace(private, labels=private.labels & known, known=known)
    private_of_way = {
        "union": with_gaps,
        "read as no": replace(with_gaps, known=None),
        "whole": private,
    }
    ways = {
        name: predict_by_student(dataset, private=records, epsilon=epsilon, seed=seed).test
        for name, records in private_of_way.items()
    }
    ways["own, combined"] = models.combined
    rows: dict[str, list[float]] = {}
    for name, predictions in ways.items():
        precision = average_precision(predictions, true_labels)
        metrics = multilabel_metrics(predictions.labels, predictions.probabilities, true_labels)
        by_holders = mean_by_num_holders(precision, num_holders)
        rows[name] = [metrics.mean_average_precision or 0.0, metrics.micro_f1, *by_holders]
    # The figures of each holder's own model on its 20 labels, and of the union on the same labels.
    own_precision = np.full((HOLDERS, dataset.num_labels), np.nan)
    own_f1 = []
    union_f1 = []
    for holder, predictions in enumerate(models.own):
        labels = np.flatnonzero(sets[holder])
        truth = true_labels[:, labels]
        own_precision[holder, labels] = average_precision(predictions, truth)
        own_f1.append(micro_f1(predictions.labels, true_labels=truth))
        union_f1.append(micro_f1(ways["union"].labels[:, labels], true_labels=truth))
    own_precision_of_label = np.nanmean(own_precision, axis=0)
    rows["own"] = [
        float(np.nanmean(own_precision)),
        float(np.mean(own_f1)),
        *mean_by_num_holders(own_precision_of_label, num_holders),
    ]
    union_precision = average_precision(ways["union"], true_labels)
    rows["union, on a holder's own labels"] = [
        float(np.mean([union_precision[sets[holder]].mean() for holder in range(HOLDERS)])),
        float(np.mean(union_f1)),
    ]
    return rows


def main() -> None:
    """Prints the mean and the standard deviation of the figures over some seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    dataset = WordNet40().load()
    results = [measured(dataset, arguments.epsilon, seed) for seed in range(arguments.seeds)]
    print("AP, micro-F1, AP of labels known to 1, 2, 3, 4 holders")  # noqa: T201 - the product
    for name in results[0]:
        figures = np.mean([result[name] for result in results], axis=0)
        spread = np.std([result[name] for result in results], axis=0)
        print(f"{name}: {figures.round(3).tolist()} +- {spread.round(3).tolist()}")  # noqa: T201 - the product


if __name__ == "__main__":
    main()
