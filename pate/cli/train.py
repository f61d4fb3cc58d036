"""pate-train: trains teachers on private records and a student on their noisy labels; also sweeps."""

from pate.extras import require_extra

require_extra("pate-train", "train")


import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.text import Text

from pate.cli import run
from pate.cli.app import command_of
from pate.config.build import part_maker
from pate.config.command_line import given_settings
from pate.config.published import own_settings, public_settings
from pate.extras import require_extra
from pate.files.atomic import write_text
from pate.files.paths import make_folder
from pate.files.reading import read_json, read_text
from pate.files.spreadsheet import row_writer
from pate.files.strict_json import read_number, to_json_line
from pate.progress import Monitor
from pate.report import Report
from pate.report.console import PlainConsole, print_page, print_report
from pate.report.mlflow import log_release
from pate.report.wording import MODEL_NAMES
from pate.run.plan import EpsilonOnVotes, Plan, price
from pate.run.totals import PaidRelease, releases_of, share_noise, totals_of
from pate.run.train import train
from pate.settings import RunSettings, TrainSettings, names_with, values_of
from pate.validation import InvalidValue, require_choice

_CHANGEABLE_NAMES = names_with("may_change_when_continued", "train")
_SCORES = ("mean_average_precision", "micro_f1", "macro_f1", "accuracy")
_COLUMNS = ("epsilon", "answered", *_SCORES, "share_of_reachable", "beats_constant")
_FILE_COLUMNS = (*_COLUMNS, "ceiling", "note", "folder")
_JOBS = "[0-9]*.json"
_FOLDERS = "[0-9]*.folder"  # files that name the folder of each job
_REMEDY = "sweep again into another folder; finished runs are shown again at no cost"


def train_from_config(config: DictConfig) -> dict[str, Any]:
    """Runs or continues the configured run, prints its report, and returns its row in the table of a sweep."""
    # all that the release depends on; the folder's name comes from it, and a run goes on in a folder of equal settings
    settings = run.plain_settings(config, excluded_settings=_CHANGEABLE_NAMES)
    hydra = HydraConfig.get()
    heading = run.run_heading(
        settings,
        overrides=hydra.overrides.task,
        choices=hydra.runtime.choices,
        changeable_names=_CHANGEABLE_NAMES,
    )
    output_dir = Path(
        config.output_dir
        or run.default_folder(str(heading.compared["data"]), heading.aggregator, settings=settings)
    )
    if hydra.mode == RunMode.MULTIRUN:
        enter_folder(sweep=Path(hydra.sweep.dir), number=hydra.job.num, output_dir=output_dir)
    logger = require_choice("logger", config.logger, ("tensorboard", "mlflow", "none"))
    if logger == "mlflow":
        require_extra("logger", "mlflow", "mlflow")
    train_settings = run.settings_from(config, settings_class=TrainSettings)
    make = part_maker(config)
    monitor = run.ConsoleMonitor()
    data = make("data")
    plan = Plan(
        load_dataset=run.watched_load(data, monitor),
        **{part: make(part) for part in ("teacher", "engine", "aggregator", "student")},
        num_teachers=config.teacher.num_teachers,
        accountant=lambda: make("accountant"),
        settings=settings,
        public_settings=partial(public_settings, own_settings(config, settings)),
        tensorboard=logger == "tensorboard",
        heading=heading,
        epsilon_on_votes=_epsilon_on_votes() if train_settings.data_dependent else None,
        target_epsilon=train_settings.solved_epsilon,
        **values_of(train_settings, settings_class=RunSettings, omitted_names=("target_epsilon",)),
    )
    load = run.watched_load(
        data,
        monitor,
        features=make("features"),
        folder=output_dir,
        check_dataset=lambda dataset: price(
            plan=plan.for_dataset(dataset, Monitor()), dataset=dataset, monitor=monitor
        ),
    )
    report = train(replace(plan, load_dataset=load), output_dir, monitor)
    if logger == "mlflow":
        log_release(release=output_dir / "release", report=report, folder=output_dir / "mlflow")
    print_report(report, path=output_dir / "report.html", scores=hydra.mode != RunMode.MULTIRUN)
    return sweep_row(report, folder=output_dir)


def _epsilon_on_votes() -> EpsilonOnVotes:
    """Returns the function that computes the data-dependent cost of a release on its own votes."""
    from pate.auditing.aggregator_cost import epsilon_on  # which few runs need

    return epsilon_on


def enter_folder(sweep: Path, number: int, output_dir: Path) -> None:
    """Records the folder of a sweep's job before anything is drawn, so that a job which fails later is counted.

    Args:
        sweep: the folder of the sweep.
        number: the number of the job.
        output_dir: the folder of the job.
    """
    write_text(make_folder(sweep / "jobs") / f"{number:05d}.folder", text=str(output_dir.resolve()))


