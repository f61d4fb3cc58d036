"""Runs that were killed say what they find when they are continued, and do none of it again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pate.models import LinearTeacher, MLPStudent, SequentialEngine
from pate.models.shards import Shard
from pate.models.teacher import State
from pate.run.train import train
from tests.e2e.small_run import (
    NUM_TEACHERS,
    SilentMonitor,
    release_bytes_of_run,
    run_until,
    small_plan,
)

FOUND = "continues a run that was stopped; "


def continue_run(folder: Path) -> tuple[SilentMonitor, list[str]]:
    """Continues the small run to its end; returns the monitor, and what the run prints about steps done before."""
    monitor = SilentMonitor()
    train(small_plan(), output_dir=folder, monitor=monitor)
    return monitor, [line.partition(FOUND)[2] for line in monitor.lines if FOUND in line]


def test_a_new_run_reports_no_earlier_step(tmp_path: Path) -> None:
    """A run in a new folder prints no line about earlier steps."""
    assert continue_run(folder=tmp_path / "run")[1] == []


@pytest.mark.parametrize(
    ("stage", "found"),
    [
        ("casting votes", f"{NUM_TEACHERS} of {NUM_TEACHERS} teachers are there"),
        ("releasing labels", f"the votes of all {NUM_TEACHERS} teachers are there"),
        (
            "training the student",
            f"the votes of all {NUM_TEACHERS} teachers are there; the release is drawn and paid for",
        ),
        (
            "training the majority",
            f"the votes of all {NUM_TEACHERS} teachers are there; the release is drawn and paid for; trained: student",
        ),
        (
            "writing the report",
            f"the votes of all {NUM_TEACHERS} teachers are there; the release is drawn and paid for; "
            "trained: majority vote student, student",
        ),
    ],
)
def test_finished_steps_are_reported_and_not_repeated(
    tmp_path: Path, stage: str, found: str
) -> None:
    """A run stopped as a stage began prints one line on its earlier steps when continued, and repeats none of them."""
    run_until(small_plan(), folder=tmp_path / "run", stage=stage)
    monitor, lines = continue_run(folder=tmp_path / "run")
    assert lines == [found]
    assert "training teachers" not in monitor.stages
    _, _, trained_models = found.partition("trained: ")
    trained_before = trained_models.split(", ")
    if stage == "writing the report":
        trained_before.append("true label student")  # which lies beside the run, for other runs too
    for model in ("student", "majority vote student", "true label student"):
        assert (f"training the {model}" in monitor.stages) == (model not in trained_before)
    assert not (tmp_path / "run" / "models").exists(), "a finished run needs them no more"


def test_a_student_that_is_read_back_leaves_the_same_bytes(
    tmp_path: Path,
) -> None:
    """A run that is stopped after its student is trained, and continued, has the release and student of a whole run.

    Files agree to the last byte, and the scores in the reports are equal.
    """
    plan = replace(small_plan(), student=MLPStudent(hidden=4, epochs=3))
    run_until(plan, folder=tmp_path / "run", stage="writing the report")
    report = train(plan, output_dir=tmp_path / "run")
    uninterrupted = train(plan, output_dir=tmp_path / "whole")
    assert release_bytes_of_run(run_folder=tmp_path / "run") == release_bytes_of_run(
        run_folder=tmp_path / "whole"
    )
    for name in ("student.safetensors", "student.json"):
        path = Path("release/student", name)
        assert (tmp_path / "run" / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()
    assert report.student == uninterrupted.student
    assert report.baselines == uninterrupted.baselines


@pytest.mark.parametrize("name", ["student.safetensors", "student.json", "trained.json"])
def test_a_damaged_student_is_trained_again(tmp_path: Path, name: str) -> None:
    """A continued run trains the student again if one bit of a file of the stored student is inverted."""
    run_until(small_plan(), folder=tmp_path / "run", stage="training the majority")
    path = tmp_path / "run/models/student" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert "training the student" in continue_run(folder=tmp_path / "run")[0].stages


def test_ten_of_thirty_teachers_are_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run killed at its eleventh of 30 teachers, which are trained in turn, finds ten of them when continued."""
    fit_many = LinearTeacher.fit_many
    num_begun = 0

    def fit_or_interrupt(
        self: LinearTeacher, shards: Sequence[Shard], seeds: Sequence[int]
    ) -> list[State]:
        nonlocal num_begun
        num_begun += 1
        if num_begun > 10:
            raise KeyboardInterrupt
        return fit_many(self, shards, seeds)

    plan = replace(small_plan(), num_teachers=30, engine=SequentialEngine())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LinearTeacher, "fit_many", fit_or_interrupt)
        train(plan, output_dir=tmp_path / "run")
    monitor = SilentMonitor()
    train(plan, output_dir=tmp_path / "run", monitor=monitor)
    assert any(line.endswith(f"{FOUND}10 of 30 teachers are there") for line in monitor.lines)
