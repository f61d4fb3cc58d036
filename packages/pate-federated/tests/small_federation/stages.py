"""Functions here run the steps of a small federation: holders cast votes, a server releases, a student is trained.

Data and settings are those of tests/e2e/small_run.py. The 24 teachers are divided among a given number of holders.
Other functions kill a step at each file that it replaces, or compare its files with those of `train`.
"""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pate.aggregators import StableTopK
from pate.run.plan import Plan
from pate.run.queries import Queries
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate_federated.cohorts import cohort_of_votes
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.student_training import StudentPlan, train_on_release
from pate_federated.vote_casting import HolderPlan, cast_vote_file
from tests.e2e.small_run import (
    NUM_HOLDERS,
    NUM_TEACHERS,
    SilentMonitor,
    contents,
    seeded_plan,
)

Votes = dict[str, list[Path]]  # files of all holders, by what was cast


def deployed_plan(num_holders: int) -> Plan:
    """Returns the settings that all processes of a federation with `num_holders` holders share."""
    return replace(seeded_plan(StableTopK(selection_scale=2.0, test_std=1.0)), holders=num_holders)


def holder_plan(plan: Plan, holder: int | str, num_holders: int = NUM_HOLDERS) -> HolderPlan:
    """Returns the plan of one of the holders among whom the records are divided."""
    return HolderPlan(
        load_dataset=plan.load_dataset,
        teacher=plan.teacher,
        num_teachers=NUM_TEACHERS // num_holders,
        engine=plan.engine,
        holder=str(holder),
        holders=num_holders,
        num_queries=plan.num_queries,
        seed=plan.seed,
        settings={"name": "small", "holder": str(holder)},
    )


def cast_votes(plan: HolderPlan, vote_folder: Path) -> Path:
    """Casts the votes of a holder into a file in a folder, and returns its path."""
    path = vote_folder / f"{plan.holder}.npz"
    cast_vote_file(
        plan, output=path, output_dir=vote_folder / f"{plan.holder}.work", monitor=SilentMonitor()
    )
    return path


def make_queries_loader(plan: Plan) -> Callable[[], Queries]:
    """Returns a function that loads the queries of a plan's data set."""
    return lambda: Queries.of(plan.load_dataset())


def release_plan(plan: Plan) -> ReleasePlan:
    """Returns the plan of a run's release, which is not refused if its labels are useless."""
    return ReleasePlan(
        aggregator=plan.aggregator,
        target_delta=plan.target_delta,
        target_epsilon=plan.target_epsilon,
        accountant=plan.accountant,
        student=plan.student,
        queries=make_queries_loader(plan),
        allow_useless=True,
        seed=plan.seed,
        settings={"name": "small"},
    )


def release(
    plan: ReleasePlan,
    vote_paths: list[Path],
    output_folder: Path,
    monitor: SilentMonitor | None = None,
) -> Terms:
    """Releases the votes of the files at `vote_paths` into a folder, and returns the terms of the release."""
    vote_source = GatheredVotes.read(vote_paths)
    return release_votes(
        plan,
        vote_source=vote_source,
        cohort=cohort_of_votes(vote_source),
        output_dir=output_folder,
        monitor=monitor or SilentMonitor(),
    )


def train_student(plan: Plan, release_folder: Path, output_folder: Path | None = None) -> None:
    """Trains the student of a release in a folder, and writes it to the output folder, or beside the release."""
    student_plan = StudentPlan(
        student=plan.student, queries=make_queries_loader(plan), seed=plan.seed
    )
    train_on_release(
        student_plan, release_path=release_folder, output=output_folder, monitor=SilentMonitor()
    )


def require_the_same(train: Path, apart: Path) -> None:
    """Fails unless separate steps have written the same release and student as a run of `train`.

    Args:
        train: the folder of the run, which stopped before its baselines.
        apart: the folder of the separate steps.
    """
    files_of_run = contents(train / "release")
    files_of_stages = contents(apart / "release")
    assert files_of_run.keys() == {
        "release.npz",
        "student/student.json",
        "student/student.safetensors",
    }
    assert {file: files_of_stages[file] for file in files_of_run} == files_of_run


def after_kills(folder: Path, task: Callable[[Path], object]) -> Iterator[Path]:
    """Yields a folder for each file that a task replaces, in which the task was killed at this file.

    The kill comes before the first file, after the second, before the third, and so on.

    Args:
        folder: the parent of these folders.
        task: writes its files into the folder that it receives.
    """
    for number in count():
        folder_of_kill = folder / str(number)
        if not killed_at(
            file_number=number + 1, task=partial(task, folder_of_kill), after=bool(number % 2)
        ):
            return
        yield folder_of_kill


def killed_at(file_number: int, task: Callable[[], object], *, after: bool) -> bool:
    """Runs a task in a child process that is killed at one of the files it replaces; returns whether it was killed.

    The child is not killed if the task replaces fewer files.

    Args:
        file_number: the number of the file, from 1 on.
        task: the function that the child runs.
        after: whether the child is killed after the file is replaced, or before.
    """
    child = os.fork()
    if child == 0:  # the child must not go on with the test
        num_files_left = file_number
        real_replace = os.replace

        def replace_or_die(source: Any, target: Any) -> None:
            nonlocal num_files_left
            num_files_left -= 1
            if num_files_left == 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            real_replace(source, target)
            if num_files_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with patch.object(os, "replace", replace_or_die):
                task()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the child raised"
    return False
