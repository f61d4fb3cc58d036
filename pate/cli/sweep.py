"""A sweep: each run under a heading, and at the end one table of all, also as sweep.csv."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig
from rich import box
from rich.table import Table
from rich.text import Text

from pate.config.command_line import given_settings
from pate.files.disk import make_folder, read_json, write_text
from pate.files.spreadsheet import SpreadsheetRows
from pate.files.values import number, to_json_line
from pate.report import Report, format_epsilon
from pate.report.console import PlainConsole
from pate.report.tables import percent

_SCORES = {
    "mean_average_precision": "mean\nAP",
    "micro_f1": "micro-\nF1",
    "macro_f1": "macro-\nF1",
    "accuracy": "accuracy",
}
_COLUMNS = {
    "epsilon": "epsilon",
    "answered": "answered",
    **_SCORES,
    "share_of_reachable": "reached",
    "beats_constant": "beats a\nconstant",
}
_ANY_WIDTH = 10_000
_JOB = "a job of this sweep"
_REMEDY = "sweep again into another folder; finished runs are shown again at no cost"


def sweep_row(report: Report, folder: Path) -> dict[str, Any]:
    """What a sweep says of a run."""
    release, verdict = report.release, report.verdict
    return {name: getattr(report.student, name, None) for name in _SCORES} | {
        "run": report.name,
        "epsilon": report.privacy.epsilon,
        "answered": f"{release.num_answered}/{release.num_queries}",
        "share_of_reachable": verdict.share_of_reachable,
        "beats_constant": verdict.beats_constant,
        "folder": str(folder),
    }


class SweepTable(Callback):
    """Hydra calls it: before and after each job, in the job's process, and before and after all of them."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Forgets the jobs of an earlier sweep into the same folder."""
        for path in _kept(Path(config.hydra.sweep.dir)):
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
        if job_return.status == JobStatus.COMPLETED:
            result = job_return.return_value if isinstance(job_return.return_value, dict) else {}
        else:
            result = {"note": "failed"}
        if note := result.get("note"):
            PlainConsole().print(Text(note, style="yellow"), soft_wrap=True)
        folder = Path(config.hydra.sweep.dir)
        job = {"given": given_settings(config.hydra.overrides.task), "result": result}
        write_text(make_folder(folder / "jobs") / f"{config.hydra.job.num:05d}.json", to_json_line(job) + "\n")
        _write(folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Prints the table."""
        folder = Path(config.hydra.sweep.dir)
        if not (jobs := _write(folder)):
            return
        console, table = PlainConsole(), _table(jobs)
        wanted = console.measure(table, options=console.options.update(max_width=_ANY_WIDTH)).maximum
        console.print()
        PlainConsole(width=max(console.width, wanted)).print(table)  # wrapped by the terminal rather than cut
        for job in jobs:
            if note := job["result"].get("note"):
                line = f"{' '.join(f'{name}={value}' for name, value in job['given'].items())}: {note}"
                console.print(Text(line, style="yellow"), soft_wrap=True)
        console.print(Text.assemble("written: ", (str(folder / "sweep.csv"), "bold")), soft_wrap=True)


def _kept(folder: Path) -> list[Path]:
    return sorted((folder / "jobs").glob("[0-9]*.json"))


def _write(folder: Path) -> list[dict[str, Any]]:
    """Writes sweep.csv, and returns what it was written from."""
    jobs = [read_json(path, rule=_JOB, remedy=_REMEDY) for path in _kept(folder)]
    if jobs:
        text = io.StringIO()
        names = ["run", *_given(jobs), *_COLUMNS, "note", "folder"]
        rows = SpreadsheetRows(text, "\n")
        rows.write(names)
        for job in jobs:
            row = job["given"] | job["result"]
            rows.write(row.get(name, "") for name in names)
        write_text(folder / "sweep.csv", text.getvalue())
    return jobs


def _given(jobs: list[dict[str, Any]]) -> list[str]:
    """The settings that jobs were given, in the order of the command line."""
    return list(dict.fromkeys(name for job in jobs for name in job["given"]))


def _table(jobs: list[dict[str, Any]]) -> Table:
    """One row per run: its name, the settings that differ, and its results; the best mean average precision first."""
    varied = [name for name in _given(jobs) if len({job["given"].get(name) for job in jobs}) > 1]
    shown = varied if "aggregator" in varied or "experiment" in varied else ["run", *varied]
    title = Text(f"{len(jobs)} run{'s' * (len(jobs) != 1)}", style="bold")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for name in shown:
        table.add_column(name, vertical="bottom")
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="right", vertical="bottom")
    for job in sorted(jobs, key=lambda job: -(job["result"].get("mean_average_precision") or 0.0)):
        cells = job["result"] | job["given"]
        names = [Text(str(cells.get(name, ""))) for name in shown]
        table.add_row(*names, *(_cell(name, job["result"].get(name)) for name in _COLUMNS))
    return table


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "epsilon":
        return format_epsilon(number(value))
    if name == "share_of_reachable":
        return percent(value)
    return value if isinstance(value, str) else f"{value:.3f}"
