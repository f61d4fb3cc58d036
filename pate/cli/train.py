"""pate-train: trains teachers on private records and a student on their noisy labels."""

from pate.extras import require_extra

require_extra("pate-train", "train")


from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from pate.accounting import TruncatedNegativeBinomial
from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.cli.run_settings import (
    default_folder,
    make_dataset_loader,
    plain_settings,
    run_heading,
    settings_from,
)
from pate.cli.sweep import enter_folder, sweep_row
from pate.config.build import part_maker
from pate.config.command_line import given_settings
from pate.config.published import public_settings, without_outside_values
from pate.config.schema import NUM_PUBLIC_LABELS_KEY
from pate.data import Dataset
from pate.errors import Remedy
from pate.features import Features
from pate.progress import Monitor
from pate.report.console import print_report
from pate.report.mlflow import log_release
from pate.run.plan import EpsilonOnVotes, Plan, price_release
from pate.run.train import train
from pate.run.tuning import tune
from pate.settings import RunSettings, TrainSettings, changeable_names, values_of
from pate.validation import InvalidValue, require_choice

# The settings that the release does not depend on. They may change when a run is continued.
_CHANGEABLE_NAMES = changeable_names("train")


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class ConfiguredRun:
    """A run as configured, before its folder is known.

    Attributes:
        plan: the plan of the run, whose data set has no features yet.
        data_reader: the reader of the data set.
        feature_recipe: the recipe of features.
        output_dir: the folder of the run, as configured; None for the default.
        mean_num_runs: the expected number of runs of a tuning.
    """

    plan: Plan
    data_reader: Any
    feature_recipe: Features
    output_dir: str | None
    mean_num_runs: float

    def plan_in(self, output_dir: Path, *, monitor: Monitor) -> Plan:
        """Returns the plan of the run in a folder, beside which features are cached."""

        def require_price(dataset: Dataset) -> None:
            """Raises `InvalidValue` if the run has no price on a data set whose features are not extracted yet."""
            # An earlier release is about features, which are not there yet; a start changes no price.
            plan_without_start = replace(self.plan, start=None)
            # The run reports later that it has fewer queries, so this silent monitor keeps the line from coming twice.
            plan_on_dataset = plan_without_start.for_dataset(dataset, monitor=Monitor())
            price_release(plan_on_dataset, dataset=dataset, monitor=monitor)

        load_dataset = make_dataset_loader(
            self.data_reader,
            monitor=monitor,
            feature_recipe=self.feature_recipe,
            output_dir=output_dir,
            check_dataset=require_price,
        )
        return replace(self.plan, load_dataset=load_dataset)


# The candidates of a tuning, in the order of the sweep. Hydra calls `train_from_config` once for each job, and offers
# no place between the jobs. So the runs wait here until the sweep ends.
_CANDIDATES: list[ConfiguredRun] = []


def train_from_config(config: DictConfig) -> dict[str, Any]:
    """Runs or continues the configured run, prints its report, and returns its row in the table of a sweep.

    With `tune=true` nothing is run yet: the run is noted as a candidate of the tuning, and the row says so.
    """
    logger_name = require_choice("logger", config.logger, ("tensorboard", "mlflow", "none"))
    if logger_name == "mlflow":
        require_extra("logger", "mlflow", "mlflow")
    train_settings = settings_from(config, settings_class=TrainSettings)
    monitor = ConsoleMonitor()
    configured_run = _configured_run(
        config, train_settings=train_settings, logger_name=logger_name, monitor=monitor
    )
    if train_settings.tune:
        return _add_candidate(configured_run, logger_name=logger_name)
    return _train(configured_run, logger_name=logger_name, monitor=monitor)


