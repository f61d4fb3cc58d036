"""What the commands share that run something: its parts, settings, name and folder, and what they say meanwhile."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pate.accounting import Adjacency
from pate.config import CONFIG_FOLDER, build
from pate.config.command_line import given_settings
from pate.data import Dataset
from pate.data.dataset import read
from pate.features import Features, Kernel, NoFeatures, Text
from pate.features.featured_data import FeaturedData
from pate.files.values import digest
from pate.report.console import PlainConsole
from pate.report.report import Heading
from pate.run.progress import Advance, Monitor, NullMonitor
from pate.validation import InvalidValue, require

_CACHE = "pate_cache"  # the folder beside those of runs, which share it
BESIDE = (
    *("output_dir", "ledger", "max_total_epsilon", "new_account", "redraw", "all_records", "allow_useless", "logger"),
    *("data_dependent", "noise", "fewer_queries"),  # of which target_epsilon and num_queries say what they come to
)
"""Settings that the release does not depend on."""

_GROUPS = ("data", "aggregator", "accountant", "teacher", "student")
_TERMS = ("target_epsilon", "max_epsilon", "target_delta", "num_queries", "adjacency", "seed")

PRIVATE = "private: no epsilon covers it. It has mode 0600; send it to the aggregator alone, over an encrypted channel"
"""Of a file that a holder sends."""


def maker(config: DictConfig) -> Callable[[str], Any]:
    """How the part of a group is made: `maker(config)("data")`; of a teacher without `num_teachers`."""
    allowed = list(config.allowed_targets)

    def make(group: str) -> Any:
        node, arguments = config[group], dict[str, Any]()
        if group == "teacher":
            node = OmegaConf.masked_copy(node, [key for key in node if key != "num_teachers"])
        if group == "teacher" and str(config.get("features", {}).get("_target_")).rpartition(".")[2] == Kernel.__name__:
            name = str(node._target_).rpartition(".")[2]  # others do not vote in the pool's directions
            rule = "KernelTeacher beside features=kernel: experiment=centered_votes, or no word of teachers"
            require(name == "KernelTeacher", "teacher", name, rule)
            arguments["nonlinear"] = True
        if group == "aggregator":
            arguments["adjacency"] = Adjacency.parse(config.adjacency)
        return build(node, group, allowed_targets=allowed, **arguments)

    return make


def plain_settings(config: DictConfig, without: tuple[str, ...]) -> dict[str, Any]:
    """A configuration as plain values, without some settings: no features are none, nor is where they are kept."""
    plain: Any = OmegaConf.to_container(config, resolve=True)
    settings = {str(key): value for key, value in plain.items() if key not in without}
    for part in ("data", "features"):
        if isinstance(node := settings.get(part), dict) and "cache" in node:
            node["cache"] = None
    if str(settings.get("features", {}).get("_target_")).rpartition(".")[2] == NoFeatures.__name__:
        del settings["features"]
    return settings


def run_heading(settings: Mapping[str, Any], said: Iterable[str], choices: Mapping[str, Any]) -> Heading:
    """The heading of a run by its settings, the overrides of its command line, and the YAML file of each group."""
    given, names = given_settings(said), dict[str, Any]()
    for group in filter(settings.__contains__, _GROUPS):  # its YAML file; the class where another or no file was given
        own = None if f"{group}._target_" in given else choices.get(group)
        names[group] = str(own or str(settings[group]["_target_"]).rpartition(".")[2])
    others = {name: value for name, value in given.items() if name not in BESIDE}
    terms = {name: settings[name] for name in _TERMS if name in settings}
    terms["num_teachers"] = settings.get("teacher", {}).get("num_teachers")
    return Heading(
        aggregator=names["aggregator"],
        is_public=(CONFIG_FOLDER / "aggregator" / f"{names['aggregator']}.yaml").is_file(),
        given=others,
        compared={**names, **terms, **others, **names, **terms},
    )


def default_folder(*names: str, settings: Mapping[str, Any]) -> str:
    """outputs/NAME-NAME-HASH: the same command finds the same folder, so it continues."""
    safe = ["".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name) for name in names]
    return "outputs/" + "-".join([*safe, digest(settings)[:8]])


def require_named(config: DictConfig, rules: Mapping[str, str]) -> None:
    """Raises unless settings without a default are given."""
    for name, rule in rules.items():
        if OmegaConf.is_missing(config, name) or config[name] is None:
            raise InvalidValue(f"{name}=???: expected {rule}")


class ConsoleMonitor:
    """Shows stages on standard error, a bar on a terminal, a line at each end anywhere; nothing in another process."""

    def __init__(self, console: Console | None = None) -> None:
        real = sys.stderr.isatty()  # FORCE_COLOR, which notebooks set, is not a wish for bars that move
        self._console = console or PlainConsole(stderr=True, highlight=False, force_terminal=real)
        self._bar: Progress | None = None  # of the outer stage, where one is inside another

    def __reduce__(self) -> tuple[type[NullMonitor], tuple[()]]:
        return NullMonitor, ()

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """A stage of `total` steps, or of unknown length."""
        started, last, outer = time.monotonic(), "", self._bar  # of which there can be one set on a console
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        how: Any = {"console": self._console, "transient": True, "disable": not self._console.is_terminal}
        with nullcontext(outer) if outer else Progress(*columns, TextColumn("{task.fields[note]}"), **how) as bar:
            self._bar = bar
            task = bar.add_task(name, total=total, note="")

            def advance(done: int, note: str = "") -> None:
                nonlocal last
                last = note
                bar.update(task, completed=done, note=note)

            try:
                yield advance
                bar.remove_task(task)
            finally:
                self._bar = outer
        end = f" ({last})" if last else ""
        self._console.print(f"{name}: {time.monotonic() - started:.1f} s{end}", style="dim")

    def say(self, line: str) -> None:
        """A line of its own."""
        self._console.print(line, style="yellow", markup=False, soft_wrap=True)


def watched_load(
    data: Any,
    monitor: Monitor,
    features: Features | None = None,
    folder: Path | None = None,
    *,
    check: Callable[[Dataset], object] | None = None,
) -> Callable[[], Dataset]:
    """How a data set, or its features, which are kept beside the run's folder, is read, with its stages shown.

    Texts that settings name are features without `features=`, too. `features=kernel` is the teachers' business. Raises
    `InvalidValue` for no data set, or a missing setting, before anything else is made: a teacher loads torch.
    """
    rule = "a class whose load() gives a pate.data.Dataset"
    require(callable(getattr(data, "load", None)), "data", type(data).__name__, rule)
    if (require_settings := getattr(data, "require_settings", None)) is not None:
        require_settings()
    if isinstance(features, NoFeatures) and getattr(data, "text", None):
        features = Text()
    if features is not None and folder is not None and not isinstance(features, NoFeatures):
        cache = folder.parent / _CACHE if features.cache is None else Path(features.cache)
        if isinstance(features, Text):
            data = features.reader(data, cache)
        else:
            data = FeaturedData(data, features, cache, check)
    return partial(read, data, monitor.stage)
