"""The frame of all commands: it runs a Hydra application, and turns a user's mistake into one line and exit code 2."""

import dataclasses
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, ClassVar

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pate.aggregators import Aggregator
from pate.cli.process import (
    Stopped,
    causes,
    end_descendants,
    ended_by_signals,
    leave,
    mend_streams,
    nobody_reads,
)
from pate.config import checks, command_line, default_choices, quoting
from pate.config.application import run_application
from pate.config.build import part_maker
from pate.config.mistakes import explain
from pate.config.schema import command_schema
from pate.config.unused import unused_lines
from pate.errors import Spelling
from pate.extras import DISTRIBUTION, VERSION
from pate.files.atomic import write_text
from pate.files.paths import make_folder, owners_umask
from pate.files.reading import read_json
from pate.files.strict_json import to_json_line
from pate.package_commands import package_commands
from pate.setting_names import COMMAND, SPELLING_OF_COMMAND
from pate.validation import InvalidValue, printable

# A line with more characters loses its middle, and keeps this many characters at its end.
_MAX_LINE_LENGTH = 1000
_ENDING_LENGTH = 300
# The name of the folder of a sweep's jobs, and the ending of the files of failed jobs.
_JOBS = "jobs"
_END = ".end"

Task = Callable[[DictConfig], Any]
"""The function of a command: it is called with the composed configuration, once for each job of a sweep."""

Hook = Callable[[], None]
"""A function that a command calls before its first job, or after all jobs if none has failed."""


def command_of(
    task: Task,
    *,
    command: str,
    begin: Hook | None = None,
    finish: Hook | None = None,
) -> Callable[[], None]:
    """Returns the `main` function of a command's module, which calls `run_app`.

    Args:
        task: the function of the composed configuration that the command runs.
        command: the name of the command.
        begin: is called before the settings on the command line are read; None calls nothing.
        finish: is called after the task, or after all tasks of a sweep, if none has failed; None calls nothing.
    """
    return partial(run_app, task, command=command, begin=begin, finish=finish)


def run_app(
    task: Task,
    *,
    command: str,
    begin: Hook | None = None,
    finish: Hook | None = None,
) -> None:
    """Runs a task on its composed configuration, and exits with another code than 0 after an error.

    `command_of` explains the arguments. With `--version` the version is printed and no task is run.

    * A user's mistake prints one line; the exit code is 2.
    * A full disk or memory, an unreadable file, lost worker processes, or a launcher without its Slurm cluster print
      one line; the exit code is 1.
    * Ctrl-C, SIGTERM and SIGHUP print one line; the exit codes are 130, 143 and 129.
    * If the reader of the output has closed the pipe, as in `| head`, the command ends silently with exit code 141.
    * Any other error is our own bug and prints a traceback.

    Files and folders that the command creates are readable only by their owner.
    """
    mend_streams()
    if "--version" in sys.argv[1:]:
        name = Path(sys.argv[0]).stem
        print(f"{name} of {DISTRIBUTION} {VERSION}, imported as pate")  # noqa: T201 - what was asked for
        sys.exit(0)
    if begin is not None:
        begin()
    with owners_umask():
        try:
            with ended_by_signals():
                is_in_sweep = command_line.is_sweep(sys.argv[1:])
                quoted_arguments = [
                    quoting.quote_argument(argument=argument, in_sweep=is_in_sweep)
                    for argument in sys.argv[1:]
                ]
                error_line, exit_code = _run(
                    task, command=command, arguments=quoted_arguments, finish=finish
                )
        except KeyboardInterrupt as error:
            stopped = error if isinstance(error, Stopped) else Stopped(signal.SIGINT)
            end_descendants()
            _say(str(stopped))
            with suppress(OSError):
                sys.stdout.flush()
            leave(stopped.code)
    if exit_code:
        _say(error_line)
        sys.exit(exit_code)


