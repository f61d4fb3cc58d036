"""Objects from configuration: every class is found and judged before any is made."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.config.classes import TRUSTED_PREFIXES, is_name, is_within, located
from pate.config.kinds import Kind, kind_of_group, kind_of_parameter
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
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    trusted = (*TRUSTED_PREFIXES, *_modules(allowed_targets))
    for target in _targets(plain):
        _require_trusted(target, trusted)
    if not isinstance(plain, dict) or _TARGET not in plain:
        raise InvalidValue(f"{slot}={plain}: expected a node with a _target_, the name of a class")
    return _Recipe.of(plain, slot, kind_of_group(slot), trusted).make(arguments)


def build_aggregator(node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()) -> Aggregator:
    """The aggregator of a configuration, under the adjacency that all commands share."""
    made: Aggregator = build(node, "aggregator", allowed_targets=allowed_targets, adjacency=Adjacency.parse(adjacency))
    return made


def class_of(target: str, kind: Kind) -> type:
    """The class of a `_target_` that may be loaded; raises `InvalidValue` unless there is one, of the kind."""
    try:
        cls = located(target)
    except ModuleNotFoundError as error:
        rule = f"a class that can be imported: it needs {error.name}; install that, or put its folder into PYTHONPATH"
        raise InvalidValue(f"_target_={target}: expected {rule}") from error
    if cls is None:
        rule = "a class that can be imported: install its package, or put its folder into PYTHONPATH"
        raise InvalidValue(f"_target_={target}: expected {rule}; no function, and no name of another package within it")
    if not kind.accepts(cls) or inspect.isabstract(cls):
        raise InvalidValue(f"_target_={target}: expected {kind.rule}")
    return cls


@dataclass(frozen=True)
class _Recipe:
    """A class that was found, and what it is to be called with.

    Attributes:
        path: of the node, such as teacher.estimator.
        cls: whose object is made.
        values: by the names of its parameters; recipes within them for the nodes that have a class.
    """

    path: str
    cls: type
    values: dict[str, Any]

    @classmethod
    def of(cls, node: dict[Any, Any], path: str, kind: Kind, trusted: tuple[str, ...]) -> _Recipe:
        """Finds the classes of a node and of all within it, each within the modules that are trusted."""
        found = class_of(node[_TARGET], kind)
        if not is_within(found.__module__, trusted):
            _require_trusted(f"{found.__module__}.{found.__qualname__}", trusted)
        values = {key: value for key, value in node.items() if key != _TARGET}
        for name in values:
            if not isinstance(name, str) or name.startswith("_"):
                raise InvalidValue(f"{path}.{name}: expected arguments of {found.__name__} by their names")
        if any(base.__module__.startswith("sklearn.") for base in found.__mro__):
            _require_no_cache(values, path)

        def planned(value: Any, name: str, at: str) -> Any:
            if isinstance(value, dict) and _TARGET in value:
                return cls.of(value, at, kind_of_parameter(found, name), trusted)
            if isinstance(value, dict):
                return {key: planned(item, name, f"{at}.{key}") for key, item in value.items()}
            if isinstance(value, list):
                return [planned(item, name, f"{at}.{index}") for index, item in enumerate(value)]
            return value

        return cls(path, found, {name: planned(value, name, f"{path}.{name}") for name, value in values.items()})

    def make(self, arguments: Mapping[str, Any]) -> Any:
        """The object, after those within it."""
        given = {name: _made(value) for name, value in self.values.items()} | dict(arguments)
        self._require_parameters(given)
        try:
            return self.cls(**given)
        except (InvalidValue, OSError, MemoryError):
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise InvalidValue(f"{self.path}: expected settings that {self.cls.__name__} takes ({found})") from error

    def _require_parameters(self, given: Mapping[str, Any]) -> None:
        """Raises unless the class takes these names and needs no other."""
        parameters = inspect.signature(self.cls).parameters.values()
        if any(each.kind is each.VAR_KEYWORD for each in parameters):
            return
        known = tuple(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))
        for name in given:
            if name not in known:
                rule = f"a key of {self.cls.__name__}: one of {', '.join(known)}{nearest(name, known)}"
                raise InvalidValue(f"{self.path}.{name}: expected {rule}")
        for each in parameters:
            if each.name in known and each.default is each.empty and each.name not in given:
                raise InvalidValue(f"{self.path}.{each.name}: expected a value, {self.cls.__name__} assumes none")


def _made(value: Any) -> Any:
    """A value with the objects of all recipes within it."""
    if isinstance(value, _Recipe):
        return value.make({})
    if isinstance(value, dict):
        return {key: _made(item) for key, item in value.items()}
    return [_made(item) for item in value] if isinstance(value, list) else value


def _modules(allowed: Iterable[str]) -> tuple[str, ...]:
    modules = tuple(allowed)
    for module in modules:
        if not is_name(f"{module.rstrip('.')}.Class"):
            raise InvalidValue(f"allowed_targets=[{module}]: expected names of modules, such as my_module.")
    return modules


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


def _require_trusted(target: Any, trusted: tuple[str, ...]) -> None:
    if not isinstance(target, str) or not is_within(target, trusted):
        rule = f"a name that begins with {' or '.join(trusted)}, or with a prefix in allowed_targets"
        raise InvalidValue(f"_target_={target}: expected {rule}")
    if not is_name(target):
        raise InvalidValue(f"_target_={target}: expected the public name of a class, such as sklearn.svm.SVC")


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
