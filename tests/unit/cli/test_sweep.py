"""The table of a sweep: a row a run, the best first, what was refused with its reason."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import OmegaConf

from pate.cli.train import SweepTable


def config(folder: Path, num: int = 0, *words: str) -> Any:
    of_job = {"job": {"num": num}, "overrides": {"task": list(words)}}
    return OmegaConf.create({"hydra": {"mode": RunMode.MULTIRUN, "sweep": {"dir": str(folder)}, **of_job}})


def swept(folder: Path, *jobs: tuple[str, dict[str, Any] | None]) -> list[dict[str, str]]:
    table = SweepTable()
    table.on_multirun_start(config(folder))
    for num, (words, result) in enumerate(jobs):
        job = JobReturn()
        job.status = JobStatus.FAILED if result is None else JobStatus.COMPLETED
        job.return_value = result
        table.on_job_end(config(folder, num, *words.split()), job)
    table.on_multirun_end(config(folder))
    with (folder / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def result(score: float, epsilon: float = 8.004) -> dict[str, Any]:
    return {"epsilon": epsilon, "answered": "3/6", "mean_average_precision": score, "beats_constant": score > 0.2}


def test_the_best_first_epsilon_rounded_up_and_refusals_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {"note": "no [b]gap[/b]"}
    jobs = ("aggregator=a seed=0", result(0.1)), ("aggregator=b seed=0", result(0.27)), ("aggregator=c seed=0", refused)
    rows = swept(tmp_path, *jobs, ("aggregator=d seed=0", None))
    assert [row["aggregator"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["note"] for row in rows] == ["", "", "no [b]gap[/b]", "failed"]
    assert rows[1]["epsilon"] == "8.004"
    text = capsys.readouterr().out
    shown = [line.split() for line in text.splitlines()]
    assert ["b", "8.01", "3/6", "0.270", "-", "-", "-", "-", "yes"] in shown
    assert [cells[0] for cells in shown if cells and cells[0] in "abcd"] == ["b", "a", "c", "d"]
    assert "aggregator=c seed=0: no [b]gap[/b]" in text
    assert text.splitlines()[-1] == f"written: {tmp_path / 'sweep.csv'}"


def test_another_sweep_into_the_folder_forgets_the_jobs_of_the_last(tmp_path: Path) -> None:
    swept(tmp_path, ("seed=0", result(0.1)), ("seed=1", result(0.2)))
    assert len(swept(tmp_path, ("seed=2", result(0.3)))) == 1


def test_an_infinite_epsilon_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept(tmp_path, ("seed=0", result(0.1, float("inf"))))
    assert "inf" in capsys.readouterr().out


def test_a_refusal_is_said_at_once_below_its_own_heading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = SweepTable()
    for num, note in enumerate(({}, {"note": "teachers=9: expected at most 3"}, {})):
        job = JobReturn()
        job.status, job.return_value = JobStatus.COMPLETED, note
        table.on_job_start(config(tmp_path, num, f"seed={num}"))
        table.on_job_end(config(tmp_path, num, f"seed={num}"), job)
    said = "[1] seed=0 [2] seed=1 teachers=9: expected at most 3 [3] seed=2"
    assert capsys.readouterr().out.split() == said.split()


def test_runs_by_name_beside_the_ends_of_the_scale_and_what_they_cost_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {"all-records model": {"micro_f1": 0.7}, "best constant": {"micro_f1": 0.4}}
    told = {"delta": 1e-6, "data": "cases", "beside": ends}
    words = "experiment=first", "experiment=centered_votes"
    swept(tmp_path, *((each, result(0.2) | told | {"run": name}) for each, name in zip(words, "ab", strict=True)))
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    assert ["a", "8.01", "3/6", "0.200", "-", "-", "-", "-", "no"] in rows
    assert ["best", "constant", "0.400"] in rows
    assert "2 releases of one private data set cost together at most epsilon 16.01 at delta 2e-6" in text