def _run(task: Task, *, command: str, arguments: list[str], finish: Hook | None) -> tuple[str, int]:
    """Composes the configuration, runs the task on it or on each one of a sweep, and calls `finish` if none has failed.

    Returns:
        The line to print and the exit code of the first run that failed; an empty line and 0 if none did.
    """
    job_ends: list[JobEnd] = []
    SweepEnds.last.clear()
    default_student_name: str | None = None
    spelling_of_settings = SPELLING_OF_COMMAND.get(command, COMMAND)
    if command in package_commands():
        task = package_commands()[command].load_task()
        spelling_of_settings = package_commands()[command].spelling
    threading.excepthook = _print_thread_error
    # Hydra warns of its behavior before version 1.1.
    warnings.filterwarnings("ignore", ".*Defaults list is missing `_self_`")

    def job(config: DictConfig) -> Any:
        """Runs the task for Hydra on one configuration, and returns its result.

        After an error it returns the fields of a `JobEnd`, because Hydra would print its own message.
        """
        hydra = HydraConfig.get()
        is_single = hydra.mode == RunMode.RUN
        chosen_parts_line = default_choices.way_line(hydra.runtime.choices)
        if is_single and chosen_parts_line is not None:
            _say(chosen_parts_line)
        if is_single and default_student_name is not None:
            _say(default_choices.student_line(default_student_name, arguments=arguments))
        try:
            command_line.expand_home(config)
            checks.require_sound(config, schema=command_schema(command), command=command)
            command_line_settings = _command_line_settings(arguments)
            command_line.require_noise_stated(config, command_line_settings=command_line_settings)
            for unused_line in _unused_lines(
                config, command_line_settings=command_line_settings, command=command
            ):
                _say(unused_line)
            return task(config)
        except Exception as error:
            error_line, exit_code = _line_and_code(error, spelling_of_settings=spelling_of_settings)
            job_end = JobEnd(note=error_line, code=exit_code)
            if is_single:
                job_ends.append(job_end)
            elif "sweep" not in hydra.callbacks:  # the callback `SweepTable` prints the line itself
                _say(f"[{hydra.job.num + 1}] {job_end.note}")
            return dataclasses.asdict(job_end)

    try:
        setting_names = tuple(field.name for field in dataclasses.fields(command_schema(command)))
        checks.require_safe_arguments(arguments, setting_names=setting_names)
        # The way is the part of the configuration that chooses features, teacher and aggregator for a kind of data.
        default_way_name = default_choices.default_way(arguments, command=command)
        default_student_name = default_choices.default_student(arguments, command=command)
        default_overrides = [] if default_way_name is None else [f"way={default_way_name}"]
        default_overrides += (
            [] if default_student_name is None else [f"student={default_student_name}"]
        )
        run_application(
            job,
            command=command,
            arguments=arguments,
            chosen_settings=default_overrides,
            allowed_targets=command_line.allowed_modules(arguments),
        )
        if finish is not None and not job_ends and not SweepEnds.last:
            finish()
        sys.stdout.flush()
    except Exception as error:
        is_of_job = any(frame.f_code is job.__code__ for frame, _ in walk_tb(error.__traceback__))
        return _line_and_code(
            error,
            spelling_of_settings=spelling_of_settings,
            arguments=None if is_of_job else arguments,
        )
    first_end = next(iter([*job_ends, *SweepEnds.last]), JobEnd(note="", code=0))
    return first_end.note, first_end.code


@dataclass(frozen=True)
class JobEnd:
    """The end of a job that failed.

    Attributes:
        note: the line to print.
        code: the exit code.
    """

    note: str
    code: int


