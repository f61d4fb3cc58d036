"""pate-train: from private records to a private student, or onwards from where a run stopped."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from pate.cli.app import run_app
from pate.cli.featured import featured, has_none
from pate.cli.heading import BESIDE, default_folder, known_before, run_heading
from pate.cli.progress import ConsoleMonitor, watched_load
from pate.cli.sweep import sweep_row
from pate.config import build, build_aggregator
from pate.config.noise import noise_is_given, queries_are_named, target_is_given
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
    aggregator = build_aggregator(
        config.aggregator, adjacency=config.adjacency, allowed_targets=list(config.allowed_targets)
    )
    hydra = HydraConfig.get()
    said = hydra.overrides.task, hydra.runtime.choices.get("experiment")
    gives_way = config.max_epsilon is not None and not target_is_given(*said)
    if gives_way or noise_is_given(said[0], aggregator, said[1]):
        config.target_epsilon = None
    settings = _settings(config)
    heading = run_heading(settings, said[0], hydra.runtime.choices)
    output_dir = Path(config.output_dir or default_folder(settings, heading))
    monitor = ConsoleMonitor()
    logger = require_choice("logger", config.logger, ("tensorboard", "mlflow", "none"))
    if logger == "mlflow":
        require_mlflow()
    fewer = not queries_are_named(*said)
    plan = _plan(config, settings, monitor, output_dir, fewer_queries=fewer)
    plan = replace(plan, heading=heading, tensorboard=logger == "tensorboard")
    report = train(plan, output_dir, monitor)
    if logger == "mlflow":
        log_release(output_dir / "release", report, folder=output_dir / "mlflow")
    print_report(report, output_dir / "report.html")
    return sweep_row(report, output_dir)


def _plan(
    config: DictConfig, settings: dict[str, Any], monitor: Monitor, output_dir: Path, *, fewer_queries: bool
) -> Plan:
    allowed = list(config.allowed_targets)

    def make(group: str, **arguments: Any) -> Any:
        return build(config[group], group, allowed_targets=allowed, **arguments)

    teacher = OmegaConf.masked_copy(config.teacher, [key for key in config.teacher if key != "num_teachers"])
    data = make("data")
    plan = Plan(
        load_dataset=watched_load(data, monitor),
        teacher=build(teacher, "teacher", allowed_targets=allowed),
        num_teachers=config.teacher.num_teachers,
        engine=make("engine"),
        aggregator=build_aggregator(config.aggregator, adjacency=config.adjacency, allowed_targets=allowed),
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
        fewer_queries=fewer_queries,
    )
    reader = featured(data, make("features"), output_dir, check=partial(price, plan))
    return replace(plan, load_dataset=watched_load(reader, monitor))


def _settings(config: DictConfig) -> dict[str, Any]:
    """All that a release depends on, as plain values; where it is written or keeps pictures is not part of it."""
    settings = OmegaConf.to_container(config, resolve=True)
    if not isinstance(settings, dict):
        raise TypeError("a composed configuration is a dictionary")
    for part in ("data", "features"):
        if isinstance(node := settings.get(part), dict) and "cache" in node:
            node["cache"] = None
    settings["data"] = known_before(settings["data"])
    if has_none(settings.get("features", {})):
        settings.pop("features")  # folders of earlier versions know no such setting
    if settings.get("holders") is None:
        settings.pop("holders", None)  # nor this one
    return {str(key): value for key, value in settings.items() if key not in BESIDE}


if __name__ == "__main__":
    main()
