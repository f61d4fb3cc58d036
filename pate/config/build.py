"""Objects from configuration: `_target_` is looked up only where it may point."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.config.classes import TRUSTED_PREFIXES
from pate.validation import InvalidValue


def build(node: DictConfig, *, allowed_targets: Iterable[str] = (), **arguments: Any) -> Any:
    """Instantiates a node after checking every `_target_` in it.

    Raises:
        InvalidValue: a `_target_` outside pate, scikit-learn and `allowed_targets`; arguments that the class refuses.
    """
    trusted = TRUSTED_PREFIXES + tuple(allowed_targets)
    for target in _targets(OmegaConf.to_container(node, resolve=True)):
        if not any(target.startswith(prefix) for prefix in trusted):
            rule = f"a name that begins with {' or '.join(trusted)}, or with a prefix in allowed_targets"
            raise InvalidValue(f"_target_={target}: expected {rule}")
    try:
        return instantiate(node, _convert_="all", **arguments)
    except InstantiationException as error:
        if isinstance(error.__cause__, InvalidValue):
            raise error.__cause__ from None
        if missing := re.search(r"Error locating target '([^']+)'", str(error)):
            rule = "a class that can be imported: install its package, or put its folder into PYTHONPATH"
            raise InvalidValue(f"_target_={missing[1]}: expected {rule}") from error
        raise


def build_aggregator(node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()) -> Aggregator:
    """The aggregator of a configuration, under the adjacency that all commands share."""
    aggregator = build(node, allowed_targets=allowed_targets, adjacency=Adjacency.parse(adjacency))
    if not isinstance(aggregator, Aggregator):
        raise InvalidValue(
            f"aggregator={type(aggregator).__name__}: expected a subclass of pate.aggregators.Aggregator"
        )
    return aggregator


def _targets(node: Any) -> Iterator[str]:
    """Every `_target_` in a tree of dictionaries and lists."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield str(node["_target_"])
        for value in node.values():
            yield from _targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from _targets(value)
