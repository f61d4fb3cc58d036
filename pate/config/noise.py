"""Whether the noise of a run is given by its user, or left to be solved for; and the number of its queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from pate.aggregators import Aggregator
from pate.aggregators.noise_fields import noise_fields
from pate.config.overlay import overlay

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
    for keys in _said(overrides, experiment):
        if _TARGET in keys:
            return False
        if noise & keys:
            return True
    return False


def target_is_given(overrides: Iterable[str], experiment: str | None = None) -> bool:
    """Whether the command line or the experiment names a target; else the one that is set is a default."""
    return any(_TARGET in keys for keys in _said(overrides, experiment))


def queries_are_named(overrides: Iterable[str], experiment: str | None = None) -> bool:
    """Whether the command line or the experiment says how many queries there are; else the number is a default."""
    return any("num_queries" in keys for keys in _said(overrides, experiment))


def _said(overrides: Iterable[str], experiment: str | None) -> tuple[set[str], set[str]]:
    """The keys that the command line sets, and those that the experiment does."""
    contents = [] if experiment is None else overlay("experiment", experiment)
    return _given(overrides), {key for content in contents for key in _keys_of(content)}


def _given(overrides: Iterable[str]) -> set[str]:
    """The keys that the command line sets, no deeper than a field of a group."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return {".".join(item.key_or_group.split(".")[:2]) for item in parsed if not item.is_delete()}


def _keys_of(content: Mapping[str, Any]) -> Iterator[str]:
    """The keys that a file sets, no deeper than a field of a group."""
    for key, value in content.items():
        yield key
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)