class SweepEnds(Callback):
    """A callback of Hydra that collects the ends of a sweep's failed jobs.

    Jobs may run in other processes, so each failed job writes a file in the sweep's folder.
    """

    # A class variable, because Hydra makes the callback itself and does not return it.
    last: ClassVar[list[JobEnd]] = []

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Deletes the files of failed jobs of an earlier sweep in the same folder."""
        for path in self._end_files_of_sweep(config):
            path.unlink()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Writes a file with the line and the exit code of a job of a sweep that failed."""
        job_end = job_return.return_value if job_return.status == JobStatus.COMPLETED else None
        if (
            config.hydra.mode == RunMode.MULTIRUN
            and isinstance(job_end, dict)
            and "code" in job_end
        ):
            jobs_folder = make_folder(Path(config.hydra.sweep.dir) / _JOBS)
            write_text(
                jobs_folder / f"{config.hydra.job.num:05d}{_END}", text=to_json_line(job_end)
            )

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Reads the files of all failed jobs, the first of which determines the exit code of the command."""
        for end_file in self._end_files_of_sweep(config):
            job_end = read_json(
                end_file, rule="the end of a job of this sweep", remedy="sweep again"
            )
            self.last.append(JobEnd(note=job_end["note"], code=job_end["code"]))

    def _end_files_of_sweep(self, config: DictConfig) -> list[Path]:
        return sorted((Path(config.hydra.sweep.dir) / _JOBS).glob(f"*{_END}"))


def _command_line_settings(arguments: list[str]) -> dict[str, str]:
    """Returns the settings on the command line as text by name; in a sweep, each with its value in the current job."""
    settings = command_line.given_settings(arguments)
    job_settings = command_line.given_settings(HydraConfig.get().overrides.task)
    return {name: value for name, value in job_settings.items() if name in settings}


def _unused_lines(
    config: DictConfig, *, command_line_settings: Mapping[str, str], command: str
) -> list[str]:
    """Returns a sentence for each setting on the command line that has no effect.

    The list is empty if a part, such as the aggregator, cannot be built; the task will then report the error.

    Args:
        config: the composed configuration.
        command_line_settings: the settings on the command line as text, by name.
        command: the name of the command.
    """
    try:
        lines = unused_lines(
            config,
            command_line_settings=command_line_settings,
            command=command,
            build_part=part_maker(config),
            has_data_dependent_cost=_has_data_dependent_cost,
        )
        return list(lines)
    except (InvalidValue, OSError, OmegaConfBaseException):
        return []


def _has_data_dependent_cost(aggregator: Aggregator) -> bool:
    """Returns True if the data-dependent cost of an aggregator (its cost on given votes) can be computed."""
    from pate.auditing.aggregator_cost import has_data_dependent_cost  # which few commands need

    return has_data_dependent_cost(aggregator)


def _line_and_code(
    error: Exception, *, spelling_of_settings: Spelling, arguments: Sequence[str] | None = None
) -> tuple[str, int]:
    """Returns the line to print and the exit code for an error that is not a bug of ours; raises any other error.

    An interrupt among the causes of the error is raised in its place.

    Args:
        error: the error.
        spelling_of_settings: the names that the command has for parameters of the code.
        arguments: the arguments of the command, if the error arose outside of its task, as where Hydra composes the
            arguments to a configuration; None for an error of the task, which runs on the configuration.
    """
    for cause in causes(error):
        # The errors that follow an interrupt within OmegaConf hide it.
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
    line = explain(error, spelling=spelling_of_settings, arguments=arguments)
    if line is not None:
        return line, 2
    if isinstance(error, BrokenPipeError) and nobody_reads():
        return "", 141  # the code of a shell for a program that wrote to a closed pipe
    if isinstance(error, (OSError, MemoryError)):
        return f"{type(error).__name__}: {error}; the same command continues once that is mended", 1
    if isinstance(error, RuntimeError) and "srun" in str(error):
        return f"hydra/launcher=submitit_slurm: expected a Slurm cluster ({error})", 1
    raise error


def _print_thread_error(failure: threading.ExceptHookArgs) -> None:
    """Prints the uncaught error of a thread, except for a full disk or memory in a thread of TensorBoard.

    TensorBoard raises that error again when events are written.
    """
    is_shortage = isinstance(failure.exc_value, (OSError, MemoryError))
    is_of_tensorboard = type(failure.thread).__module__.startswith("tensorboard.")
    if not (is_shortage and is_of_tensorboard):
        threading.__excepthook__(failure)


def _say(message: str) -> None:
    """Prints a message as one line on standard error; a line that is too long loses its middle."""
    # Several blanks in a row stay, as a name may have them.
    one_line = printable(re.sub(r"\s*\n\s*", " ", message.strip()))
    if len(one_line) > _MAX_LINE_LENGTH:
        beginning_length = _MAX_LINE_LENGTH - _ENDING_LENGTH
        one_line = f"{one_line[:beginning_length]} … {one_line[-_ENDING_LENGTH:]}"
    if one_line:
        sys.stderr.write(f"{one_line}\n")
