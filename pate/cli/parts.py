"""The parts of a run, made of a composed configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.config import build
from pate.data import Dataset
from pate.features import FeaturedData, Features, NoFeatures

CACHE = "pate_cache"
"""The folder beside those of runs, which share it."""


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
