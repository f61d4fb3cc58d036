"""Whether the noise of a run is given by its user, or left to be solved for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from pate.aggregators import Aggregator
from pate.aggregators.noise_fields import noise_fields
from pate.config.location import file_of

_TARGET = "target_epsilon"


def noise_is_given(overrides: Iterable[str], aggregator: Aggregator, experiment: str | None = None) -> bool:
    """Whether the command line names noise and no target, or, where it names neither, the experiment does.

    Then the noise is taken as it is, and no target of the defaults is spent in its place.

    Args:
        overrides: of the command line.
        aggregator: whose fields can be noise: what its class declares, and what `scaled` changes.
        experiment: the chosen member of that group.
    """
    noise = {f"aggregator.{name}" for name in noise_fields(aggregator)}
    for keys in (_given(overrides), set() if experiment is None else set(_keys_of("experiment", experiment))):
        if _TARGET in keys:
            return False
        if noise & keys:
            return True
    return False


def _given(overrides: Iterable[str]) -> set[str]:
    """The keys that the command line sets, no deeper than a field of a group."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return {".".join(item.key_or_group.split(".")[:2]) for item in parsed if not item.is_delete()}


def _keys_of(group: str, name: str) -> Iterator[str]:
    """The keys that a file for the whole configuration sets, and those that it includes."""
    file = file_of(group, name)
    content: Any = None if file is None else OmegaConf.to_container(OmegaConf.load(file))
    for key, value in (content or {}).items():
        yield key
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)
    for entry in (content or {}).get("defaults", []):
        for included in _included(group, entry):
            yield from _keys_of(*included)


def _included(group: str, entry: Any) -> Iterator[tuple[str, str]]:
    """Group and name of the files that an entry of a list of defaults includes for the whole configuration."""
    if isinstance(entry, str) and entry != "_self_":
        path = entry if entry.startswith("/") else f"{group}/{entry}"
        where, _, name = path.rpartition("/")
        yield where.removeprefix("/"), name
    elif isinstance(entry, Mapping):
        for key, name in entry.items():
            where, _, package = key.partition("@")
            if package == "_global_" and isinstance(name, str):
                yield where.removeprefix("/") if where.startswith("/") else f"{group}/{where}", name
