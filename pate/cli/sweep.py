"""A sweep: each run under a heading, and at the end one table of all, also as sweep.csv."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.files.atomic import make_folder, write_text
from pate.files.strict_json import to_json_line
from pate.report import Report

_RESULTS = (
    "epsilon",
    "answered",
    "mean_average_precision",
    "micro_f1",
    "macro_f1",
    "accuracy",
    "share_of_reachable",
    "beats_constant",
)
_ANY_WIDTH = 10_000
_SHOWN = {"mean_average_precision": "mean AP", "share_of_reachable": "of the reachable", "beats_constant": "> constant"}


def sweep_row(report: Report, folder: Path) -> dict[str, Any]:
    """What a sweep says of a run."""
    release, verdict = report.release, report.verdict
    scores = {name: getattr(report.student, name, None) for name in _RESULTS}
    return scores | {
        "epsilon": report.privacy.epsilon,
        "answered": f"{release.num_answered}/{release.num_queries}",
        "share_of_reachable": verdict.share_of_reachable,
        "beats_constant": verdict.beats_constant,
        "folder": str(folder),
    }


class SweepTable(Callback):
    """Hydra calls it: before and after each job, in the job's process, and once all have ended."""

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Heads the run with its overrides."""
        if config.hydra.mode == RunMode.MULTIRUN:
            said = " ".join(config.hydra.overrides.task)
            Console().print(Text(f"\n[{config.hydra.job.num + 1}] {said}", style="bold"), soft_wrap=True)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Keeps what the run gave, and the table so far: a sweep that is stopped has one too."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        done = job_return.status == JobStatus.COMPLETED
        result = job_return.return_value if done and isinstance(job_return.return_value, dict) else {}
        given = dict(text.lstrip("+~").partition("=")[::2] for text in config.hydra.overrides.task)
        folder = Path(config.hydra.sweep.dir)
        job = {"given": given, "result": result, "failed": not done}
        write_text(make_folder(folder / "jobs") / f"{config.hydra.job.num:05d}.json", to_json_line(job) + "\n")
        _write(folder)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Prints the table."""
        folder = Path(config.hydra.sweep.dir)
        jobs = _write(folder)
        console, table = Console(), _table(jobs)
        wanted = console.measure(table, options=console.options.update(max_width=_ANY_WIDTH)).maximum
        Console(width=max(console.width, wanted)).print(table)  # wrapped by the terminal rather than cut
        console.print(Text.assemble("written: ", (str(folder / "sweep.csv"), "bold")), soft_wrap=True)


def _write(folder: Path) -> list[dict[str, Any]]:
    """Writes sweep.csv, and returns what it was written from."""
    jobs = [json.loads(path.read_text()) for path in sorted((folder / "jobs").glob("*.json"))]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*_given(jobs), *_RESULTS, "failed", "folder"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**job["given"], **job["result"], "failed": job["failed"]} for job in jobs)
    write_text(folder / "sweep.csv", text.getvalue())
    return jobs


def _given(jobs: list[dict[str, Any]]) -> list[str]:
    """The settings that jobs were given, in the order of the command line."""
    return list(dict.fromkeys(name for job in jobs for name in job["given"]))


def _table(jobs: list[dict[str, Any]]) -> Table:
    """A row a run: the settings that differ, and its results; the best mean average precision first."""
    varied = [name for name in _given(jobs) if len({job["given"].get(name) for job in jobs}) > 1]
    table = Table(title=f"{len(jobs)} runs", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in varied:
        table.add_column(name)
    for name in _RESULTS:
        table.add_column(_SHOWN.get(name, name.replace("_", "-")), justify="right")
    ranked = sorted(jobs, key=lambda job: -(job["result"].get("mean_average_precision") or 0.0))
    for job in ranked:
        cells = [Text(str(job["given"].get(name, ""))) for name in varied]
        table.add_row(*cells, *(_cell(name, job["result"].get(name)) for name in _RESULTS))
    return table


def _cell(name: str, value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0%}" if name == "share_of_reachable" else f"{value:.3g}"
