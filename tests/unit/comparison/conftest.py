"""A frontier of made-up runs, that is, their scores by epsilon, and parts of small comparisons.

In the frontier, the best constant has the score 0.2, and the ceiling 0.6.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pate.accounting import RdpAccountant
from pate.aggregators import Aggregator, GaussianVotes
from pate.comparison import Bench, ComparisonPlan, Frontier, Method, PATEMethod, Run
from pate.data import Dataset
from pate.models import LinearStudent, LinearTeacher, StackedEngine
from tests.e2e.small_run import NUM_QUERIES, NUM_TEACHERS, small_dataset

VOTES = GaussianVotes(noise_std=1.0)


def pate_method(name: str, aggregator: Aggregator, num_teachers: int = NUM_TEACHERS) -> PATEMethod:
    """Returns a method of PATE with an aggregator, linear teachers and a linear student, under a name."""
    return PATEMethod(
        name=name,
        aggregator=aggregator,
        teacher=LinearTeacher(device="cpu"),
        num_teachers=num_teachers,
        student=LinearStudent(),
    )


def small_bench(comparison_folder: Path = Path("nowhere"), dataset: Dataset | None = None) -> Bench:
    """Returns the bench of a small comparison: the data set and the parts that all methods share.

    Args:
        comparison_folder: the folder of the comparison, in which the bench keeps its files.
        dataset: the data set; None for the small one.
    """
    bench_dataset = dataset or small_dataset()
    return Bench.for_dataset(
        bench_dataset,
        load_dataset=lambda: bench_dataset,
        folder=comparison_folder,
        num_queries=NUM_QUERIES,
        engine=StackedEngine(),
        student_recipe=LinearStudent(),
        ensemble_seed=0,
    )


def small_comparison_plan(
    methods: tuple[Method, ...] = (),
    *,
    load_dataset: Callable[[], Dataset] = small_dataset,
    num_queries: int = NUM_QUERIES,
    target_delta: float = 1e-5,
    epsilons: tuple[float, ...] = (5.0, 50.0),
    seeds: tuple[int, ...] = (0, 1),
    ensemble_seed: int = 0,
    allow_useless: bool = True,
    name: str = "small",
) -> ComparisonPlan:
    """Returns the plan of a small comparison; if no methods are passed, Gaussian votes are the only method."""
    return ComparisonPlan(
        load_dataset=load_dataset,
        methods=methods or (pate_method(name="votes", aggregator=VOTES),),
        engine=StackedEngine(),
        student=LinearStudent(),
        num_queries=num_queries,
        target_delta=target_delta,
        accountant=RdpAccountant,
        epsilons=epsilons,
        seeds=seeds,
        ensemble_seed=ensemble_seed,
        num_workers=1,
        allow_useless=allow_useless,
        settings={"name": name},
    )


def run_with_scores(
    name: str,
    micro_f1: float | None,
    *,
    teacher: str | None = None,
    num_teachers: int | None = None,
) -> Run:
    """Returns a run without an epsilon, with a micro-F1 and fixed other scores; None gives a run without scores."""
    has_scores = micro_f1 is not None
    return Run(
        aggregator=name,
        num_queries=600,
        accuracy=0.9 if has_scores else None,
        balanced_accuracy=0.5 if has_scores else None,
        micro_f1=micro_f1,
        macro_f1=0.1 if has_scores else None,
        mean_average_precision=None,
        teacher=teacher,
        num_teachers=num_teachers,
    )


def private_run(
    method_name: str,
    epsilon: float,
    micro_f1: float | None,
    seed: int | None = 0,
    *,
    teacher: str | None = "linear",
    num_teachers: int | None = 400,
    student: str | None = "linear",
    note: str = "",
) -> Run:
    """Returns a run of a private method at an epsilon.

    Without a micro-F1 the run has no scores and answered no query, for the reason `note`.
    """
    return replace(
        run_with_scores(
            name=method_name, micro_f1=micro_f1, teacher=teacher, num_teachers=num_teachers
        ),
        adjacency="replace_one",
        epsilon=epsilon,
        delta=1e-6,
        accountant="rdp",
        seed=seed,
        num_answered=None if micro_f1 is None else 300,
        student=student,
        note=note,
    )


@pytest.fixture
def frontier() -> Frontier:
    """Returns the frontier of made-up baselines and runs of three methods.

    The methods are `late`, which reaches no goal, `early` with 400 and 2000 teachers, and `never<b>`, which has no
    scores.
    """
    runs = [
        run_with_scores(name="prior", micro_f1=0.1),
        run_with_scores(name="best_constant", micro_f1=0.2),
        run_with_scores(name="true_label_student", micro_f1=0.58),
        run_with_scores(name="all_records_model", micro_f1=0.6),
        run_with_scores(
            name="majority_vote_student", micro_f1=0.55, teacher="linear", num_teachers=400
        ),
        *(
            private_run(method_name="late", epsilon=epsilon, micro_f1=micro_f1, seed=seed)
            for epsilon in (1.0, 8.0)
            for seed, micro_f1 in enumerate((0.1, 0.3))
        ),
        private_run(method_name="early", epsilon=1.0, micro_f1=0.45, num_teachers=2000),
        private_run(method_name="early", epsilon=8.0, micro_f1=0.5, num_teachers=2000),
        private_run(method_name="early", epsilon=1.0, micro_f1=0.3),
        private_run(method_name="early", epsilon=8.0, micro_f1=0.55),
        private_run(
            method_name="never<b>",
            epsilon=1.0,
            micro_f1=None,
            seed=None,
            note="target_epsilon=1: expected more",
        ),
        private_run(
            method_name="never<b>",
            epsilon=8.0,
            micro_f1=None,
            seed=None,
            note="target_epsilon=8: expected more",
        ),
    ]
    return Frontier(
        runs=tuple(runs), metric="micro_f1", dataset="made up", real=False, num_test=1234
    )
