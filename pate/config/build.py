"""Objects from configuration: every class is found and judged before any is made."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.config.targets import (
    TRUSTED_PREFIXES,
    Kind,
    class_of,
    is_within,
    kind_of_group,
    kind_of_parameter,
    require_modules,
    require_trusted,
)
from pate.validation import InvalidValue, nearest

_TARGET = "_target_"


def build(node: DictConfig, slot: str, *, allowed_targets: Iterable[str] = (), **arguments: Any) -> Any:
    """Makes the object of a node, and those within it, each by calling its class with the node's values by their names.

    A configuration is no code: a `_target_` is a class that is defined in pate, scikit-learn or a module of
    `allowed_targets` and that the place takes, by its kind. Nothing is made before all of them are found to be that,
    and no module is loaded that is not of these packages.

    Args:
        node: with `_target_`.
        slot: accountant, aggregator, data, engine, estimator, method, student or teacher.
        allowed_targets: modules of one's own.
        **arguments: beside the node's values, as they are.

    Raises:
        InvalidValue: a `_target_` of another kind; keys that the class does not take; values that it refuses.
    """
    # `hydra.utils.instantiate` would make a configuration of these plain values again, in which a text that reads
    # ${oc.create:…} becomes a node whose `_target_` nobody judged. So the classes are called with the values that were.
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    trusted = (*TRUSTED_PREFIXES, *require_modules(allowed_targets))
    for target in _targets(plain):
        require_trusted(target, trusted)
    if not isinstance(plain, dict) or _TARGET not in plain:
        raise InvalidValue(f"{slot}={plain}: expected a node with a _target_, the name of a class")
    return _made(_judged(plain, slot, kind_of_group(slot), trusted), arguments)


def build_aggregator(node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()) -> Aggregator:
    """The aggregator of a configuration, under the adjacency that all commands share."""
    made: Aggregator = build(node, "aggregator", allowed_targets=allowed_targets, adjacency=Adjacency.parse(adjacency))
    return made


class _Call(NamedTuple):
    """A class that was found and judged, and the values that it is called with; calls within them for nodes."""

    path: str  # of the node, such as teacher.estimator
    cls: type
    values: dict[str, Any]


def _targets(node: Any) -> Iterator[Any]:
    """Every `_target_` in a tree of dictionaries and lists."""
    if isinstance(node, dict):
        if _TARGET in node:
            yield node[_TARGET]
        for value in node.values():
            yield from _targets(value)
    elif isinstance(node, list):
        for value in node:
            yield from _targets(value)


def _judged(node: dict[Any, Any], path: str, kind: Kind, trusted: tuple[str, ...]) -> _Call:
    """Finds the classes of a node and of all within it, each within the modules that are trusted."""
    cls = class_of(node[_TARGET], kind)
    if not is_within(cls.__module__, trusted):
        require_trusted(f"{cls.__module__}.{cls.__qualname__}", trusted)
    values = {key: value for key, value in node.items() if key != _TARGET}
    for name in values:
        if not isinstance(name, str) or name.startswith("_"):
            raise InvalidValue(f"{path}.{name}: expected arguments of {cls.__name__} by their names")
    if any(base.__module__.startswith("sklearn.") for base in cls.__mro__):
        _require_no_cache(values, path)

    def judged(value: Any, name: str, at: str) -> Any:
        if isinstance(value, dict) and _TARGET in value:
            return _judged(value, at, kind_of_parameter(cls, name), trusted)
        if isinstance(value, dict):
            return {key: judged(item, name, f"{at}.{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [judged(item, name, f"{at}.{index}") for index, item in enumerate(value)]
        return value

    return _Call(path, cls, {name: judged(value, name, f"{path}.{name}") for name, value in values.items()})


def _made(value: Any, arguments: Mapping[str, Any] | None = None) -> Any:
    """A value with the objects of all calls within it."""
    if isinstance(value, dict):
        return {key: _made(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_made(item) for item in value]
    if not isinstance(value, _Call):
        return value
    given = {name: _made(item) for name, item in value.values.items()} | dict(arguments or {})
    _require_parameters(value, given)
    try:
        return value.cls(**given)
    except (InvalidValue, OSError, MemoryError):
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise InvalidValue(f"{value.path}: expected settings that {value.cls.__name__} takes ({found})") from error


def _require_parameters(call: _Call, given: Mapping[str, Any]) -> None:
    """Raises unless the class takes these names and needs no other."""
    parameters = inspect.signature(call.cls).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = tuple(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))
    for name in given:
        if name not in known:
            rule = f"a key of {call.cls.__name__}: one of {', '.join(known)}{nearest(name, known)}"
            raise InvalidValue(f"{call.path}.{name}: expected {rule}")
    for each in parameters:
        if each.name in known and each.default is each.empty and each.name not in given:
            raise InvalidValue(f"{call.path}.{each.name}: expected a value, {call.cls.__name__} assumes none")


def _require_no_cache(value: Any, path: str) -> None:
    """Raises where an estimator is to keep a cache: what is read from it again are pickles, and a pickle is code."""
    if isinstance(value, dict):
        for key, item in value.items():
            if str(key).rpartition("__")[2] == "memory" and item is not None:
                raise InvalidValue(f"{path}.{key}={item}: expected null: a cache of joblib's is read as code")
            _require_no_cache(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            _require_no_cache(item, path)
