import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig

from pate.cli import app
from pate.models.engines import WorkersLost
from pate.networks.device import DeviceFull
from tests.e2e.commands import call


def ended_with(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str]:
    """The exit code and what was said of an error that comes through Hydra."""
    monkeypatch.setattr(sys, "argv", ["pate-train"])
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(app, "start", failing)
    with pytest.raises(SystemExit) as stopped:
        app.run_app(lambda config: None, "train")
    return stopped.value.code, capsys.readouterr().err


AGAIN = "; the same command continues once that is mended\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError('no "srun"'), 'hydra/launcher=submitit_slurm: expected a Slurm cluster (no "srun")\n'),
        (WorkersLost("worker processes died"), f"WorkersLost: worker processes died{AGAIN}"),
        (DeviceFull("CUDA out of memory (a smaller)"), f"DeviceFull: CUDA out of memory (a smaller){AGAIN}"),
    ],
)
def test_what_is_no_fault_of_ours_is_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_with(error, monkeypatch, capsys) == (1, line)


def test_what_ended_a_job_wherever_it_ran_is_said_and_the_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pate-train"])
    jobs = [None, {"epsilon": 1.0}, {"note": "seed=-1: expected one", "code": 2}, {"note": "another", "code": 1}]
    monkeypatch.setattr(app, "start", lambda *_: jobs)
    with pytest.raises(SystemExit, match=r"^2$"):
        app.run_app(lambda config: None, "train")
    assert capsys.readouterr().err == "seed=-1: expected one\n"


def test_other_faults_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="a fault"):
        ended_with(RuntimeError("a fault"), monkeypatch, capsys)


def test_a_full_disk_in_the_thread_of_events_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    class Writer(threading.Thread):
        __module__ = "tensorboard.summary.writer.event_file_writer"

    for thread, error, printed in ((Writer(), OSError(28, "full"), False), (threading.Thread(), OSError(), True)):
        app._unprinted(threading.ExceptHookArgs((type(error), error, None, thread)))
        assert bool(capsys.readouterr().err) == printed


@pytest.mark.process
@pytest.mark.parametrize(("error", "said"), [("KeyboardInterrupt", "interrupted\n"), ("KeyError", "Traceback (most")])
def test_ctrl_c_while_a_command_loads_is_one_line(error: str, said: str) -> None:
    """`pate.cli` is imported first; another error keeps its traceback."""
    command = [sys.executable, "-c", f"import pate.cli; raise {error}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.startswith(said)
    assert (done.stderr == said) == (error == "KeyboardInterrupt")


def test_errors_that_go_round_in_circles_hide_no_signal_and_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    with pytest.raises(ValueError, match=r"^first$"):
        app._ended(first)
    second.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        app._ended(first)


def test_options_stand_between_settings(tmp_path: Path) -> None:
    (tmp_path / "aggregator").mkdir()
    (tmp_path / "aggregator" / "mine.yaml").write_text("defaults: [gaussian_votes]\nnoise_std: 77.0\n")
    ended = call("account", "num_queries=10", "--config-dir", str(tmp_path), "aggregator=mine", "format=json")
    assert ended.returncode == 0, ended.stderr
    assert '"noise_std": 77.0' in ended.stdout
    assert not HydraConfig.initialized(), "a command leaves nothing to the next one in the process"
