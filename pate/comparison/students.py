"""Students of a comparison, each trained as `pate-train` trains it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, NonPrivateEvent
from pate.aggregators import Release
from pate.comparison.bench import Bench
from pate.comparison.method import Trained
from pate.run.randomness import Streams
from pate.run.student import train_on_all_records, train_student
from pate.student import Student


def trained(student: Student, release: Release, bench: Bench, *, seed: int) -> Trained:
    """The student of a release, and how right the release is."""
    queries, student_seed = bench.queries, Streams(seed).seeds("student", 1)[0]
    training = release.training_set(queries.inputs)
    model = train_student(student, training, bench.dataset, num_queries=bench.num_queries, seed=student_seed)
    correct = (release.labels == queries.labels)[release.answered]
    measured = len(correct) > 0 and bench.dataset.public_labeled
    return Trained(model, release.num_answered, float(correct.mean()) if measured else None)


def trained_on_labels(labels: NDArray[np.bool_], bench: Bench, *, seed: int) -> Trained:
    """The student of labels that no epsilon covers, `[Q, L]`."""
    answered = np.ones(len(labels), dtype=np.bool_)
    release = Release(labels, answered, NonPrivateEvent(), Adjacency.REPLACE_ONE)
    return trained(bench.student, release, bench, seed=seed)


def true_label_student(bench: Bench, seed: int) -> Trained:
    """The student of the queries' true labels."""
    return trained_on_labels(bench.queries.labels, bench, seed=seed)


def all_records_model(bench: Bench, seed: int) -> Trained:
    """A model like the student, of all private records without privacy."""
    return Trained(train_on_all_records(bench.student, bench.dataset, seed=Streams(seed).seeds("student", 1)[0]))
