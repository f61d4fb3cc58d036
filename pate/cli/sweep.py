"""The table of a sweep: the runs of `pate-train -m`, one row for each, in `sweep.csv` and on the terminal."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.text import Text

from pate.config.command_line import given_settings
from pate.files.atomic import write_text
from pate.files.paths import make_folder
from pate.files.reading import read_json, read_text
from pate.files.spreadsheet import row_writer
from pate.files.strict_json import read_number, to_json_line
from pate.report import Report
from pate.report.console import PlainConsole, print_page
from pate.report.wording import MODEL_NAMES
from pate.run.totals import PaidRelease, Total, any_share_noise, releases_of, totals_of
from pate.validation import InvalidValue

# The columns of the table on the terminal.
_SCORES = ("mean_average_precision", "micro_f1", "macro_f1", "accuracy")
_COLUMNS = ("epsilon", "answered", *_SCORES, "share_of_reachable", "beats_constant")
# The columns of sweep.csv.
_FILE_COLUMNS = (*_COLUMNS, "ceiling", "note", "folder")
# The files in `jobs/` with the results and with the folder of each job.
_RESULT_FILE_PATTERN = "[0-9]*.json"
_FOLDER_FILE_PATTERN = "[0-9]*.folder"
_REMEDY = "sweep again into another folder; finished runs are shown again at no cost"


def enter_folder(sweep_folder: Path, *, job_number: int, output_dir: Path) -> None:
    """Records the folder of a sweep's job before anything is drawn, so that a job which fails later is counted.

    Args:
        sweep_folder: the folder of the sweep.
        job_number: the number of the job.
        output_dir: the folder of the job.
    """
    write_text(
        make_folder(sweep_folder / "jobs") / f"{job_number:05d}.folder",
        text=str(output_dir.resolve()),
    )


def sweep_row(report: Report, *, output_dir: Path) -> dict[str, Any]:
    """Returns the row of a run in the table of a sweep, by column, from the run's report.

    Args:
        report: the report of the run.
        output_dir: the folder of the run.
    """
    release = report.release
    verdict = report.verdict
    return {name: getattr(report.student, name, None) for name in _SCORES} | {
        "run": report.name,
        "epsilon": report.privacy.epsilon,
        "delta": report.privacy.delta,
        "answered": f"{release.num_answered}/{release.num_queries}",
        "share_of_reachable": verdict.share_of_reachable,
        "ceiling": report.ceiling_name,
        "beats_constant": verdict.beats_constant,
        "folder": str(output_dir),
        "data": report.data.name,
        "beside": {
            MODEL_NAMES[name]: {
                score_name: getattr(scores, score_name, None) for score_name in _SCORES
            }
            # the ends of the scale, which are no runs
            for name in ("all_records_model", "best_constant")
            if (scores := getattr(report.baselines, name)) is not None
        },
    }


class SweepTable(Callback):
    """A callback of Hydra that writes and prints the table of a sweep.

    Hydra calls the methods before and after each job, in the job's process, and before and after all jobs.
    """

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Deletes the records of jobs of an earlier sweep in the same folder."""
        for pattern in (_RESULT_FILE_PATTERN, _FOLDER_FILE_PATTERN):
            for path in Path(config.hydra.sweep.dir, "jobs").glob(pattern):
                path.unlink()

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Prints the number of a job of a sweep and its settings on the command line, as a heading."""
        if config.hydra.mode == RunMode.MULTIRUN:
            overrides = " ".join(config.hydra.overrides.task)
            heading = Text(f"\n[{config.hydra.job.num + 1}] {overrides}", style="bold")
            PlainConsole().print(heading, soft_wrap=True)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Records the result of a job and writes the table so far; prints the error of a job that failed.

        A sweep that is stopped therefore leaves a table.
        """
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        returned_value: object = {"note": "failed"}
        if job_return.status == JobStatus.COMPLETED:
            returned_value = job_return.return_value
        result_row = returned_value if isinstance(returned_value, dict) else {}
        if result_row.get("is_candidate"):
            return  # a setting of `tune=true`, which has run nothing yet
        error_line = result_row.get("note")
        if error_line:
            PlainConsole().print(Text(error_line, style="yellow"), soft_wrap=True)
        sweep_folder = Path(config.hydra.sweep.dir)
        job_values = {
            "given": given_settings(arguments=config.hydra.overrides.task),
            "result": result_row,
        }
        write_text(
            make_folder(sweep_folder / "jobs") / f"{config.hydra.job.num:05d}.json",
            text=to_json_line(job_values) + "\n",
        )
        _write(sweep_folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Prints the table of the sweep: for each run its name, the settings in which runs differ, and its results.

        The run with the best mean average precision comes first.
        """
        sweep_folder = Path(config.hydra.sweep.dir)
        values_of_jobs = _write(sweep_folder)
        if not values_of_jobs:
            return
        paid_releases, num_unreadable_ledgers = _releases(sweep_folder)
        print_page(
            "cli/sweep.txt",
            sweep=SweepSummary(jobs=values_of_jobs, releases_of_sweep=paid_releases),
            num_unreadable_ledgers=num_unreadable_ledgers,
            columns=_COLUMNS,
            read_number=read_number,
            folder=sweep_folder,
        )


@dataclass(frozen=True)
class CommonCeiling:
    """The model whose score counts as 100% in the column `reached` of a sweep's table, the same for all runs.

    Attributes:
        name: the name of the model, a key of `MODEL_NAMES`; "unnamed" if only an older version has written values; None
            if no run has a value in that column.
        ceilings_of_other_runs: the names of other runs' ceilings; the cells of these runs stay empty.
    """

    name: str | None
    ceilings_of_other_runs: tuple[str, ...]

    @property
    def note(self) -> str:
        """A sentence that explains the 100% and empty cells; empty if no explanation is needed."""
        if self.name is None or not self.ceilings_of_other_runs:
            return ""
        others = " or ".join(f"the {MODEL_NAMES[name]}" for name in self.ceilings_of_other_runs)
        note = f"reached: 100% is the {MODEL_NAMES[self.name]}; empty for runs that had {others} instead"
        if self.name == "all_records_model":
            note += "; all_records=true trains one in every run"
        return note


def choose_ceiling(result_rows: Sequence[Mapping[str, Any]]) -> CommonCeiling:
    """Chooses the model that counts as 100%: the model of all private records, if a run has trained one.

    Otherwise it is the ceiling of the first run that has one. Shares of two models' scores cannot be compared, so runs
    with another ceiling have empty cells, and so have rows that an older version wrote.

    Args:
        result_rows: the rows of the table, one for each run.
    """
    ceiling_names = dict.fromkeys(
        str(result.get("ceiling") or "unnamed")
        for result in result_rows
        if result.get("share_of_reachable") is not None
    )
    ceiling_name = (
        "all_records_model"
        if "all_records_model" in ceiling_names
        else next(iter(ceiling_names), None)
    )
    return CommonCeiling(
        name=ceiling_name,
        ceilings_of_other_runs=tuple(name for name in ceiling_names if name != ceiling_name),
    )


@dataclass(frozen=True)
class SweepSummary:
    """The results of a sweep, as its table shows them.

    Attributes:
        jobs: the jobs of the sweep: for each, the settings on its command line ("given"), and its row ("result").
        releases_of_sweep: the releases that the jobs have paid for.
    """

    jobs: Sequence[Mapping[str, Any]]
    releases_of_sweep: Sequence[PaidRelease]

    @cached_property
    def ranked(self) -> list[Mapping[str, Any]]:
        """The jobs, that with the best mean average precision first."""
        return sorted(
            self.jobs, key=lambda job: -(job["result"].get("mean_average_precision") or 0.0)
        )

    @cached_property
    def shown(self) -> list[str]:
        """The first columns of the table: the name of the run ("run"), and the settings in which jobs differ.

        If the names of runs are all different, `aggregator` and `experiment` are left out. If not, and jobs differ in
        one of these two, the name of the run is left out.
        """
        varied = [
            name
            for name in _names_of_settings(self.jobs)
            if len({job["given"].get(name) for job in self.jobs}) > 1
        ]
        runs = [result.get("run") for result in self._result_rows]
        names_differ = None not in runs and len(set(runs)) == len(runs)
        if names_differ:
            varied = [name for name in varied if name not in ("aggregator", "experiment")]
        if "aggregator" in varied or "experiment" in varied:
            return varied
        return ["run", *varied]

    @cached_property
    def ceiling(self) -> CommonCeiling:
        """The model whose score counts as 100% in the column `reached`."""
        return choose_ceiling(self._result_rows)

    @cached_property
    def baselines(self) -> Mapping[str, Any]:
        """The scores of the first job's baselines, by their names; empty if the jobs have different data."""
        if len({result.get("data") for result in self._result_rows}) > 1:
            return {}
        baselines: Mapping[str, Any] = self._result_rows[0].get("beside", {})
        return baselines

    @cached_property
    def noise_is_shared_within(self) -> bool:
        """Whether two of the releases drew their noise from one seed."""
        return any_share_noise(self.releases_of_sweep)

    @cached_property
    def noise_is_shared(self) -> bool:
        """Whether one of the releases drew its noise from the seed of another release, of this sweep or another run."""
        return self.noise_is_shared_within or any(
            release.shares_noise_in_ledger for release in self.releases_of_sweep
        )

    @cached_property
    def totals(self) -> list[Total]:
        """The total prices of several releases of the same data; empty if releases share noise, so have no total."""
        if self.noise_is_shared:
            return []
        return [total for total in totals_of(self.releases_of_sweep) if total.num_releases > 1]

    @cached_property
    def _result_rows(self) -> list[Mapping[str, Any]]:
        return [job["result"] for job in self.jobs]


def _releases(sweep_folder: Path) -> tuple[list[PaidRelease], int]:
    """Returns the paid releases of all jobs of a sweep, each once, and the number of folders with an unreadable ledger.

    A job that failed after its release was drawn is included, because its labels may be known.
    """
    output_dirs = {
        read_text(folder_file, rule="a folder", remedy=_REMEDY)
        for folder_file in (sweep_folder / "jobs").glob(_FOLDER_FILE_PATTERN)
    }
    paid_releases: list[PaidRelease] = []
    num_unreadable_ledgers = 0
    for output_dir in sorted(output_dirs):
        try:
            paid_releases += releases_of(Path(output_dir))
        except (InvalidValue, OSError):
            num_unreadable_ledgers += 1
    # a release of two runs with one seed, which is the same, counts once
    return list(
        {release.charge_key: release for release in paid_releases}.values()
    ), num_unreadable_ledgers


def _write(sweep_folder: Path) -> list[dict[str, Any]]:
    """Writes sweep.csv in the folder of a sweep, and returns its jobs; writes nothing if no job has finished."""
    values_of_jobs = [
        read_json(result_file, rule="a job of this sweep", remedy=_REMEDY)
        for result_file in sorted((sweep_folder / "jobs").glob(_RESULT_FILE_PATTERN))
    ]
    if values_of_jobs:
        csv_of_jobs = io.StringIO()
        write_row = row_writer(csv_of_jobs, line_end="\n")
        column_names = ["run", *_names_of_settings(values_of_jobs), *_FILE_COLUMNS]
        write_row(column_names)
        for job_values in values_of_jobs:
            job_row = job_values["given"] | job_values["result"]
            write_row(job_row.get(column, "") for column in column_names)
        write_text(sweep_folder / "sweep.csv", text=csv_of_jobs.getvalue())
    return values_of_jobs


def _names_of_settings(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of the settings on the command lines of jobs, each once, in the order of the jobs."""
    return list(dict.fromkeys(name for job in jobs for name in job["given"]))