def sweep_row(report: Report, folder: Path) -> dict[str, Any]:
    """Returns the row of a run in the table of a sweep, by column."""
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
        "folder": str(folder),
        "data": report.data.name,
        "beside": {
            MODEL_NAMES[name]: {key: getattr(scores, key, None) for key in _SCORES}
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
        for pattern in (_JOBS, _FOLDERS):
            for path in Path(config.hydra.sweep.dir, "jobs").glob(pattern):
                path.unlink()

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Prints the settings in which a job differs, as its heading."""
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
        value: object = {"note": "failed"}
        if job_return.status == JobStatus.COMPLETED:
            value = job_return.return_value
        result = value if isinstance(value, dict) else {}
        note = result.get("note")
        if note:
            PlainConsole().print(Text(note, style="yellow"), soft_wrap=True)
        folder = Path(config.hydra.sweep.dir)
        job = {"given": given_settings(config.hydra.overrides.task), "result": result}
        write_text(
            make_folder(folder / "jobs") / f"{config.hydra.job.num:05d}.json",
            text=to_json_line(job) + "\n",
        )
        _write(folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Prints the table: for each run its name, the settings that differ, and its results.

        The run with the best mean average precision comes first.
        """
        folder = Path(config.hydra.sweep.dir)
        jobs, settings = _write(folder)
        if not jobs:
            return
        results = [job["result"] for job in jobs]
        varied = [name for name in settings if len({job["given"].get(name) for job in jobs}) > 1]
        runs = [result.get("run") for result in results]
        if None not in runs and len(set(runs)) == len(runs):
            varied = [name for name in varied if name not in ("aggregator", "experiment")]
        has_names = "aggregator" in varied or "experiment" in varied
        reached = choose_yardstick(results)
        releases, num_unreadable = _releases(folder)
        noise_is_shared_within = share_noise(releases)
        noise_is_shared = noise_is_shared_within or any(
            release.shares_noise_in_ledger for release in releases
        )
        print_page(
            "cli/sweep.txt",
            jobs=jobs,
            ranked=sorted(
                jobs, key=lambda job: -(job["result"].get("mean_average_precision") or 0.0)
            ),
            shown=varied if has_names else ["run", *varied],
            columns=_COLUMNS,
            reached=reached,
            ends=results[0].get("beside", {})
            if len({result.get("data") for result in results}) == 1
            else {},
            noise_is_shared=noise_is_shared,
            noise_is_shared_within=noise_is_shared_within,
            num_unreadable=num_unreadable,
            totals=[]
            if noise_is_shared
            else [total for total in totals_of(releases) if total.count > 1],
            number=read_number,
            folder=folder,
        )


@dataclass(frozen=True)
class Yardstick:
    """The score that counts as 100% in the column `reached` of a sweep's table, the same for all runs."""

    ceiling: str | None  # a key of `MODEL_NAMES`; None where no run reached a share of anything
    excluded: tuple[str, ...]  # ceilings of the runs whose cells stay empty

    @property
    def note(self) -> str:
        """A sentence that explains the 100% and empty cells; empty if no explanation is needed."""
        if self.ceiling is None or not self.excluded:
            return ""
        names = " or ".join(f"the {MODEL_NAMES[name]}" for name in self.excluded)
        remedy = (
            "; all_records=true trains one in every run"
            if self.ceiling == "all_records_model"
            else ""
        )
        return f"reached: 100% is the {MODEL_NAMES[self.ceiling]}; empty for runs that had {names} instead{remedy}"


def choose_yardstick(results: Sequence[Mapping[str, Any]]) -> Yardstick:
    """Chooses the score that counts as 100%: that of the model of all private records, if a run has trained one.

    Shares of different scores cannot be compared. The cells of rows that an older version wrote stay empty.

    Args:
        results: the rows of the table.
    """
    ceilings = dict.fromkeys(
        str(result.get("ceiling") or "unnamed")
        for result in results
        if result.get("share_of_reachable") is not None
    )
    chosen = "all_records_model" if "all_records_model" in ceilings else next(iter(ceilings), None)
    return Yardstick(ceiling=chosen, excluded=tuple(name for name in ceilings if name != chosen))


def _releases(folder: Path) -> tuple[list[PaidRelease], int]:
    """Returns the releases of all jobs of a sweep, each folder once, and the number of unreadable ledgers.

    A job that failed after its release was drawn is included, because its labels may be known.
    """
    places = {
        read_text(path, rule="a folder", remedy=_REMEDY)
        for path in (folder / "jobs").glob(_FOLDERS)
    }
    releases: list[PaidRelease] = []
    num_unreadable = 0
    for place in sorted(places):
        try:
            releases += releases_of(Path(place))
        except (InvalidValue, OSError):
            num_unreadable += 1
    # a release of two runs with one seed, which is the same, counts once
    return list({release.key: release for release in releases}.values()), num_unreadable


def _write(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Writes sweep.csv; returns the jobs in it, and the names of the settings on their command lines."""
    jobs = [
        read_json(path, rule="a job of this sweep", remedy=_REMEDY)
        for path in sorted((folder / "jobs").glob(_JOBS))
    ]
    settings = list(dict.fromkeys(name for job in jobs for name in job["given"]))
    if jobs:
        text = io.StringIO()
        names = ["run", *settings, *_FILE_COLUMNS]
        write = row_writer(text, line_end="\n")
        for row in (
            {name: name for name in names},
            *(job["given"] | job["result"] for job in jobs),
        ):
            write(row.get(name, "") for name in names)
        write_text(folder / "sweep.csv", text=text.getvalue())
    return jobs, settings


main = command_of(train_from_config, command="train", module=__name__)
