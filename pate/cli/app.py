"""What all commands share: run a Hydra app, and say a user's mistake in one line with exit code 2."""

import dataclasses
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pate.cli.process import (
    Stopped,
    causes,
    end_descendants,
    ended_by_signals,
    leave,
    mend_streams,
    nobody_reads,
)
from pate.config import command_line, register_configs
from pate.config.build import maker
from pate.config.loader import start
from pate.config.schema import command_schema
from pate.config.unused import unused_lines
from pate.errors import Spelling
from pate.files.disk import owners_umask
from pate.setting_names import COMMAND, OF_COMMANDS
from pate.validation import DISTRIBUTION, VERSION, InvalidValue, printable

# characters of a line
_LONGEST = 1000
_ENDING = 300

Task = Callable[[DictConfig], Any]


def command_of(task: Task, command: str, module: str) -> Callable[[], None]:
    """The `main` of a command's module, which is called at once where that is started with `python -m`."""
    main = partial(run_app, task, command)
    if module == "__main__":
        main()
    return main


def run_app(task: Task, command: str) -> None:
    """Runs a task on its composed configuration and exits: 0, or 2 with one line for a user's mistake.

    A full disk or memory, an unreadable file and lost workers are one line and exit code 1; Ctrl-C, SIGTERM and SIGHUP
    one and 130, 143 and 129. If nobody reads the output any more, as behind `| head`, the command ends without a word.
    Any other error is a fault of ours and keeps its traceback. Files and folders that are made are the owner's alone.
    """
    mend_streams()
    if "--version" in sys.argv[1:]:
        name = Path(sys.argv[0]).stem
        print(f"{name} of {DISTRIBUTION} {VERSION}, imported as pate")  # noqa: T201 - what was asked for
        sys.exit(0)
    with owners_umask():
        try:
            with ended_by_signals():
                in_sweep = command_line.is_sweep(sys.argv[1:])
                words = [command_line.quoted(word, in_sweep=in_sweep) for word in sys.argv[1:]]
                line, code = _run(task, command, words)
        except KeyboardInterrupt as error:
            stopped = error if isinstance(error, Stopped) else Stopped(signal.SIGINT)
            end_descendants()
            _say(str(stopped))
            with suppress(OSError):
                sys.stdout.flush()
            leave(stopped.code)
    if code:
        _say(line)
        sys.exit(code)


def _run(task: Task, command: str, words: list[str]) -> tuple[str, int]:
    """Composes the configuration and runs the task, or all of a sweep; the first line that ended one, and its code."""

    def job(config: DictConfig) -> Any:
        """For Hydra, which would print a line of its own of what is raised: what ends it is its result."""
        hydra = HydraConfig.get()
        if (
            hydra.mode == RunMode.RUN
            and (said := command_line.said_of_way(hydra.runtime.choices)) is not None
        ):
            _say(said)
        if hydra.mode == RunMode.RUN and student is not None:
            _say(command_line.said_of_student(student, words))
        try:
            command_line.require_sound(config, command_schema(command), command)
            given = _given(words)
            command_line.require_noise_said(config, given)
            for unused in _unused(config, given, command):
                _say(unused)
            return task(config)
        except Exception as error:
            note, code = _ended(error, spelling)
            # which says it itself
            if hydra.mode == RunMode.MULTIRUN and "sweep" not in (hydra.callbacks or {}):
                _say(f"[{hydra.job.num + 1}] {note}")
            return {"note": note, "code": code}

    student: str | None = None
    spelling = OF_COMMANDS.get(command, COMMAND)
    threading.excepthook = _unprinted
    # Hydra's, on what it did before 1.1
    warnings.filterwarnings("ignore", ".*Defaults list is missing `_self_`")
    try:
        register_configs(allowed=command_line.allowed_modules(words))
        command_line.require_words(
            words, tuple(field.name for field in dataclasses.fields(command_schema(command)))
        )
        way = command_line.way_left_open(words, command)
        student = command_line.student_left_open(words, command)
        chosen = [] if way is None else [f"way={way}"]
        chosen += [] if student is None else [f"student={student}"]
        results = start(job, command, words, chosen)
        sys.stdout.flush()
    except Exception as error:
        return _ended(error, spelling)
    ended = (each for each in results if isinstance(each, dict) and "code" in each)
    return next(((each["note"], each["code"]) for each in ended), ("", 0))


def _given(words: list[str]) -> dict[str, str]:
    """Returns the settings of a job that its command line names, as text by name, with the job's own value."""
    named = command_line.given_settings(words)
    of_job = command_line.given_settings(HydraConfig.get().overrides.task)
    return {name: value for name, value in of_job.items() if name in named}


def _unused(config: DictConfig, given: Mapping[str, str], command: str) -> list[str]:
    """Returns a line for each setting that was given and changes nothing; none where the task will refuse a part."""
    try:
        return list(unused_lines(config, given, command, maker(config)))
    except (InvalidValue, OSError, OmegaConfBaseException):
        return []


def _ended(error: Exception, spelling: Spelling) -> tuple[str, int]:
    """The line and the exit code of what is no fault of ours; raises one that is."""
    for each in causes(error):
        # one that interrupts OmegaConf is lost behind what that breaks
        if isinstance(each, KeyboardInterrupt):
            raise each from None
    if isinstance(error, InvalidValue):
        return spelling.line(error), 2
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        return command_line.explain(error), 2
    if isinstance(error, BrokenPipeError) and nobody_reads():
        return "", 141  # what a shell says of a program that wrote to a closed pipe
    if isinstance(error, (OSError, MemoryError)):
        return f"{type(error).__name__}: {error}; the same command continues once that is mended", 1
    if isinstance(error, RuntimeError) and "srun" in str(error):
        return f"hydra/launcher=submitit_slurm: expected a Slurm cluster ({error})", 1
    raise error


def _unprinted(failed: threading.ExceptHookArgs) -> None:
    """Says nothing of a full disk or memory in TensorBoard's thread, which raises it where events are written, too."""
    known = isinstance(failed.exc_value, (OSError, MemoryError))
    if not (known and type(failed.thread).__module__.startswith("tensorboard.")):
        threading.__excepthook__(failed)


def _say(message: str) -> None:
    # blanks stay: a name may have two of them
    one_line = printable(re.sub(r"\s*\n\s*", " ", message.strip()))
    if len(one_line) > _LONGEST:
        one_line = f"{one_line[: _LONGEST - _ENDING]} … {one_line[-_ENDING:]}"
    if one_line:
        sys.stderr.write(f"{one_line}\n")
