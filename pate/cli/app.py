"""What all commands share: run a Hydra app, and say a user's mistake in one line with exit code 2."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pate.cli.process import Stopped, causes, end_descendants, ended_by_signals, leave, mend_streams, nobody_reads
from pate.config import command_line, register_configs
from pate.config.command_line import explain, require_sound
from pate.config.loader import start
from pate.config.schema import command_schema
from pate.files.disk import owners_umask
from pate.validation import DISTRIBUTION, VERSION, InvalidValue, printable

_MISTAKES = (InvalidValue, HydraException, OmegaConfBaseException)
_UNREAD = 141  # what a shell says of a program that wrote to a closed pipe
_LONGEST, _ENDING = 1000, 300  # characters of a line

Task = Callable[[DictConfig], Any]


def run_app(task: Task, command: str) -> None:
    """Runs a task on its composed configuration and exits: 0, or 2 with one line for a user's mistake.

    A full disk or memory, a file that cannot be read, lost workers and a launcher's job that failed are one line and
    exit code 1. Ctrl-C, SIGTERM and SIGHUP are one line and exit codes 130, 143 and 129 (see `ended_by_signals`). If
    nobody reads the output any more, as behind `| head`, the command ends without a word. Anything else is a fault of
    ours and keeps its traceback. Whatever the umask was, files and folders that are made are the owner's alone.
    """
    mend_streams()
    if "--version" in sys.argv[1:]:
        name = Path(sys.argv[0]).stem
        print(f"{name} of {DISTRIBUTION} {VERSION}, imported as pate")  # noqa: T201 - what was asked for
        sys.exit(0)
    with owners_umask():
        try:
            with ended_by_signals():
                _run(task, command, [command_line.quoted(word) for word in sys.argv[1:]])
        except KeyboardInterrupt as error:
            stopped = error if isinstance(error, Stopped) else Stopped(signal.SIGINT)
            end_descendants()
            _say(str(stopped))
            with suppress(OSError):
                sys.stdout.flush()
            leave(stopped.code)


def _run(task: Task, command: str, words: list[str]) -> None:
    """Composes the configuration, runs the task, and says what ended it."""
    register_configs(allowed=command_line.allowed_modules(words))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us instead of being printed by Hydra
    threading.excepthook = _unprinted
    warnings.filterwarnings("ignore", ".*Defaults list is missing `_self_`")  # Hydra's, on what it did before 1.1
    refused: list[Exception] = []
    try:
        command_line.require_words(words, tuple(field.name for field in dataclasses.fields(command_schema(command))))
        way = command_line.way_left_open(words, command)
        chosen = [] if way is None else [f"way={way}"]
        _heard(lambda: start(_unheard(task, command, refused), command, words, chosen), words)
        sys.stdout.flush()
        if refused:
            raise refused[0]
        return
    except _MISTAKES as error:
        if (signaled := _signal_behind(error)) is not None:
            raise signaled from None
        line, code = _mistake(error), 2
    except (OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError) and nobody_reads():
            sys.exit(_UNREAD)
        line, code = f"{type(error).__name__}: {error}; the same command continues once that is mended", 1
    except RuntimeError as error:
        _, carried, said = str(error).rpartition(f"{_Unheard.__name__}: ")
        if not carried and "srun" not in str(error):
            raise
        line = f"hydra/launcher=submitit_slurm: expected a Slurm cluster ({error})"
        if carried:  # from a job of a sweep in another process, told by its traceback
            line = f"a job ended with {said.strip()}; the same command continues once that is mended"
        code = 1
    _say(line)
    sys.exit(code)


def _mistake(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidValue) else explain(error)


def _signal_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The signal in whose wake an error came: one that interrupts OmegaConf is lost behind what that breaks."""
    return next((each for each in causes(error) if isinstance(each, KeyboardInterrupt)), None)


class _Unheard(BaseException):
    """Carries an error past Hydra, which would print a line of its own."""


def _unheard(task: Task, command: str, refused: list[Exception]) -> Task:
    """The task for Hydra; of a sweep in this process it keeps what is refused, and the other jobs go on."""

    def run(config: DictConfig) -> Any:
        hydra = HydraConfig.get()
        if hydra.mode == RunMode.RUN and (said := command_line.said_of_way(hydra.runtime.choices)) is not None:
            _say(said)
        try:
            require_sound(config, command_schema(command), command)
            return task(config)
        except Exception as error:
            one_of_many = hydra.mode == RunMode.MULTIRUN and hydra.launcher["_target_"].endswith(".BasicLauncher")
            if not (isinstance(error, _MISTAKES) and one_of_many) or _signal_behind(error) is not None:
                raise _Unheard(f"{type(error).__name__}: {error}") from error
            refused.append(error)
            note = _mistake(error)
            if "sweep" not in (hydra.callbacks or {}):  # which says it below the job's heading
                _say(f"[{hydra.job.num + 1}] {note}")
            return {"note": note}

    return run


def _heard(app: Callable[[], None], words: list[str]) -> None:
    """Runs the app and raises the error that was carried past Hydra, as itself.

    What Hydra raises beside that came up while it composed. If it is none of its own errors and was not raised in this
    package, files or words of the command line are not what it takes them for.
    """
    try:
        app()
    except _Unheard as carrier:
        if carrier.__cause__ is None:
            raise
        raise carrier.__cause__ from None
    except RecursionError as error:
        raise InvalidValue("defaults: expected files that do not include themselves, nor values too deep") from error
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if isinstance(error, InvalidValue) or str(frame.f_globals.get("__name__")).startswith("pate."):
            raise
        line = command_line.explain_choice(words) if str(error).startswith("Config group override") else None
        said = f"settings: expected what Hydra can compose ({type(error).__name__}: {error})"
        raise InvalidValue(line or said) from error


def _unprinted(failed: threading.ExceptHookArgs) -> None:
    """Says nothing of a full disk or memory in TensorBoard's thread, which raises it where events are written, too."""
    known = isinstance(failed.exc_value, (OSError, MemoryError))
    if not (known and type(failed.thread).__module__.startswith("tensorboard.")):
        threading.__excepthook__(failed)


def _say(message: str) -> None:
    one_line = printable(" ".join(message.split()))
    if len(one_line) > _LONGEST:
        one_line = f"{one_line[: _LONGEST - _ENDING]} … {one_line[-_ENDING:]}"
    from rich.console import Console  # loads slowly, and most commands end well

    Console(stderr=True, soft_wrap=True, highlight=False).print(one_line, markup=False)
