"""The stages of the small run apart: as many holders as one likes, the aggregator, whoever trains the student."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from pate.aggregators import StableTopK
from pate.run.plan import Plan
from pate.run.queries import Queries
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate_federated.cohorts import cohort_of_votes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.student_training import StudentPlan, train_on_release
from pate_federated.vote_casting import HolderPlan, cast_vote_file
from tests.e2e.small_run import (
    HOLDERS,
    NUM_TEACHERS,
    SilentMonitor,
    contents,
    seeded_plan,
)

Votes = dict[str, list[Path]]  # files of all holders, by what was cast


def deployed_plan(holders: int) -> Plan:
    """The settings that all processes of a federation share."""
    return replace(seeded_plan(StableTopK(selection_scale=2.0, test_std=1.0)), holders=holders)


def holder_plan(
    plan: Plan, holder: int | str, holders: int = HOLDERS, **changes: Any
) -> HolderPlan:
    """Returns the plan of one of the holders among which the records are divided."""
    plan_made = HolderPlan(
        load_dataset=plan.load_dataset,
        teacher=plan.teacher,
        num_teachers=NUM_TEACHERS // holders,
        engine=plan.engine,
        holder=str(holder),
        holders=holders,
        num_queries=plan.num_queries,
        seed=plan.seed,
        settings={"name": "small", "holder": str(holder)},
    )
    return replace(plan_made, **changes)


def cast(plan: HolderPlan, folder: Path) -> Path:
    path = folder / f"{plan.holder}.npz"
    cast_vote_file(plan, path, folder / f"{plan.holder}.work", SilentMonitor())
    return path


def queries_of(plan: Plan) -> Callable[[], Queries]:
    return lambda: Queries.of(plan.load_dataset())


def release_plan(plan: Plan, **changes: Any) -> ReleasePlan:
    plan_made = ReleasePlan(
        aggregator=plan.aggregator,
        target_delta=plan.target_delta,
        target_epsilon=plan.target_epsilon,
        accountant=plan.accountant,
        student=plan.student,
        queries=queries_of(plan),
        allow_useless=True,
        seed=plan.seed,
        settings={"name": "small"},
    )
    return replace(plan_made, **changes)


def release(
    plan: ReleasePlan, paths: list[Path], folder: Path, monitor: SilentMonitor | None = None
) -> Terms:
    votes = GatheredVotes.read(paths)
    return release_votes(plan, votes, cohort_of_votes(votes), folder, monitor or SilentMonitor())


def student(plan: Plan, folder: Path, output: Path | None = None) -> None:
    plan_made = StudentPlan(student=plan.student, queries=queries_of(plan), seed=plan.seed)
    train_on_release(plan_made, folder, output, SilentMonitor())


def require_the_same(train: Path, apart: Path) -> None:
    """Returns the files of a run that stopped before its baselines, and of its separate stages."""
    files_of_run = contents(train / "release")
    files_of_stages = contents(apart / "release")
    assert files_of_run.keys() == {
        "release.npz",
        "student/student.json",
        "student/student.safetensors",
    }
    assert {file: files_of_stages[file] for file in files_of_run} == files_of_run


def after_kills(folder: Path, task: Callable[[Path], object]) -> Iterator[Path]:
    """Returns the files of a task that is killed at each of its files, before or after writing it in turn."""
    for number in count():
        folder_of_kill = folder / str(number)
        if not killed_at(number + 1, task=partial(task, folder_of_kill), after=bool(number % 2)):
            return
        yield folder_of_kill


def killed_at(number: int, task: Callable[[], object], *, after: bool) -> bool:
    """Returns True if a child process was killed at the n-th file that it replaces, and False if it finished."""
    child = os.fork()
    if child == 0:  # nothing of the test may run on in here
        left = number
        real = os.replace

        def replaced(source: Any, target: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            real(source, target)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        counted: Any = replaced
        os.replace = counted
        try:
            task()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the child raised"
    return False
