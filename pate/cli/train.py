"""pate-train: from private records to a private student, or onwards from where a run stopped."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from pate.cli.app import run_app
from pate.cli.console import ConsoleMonitor, watched_load
from pate.cli.run import BESIDE, default_folder, featured, maker, plain_settings, run_heading
from pate.cli.sweep import sweep_row
from pate.config.published import public_settings, told_settings
from pate.pipeline import train
from pate.report.console import print_report
from pate.report.mlflow import log_release, require_mlflow
from pate.run.plan import Plan, price
from pate.run.progress import Monitor
from pate.validation import require_choice


def main() -> None:
    """The entry point."""
    run_app(train_from_config, "train")


def train_from_config(config: DictConfig) -> dict[str, Any]:
    """Runs or continues the configured run and prints its report; returns its row in the table of a sweep."""
    settings, hydra = plain_settings(config, BESIDE), HydraConfig.get()
    heading = run_heading(settings, hydra.overrides.task, hydra.runtime.choices)
    names = str(heading.compared["data"]), heading.aggregator
    output_dir = Path(config.output_dir or default_folder(*names, settings=settings))
    monitor = ConsoleMonitor()
    logger = require_choice("logger", config.logger, ("tensorboard", "mlflow", "none"))
    if logger == "mlflow":
        require_mlflow()
    plan = replace(_plan(config, settings, monitor, output_dir), heading=heading, tensorboard=logger == "tensorboard")
    report = train(plan, output_dir, monitor)
    if logger == "mlflow":
        log_release(output_dir / "release", report, folder=output_dir / "mlflow")
    print_report(report, output_dir / "report.html")
    return sweep_row(report, output_dir)


def _plan(config: DictConfig, settings: dict[str, Any], monitor: Monitor, output_dir: Path) -> Plan:
    make = maker(config)
    data = make("data")
    plan = Plan(
        load_dataset=watched_load(data, monitor),
        teacher=make("teacher"),
        num_teachers=config.teacher.num_teachers,
        engine=make("engine"),
        aggregator=make("aggregator"),
        student=make("student"),
        num_queries=config.num_queries,
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        max_epsilon=config.max_epsilon,
        accountant=lambda: make("accountant"),
        all_records=config.all_records,
        allow_useless=config.allow_useless,
        ledger=None if config.ledger is None else Path(config.ledger),
        max_total_epsilon=config.max_total_epsilon,
        redraw=config.redraw,
        new_account=config.new_account,
        holders=config.holders,
        seed=config.seed,
        settings=settings,
        public_settings=partial(public_settings, told_settings(config, settings)),
        fewer_queries=config.fewer_queries,
    )
    reader = featured(data, make("features"), output_dir, check=partial(price, plan))
    return replace(plan, load_dataset=watched_load(reader, monitor))


if __name__ == "__main__":
    main()
