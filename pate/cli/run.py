"""What the commands share that run something: its parts, settings, name and folder, and what they say meanwhile."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf

from pate.cli.monitor import ConsoleMonitor as ConsoleMonitor
from pate.config.command_line import given_settings
from pate.config.schema import shipped_folders
from pate.data import Dataset
from pate.data.dataset import load_dataset
from pate.features import Features, NoFeatures, Text
from pate.features.featured_data import FeaturedData
from pate.files.digests import digest
from pate.progress import Monitor
from pate.report.report import Heading
from pate.validation import InvalidValue

S = TypeVar("S")
_GROUPS = ("data", "aggregator", "accountant", "teacher", "student")
_TERMS = ("target_epsilon", "max_epsilon", "target_delta", "num_queries", "adjacency", "seed")


def plain_settings(config: DictConfig, without: Collection[str]) -> dict[str, Any]:
    """Returns a configuration as plain values, without some settings.

    No features are none, nor is where they are kept; noise that is given has no target.
    """
    plain: Any = OmegaConf.to_container(config, resolve=True)
    if plain.get("noise") == "given":
        plain["target_epsilon"] = None
    settings = {str(key): value for key, value in plain.items() if key not in without}
    for part in ("data", "features"):
        if isinstance(node := settings.get(part), dict) and "cache" in node:
            node["cache"] = None
    if str(settings.get("features", {}).get("_target_")).rpartition(".")[2] == NoFeatures.__name__:
        del settings["features"]
    return settings


def settings_from(config: DictConfig, kind: type[S]) -> S:
    """Returns the settings of a class from a composed configuration, lists and mappings as plain values."""
    plain: Any = OmegaConf.to_container(config, resolve=True)
    # mypy does not know that S is a dataclass
    return kind(**{item.name: plain[item.name] for item in fields(kind)})  # type: ignore[arg-type]


def run_heading(
    settings: Mapping[str, Any],
    said: Iterable[str],
    choices: Mapping[str, Any],
    *,
    beside_release: Collection[str],
) -> Heading:
    """Returns the heading of a run.

    Args:
        settings: of the run, as plain values.
        said: the overrides of its command line.
        choices: the name of the YAML file of each group.
        beside_release: names of settings that the release does not depend on.
    """
    given = given_settings(said)
    names = dict[str, Any]()
    # its YAML file; the class where another or no file was given
    for group in filter(settings.__contains__, _GROUPS):
        own = None if f"{group}._target_" in given else choices.get(group)
        names[group] = str(own or str(settings[group]["_target_"]).rpartition(".")[2])
    others = {name: value for name, value in given.items() if name not in beside_release}
    terms = {name: settings[name] for name in _TERMS if name in settings}
    terms["num_teachers"] = settings.get("teacher", {}).get("num_teachers")
    file = Path("aggregator", f"{names['aggregator']}.yaml")
    return Heading(
        aggregator=names["aggregator"],
        is_public=any((folder / file).is_file() for folder in shipped_folders()),
        given=others,
        compared={**names, **terms, **others, **names, **terms},
    )


def default_folder(*names: str, settings: Mapping[str, Any]) -> str:
    """outputs/NAME-NAME-HASH: the same command finds the same folder, so it continues."""
    safe = [
        "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name)
        for name in names
    ]
    return "outputs/" + "-".join([*safe, digest(settings)[:8]])


def require_named(config: DictConfig, rules: Mapping[str, str]) -> None:
    """Raises unless settings without a default are given."""
    for name, rule in rules.items():
        if OmegaConf.is_missing(config, name) or config[name] is None:
            raise InvalidValue(name, "???", rule=rule)


def watched_load(
    data: Any,
    monitor: Monitor,
    features: Features | None = None,
    folder: Path | None = None,
    *,
    check: Callable[[Dataset], object] | None = None,
) -> Callable[[], Dataset]:
    """Returns a function that reads a data set, or its features, anew at each call, with its stages shown.

    It keeps no record in memory. Features are kept on disk, beside the run's folder. Texts that settings name are
    features without `features=`, too. `features=kernel` is the teachers' business. Raises `InvalidValue` for a
    missing setting before anything else is made: a teacher loads torch.
    """
    getattr(data, "require_settings", lambda: None)()
    if isinstance(features, NoFeatures) and getattr(data, "text", None):
        features = Text()
    if features is not None and folder is not None and not isinstance(features, NoFeatures):
        # beside the folders of runs, which share it
        cache = Path(features.cache or folder.parent / "pate_cache")
        made = features.reader(data, cache) if isinstance(features, Text) else None
        data = FeaturedData(data, features, cache, check) if made is None else made
    return partial(load_dataset, data, monitor.stage)
