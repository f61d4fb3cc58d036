"""pate-compare: several aggregators on the same votes, at several epsilons, with the same seeds; and its table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.cli.app import run_app
from pate.cli.run import ConsoleMonitor, default_folder, featured, maker, plain_settings, watched_load
from pate.comparison import ComparisonPlan, Method, PATEMethod, compare
from pate.comparison.frontier import (
    NOT_COVERED,
    Frontier,
    Point,
    baseline_name,
    baseline_title,
    goal_cells,
    goal_names,
    score,
    verdict,
)
from pate.config import build
from pate.config.location import members
from pate.data import Dataset
from pate.report.console import PlainConsole, titled_table
from pate.report.report import SEEDED_WARNING
from pate.report.tables import METRIC_NAMES
from pate.validation import InvalidValue, require, require_choice

_OF_THE_FOLDER = (
    *("data", "features", "student", "target_delta", "num_queries", "adjacency", "ensemble_seed", "accountant"),
)
_OF_THE_PLAN = (
    *("all_records", "num_queries", "target_delta", "ensemble_seed", "metric", "num_workers", "allow_useless"),
)
_PASSED_ON = ("teacher", "student")


def compare_from_config(config: DictConfig) -> None:
    """Runs or continues the configured comparison and prints its tables."""
    settings = {key: value for key, value in plain_settings(config, ()).items() if key in _OF_THE_FOLDER}
    name = str(config.data._target_).rpartition(".")[2].lower()
    output_dir = Path(config.output_dir or default_folder("compare", name, settings=settings))
    make, fewer = maker(config), config.fewer_queries
    words = HydraConfig.get().overrides.task
    given = [word for word in words if word.lstrip("+~").partition("=")[0].partition(".")[0] in _PASSED_ON]
    others = _others(config)
    names = _names(config.aggregators, others)
    _require_heard(given, names)
    monitor = ConsoleMonitor()
    accountant: Any = OmegaConf.create(OmegaConf.to_container(config.accountant, resolve=True))  # workers get it alone
    check = None if fewer else partial(_require_queries, config.num_queries)
    data = featured(make("data"), make("features"), output_dir, check=check)
    plan = ComparisonPlan(
        load_dataset=watched_load(data, monitor),
        methods=(*(_method(name, config, given) for name in names), *others),
        engine=make("engine"),
        student=make("student"),
        fewer_queries=fewer,
        epsilons=tuple(sorted(_numbers("epsilons", config.epsilons))),
        seeds=_seeds(config.seeds),
        accountant=partial(build, accountant, "accountant", allowed_targets=list(config.allowed_targets)),
        shares=_numbers("shares", config.shares),
        **{name: config[name] for name in _OF_THE_PLAN},
    )
    frontier = compare(plan, output_dir, monitor)
    print_frontier(frontier, output_dir)


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
    terms = {"allowed_targets": list(config.allowed_targets), "adjacency": config.adjacency}
    return tuple(build(node, "method", name=name, **terms) for name, node in nodes.items())


def _names(asked: Any, others: tuple[Method, ...] = ()) -> tuple[str, ...]:
    """The aggregators asked for: names of aggregators or experiments, or NAME@T for T teachers."""
    names = [asked] if isinstance(asked, str) else list(asked) if isinstance(asked, ListConfig) else []
    if not names and not others:
        raise InvalidValue(f"aggregators={asked}: expected a list of names; --help lists them")
    known = tuple(sorted({*members("aggregator"), *members("experiment")}))
    for name in map(str, names):
        group, at, num_teachers = name.partition("@")
        require_choice("aggregators", group, known)
        require(not at or num_teachers.isdecimal(), "aggregators", name, "NAME, or NAME@T with T teachers")
    return tuple(map(str, names))


def _require_heard(given: list[str], names: tuple[str, ...]) -> None:
    """Refuses a number of teachers where every name brings its own."""
    number = next((text for text in given if text.startswith("teacher.num_teachers=")), None)
    if number and all("@" in name or name in members("experiment") for name in names):
        raise InvalidValue(f"{number}: expected some name in aggregators= that has no @T and is no experiment's")


def _method(named: str, config: DictConfig, given: list[str]) -> PATEMethod:
    """An experiment with its own teachers and student, or an aggregator with those of the command line."""
    name, _, num_teachers = named.partition("@")
    chosen = [f"experiment={name}"] if name in members("experiment") else [f"aggregator={name}", *given]
    number = [f"teacher.num_teachers={num_teachers}"] if num_teachers else []
    chosen = [text for text in chosen if not (number and text.startswith("teacher.num_teachers="))]
    terms = [f"{key}={config[key]}" for key in ("adjacency", "target_delta", "num_queries")]
    made = compose("train", [*chosen, *number, *terms])
    made.allowed_targets = config.allowed_targets  # which are the command line's
    if "nonlinear" in made.teacher:  # of the others, as with other methods, features=kernel changes nothing
        made.features = config.features
    make = maker(made)
    return PATEMethod(
        name=name,
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
        raise InvalidValue(f"{name}={values}: expected a list of numbers") from error


def _seeds(values: Any) -> tuple[int, ...]:
    """The first so many, or those listed."""
    if isinstance(values, int) and not isinstance(values, bool):
        return tuple(range(values))
    if isinstance(values, ListConfig) and all(type(value) is int for value in values):
        return tuple(values)
    raise InvalidValue(f"seeds={values}: expected a whole number >= 1, or a list of seeds")


main = partial(run_app, compare_from_config, "compare")

if __name__ == "__main__":
    main()


_ANY_WIDTH = 10_000


def print_frontier(frontier: Frontier, folder: Path, *, console: Console | None = None) -> None:
    """Prints the scores, the cheapest epsilon for each goal, what no epsilon covers, and the files in the folder."""
    console = console or PlainConsole()
    console.print(Text(verdict(frontier), style="bold"), soft_wrap=True)
    console.print(_scores(frontier, console))
    console.print(_goals(frontier))
    metric = frontier.metric
    for run in frontier.baselines:
        console.print(f"{baseline_name(run)}: {METRIC_NAMES[metric]} {getattr(run, metric):.3f}", highlight=False)
    for line in frontier.lines:
        if note := next((point.note for point in line.points if point.note), ""):
            count = sum(bool(point.note) for point in line.points)
            console.print(
                Text(f"{line.title}: out of reach at {count} epsilons: {note}", style="yellow"), soft_wrap=True
            )
    console.print(Text(f"{NOT_COVERED} {SEEDED_WARNING.capitalize()}.", style="yellow"), soft_wrap=True)
    for name in ("frontier.html", "frontier.png", "comparison.csv"):
        console.print(Text.assemble("written: ", (str(folder / name), "bold")), soft_wrap=True)


def _scores(frontier: Frontier, console: Console) -> Table:
    table = _scores_with(frontier, frontier.has_spread)
    wanted = console.measure(table, options=console.options.update(max_width=_ANY_WIDTH)).maximum
    return table if wanted <= console.width else _scores_with(frontier, False)


def _scores_with(frontier: Frontier, spread: bool) -> Table:
    kind = "real" if frontier.real else "synthetic"
    over = "mean ± std over the seeds" if spread else "mean over the seeds" if frontier.has_spread else "one seed"
    table = titled_table(
        f"{frontier.dataset} ({kind}), {METRIC_NAMES[frontier.metric]} of the student by epsilon, {over}"
    )
    table.add_column("", no_wrap=True)
    table.add_column("teachers", justify="right")
    for epsilon in frontier.epsilons:
        table.add_column(f"{epsilon:g}", justify="right")
    for line in frontier.ranked:
        by_epsilon = {point.epsilon: score(point) if spread else _short(point) for point in line.points}
        cells = [by_epsilon.get(epsilon, "") for epsilon in frontier.epsilons]
        table.add_row(Text(line.name), f"{line.num_teachers:,}", *cells)
    return table


def _short(point: Point) -> str:
    return score(replace(point, std=None)).removeprefix("0")


def _goals(frontier: Frontier) -> Table:
    ceiling = baseline_title(frontier.ceiling_name)
    table = titled_table(f"cheapest epsilon tried that reaches a share of the way from a constant to the {ceiling}")
    table.add_column("", no_wrap=True)
    for name in goal_names(frontier):
        table.add_column(name, justify="right")
    for line in frontier.ranked:
        table.add_row(Text(line.title), *goal_cells(frontier, line))
    return table
