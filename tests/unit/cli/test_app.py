import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import OmegaConf

from pate.cli import app
from pate.device import DeviceFull
from pate.models.training import WorkersLost
from pate.setting_names import COMMAND
from tests.e2e.commands import succeeded

AGAIN = "; the same command continues once that is mended\n"


@pytest.fixture
def ended_with(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., tuple[object, str]]:
    """Returns a function that runs a command whose application raises an error or calls a function.

    The returned function gives the exit code, and what was printed to standard error.
    """
    monkeypatch.setattr(sys, "argv", ["pate-train"])
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)

    def run_hydra(side_effect: Any) -> tuple[object, str]:
        """Runs a command whose application is a mock with this side effect; returns the code and standard error."""
        application = MagicMock(side_effect=side_effect)
        monkeypatch.setattr(app, "run_application", application)
        with pytest.raises(SystemExit) as stopped:
            app.run_app(task=lambda config: None, command="train")
        return stopped.value.code, capsys.readouterr().err

    return run_hydra


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError('no "srun"'),
            'hydra/launcher=submitit_slurm: expected a Slurm cluster (no "srun")\n',
        ),
        (WorkersLost("worker processes died"), f"WorkersLost: worker processes died{AGAIN}"),
        (
            DeviceFull("CUDA out of memory (a smaller)"),
            f"DeviceFull: CUDA out of memory (a smaller){AGAIN}",
        ),
    ],
)
def test_errors_outside_our_code_print_one_line(
    error: Exception, line: str, ended_with: Any
) -> None:
    """Errors of Slurm, lost workers and a full GPU end a command with code 1 and one line; other errors are raised."""
    assert ended_with(side_effect=error) == (1, line)
    with pytest.raises(RuntimeError, match="a fault"):  # of ours, which keeps its traceback
        ended_with(side_effect=RuntimeError("a fault"))


def test_error_of_a_job_in_another_process_sets_the_exit_code(
    ended_with: Any, tmp_path: Path
) -> None:
    """If a job of a sweep in another process is refused, the command prints the refusal and ends with code 2.

    The processes share only the sweep's folder. The code is that of the first job with a refusal. A new sweep in the
    folder forgets these refusals.
    """
    sweep = OmegaConf.create({"hydra": {"mode": RunMode.MULTIRUN, "sweep": {"dir": str(tmp_path)}}})
    notes = app.SweepEnds()

    def run(*_: Any, **__: Any) -> None:
        for number, value in (
            (0, None),
            (1, {"epsilon": 1.0}),
            (3, {"note": "another", "code": 1}),
            (2, {"note": "seed=-1: expected one", "code": 2}),
        ):
            job = OmegaConf.merge(sweep, {"hydra": {"job": {"num": number}}})
            result = JobReturn(status=JobStatus.COMPLETED, _return_value=value)
            app.SweepEnds().on_job_end(job, job_return=result)  # type: ignore[arg-type]
        notes.on_multirun_end(sweep)

    assert ended_with(side_effect=run) == (2, "seed=-1: expected one\n")
    notes.on_multirun_start(sweep)
    app.SweepEnds.last.clear()
    notes.on_multirun_end(sweep)
    assert app.SweepEnds.last == []


def test_full_disk_in_the_tensorboard_thread_is_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An `OSError` in the thread of TensorBoard's writer is not printed, but an error in another thread is."""

    class Writer(threading.Thread):
        __module__ = "tensorboard.summary.writer.event_file_writer"

    for thread, error, printed in (
        (Writer(), OSError(28, "full"), False),
        (threading.Thread(), OSError(), True),
    ):
        app._print_thread_error(
            failure=threading.ExceptHookArgs((type(error), error, None, thread))
        )
        assert bool(capsys.readouterr().err) == printed


def test_cyclic_causes_of_an_error_are_walked_once() -> None:
    """If two errors are each other's `__context__`, the search for causes ends and raises the first error.

    If an interruption is among these contexts, the interruption is raised.
    """
    first = ValueError("first")
    second = ValueError("second")
    first.__context__ = second
    second.__context__ = first
    with pytest.raises(ValueError, match=r"^first$"):
        app._line_and_code(first, spelling_of_settings=COMMAND)
    second.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        app._line_and_code(first, spelling_of_settings=COMMAND)


@pytest.mark.slow
def test_options_may_stand_between_settings(tmp_path: Path) -> None:
    """The option `--config-dir FOLDER` between settings is read, so that an aggregator of that folder is priced.

    Hydra is cleared afterwards.
    """
    (tmp_path / "aggregator").mkdir()
    (tmp_path / "aggregator" / "mine.yaml").write_text(
        "defaults: [gaussian_votes]\nnoise_std: 77.0\n"
    )
    ended = succeeded(
        "account",
        arguments=[
            "num_queries=10",
            "--config-dir",
            str(tmp_path),
            "aggregator=mine",
            "format=json",
        ],
    )
    assert '"noise_std": 77.0' in ended.stdout
    assert not HydraConfig.initialized(), "a command leaves nothing to the next one in the process"


@pytest.mark.slow
def test_task_sees_the_arguments_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a command runs, `sys.argv` is as the user typed it, so that a ledger can record it."""
    typed = ["pate-account", "num_teachers=100", "adjacency=add_remove"]
    monkeypatch.setattr(sys, "argv", typed)
    seen_arguments = []
    app.run_app(task=lambda config: seen_arguments.append(list(sys.argv)), command="account")
    assert seen_arguments == [typed]
