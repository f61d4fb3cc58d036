"""Runs of sessions, in which only some queries (the hits) are charged; they release in rounds and can be continued."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import AutoAccountant, Ledger, RdpAccountant
from pate.aggregators import Aggregator, BoundaryTopK, NotPriorTopK
from pate.aggregators.session import Round
from pate.models import LinearStudent
from pate.run.plan import Plan
from pate.run.student_prior import StudentPrior
from pate.run.train import train
from pate.votes import VoteShape
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_TEACHERS,
    SilentMonitor,
    charges_beside,
    ledger_beside,
    release_bytes_of_run,
    small_plan,
)

Finished = tuple[str, Path, list[str]]  # name of the aggregator, folder, notes of the progress
NUM_QUERIES = 100
ROUNDS = 2
AGGREGATORS: dict[str, Aggregator] = {
    "boundary": BoundaryTopK(
        selection_scale=1.0,
        test_std=0.3,
        failure_prob=1e-9,
        target_hits=9,
        round_size=20,
        session_delta=1e-5,
    ),
    "not_prior": NotPriorTopK(
        selection_scale=1.0,
        target_hits=30,
        prior_scale=1.5,
        table_order=3.0,
        table_budget=4.0,
        first_queries=20,
        round_size=20,
        session_delta=1e-5,
    ),
}


def plan_of(name: str) -> Plan:
    """Returns the small plan with 100 queries and one of the `AGGREGATORS`, which charge hits only."""
    return replace(
        small_plan(),
        settings={"name": name},
        aggregator=AGGREGATORS[name],
        num_queries=NUM_QUERIES,
        accountant=AutoAccountant,
    )


def rounds_of(folder: Path) -> list[Round]:
    """Returns the rounds of a session that are committed to the ledger of a run."""
    ledger = Ledger.stored(ledger_beside(folder))
    rounds = []
    for key in ledger.keys:
        if ":round-" in key:
            arrays = np.load(io.BytesIO(ledger.read(key) or b""))
            rounds.append(
                Round(labels=arrays["labels"], answered=arrays["answered"], hits=arrays["hits"])
            )
    return rounds


class StopAfterRounds(SilentMonitor):
    """A monitor that interrupts a session after `ROUNDS` rounds, as Ctrl-C would."""

    def record_note(self, done: int, note: str = "") -> None:
        super().record_note(done, note)
        if len([note for note in self.notes if note]) == ROUNDS:
            raise KeyboardInterrupt


@pytest.fixture(scope="module", params=AGGREGATORS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Returns the aggregator's name, the folder of its finished run, and the note of each round."""
    folder = tmp_path_factory.mktemp("run") / "out"
    monitor = SilentMonitor()
    train(plan_of(name=request.param), output_dir=folder, monitor=monitor)
    return request.param, folder, [note for note in monitor.notes if note]


def test_report_shows_hits_and_the_price_of_plain_composition(finished: Finished) -> None:
    """The report counts the hits, abstentions and answers of a session, as its release has them.

    The report also states the epsilon of the session, and that of plain composition of all queries asked. The privacy
    card and report.html show some of these numbers.
    """
    name, folder, _ = finished
    report = json.loads((folder / "report.json").read_text())
    with np.load(folder / "release" / "release.npz") as release:
        hits = release["hits"]
        num_asked = int(release["num_asked"])
        answered = release["answered"]
    counts = report["release"]
    privacy = report["privacy"]
    assert counts["num_hits"] == hits.sum()
    assert counts["num_abstained"] == (hits & ~answered).sum()
    assert counts["num_asked"] == num_asked
    assert counts["num_answered"] == answered.sum()
    assert min(hits.sum(), answered.sum()) > 0
    assert counts["num_hits"] + counts["remaining_hits"] == privacy["target_hits"]
    aggregator = AGGREGATORS[name]
    plain_event = aggregator.plain_event(
        VoteShape(num_queries=num_asked, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
    )
    assert privacy["plain_epsilon"] == AutoAccountant().compose(plain_event).get_epsilon(
        target_delta=1e-5
    )
    event = aggregator.event(
        VoteShape(num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
    )
    auto_epsilon = AutoAccountant().compose(event).get_epsilon(target_delta=1e-5)
    renyi_epsilon = RdpAccountant().compose(event).get_epsilon(target_delta=1e-5)
    assert auto_epsilon <= privacy["epsilon"] <= renyi_epsilon, (
        "the plan's price or the ledger's total, the larger of both"
    )
    card = (folder / "release" / "privacy_card.md").read_text()
    assert f"| hits | {hits.sum()} |" in card
    assert "plain composition" in card
    assert "abstentions" in (folder / "report.html").read_text()


def test_progress_and_tensorboard_show_hits_and_epsilon_of_each_round(finished: Finished) -> None:
    """Each round of a session writes a note beside the progress bar, with the hits and the epsilon so far.

    In TensorBoard each round is a step.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _, folder, notes = finished
    rounds = rounds_of(folder)
    assert len(notes) == len(rounds) > 1
    assert notes[-1].startswith(f"{sum(int(outcome.hits.sum()) for outcome in rounds)} hits, ")
    assert "epsilon" in notes[-1]
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    for tag in ("session/hits", "session/remaining_hits", "session/epsilon"):
        assert len(events.Scalars(tag)) == len(notes), tag


def test_a_run_stopped_between_rounds_ends_with_the_same_release(
    finished: Finished, tmp_path: Path
) -> None:
    """A session that is interrupted after two rounds and continued has the release and charges of a whole one."""
    run_folder = tmp_path / "run"
    name, folder, _ = finished
    with pytest.raises(KeyboardInterrupt):
        train(plan_of(name), output_dir=run_folder, monitor=StopAfterRounds())
    assert len(rounds_of(run_folder)) == ROUNDS
    assert not (run_folder / "release" / "release.npz").exists()
    train(plan_of(name), output_dir=run_folder)
    assert release_bytes_of_run(run_folder) == release_bytes_of_run(folder)
    assert charges_beside(run_folder) == charges_beside(folder)


def test_a_student_expects_nothing_before_anything_was_answered() -> None:
    """A student that serves as prior predicts no label as long as no query was answered.

    Later, with `never_empty`, it predicts at least one label of each query.
    """
    inputs = np.eye(6, dtype=np.float32)
    prior = StudentPrior(student_recipe=LinearStudent(), inputs=inputs, seed=0, never_empty=True)
    labels = np.array([[True, False], [False, True]])
    assert not prior(labels[:0], answered=np.zeros(0, bool), num_queries=3).any()
    no_labels = np.zeros_like(labels)
    assert not prior(no_labels, answered=np.zeros(2, bool), num_queries=3).any()
    expected = prior(labels, answered=np.ones(2, bool), num_queries=4)
    assert expected.shape == (4, 2)
    assert expected.any(axis=1).all()
