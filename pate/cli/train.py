"""pate-train: from private records to a private student, or onwards from where a run stopped, and sweeps of runs.

Of a sweep each run has a heading, and at the end there is one table of all, also as sweep.csv.
"""

import io
import math
from dataclasses import replace
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
from pate.cli.app import run_app
from pate.config.command_line import given_settings
from pate.config.published import public_settings, told_settings
from pate.files.disk import make_folder, read_json, write_text
from pate.files.values import number, row_writer, to_json_line
from pate.pipeline import train
from pate.report import Report, format_epsilon
from pate.report.console import PlainConsole, print_page, print_report
from pate.report.mlflow import log_release
from pate.report.report import MODEL_NAMES, percent
from pate.run.plan import Plan, price
from pate.run.progress import Monitor
from pate.validation import require_choice, require_extra

_OF_THE_PLAN = (
    *("num_queries", "fewer_queries", "target_delta", "target_epsilon", "max_epsilon", "max_total_epsilon"),
    *("all_records", "allow_useless", "redraw", "new_account", "holders", "seed", "data_dependent"),
)
_SCORES = {
    "mean_average_precision": "mean AP",
    "micro_f1": "micro- F1",
    "macro_f1": "macro- F1",
    "accuracy": "accuracy",
}
_COLUMNS = {"epsilon": "epsilon", "answered": "answered", **_SCORES}
_COLUMNS |= {"share_of_reachable": "reached", "beats_constant": "beats constant"}
_BESIDE = ("all_records_model", "best_constant")  # the top and the bottom of the scale, no runs
_JOB, _JOBS = "a job of this sweep", "[0-9]*.json"
_REMEDY = "sweep again into another folder; finished runs are shown again at no cost"


def train_from_config(config: DictConfig) -> dict[str, Any]:
    """Runs or continues the configured run and prints its report; returns its row in the table of a sweep."""
    settings, hydra = run.plain_settings(config, run.BESIDE), HydraConfig.get()
    heading = run.run_heading(settings, hydra.overrides.task, hydra.runtime.choices)
    names = str(heading.compared["data"]), heading.aggregator
    output_dir = Path(config.output_dir or run.default_folder(*names, settings=settings))
    monitor = run.ConsoleMonitor()
    logger = require_choice("logger", config.logger, ("tensorboard", "mlflow", "none"))
    if logger == "mlflow":
        require_extra("logger=mlflow", "mlflow")
    plan = replace(_plan(config, settings, monitor, output_dir), heading=heading, tensorboard=logger == "tensorboard")
    report = train(plan, output_dir, monitor)
    if logger == "mlflow":
        log_release(output_dir / "release", report, folder=output_dir / "mlflow")
    print_report(report, output_dir / "report.html", scores=hydra.mode != RunMode.MULTIRUN)
    return sweep_row(report, output_dir)


def _plan(config: DictConfig, settings: dict[str, Any], monitor: Monitor, output_dir: Path) -> Plan:
    make = run.maker(config)
    data = make("data")
    plan = Plan(
        load_dataset=run.watched_load(data, monitor),
        teacher=make("teacher"),
        num_teachers=config.teacher.num_teachers,
        engine=make("engine"),
        aggregator=make("aggregator"),
        student=make("student"),
        budgets=settings["budgets"],
        accountant=lambda: make("accountant"),
        ledger=None if config.ledger is None else Path(config.ledger),
        settings=settings,
        public_settings=partial(public_settings, told_settings(config, settings)),
        **{name: config[name] for name in _OF_THE_PLAN},
    )
    load = run.watched_load(data, monitor, make("features"), output_dir, check=partial(price, plan))
    return replace(plan, load_dataset=load)


def sweep_row(report: Report, folder: Path) -> dict[str, Any]:
    """What a sweep says of a run."""
    release, verdict = report.release, report.verdict
    return {name: getattr(report.student, name, None) for name in _SCORES} | {
        "run": report.name,
        "epsilon": report.privacy.epsilon,
        "delta": report.privacy.delta,
        "answered": f"{release.num_answered}/{release.num_queries}",
        "share_of_reachable": verdict.share_of_reachable,
        "beats_constant": verdict.beats_constant,
        "folder": str(folder),
        "data": report.data.name,
        "beside": {
            MODEL_NAMES[name]: {key: getattr(scores, key, None) for key in _SCORES}
            for name in _BESIDE
            if (scores := getattr(report.baselines, name)) is not None
        },
    }