def _configured_run(
    config: DictConfig, *, train_settings: TrainSettings, logger_name: str, monitor: Monitor
) -> ConfiguredRun:
    """Returns the run that a configuration describes."""
    # The release depends on these settings alone. They give the folder its name, and a run continues in a folder of
    # equal settings.
    deciding_settings = plain_settings(config, excluded_settings=_CHANGEABLE_NAMES)
    hydra = HydraConfig.get()
    heading_values = run_heading(
        deciding_settings,
        overrides=hydra.overrides.task,
        chosen_member_of_group=hydra.runtime.choices,
        changeable_names=_CHANGEABLE_NAMES,
    )
    build_part = part_maker(config, takes_public_labels=True)
    data_reader = build_part("data")
    plan = Plan(
        load_dataset=make_dataset_loader(data_reader, monitor=monitor),
        teacher=build_part("teacher"),
        engine=build_part("engine"),
        aggregator=build_part("aggregator"),
        student=build_part("student"),
        num_public_labels=config.data.get(NUM_PUBLIC_LABELS_KEY),
        num_teachers=config.teacher.num_teachers,
        accountant=partial(build_part, "accountant"),
        settings=deciding_settings,
        make_release_config_text=partial(
            public_settings, without_outside_values(config, deciding_settings)
        ),
        tensorboard=logger_name == "tensorboard",
        heading=heading_values,
        centered_votes=_centered_votes_remedy(
            hydra.overrides.task, target_epsilon=train_settings.solved_epsilon
        ),
        epsilon_on_votes_function=_epsilon_on_votes(train_settings),
        target_epsilon=train_settings.solved_epsilon,
        # The settings of `RunSettings` (`pate/settings.py`), such as `seed`, are fields of a plan under the same names.
        # `target_epsilon` is left out: the plan has the epsilon above, which is None where the noise is given.
        **values_of(
            settings=train_settings, settings_class=RunSettings, omitted_names=("target_epsilon",)
        ),
    )
    return ConfiguredRun(
        plan=plan,
        data_reader=data_reader,
        feature_recipe=build_part("features"),
        output_dir=config.output_dir,
        mean_num_runs=train_settings.tune_runs,
    )


def _epsilon_on_votes(train_settings: TrainSettings) -> EpsilonOnVotes | None:
    """Returns the function that prices a release on its own votes; None unless `data_dependent` is true."""
    if not train_settings.data_dependent:
        return None
    # Few runs need the audit, so it is not imported with this module.
    from pate.auditing.aggregator_cost import epsilon_on

    return epsilon_on


def _train(configured_run: ConfiguredRun, *, logger_name: str, monitor: Monitor) -> dict[str, Any]:
    """Runs or continues a run in its folder, prints its report, and returns its row in the table of a sweep."""
    hydra = HydraConfig.get()
    is_sweep = hydra.mode == RunMode.MULTIRUN
    heading_values = configured_run.plan.heading
    data_name = str(heading_values.compared["data"])
    usual_folder = default_folder(
        data_name, heading_values.aggregator_name, settings=configured_run.plan.settings
    )
    output_dir = Path(configured_run.output_dir or usual_folder)
    if is_sweep:
        enter_folder(Path(hydra.sweep.dir), job_number=hydra.job.num, output_dir=output_dir)
    plan = configured_run.plan_in(output_dir, monitor=monitor)
    report = train(plan, output_dir=output_dir, monitor=monitor)
    if logger_name == "mlflow":
        log_release(
            release_folder=output_dir / "release", report=report, folder=output_dir / "mlflow"
        )
    print_report(report, report_path=output_dir / "report.html", with_scores=not is_sweep)
    return sweep_row(report, output_dir=output_dir)


def _add_candidate(configured_run: ConfiguredRun, *, logger_name: str) -> dict[str, Any]:
    """Notes a run as a candidate of the tuning, and returns its row of the sweep.

    Raises `InvalidValue` if no sweep can compare such runs.
    """
    hydra = HydraConfig.get()
    _require_tunable(
        is_sweep=hydra.mode == RunMode.MULTIRUN,
        launcher_name=hydra.runtime.choices.get("hydra/launcher"),
        logger_name=logger_name,
    )
    _CANDIDATES.append(configured_run)
    return {"is_candidate": True}


