"""pate-compare: compares several methods at several epsilons with the same seeds, and prints a table."""

from pate.config.plain import plain_values
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
from pate.cli.run import default_folder, plain_settings, watched_load
from pate.comparison import ComparisonPlan, Method, PATEMethod, compare
from pate.comparison.frontier import Frontier, Line
from pate.config.build import build, part_maker
from pate.config.command_line import expand_home
from pate.config.schema import members
from pate.data import Dataset
from pate.report.console import PlainConsole, print_page
from pate.validation import InvalidValue, require, require_choice

# the settings that the results of a comparison depend on, whichever methods, epsilons and seeds are selected
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
_GROUPS = ("aggregator", "experiment")


def compare_from_config(config: DictConfig) -> None:
    """Runs or continues the configured comparison of methods, and prints its tables."""
    all_settings = plain_settings(config, excluded_settings=())
    settings = {name: all_settings[name] for name in _COMPARED if name in all_settings}
    data_name = str(config.data._target_).rpartition(".")[2].lower()
    output_dir = Path(config.output_dir or default_folder("compare", data_name, settings=settings))
    make = part_maker(config)
    monitor = ConsoleMonitor()
    part_words = _words_of_parts(HydraConfig.get().overrides.task)
    other_methods = _other_methods(config)
    names = _names(config.aggregators, other_methods)
    _require_used(part_arguments=part_words, entries=names)
    pate_methods = [
        _pate_method(entry=name, config=config, part_arguments=part_words) for name in names
    ]
    # a plain copy, which workers get without the whole configuration
    accountant = OmegaConf.create(plain_values(config.accountant, resolve=True))
    check = None if config.fewer_queries else partial(_require_queries, config.num_queries)
    plan = ComparisonPlan(
        load_dataset=watched_load(
            data=make("data"),
            monitor=monitor,
            features=make("features"),
            folder=output_dir,
            check_dataset=check,
        ),
        methods=(*pate_methods, *other_methods),
        engine=make("engine"),
        student=make("student"),
        fewer_queries=config.fewer_queries,
        epsilons=tuple(sorted(_numbers(name="epsilons", setting_value=config.epsilons))),
        seeds=_seeds(config.seeds),
        accountant=partial(
            build, accountant, "accountant", allowed_targets=list(config.allowed_targets)
        ),
        shares=_numbers(name="shares", setting_value=config.shares),
        all_records=config.all_records,
        num_queries=config.num_queries,
        target_delta=config.target_delta,
        ensemble_seed=config.ensemble_seed,
        metric=config.metric,
        num_workers=config.num_workers,
        allow_useless=config.allow_useless,
    )
    print_frontier(frontier=compare(plan, output_dir, monitor), folder=output_dir)


def _words_of_parts(arguments: Iterable[str]) -> list[str]:
    """Returns the arguments of a command line that choose or configure the teacher or the student."""
    part_words = []
    for word in arguments:
        setting = word.lstrip("+~").partition("=")[0]
        if setting.partition(".")[0] in ("teacher", "student"):
            part_words.append(word)
    return part_words


def _other_methods(config: DictConfig) -> tuple[Method, ...]:
    """Returns the compared methods other than PATE: those in `methods=`, and the one in `method=` with its settings."""
    nodes = {}
    for name in map(str, config.methods):
        require_choice("methods", name, members("method"))
        nodes[name] = compose("compare", [f"method={name}"]).method
    if config.method is not None:
        name = str(HydraConfig.get().runtime.choices["method"])
        require(name not in nodes, "method", name, "a method that methods= does not list as well")
        nodes[name] = config.method
    return tuple(
        build(
            node,
            slot="method",
            name=name,
            allowed_targets=list(config.allowed_targets),
            adjacency=config.adjacency,
        )
        for name, node in nodes.items()
    )


def _names(aggregators: Any, other_methods: tuple[Method, ...] = ()) -> tuple[str, ...]:
    """Returns the entries of `aggregators=`, after checking that each names an aggregator or an experiment.

    NAME@T stands for T teachers. If an aggregator and an experiment have the same name, `aggregator:NAME` and
    `experiment:NAME` distinguish them.

    Args:
        aggregators: the value of the setting.
        other_methods: the compared methods other than PATE.
    """
    names: list[Any] = []
    if isinstance(aggregators, str):
        names = [aggregators]
    elif isinstance(aggregators, ListConfig):
        names = list(aggregators)
    if not names and not other_methods:
        raise InvalidValue("aggregators", aggregators, rule="a list of names; --help lists them")
    all_members = tuple(sorted({*members("aggregator"), *members("experiment")}))
    for name in map(str, names):
        chosen, at, num_teachers = name.partition("@")
        group, colon, member = chosen.rpartition(":")
        rule = "NAME, aggregator:NAME or experiment:NAME"
        require(not colon or group in _GROUPS, "aggregators", name, rule)
        require_choice("aggregators", member, members(group) if colon else all_members)
        rule = "NAME, or NAME@T with T teachers"
        require(not at or num_teachers.isdecimal(), "aggregators", name, rule)
    return tuple(map(str, names))