class SweepTable(Callback):
    """Hydra calls it: before and after each job, in the job's process, and before and after all of them."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Forgets the jobs of an earlier sweep into the same folder."""
        for path in Path(config.hydra.sweep.dir, "jobs").glob(_JOBS):
            path.unlink()

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Heads the run with its overrides."""
        if config.hydra.mode == RunMode.MULTIRUN:
            said = " ".join(config.hydra.overrides.task)
            PlainConsole().print(Text(f"\n[{config.hydra.job.num + 1}] {said}", style="bold"), soft_wrap=True)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Keeps what the run gave, and the table so far: a sweep that is stopped has one too. Says why a run failed."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        ended = job_return.return_value if job_return.status == JobStatus.COMPLETED else {"note": "failed"}
        result = ended if isinstance(ended, dict) else {}
        if note := result.get("note"):
            PlainConsole().print(Text(note, style="yellow"), soft_wrap=True)
        folder = Path(config.hydra.sweep.dir)
        job = {"given": given_settings(config.hydra.overrides.task), "result": result}
        write_text(make_folder(folder / "jobs") / f"{config.hydra.job.num:05d}.json", to_json_line(job) + "\n")
        _write(folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        if jobs := _write(folder):
            results = [job["result"] for job in jobs]
            priced = [each for each in results if each.get("delta") is not None]  # together only on the same records
            print_page(
                "cli/sweep.txt",
                jobs=jobs,
                **_table(jobs),
                columns=_COLUMNS.values(),
                priced=priced if len({each["data"] for each in priced}) == 1 else (),
                epsilon=math.fsum(number(each["epsilon"]) for each in priced),
                delta=math.fsum(each["delta"] for each in priced),
                folder=folder,
            )


def _write(folder: Path) -> list[dict[str, Any]]:
    """Writes sweep.csv, and returns what it was written from."""
    jobs = [read_json(path, rule=_JOB, remedy=_REMEDY) for path in sorted((folder / "jobs").glob(_JOBS))]
    if jobs:
        text, names = io.StringIO(), ["run", *_given(jobs), *_COLUMNS, "note", "folder"]
        write = row_writer(text, "\n")
        for row in ({name: name for name in names}, *(job["given"] | job["result"] for job in jobs)):
            write(row.get(name, "") for name in names)
        write_text(folder / "sweep.csv", text.getvalue())
    return jobs


def _given(jobs: list[dict[str, Any]]) -> list[str]:
    """The settings that jobs were given, in the order of the command line."""
    return list(dict.fromkeys(name for job in jobs for name in job["given"]))


def _table(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """A row for each run: its name, the settings that differ, its results; the best mean average precision first."""
    varied = [name for name in _given(jobs) if len({job["given"].get(name) for job in jobs}) > 1]
    runs = [job["result"].get("run") for job in jobs]
    if None not in runs and len(set(runs)) == len(runs):
        varied = [name for name in varied if name not in ("aggregator", "experiment")]
    shown = varied if "aggregator" in varied or "experiment" in varied else ["run", *varied]
    rows = []
    for job in sorted(jobs, key=lambda job: -(job["result"].get("mean_average_precision") or 0.0)):
        cells = job["result"] | job["given"]
        rows.append(
            [cells.get(name, "") for name in shown] + [_cell(name, job["result"].get(name)) for name in _COLUMNS]
        )
    if len({job["result"].get("data") for job in jobs}) == 1:
        for name, scores in jobs[0]["result"].get("beside", {}).items():
            blank = [""] * (len(shown) - 1)
            rows.append([name, *blank, *(_cell(key, scores.get(key)) if key in scores else "" for key in _COLUMNS)])
    return {"shown": shown, "rows": rows}


def _cell(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if name in ("epsilon", "share_of_reachable"):
        return format_epsilon(number(value)) if name == "epsilon" else percent(value)
    return value if isinstance(value, str) else f"{value:.3f}"


main = partial(run_app, train_from_config, "train")

if __name__ == "__main__":
    main()
