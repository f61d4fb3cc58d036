"""Data with the features that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pate.data import Dataset
from pate.features import Features, NoFeatures
from pate.features.featured_data import FeaturedData

CACHE = "pate_cache"
"""The folder beside those of runs, which share it."""


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


def has_none(node: Mapping[str, Any]) -> bool:
    """Whether a configuration chooses no features."""
    return str(node.get("_target_", "")).rpartition(".")[2] == NoFeatures.__name__
