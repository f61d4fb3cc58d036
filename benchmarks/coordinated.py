"""Coordinated votes beside plain ones, for teachers that give only labels: python -m benchmarks.coordinated.

A teacher votes for a label if its confidence is at least a threshold. Coordinated votes (Hot PATE, Cohen et al. 2026)
draw the threshold of each query and label as a public random number, the same for all teachers. The price is that of
plain votes: a teacher still gives one bit for each query and label. The released bits are then samples of the teachers'
confidences, from which a student may learn.

400 linear teachers of WordNet-40 vote on 600 queries with Gaussian noise, and the student of `gaussian_votes` learns
from the released labels. Printed is mean average precision / micro-F1, the mean over five seeds. Minutes on one core.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from pate.accounting import Budget
from pate.aggregators import GaussianVotes, TrainingSet
from pate.array_types import Float32Array, FloatArray, IntArray
from pate.comparison import Bench, PATEMethod
from pate.data import WordNet40
from pate.models import LinearStudent, LinearTeacher, StackedEngine
from pate.pricing.priced_release import plan_release
from pate.report import multilabel_metrics
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes

NUM_TEACHERS = 400
NUM_QUERIES = 600
EPSILONS = (2.0, 3.6, 8.0, 20.0)
SEEDS = range(5)
PUBLIC_SEED = 1  # of the public numbers


def confidences(bench: Bench, teacher: LinearTeacher) -> Float32Array:
    """Returns the confidence of each teacher in each label, `[T, Q, L]`, moved so that its threshold is 1/2."""
    method = PATEMethod(
        name="teachers",
        aggregator=GaussianVotes(noise_std=1.0),
        teacher=teacher,
        num_teachers=NUM_TEACHERS,
        student=LinearStudent(),
    )
    votes = method.votes(bench).require_type(TeacherVotes)
    return np.concatenate([np.asarray(block, np.float32) for block in votes.confidences()])


def score(bench: Bench, counts: IntArray, aggregator: GaussianVotes, seed: int) -> FloatArray:
    """Returns mean average precision and micro-F1 of the student of one release, `[2]`.

    Args:
        bench: the data.
        counts: the number of votes for each label of each query, `[Q, L]`.
        aggregator: the aggregator, with its noise.
        seed: the seed of noise and student.
    """
    release = aggregator.aggregate(
        counts, num_teachers=NUM_TEACHERS, rng=np.random.default_rng(seed)
    )
    student = LinearStudent().learn(
        TrainingSet(bench.queries.inputs, release.labels), pool=bench.pool, seed=seed
    )
    test = bench.dataset.test
    scores = multilabel_metrics(
        student.predict(test.inputs),
        scores=student.predict_proba(test.inputs),
        true_labels=test.labels,
    )
    return np.array([scores.mean_average_precision, scores.micro_f1])


def row(bench: Bench, votes: Float32Array, thresholds: FloatArray | float) -> str:
    """Returns the scores of a student for each epsilon, as cells of a table.

    Args:
        bench: the data.
        votes: the confidences of the teachers, `[T, Q, L]`.
        thresholds: the least confidence for a vote, one number or `[Q, L]`.
    """
    counts = np.count_nonzero(votes >= thresholds, axis=0)
    shape = VoteShape(num_queries=NUM_QUERIES, num_labels=votes.shape[2], num_teachers=NUM_TEACHERS)
    cells = []
    for epsilon in EPSILONS:
        plain = GaussianVotes(noise_std=1.0)
        priced_release = plan_release(plain, shape, Budget(epsilon=epsilon, delta=1e-6))
        aggregator = replace(plain, **priced_release.solved_for)
        means = np.mean([score(bench, counts, aggregator, seed) for seed in SEEDS], axis=0)
        cells.append("/".join(f"{mean:.3f}".lstrip("0") for mean in means))
    return " ".join(cells)


def main() -> None:
    """Prints a row for each kind of threshold."""
    console = Console(highlight=False, soft_wrap=True)
    dataset = WordNet40().load()
    numbers = np.random.default_rng(PUBLIC_SEED).random((NUM_QUERIES, dataset.num_labels))
    thresholds: Mapping[str, FloatArray | float] = {
        "no public number": 0.5,
        "public numbers in (.3, .7)": 0.3 + 0.4 * numbers,
        "public numbers in (0, 1)": numbers,
    }
    teachers = {
        "threshold of its own": LinearTeacher(),
        "threshold 1/2": LinearTeacher(threshold=0.5),
    }
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.for_dataset(
            dataset,
            load_dataset=lambda: dataset,
            num_queries=NUM_QUERIES,
            engine=StackedEngine(),
            student_recipe=LinearStudent(),
            ensemble_seed=0,
            folder=Path(folder),
        )
        (bench.folder / "ensembles").mkdir()
        console.print("epsilon", *EPSILONS)
        for teacher_name, teacher in teachers.items():
            votes = confidences(bench, teacher)
            for threshold_name, numbers_of_labels in thresholds.items():
                cells = row(bench, votes, numbers_of_labels)
                console.print(f"{teacher_name}, {threshold_name}: {cells}")


if __name__ == "__main__":
    main()
