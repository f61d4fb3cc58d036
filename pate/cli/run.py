"""A run as its command knows it: the parts that its configuration makes, its settings, its name and its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.config import CONFIG_FOLDER, build
from pate.config.command_line import given_settings
from pate.data import Dataset
from pate.features import Features, NoFeatures
from pate.features.featured_data import FeaturedData
from pate.files.values import digest
from pate.report.report import Heading

CACHE = "pate_cache"
"""The folder beside those of runs, which share it."""
BESIDE = (
    *("output_dir", "ledger", "max_total_epsilon", "new_account", "redraw", "all_records", "allow_useless", "logger"),
    *("noise", "fewer_queries"),  # of which target_epsilon and num_queries say what they come to
)
"""Settings that the release does not depend on."""

_GROUPS = ("data", "aggregator", "accountant", "teacher", "student")
_TERMS = ("target_epsilon", "max_epsilon", "target_delta", "num_queries", "adjacency", "seed")


def maker(config: DictConfig) -> Callable[[str], Any]:
    """How the part of a group is made: `maker(config)("data")`; of teachers it is what trains one."""
    allowed = list(config.allowed_targets)

    def make(group: str) -> Any:
        node, arguments = config[group], {}
        if group == "teacher":
            node = OmegaConf.masked_copy(node, [key for key in node if key != "num_teachers"])
        if group == "aggregator":
            arguments["adjacency"] = Adjacency.parse(config.adjacency)
        return build(node, group, allowed_targets=allowed, **arguments)

    return make


def plain_settings(config: DictConfig, without: tuple[str, ...]) -> dict[str, Any]:
    """A configuration as plain values, without some settings.

    Where pictures and features are kept is none of them, and no features are none.
    """
    plain: Any = OmegaConf.to_container(config, resolve=True)
    settings = {str(key): value for key, value in plain.items() if key not in without}
    for part in ("data", "features"):
        if isinstance(node := settings.get(part), dict) and "cache" in node:
            node["cache"] = None
    if str(settings.get("features", {}).get("_target_")).rpartition(".")[2] == NoFeatures.__name__:
        del settings["features"]
    return settings


def featured(
    data: Any, features: Features, output_dir: Path, *, check: Callable[[Dataset], object] | None = None
) -> Any:
    """A reader of data: the one that is given, or that of its features, kept beside the run's folder.

    Args:
        data: the reader of a data set.
        features: none, or those that stand in place of pictures.
        output_dir: the run's folder.
        check: see `FeaturedData`.
    """
    if isinstance(features, NoFeatures):
        return data
    cache = output_dir.parent / CACHE if features.cache is None else Path(features.cache)
    return FeaturedData(data, features, cache, check)


def run_heading(settings: Mapping[str, Any], said: Iterable[str], choices: Mapping[str, Any]) -> Heading:
    """The heading of a run.

    Args:
        settings: the composed configuration, plain values.
        said: overrides of the command line.
        choices: the YAML file of each group.
    """
    given = given_settings(said)
    names = {group: _name(group, settings, given, choices) for group in _GROUPS if group in settings}
    terms: dict[str, Any] = {name: settings[name] for name in _TERMS if name in settings}
    terms["num_teachers"] = settings.get("teacher", {}).get("num_teachers")
    return Heading(
        aggregator=names["aggregator"],
        is_public=(CONFIG_FOLDER / "aggregator" / f"{names['aggregator']}.yaml").is_file(),
        given={name: value for name, value in given.items() if name not in BESIDE},
        compared=names
        | terms
        | {name: value for name, value in given.items() if name not in {*names, *terms, *BESIDE}},
    )


def _name(group: str, settings: Mapping[str, Any], given: Mapping[str, str], choices: Mapping[str, Any]) -> str:
    """The name of its YAML file; the class where another one was given in its place, or no file was chosen."""
    chosen = choices.get(group)
    if chosen and f"{group}._target_" not in given:
        return str(chosen)
    return str(settings[group]["_target_"]).rpartition(".")[2]


def default_folder(*names: str, settings: Mapping[str, Any]) -> str:
    """outputs/NAME-NAME-HASH: the same command finds the same folder, so it continues."""
    safe = ["".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name) for name in names]
    return "outputs/" + "-".join([*safe, digest(settings)[:8]])
