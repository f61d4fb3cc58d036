"""pate-compare: compares several methods at several epsilons with the same seeds, and prints a table."""

from pate.extras import require_extra

require_extra("pate-compare", "train")


from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf
from rich.console import Console

from pate.cli.app import command_of
from pate.cli.monitor import ConsoleMonitor
from pate.cli.run_settings import default_folder, make_dataset_loader, plain_settings
from pate.comparison import ComparisonPlan, Method, PATEMethod, compare
from pate.comparison.frontier import Frontier, Line
from pate.config.build import build, part_maker
from pate.config.command_line import expand_home
from pate.config.plain import plain_values
from pate.config.schema import names_in_config_group
from pate.data import Dataset
from pate.report.console import PlainConsole, print_page
from pate.validation import InvalidValue, require_choice

# The results of every method depend on these settings, whichever methods, epsilons and seeds are selected.
_COMPARED = (
    "data",
    "features",
    "student",
    "target_delta",
    "num_queries",
    "adjacency",
    "ensemble_seed",
    "accountant",
)
# What stands between the name and the number of teachers in an entry of `aggregators=`, as in NAME@T.
_BEFORE_NUM_TEACHERS = "@"
# The configuration groups whose members `aggregators=` lists.
_GROUPS = ("aggregator", "experiment")


def compare_from_config(config: DictConfig) -> None:
    """Runs or continues the configured comparison of methods, and prints its tables."""
    all_settings = plain_settings(config, excluded_settings=())
    settings = {name: all_settings[name] for name in _COMPARED if name in all_settings}
    data_name = str(config.data._target_).rpartition(".")[2].lower()
    output_dir = Path(config.output_dir or default_folder("compare", data_name, settings=settings))
    build_part = part_maker(config)
    monitor = ConsoleMonitor()
    model_overrides = _teacher_or_student_overrides(HydraConfig.get().overrides.task)
    other_methods = _other_methods(config)
    entries = _entries(config.aggregators, may_be_empty=bool(other_methods))
    _require_num_teachers_used(model_overrides, entries=entries)
    pate_methods = [
        _pate_method(
            entry,
            config=config,
            model_overrides=model_overrides,
        )
        for entry in entries
    ]
    # Workers get a plain copy, without the rest of the configuration.
    accountant_config = OmegaConf.create(plain_values(config.accountant, resolve=True))
    check_dataset = None
    if not config.fewer_queries:
        check_dataset = partial(_require_queries, num_queries=config.num_queries)
    goal_shares = _numbers(config.shares, setting_name="shares")
    comparison_plan = ComparisonPlan(
        load_dataset=make_dataset_loader(
            data_reader=build_part("data"),
            monitor=monitor,
            feature_recipe=build_part("features"),
            output_dir=output_dir,
            check_dataset=check_dataset,
        ),
        methods=(*pate_methods, *other_methods),
        engine=build_part("engine"),
        student=build_part("student"),
        fewer_queries=config.fewer_queries,
        epsilons=tuple(sorted(_numbers(config.epsilons, setting_name="epsilons"))),
        seeds=_seeds(config.seeds),
        accountant=partial(
            build,
            accountant_config,
            slot="accountant",
            allowed_targets=list(config.allowed_targets),
        ),
        shares=goal_shares,
        all_records=config.all_records,
        num_queries=config.num_queries,
        target_delta=config.target_delta,
        ensemble_seed=config.ensemble_seed,
        metric=config.metric,
        num_workers=config.num_workers,
        allow_useless=config.allow_useless,
    )
    frontier = compare(comparison_plan, output_dir=output_dir, monitor=monitor)
    print_frontier(frontier, folder=output_dir)


def _teacher_or_student_overrides(overrides: Iterable[str]) -> list[str]:
    """Returns the overrides of a command line that choose or configure the teacher or the student."""
    kept_overrides = []
    for override in overrides:
        setting_name = override.lstrip("+~").partition("=")[0]
        if setting_name.partition(".")[0] in ("teacher", "student"):
            kept_overrides.append(override)
    return kept_overrides


