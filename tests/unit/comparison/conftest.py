"""A comparison of three aggregators whose numbers are made up: a constant 0.2, the ceiling 0.6."""

from typing import Any

import pytest

from pate.comparison import Frontier, Run

SCORES = {"accuracy": 0.9, "balanced_accuracy": 0.5, "macro_f1": 0.1, "mean_average_precision": None}


def scored(name: str, micro_f1: float | None, **fields: Any) -> Run:
    scores = SCORES if micro_f1 is not None else dict.fromkeys(SCORES)
    return Run(aggregator=name, num_queries=600, micro_f1=micro_f1, **(scores | fields))


def released(name: str, epsilon: float, micro_f1: float | None, seed: int | None = 0, **fields: Any) -> Run:
    given = {"adjacency": "replace_one", "delta": 1e-6, "accountant": "rdp", "teacher": "linear", "student": "linear"}
    given |= {"num_teachers": 400, "num_answered": None if micro_f1 is None else 300}
    return scored(name, micro_f1, epsilon=epsilon, seed=seed, **(given | fields))


@pytest.fixture
def frontier() -> Frontier:
    runs = [
        scored("prior", 0.1),
        scored("best_constant", 0.2),
        scored("true_label_student", 0.58),
        scored("all_records_model", 0.6),
        scored("majority_vote_student", 0.55, teacher="linear", num_teachers=400),
        *(released("late", epsilon, value, seed) for epsilon in (1.0, 8.0) for seed, value in enumerate((0.1, 0.3))),
        released("early", 1.0, 0.45, num_teachers=2000),
        released("early", 8.0, 0.5, num_teachers=2000),
        released("early", 1.0, 0.3),
        released("early", 8.0, 0.55),
        released("never<b>", 1.0, None, None, note="target_epsilon=1: expected more"),
        released("never<b>", 8.0, None, None, note="target_epsilon=8: expected more"),
    ]
    return Frontier(runs=tuple(runs), metric="micro_f1", dataset="made up", real=False, num_test=1234)