def _require_used(part_arguments: list[str], entries: tuple[str, ...]) -> None:
    """Raises `InvalidValue` for a number of teachers on the command line if every entry has a number of its own.

    Args:
        part_arguments: the arguments of the command line that configure the teacher or the student.
        entries: the entries of `aggregators=`.
    """
    number = next(
        (word for word in part_arguments if word.startswith("teacher.num_teachers=")), None
    )
    if number and all("@" in name or _is_experiment(name) for name in entries):
        rule = "some name in aggregators= that has no @T and is no experiment's"
        name, _, value = number.partition("=")
        raise InvalidValue(name, value, rule=rule)


def _is_experiment(entry: str) -> bool:
    """Returns True if an entry of `aggregators=` is an experiment.

    An experiment has precedence over an aggregator of the same name.
    """
    group, _, name = entry.partition("@")[0].rpartition(":")
    return group != "aggregator" and name in members("experiment")


def _pate_method(entry: str, config: DictConfig, part_arguments: list[str]) -> PATEMethod:
    """Returns the compared method that an entry of `aggregators=` describes.

    An experiment brings its own teachers and student. An aggregator uses those of the command line.

    Args:
        entry: the entry.
        config: the composed configuration.
        part_arguments: the arguments of the command line that configure the teacher or the student.
    """
    chosen_name, _, num_teachers = entry.partition("@")
    name = chosen_name.rpartition(":")[2]
    is_experiment = _is_experiment(entry)
    overrides = [f"experiment={name}"] if is_experiment else [f"aggregator={name}", *part_arguments]
    if num_teachers:
        setting = "teacher.num_teachers="
        overrides = [word for word in overrides if not word.startswith(setting)]
        overrides.append(f"{setting}{num_teachers}")
    overrides += [f"{name}={config[name]}" for name in ("adjacency", "target_delta", "num_queries")]
    run_config = compose("train", overrides)
    expand_home(run_config)
    run_config.allowed_targets = config.allowed_targets  # which are the command line's
    # features=kernel is for kernel teachers alone, and changes no other teacher or method
    if "nonlinear" in run_config.teacher:
        run_config.features = config.features
    make = part_maker(run_config)
    # a table can then show the experiment of the same name beside the aggregator
    has_namesake = not is_experiment and name in members("experiment")
    return PATEMethod(
        name=f"aggregator-{name}" if has_namesake else name,
        aggregator=make("aggregator"),
        teacher=make("teacher"),
        num_teachers=run_config.teacher.num_teachers,
        student=make("student"),
    )


def _require_queries(num_queries: int, dataset: Dataset) -> None:
    """Raises `InvalidValue` if the public pool has fewer samples than `num_queries`, before features are fitted."""
    pool = len(dataset.public)
    require(num_queries <= pool, "num_queries", num_queries, f"at most {pool}, the public pool")


def _numbers(name: str, setting_value: Any) -> tuple[float, ...]:
    """Returns the numbers in a setting whose value is a number or a list of numbers.

    Args:
        name: the name of the setting, for messages.
        setting_value: the value of the setting.
    """
    listed = list(setting_value) if isinstance(setting_value, ListConfig) else [setting_value]
    try:
        return tuple(float(value) for value in listed)
    except (TypeError, ValueError) as error:
        raise InvalidValue(name, setting_value, rule="a list of numbers") from error


def _seeds(setting_value: Any) -> tuple[int, ...]:
    """Returns the seeds in a setting whose value is a list of seeds, or n for the seeds 0 to n - 1."""
    if isinstance(setting_value, int) and not isinstance(setting_value, bool):
        return tuple(range(setting_value))
    if isinstance(setting_value, ListConfig) and all(type(value) is int for value in setting_value):
        return tuple(setting_value)
    raise InvalidValue("seeds", setting_value, rule="a whole number >= 1, or a list of seeds")


def print_frontier(frontier: Frontier, folder: Path, *, console: Console | None = None) -> None:
    """Prints the scores of a comparison, the smallest epsilon for each goal, and the baselines.

    Standard deviations over seeds are printed if there is room.

    Args:
        frontier: the results of the comparison.
        folder: the folder of the comparison, which is printed.
        console: the console to print on; None for standard output.
    """
    console = console or PlainConsole()
    room = console.width - max(len(line.name) for line in frontier.lines) - len("  teachers")
    spread = frontier.has_spread and room >= len(frontier.epsilons) * len("  0.123 ± 0.123")

    def scores(line: Line) -> list[str]:
        points = [line.at(epsilon) for epsilon in frontier.epsilons]
        if spread:
            return [point.text for point in points]
        return [replace(point, std=None).text.removeprefix("0") for point in points]

    print_page(
        "cli/compare.txt",
        console=console,
        frontier=frontier,
        folder=folder,
        spread=spread,
        scores=scores,
    )


main = command_of(compare_from_config, command="compare", module=__name__)