def _other_methods(config: DictConfig) -> tuple[Method, ...]:
    """Returns the compared methods other than PATE: those in `methods=`, and the one in `method=` with its settings."""
    config_of_method = {}
    for name in map(str, config.methods):
        require_choice("methods", name, choices=names_in_config_group("method"))
        config_of_method[name] = compose("compare", [f"method={name}"]).method
    if config.method is not None:
        name = str(HydraConfig.get().runtime.choices["method"])
        if name in config_of_method:
            rule = "a method that methods= does not list as well"
            raise InvalidValue("method", name, rule=rule)
        config_of_method[name] = config.method
    return tuple(
        build(
            method_config,
            slot="method",
            allowed_targets=list(config.allowed_targets),
            name=method_name,
            adjacency=config.adjacency,  # arguments of the class
        )
        for method_name, method_config in config_of_method.items()
    )


def _entries(aggregators_setting: Any, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """Returns the entries of `aggregators=`, after checking that each names an aggregator or an experiment.

    NAME@T stands for T teachers. If an aggregator and an experiment have the same name, `aggregator:NAME` and
    `experiment:NAME` distinguish them.

    Args:
        aggregators_setting: the value of the setting.
        may_be_empty: whether there may be no entry, as there are methods other than PATE to compare.
    """
    entries: tuple[str, ...] = ()
    if isinstance(aggregators_setting, str):
        entries = (aggregators_setting,)
    elif isinstance(aggregators_setting, ListConfig):
        entries = tuple(map(str, aggregators_setting))
    if not entries and not may_be_empty:
        raise InvalidValue(
            "aggregators", aggregators_setting, rule="a list of names; --help lists them"
        )
    for entry in entries:
        _require_entry(entry)
    return entries


def _require_entry(entry: str) -> None:
    """Raises `InvalidValue` unless an entry of `aggregators=` names an aggregator or an experiment.

    `aggregator:` or `experiment:` may stand before the name, and @T behind it, for T teachers.
    """
    name, at_sign, num_teachers = entry.partition(_BEFORE_NUM_TEACHERS)
    group, colon, member_name = name.rpartition(":")
    if colon and group not in _GROUPS:
        rule = "NAME, aggregator:NAME or experiment:NAME"
        raise InvalidValue("aggregators", entry, rule=rule)
    config_groups = (group,) if colon else _GROUPS
    member_names = sorted(
        {choice for each_group in config_groups for choice in names_in_config_group(each_group)}
    )
    require_choice("aggregators", member_name, choices=tuple(member_names))
    if at_sign and not num_teachers.isdecimal():
        raise InvalidValue("aggregators", entry, rule="NAME, or NAME@T with T teachers")


def _require_num_teachers_used(model_overrides: list[str], *, entries: tuple[str, ...]) -> None:
    """Raises `InvalidValue` for a number of teachers on the command line if no entry of `aggregators=` uses it.

    An entry has a number of its own if it ends in @T or is an experiment.

    Args:
        model_overrides: the overrides of the command line that configure the teacher or the student.
        entries: the entries of `aggregators=`.
    """
    if not all(_BEFORE_NUM_TEACHERS in entry or _names_experiment(entry) for entry in entries):
        return
    for override in model_overrides:
        setting_name, _, setting_value = override.partition("=")
        if setting_name == "teacher.num_teachers":
            rule = "some name in aggregators= that has no @T and is no experiment's"
            raise InvalidValue(setting_name, setting_value, rule=rule)


def _names_experiment(entry: str) -> bool:
    """Returns True if an entry of `aggregators=` is an experiment.

    An experiment has precedence over an aggregator of the same name.
    """
    name_with_group = entry.partition(_BEFORE_NUM_TEACHERS)[0]
    group, _, name = name_with_group.rpartition(":")
    return group != "aggregator" and name in names_in_config_group("experiment")


def _pate_method(entry: str, *, config: DictConfig, model_overrides: list[str]) -> PATEMethod:
    """Returns the compared method that an entry of `aggregators=` describes.

    An experiment brings its own teachers and student. An aggregator uses those of the command line.

    Args:
        entry: the entry.
        config: the composed configuration.
        model_overrides: the overrides of the command line that configure the teacher or the student.
    """
    chosen_name, _, num_teachers = entry.partition(_BEFORE_NUM_TEACHERS)
    name = chosen_name.rpartition(":")[2]
    is_experiment = _names_experiment(entry)
    run_overrides = (
        [f"experiment={name}"] if is_experiment else [f"aggregator={name}", *model_overrides]
    )
    if num_teachers:
        teachers_setting = "teacher.num_teachers="
        run_overrides = [
            override for override in run_overrides if not override.startswith(teachers_setting)
        ]
        run_overrides.append(f"{teachers_setting}{num_teachers}")
    run_overrides += [
        f"{setting_name}={config[setting_name]}"
        for setting_name in ("adjacency", "target_delta", "num_queries")
    ]
    run_config = compose("train", run_overrides)
    expand_home(run_config)
    run_config.allowed_targets = config.allowed_targets
    # Only kernel teachers have `nonlinear`, and features=kernel is for them alone.
    if "nonlinear" in run_config.teacher:
        run_config.features = config.features
    build_part = part_maker(run_config)
    # The prefix tells the aggregator from the experiment of the same name in one table.
    has_namesake = not is_experiment and name in names_in_config_group("experiment")
    return PATEMethod(
        name=f"aggregator-{name}" if has_namesake else name,
        aggregator=build_part("aggregator"),
        teacher=build_part("teacher"),
        num_teachers=run_config.teacher.num_teachers,
        student=build_part("student"),
    )


def _require_queries(dataset: Dataset, *, num_queries: int) -> None:
    """Raises `InvalidValue` if the public pool has fewer samples than `num_queries`, before features are fitted."""
    pool_size = len(dataset.public)
    if num_queries > pool_size:
        rule = f"at most {pool_size}, the public pool"
        raise InvalidValue("num_queries", num_queries, rule=rule)


def _numbers(setting_value: Any, *, setting_name: str) -> tuple[float, ...]:
    """Returns the numbers in a setting whose value is a number or a list of numbers.

    Args:
        setting_value: the value of the setting.
        setting_name: the name of the setting, for messages.
    """
    listed_values = (
        list(setting_value) if isinstance(setting_value, ListConfig) else [setting_value]
    )
    try:
        return tuple(float(value) for value in listed_values)
    except (TypeError, ValueError) as error:
        raise InvalidValue(setting_name, setting_value, rule="a list of numbers") from error


def _seeds(setting_value: Any) -> tuple[int, ...]:
    """Returns the seeds in a setting whose value is a list of seeds, or n for the seeds 0 to n - 1."""
    if isinstance(setting_value, int) and not isinstance(setting_value, bool):
        return tuple(range(setting_value))
    if isinstance(setting_value, ListConfig) and all(type(value) is int for value in setting_value):
        return tuple(setting_value)
    raise InvalidValue("seeds", setting_value, rule="a whole number >= 1, or a list of seeds")


def print_frontier(frontier: Frontier, *, folder: Path, console: Console | None = None) -> None:
    """Prints the scores of a comparison, the smallest epsilon for each goal, and the baselines.

    Standard deviations over seeds are printed if there is room.

    Args:
        frontier: the results of the comparison.
        folder: the folder of the comparison, which is printed.
        console: the console to print on; None for standard output.
    """
    console = console or PlainConsole()
    room = console.width - max(len(line.name) for line in frontier.lines) - len("  teachers")
    shows_spread = frontier.has_spread and room >= len(frontier.epsilons) * len("  0.123 ± 0.123")

    def format_scores(frontier_line: Line) -> list[str]:
        points_of_line = [frontier_line.at(epsilon) for epsilon in frontier.epsilons]
        if shows_spread:
            return [point.text for point in points_of_line]
        return [replace(point, std=None).text.removeprefix("0") for point in points_of_line]

    print_page(
        "cli/compare.txt",
        console=console,
        frontier=frontier,
        folder=folder,
        shows_spread=shows_spread,
        format_scores=format_scores,
    )


main = command_of(compare_from_config, command="compare")


if __name__ == "__main__":
    main()