def _require_tunable(*, is_sweep: bool, launcher_name: str | None, logger_name: str) -> None:
    """Raises `InvalidValue` unless `tune=true` stands in a sweep, with the launcher `basic` and without MLflow.

    Args:
        is_sweep: whether the command has several runs.
        launcher_name: the name of Hydra's launcher.
        logger_name: the value of the setting `logger`.
    """
    if not is_sweep:
        rule = "a sweep, as in pate-train -m features.kind=words,letters tune=true"
        raise InvalidValue("tune", "true", rule=rule)
    if launcher_name != "basic":
        rule = "basic beside tune=true, whose runs one process compares"
        raise InvalidValue("hydra/launcher", launcher_name, rule=rule)
    if logger_name == "mlflow":
        raise InvalidValue("logger", logger_name, rule="tensorboard or none beside tune=true")


def tune_candidates() -> None:
    """Publishes the best run of a sweep with `tune=true`, and prints its report; does nothing if there is none.

    The jobs of the sweep name the settings of the candidates. `tune` makes a secret number of runs with them, and
    the run with the best score becomes the release in the output folder.
    """
    if not _CANDIDATES:
        return
    first_run = _CANDIDATES[0]
    output_dirs = {candidate.output_dir for candidate in _CANDIDATES}
    if len(output_dirs) > 1:
        rule = "one folder for all settings that compete"
        raise InvalidValue("output_dir", " or ".join(map(str, output_dirs)), rule=rule)
    heading_values = first_run.plan.heading
    settings = {
        str(number): candidate.plan.settings for number, candidate in enumerate(_CANDIDATES)
    }
    data_name = str(heading_values.compared["data"])
    usual_folder = default_folder(
        data_name, heading_values.aggregator_name, "tuned", settings=settings
    )
    output_dir = Path(first_run.output_dir or usual_folder)
    # The stages of single runs would show how many runs there are, which is secret.
    silent_monitor = Monitor()
    report = tune(
        [candidate.plan_in(output_dir, monitor=silent_monitor) for candidate in _CANDIDATES],
        output_dir=output_dir,
        distribution=TruncatedNegativeBinomial.of_mean(mean=first_run.mean_num_runs),
        monitor=ConsoleMonitor(),
    )
    print_report(report, report_path=output_dir / "report.html", with_scores=True)


def _centered_votes_remedy(
    arguments: Iterable[str], *, target_epsilon: float | None
) -> Remedy | None:
    """Returns the advice to release centered votes of all private groups at the same epsilon, as settings.

    Returns None if no noise is solved for, or if it is solved for `target_mu`.

    Settings on the command line that would override those of `experiment=centered_votes` are named, so that the user
    takes them away.

    Args:
        arguments: the arguments of the command line.
        target_epsilon: the epsilon that the run's noise is solved for; None if it has none.
    """
    if target_epsilon is None:
        return None
    conflicting_groups = {"teacher", "aggregator", "experiment", "way"}
    conflicting_settings = [
        f"{name}="
        for name in given_settings(arguments=arguments)
        if name.partition(".")[0] in conflicting_groups
    ]
    same_epsilon_remedy = Remedy("target_epsilon", target_epsilon)
    if not conflicting_settings:
        return Remedy("experiment", "centered_votes", also=(same_epsilon_remedy,))
    experiment_in_words = f"centered_votes in place of {' and '.join(conflicting_settings)}"
    return replace(same_epsilon_remedy, also=(Remedy("experiment", experiment_in_words),))


main = command_of(
    train_from_config,
    command="train",
    # An earlier sweep of this process may have ended with an error.
    begin=_CANDIDATES.clear,
    finish=tune_candidates,
)


if __name__ == "__main__":
    main()
