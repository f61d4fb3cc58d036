"""A small data set, and a plan on it whose whole run takes about a second."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Ledger, RdpAccountant
from pate.accounting.event_json import event_to_json
from pate.aggregators import Aggregator, StableTopK
from pate.data import Dataset, Split
from pate.data.dataset import Kind
from pate.models import LinearStudent, LinearTeacher, SequentialEngine, StackedEngine
from pate.progress import Advance, Monitor
from pate.run.plan import Plan
from pate.run.train import train
from pate.votes.moment_votes import MomentVotes
from pate.votes.round_votes import RoundQuestion

NUM_TEACHERS = 24
NUM_QUERIES = 40
NUM_LABELS = 5
NUM_HOLDERS = 4  # of a seeded plan
SEED = 6


def dataset_cut_at(
    inputs: np.ndarray,
    labels: np.ndarray,
    *,
    stops: tuple[int, int, int],
    label_names: tuple[str, ...],
    name: str = "small",
    kind: Kind = "features",
) -> Dataset:
    """Returns a data set whose private, public and test records end at the three indexes of `stops`."""
    ids = np.arange(len(inputs))
    private, public, test = (
        Split(
            inputs[start:stop],
            labels[start:stop],
            record_ids=ids[start:stop],
            group_ids=ids[start:stop],
        )
        for start, stop in pairwise((0, *stops))
    )
    return Dataset(
        name=name,
        kind=kind,
        real=False,
        private=private,
        public=public,
        test=test,
        label_names=label_names,
    )


def small_dataset() -> Dataset:
    """Returns a data set of 960 private, 140 public and 300 test records.

    A label is true if a record, plus some noise, lies on one side of the label's random hyperplane.
    """
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((1400, 8)).astype(np.float32)
    directions = rng.standard_normal((8, NUM_LABELS))
    noise = rng.standard_normal((1400, NUM_LABELS))
    labels = inputs @ directions + 0.3 * noise > np.array([0.0, 0.5, 1.0, 2.0, -0.5])
    names = tuple(f"label_{index}" for index in range(NUM_LABELS))
    return dataset_cut_at(inputs, labels, stops=(960, 1100, 1400), label_names=names)


def ledger_beside(run_folder: Path) -> Path:
    """Returns the default ledger of a run, which all runs in the same parent folder share."""
    return run_folder.parent / "ledger.db"


def charges_beside(run_folder: Path) -> list[dict[str, Any]]:
    """Returns event, epsilon, draw number and name of the noise's seed of each charge in the ledger beside a run."""
    if not ledger_beside(run_folder).exists():
        return []
    entries = Ledger.stored(ledger_beside(run_folder)).entries
    return [
        {
            "event": event_to_json(entry.event),
            "epsilon": entry.epsilon,
            "draw": entry.draw,
            "noise": entry.seed_name,
        }
        for entry in entries
    ]


def part_names_of_release(run_folder: Path) -> list[str]:
    """Returns the names of the drawn parts of a release, such as `prevalence`, that the ledger beside a run stores."""
    return [key.partition(":")[2] for key in Ledger.stored(ledger_beside(run_folder)).keys]


class SilentMonitor(Monitor):
    """A monitor that prints nothing and records stages, notes and lines.

    When a stage begins whose name starts with `stop_at`, the monitor raises `KeyboardInterrupt`, as if the run was
    killed.
    """

    def __init__(self, stop_at: str | None = None) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.lines: list[str] = []
        self.stop_at = stop_at

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        self.stages.append(name)
        if self.stop_at is not None and name.startswith(self.stop_at):
            raise KeyboardInterrupt
        yield self.record_note

    def record_note(self, done: int, note: str = "") -> None:
        """Records the note that a step shows beside the progress bar; `done`, the number of steps, is not kept."""
        self.notes.append(note)

    def say(self, line: str) -> None:
        self.lines.append(line)


def run_until(plan: Plan, folder: Path, stage: str) -> SilentMonitor:
    """Runs a plan and interrupts it when a stage begins; returns the monitor."""
    monitor = SilentMonitor(stop_at=stage)
    with pytest.raises(KeyboardInterrupt):
        train(plan, output_dir=folder, monitor=monitor)
    return monitor


def run_until_released(plan: Plan, folder: Path) -> bytes:
    """Runs a plan until the release is written, and returns the bytes of the release."""
    run_until(plan, folder, stage="training the student")
    return release_bytes_of_run(folder)


def watch_sums(patch: pytest.MonkeyPatch, max_sums: int | None = None) -> list[RoundQuestion]:
    """Records from now on, in the list that it returns, the question that all teachers answer for each sum of a round.

    After `max_sums` sums it raises `KeyboardInterrupt` in place of the next one, as if the run was killed.
    """
    compute_sum = MomentVotes.total
    questions: list[RoundQuestion] = []

    def record_and_compute_sum(moment_votes: MomentVotes, question: RoundQuestion) -> np.ndarray:
        if len(questions) == max_sums:
            raise KeyboardInterrupt
        questions.append(question)
        return compute_sum(moment_votes, question)

    patch.setattr(MomentVotes, "total", record_and_compute_sum)
    return questions


def release_bytes_of_run(run_folder: Path) -> bytes:
    """Returns the bytes of `release/release.npz` in the folder of a run."""
    return (run_folder / "release" / "release.npz").read_bytes()


def small_plan() -> Plan:
    """Returns a plan for the small data set; a test replaces the fields that it is about."""
    return Plan(
        load_dataset=small_dataset,
        teacher=LinearTeacher(device="cpu"),
        num_teachers=NUM_TEACHERS,
        engine=StackedEngine(),
        aggregator=StableTopK(selection_scale=2.0, test_std=1.0, failure_prob=1e-8),
        student=LinearStudent(),
        num_queries=NUM_QUERIES,
        accountant=RdpAccountant,  # a report prices every prefix of the queries
        target_delta=1e-5,
        allow_useless=True,  # so few teachers are hardly heard
        all_records=False,
        seed=3,
        settings={"name": "small"},
    )


def seeded_plan(aggregator: Aggregator) -> Plan:
    """Returns a plan with a seed and sequentially trained teachers, so that its files can be repeated byte by byte."""
    return replace(
        small_plan(),
        aggregator=aggregator,
        target_epsilon=50.0,
        seed=SEED,
        holders=NUM_HOLDERS,
        engine=SequentialEngine(),
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, by their relative paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@contextmanager
def without_pictures() -> Iterator[None]:
    """Leaves the pictures out of reports, as drawing them takes longer than the small run itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pate.report.page.pictures", lambda *_, **__: {})
        yield
