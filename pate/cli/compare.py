"""pate-compare: several aggregators on the same votes, at several epsilons, with the same seeds; and its table."""

from pate.validation import require_extra

require_extra("pate-compare", "train")


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
from pate.config.build import build, maker
from pate.config.command_line import expand_home
from pate.config.schema import members
from pate.data import Dataset
from pate.report.console import PlainConsole, print_page
from pate.validation import InvalidValue, require, require_choice

_OF_THE_FOLDER = "data features student target_delta num_queries adjacency ensemble_seed accountant"
_GROUPS = ("aggregator", "experiment")


def compare_from_config(config: DictConfig) -> None:
    """Runs or continues the configured comparison and prints its tables."""
    settings = {
        key: value
        for key, value in plain_settings(config, ()).items()
        if key in _OF_THE_FOLDER.split()
    }
    name = str(config.data._target_).rpartition(".")[2].lower()
    output_dir = Path(config.output_dir or default_folder("compare", name, settings=settings))
    make = maker(config)
    fewer = config.fewer_queries
    words = HydraConfig.get().overrides.task
    monitor = ConsoleMonitor()
    given = [
        word
        for word in words
        if word.lstrip("+~").partition("=")[0].partition(".")[0] in ("teacher", "student")
    ]
    others = _others(config)
    names = _names(config.aggregators, others)
    _require_heard(given, names)
    # workers get it alone
    accountant: Any = OmegaConf.create(OmegaConf.to_container(config.accountant, resolve=True))
    check = None if fewer else partial(_require_queries, config.num_queries)
    plan = ComparisonPlan(
        load_dataset=watched_load(make("data"), monitor, make("features"), output_dir, check=check),
        methods=(*(_method(name, config, given) for name in names), *others),
        **{part: make(part) for part in ("engine", "student")},
        fewer_queries=fewer,
        epsilons=tuple(sorted(_numbers("epsilons", config.epsilons))),
        seeds=_seeds(config.seeds),
        accountant=partial(
            build, accountant, "accountant", allowed_targets=list(config.allowed_targets)
        ),
        shares=_numbers("shares", config.shares),
        all_records=config.all_records,
        num_queries=config.num_queries,
        target_delta=config.target_delta,
        ensemble_seed=config.ensemble_seed,
        metric=config.metric,
        num_workers=config.num_workers,
        allow_useless=config.allow_useless,
    )
    print_frontier(compare(plan, output_dir, monitor), output_dir)


def _others(config: DictConfig) -> tuple[Method, ...]:
    """What competes with PATE: the methods that are listed, and the one that is chosen with settings of its own."""
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
            "method",
            name=name,
            allowed_targets=list(config.allowed_targets),
            adjacency=config.adjacency,
        )
        for name, node in nodes.items()
    )


def _names(asked: Any, others: tuple[Method, ...] = ()) -> tuple[str, ...]:
    """Reads the list of aggregators: names of aggregators or experiments, with @T for T teachers.

    `aggregator:NAME` is the aggregator where an experiment has the same name, and `experiment:NAME` the experiment.
    """
    names = (
        [asked] if isinstance(asked, str) else list(asked) if isinstance(asked, ListConfig) else []
    )
    if not names and not others:
        raise InvalidValue("aggregators", asked, rule="a list of names; --help lists them")
    known = tuple(sorted({*members("aggregator"), *members("experiment")}))
    for name in map(str, names):
        chosen, at, num_teachers = name.partition("@")
        group, colon, member = chosen.rpartition(":")
        require(
            not colon or group in _GROUPS,
            "aggregators",
            name,
            "NAME, aggregator:NAME or experiment:NAME",
        )
        require_choice("aggregators", member, members(group) if colon else known)
        require(
            not at or num_teachers.isdecimal(),
            "aggregators",
            name,
            "NAME, or NAME@T with T teachers",
        )
    return tuple(map(str, names))


def _require_heard(given: list[str], names: tuple[str, ...]) -> None:
    """Refuses a number of teachers where every name brings its own."""
    number = next((text for text in given if text.startswith("teacher.num_teachers=")), None)
    if number and all("@" in name or _is_experiment(name) for name in names):
        rule = "some name in aggregators= that has no @T and is no experiment's"
        name, _, value = number.partition("=")
        raise InvalidValue(name, value, rule=rule)


def _is_experiment(named: str) -> bool:
    """Checks whether a name of the list is an experiment, which goes before an aggregator of the same name."""
    group, _, name = named.partition("@")[0].rpartition(":")
    return group != "aggregator" and name in members("experiment")


def _method(named: str, config: DictConfig, given: list[str]) -> PATEMethod:
    """An experiment with its own teachers and student, or an aggregator with those of the command line."""
    chosen_name, _, num_teachers = named.partition("@")
    name = chosen_name.rpartition(":")[2]
    is_experiment = _is_experiment(named)
    chosen = [f"experiment={name}"] if is_experiment else [f"aggregator={name}", *given]
    number = [f"teacher.num_teachers={num_teachers}"] if num_teachers else []
    chosen = [text for text in chosen if not (number and text.startswith("teacher.num_teachers="))]
    terms = [f"{key}={config[key]}" for key in ("adjacency", "target_delta", "num_queries")]
    made = compose("train", [*chosen, *number, *terms])
    expand_home(made)
    made.allowed_targets = config.allowed_targets  # which are the command line's
    # of the others, as with other methods, features=kernel changes nothing
    if "nonlinear" in made.teacher:
        made.features = config.features
    make = maker(made)
    both = not is_experiment and name in members("experiment")
    return PATEMethod(
        # so that tables can have the experiment beside it
        name=f"aggregator-{name}" if both else name,
        aggregator=make("aggregator"),
        teacher=make("teacher"),
        num_teachers=made.teacher.num_teachers,
        student=make("student"),
    )


def _require_queries(num_queries: int, dataset: Dataset) -> None:
    """Refuses more queries than there are public samples, before features are made of these."""
    pool = len(dataset.public)
    require(num_queries <= pool, "num_queries", num_queries, f"at most {pool}, the public pool")


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    listed = list(values) if isinstance(values, ListConfig) else [values]
    try:
        return tuple(float(value) for value in listed)
    except (TypeError, ValueError) as error:
        raise InvalidValue(name, values, rule="a list of numbers") from error


def _seeds(values: Any) -> tuple[int, ...]:
    """The first so many, or those listed."""
    if isinstance(values, int) and not isinstance(values, bool):
        return tuple(range(values))
    if isinstance(values, ListConfig) and all(type(value) is int for value in values):
        return tuple(values)
    raise InvalidValue("seeds", values, rule="a whole number >= 1, or a list of seeds")


def print_frontier(frontier: Frontier, folder: Path, *, console: Console | None = None) -> None:
    """Prints scores, the cheapest epsilon for each goal and what none covers; spreads where there is room."""
    console = console or PlainConsole()
    room = console.width - max(len(line.name) for line in frontier.lines) - len("  teachers")
    spread = frontier.has_spread and room >= len(frontier.epsilons) * len("  0.123 ± 0.123")

    def scores(line: Line) -> list[str]:
        shown = [
            each if spread else replace(each, std=None) for each in map(line.at, frontier.epsilons)
        ]
        return [each.text if spread else each.text.removeprefix("0") for each in shown]

    print_page(
        "cli/compare.txt",
        console=console,
        frontier=frontier,
        folder=folder,
        spread=spread,
        scores=scores,
    )


main = command_of(compare_from_config, "compare", __name__)
