"""Objects from configuration: `build` makes the object of a node and those within it.

It works in two passes. The first finds and judges the classes of all nodes (`pate.config.classes`) and turns each node
into a function. The second calls these functions. So nothing is made before all classes are known to be good.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.config import papers_words
from pate.config.classes import (
    TRUSTED_PREFIXES,
    Kind,
    is_class_name,
    kind_of_argument,
    kind_of_group,
    trusted_class,
)
from pate.validation import InvalidValue, nearest

_TARGET = "_target_"


def build(
    node: DictConfig, slot: str, *, allowed_targets: Iterable[str] = (), **arguments: Any
) -> Any:
    """Makes the object of a node and those within it: calls each class with the node's values by their names.

    A `_target_` is a class that its slot takes: of pate, of scikit-learn, of a module of `allowed_targets`, or one that
    an installed package names as a part by an entry point. Nothing is made before all of them are judged, and no other
    module is loaded.

    Args:
        node: with `_target_`.
        slot: accountant, aggregator, data, engine, estimator, features, method, student or teacher.
        allowed_targets: modules of one's own.
        **arguments: further arguments of the class.

    Raises:
        InvalidValue: a `_target_` of another kind; keys that the class does not take; values that it refuses.
    """
    # `hydra.utils.instantiate` would turn these plain values into a configuration again. A text `${oc.create:…}` in
    # them would become a node whose `_target_` nobody judged. So the classes are called with the judged values.
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    trusted = (*TRUSTED_PREFIXES, *allowed_targets)
    for module in trusted:
        if not is_class_name(f"{module.rstrip('.')}.Class"):
            rule = "names of modules, such as my_module."
            raise InvalidValue("allowed_targets", f"[{module}]", rule=rule)
    if not isinstance(plain, dict) or _TARGET not in plain:
        raise InvalidValue(slot, plain, rule="a node with a _target_, the name of a class")
    make = _object_maker(plain, slot, kind_of_group(slot), trusted)
    return make(**arguments)


def build_aggregator(
    node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()
) -> Aggregator:
    """Makes the aggregator of a configuration, under the adjacency that all commands share."""
    aggregator: Aggregator = build(
        node, "aggregator", allowed_targets=allowed_targets, adjacency=Adjacency.parse(adjacency)
    )
    return aggregator


def part_maker(config: DictConfig) -> Callable[[str], Any]:
    """Returns a function that makes the part of a group: `part_maker(config)("data")`.

    A teacher is made without `num_teachers`, which is a setting of the run and no argument of its class.
    """

    def make(group: str) -> Any:
        node = config[group]
        arguments = dict[str, Any]()
        if group == "teacher":
            node = OmegaConf.masked_copy(node, [key for key in node if key != "num_teachers"])
            if str(config.get("features", {}).get(_TARGET)).endswith(".Kernel"):
                name = str(node[_TARGET]).rpartition(".")[2]
                if name != "KernelTeacher":  # the only one that votes in the pool's directions
                    rule = "KernelTeacher beside features=kernel: experiment=centered_votes, or no word of teachers"
                    raise InvalidValue("teacher", name, rule=rule)
                arguments["nonlinear"] = True
        if group == "aggregator":
            arguments["adjacency"] = Adjacency.parse(config.adjacency)
        return build(node, group, allowed_targets=list(config.allowed_targets), **arguments)

    return make


def _object_maker(
    node: dict[Any, Any], path: str, kind: Kind, trusted: tuple[str, ...]
) -> Callable[..., Any]:
    """Judges the class of a node and of all nodes within it, and returns a function that makes the object.

    Args:
        node: with `_target_`.
        path: the node's place in the configuration, for messages.
        kind: the classes that the place takes.
        trusted: prefixes of modules whose classes may be loaded.

    Returns:
        A function of further arguments of the class.
    """
    cls = trusted_class(node[_TARGET], kind, trusted)
    value_makers: dict[str, Callable[[], Any]] = {}
    for name, value in node.items():
        if name == _TARGET:
            continue
        if not isinstance(name, str) or name.startswith("_"):
            raise InvalidValue(f"{path}.{name}", rule=f"arguments of {cls.__name__} by their names")
        value_makers[name] = _value_maker(value, cls, name, f"{path}.{name}", trusted)

    def make(**arguments: Any) -> Any:
        values = {name: make_value() for name, make_value in value_makers.items()}
        values.update(arguments)
        _require_parameters(cls, path, values)
        try:
            return cls(**values)
        except (InvalidValue, OSError, MemoryError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            rule = f"settings that {cls.__name__} takes ({reason})"
            raise InvalidValue(path, rule=rule) from error

    return make


def _value_maker(
    value: Any, cls: type, argument: str, path: str, trusted: tuple[str, ...]
) -> Callable[[], Any]:
    """Judges a value of a node, and returns a function that makes the value.

    Args:
        value: a plain value, a node, or a container of these.
        cls: the class of the node.
        argument: the argument of the class that the value is for, or lies in.
        path: the value's place in the configuration, for messages.
        trusted: prefixes of modules whose classes may be loaded.
    """
    key = path.rpartition(".")[2].rpartition("__")[2]
    is_estimator = any(base.__module__.startswith("sklearn.") for base in cls.__mro__)
    if is_estimator and key == "memory" and value is not None:
        raise InvalidValue(path, value, rule="null: a cache of joblib's is read as code")
    if isinstance(value, dict) and _TARGET in value:
        is_of_sklearn = cls.__module__.startswith("sklearn.")
        kind = kind_of_argument(None if is_of_sklearn else cls, argument)
        return _object_maker(value, path, kind, trusted)
    if isinstance(value, dict):
        item_makers = {
            name: _value_maker(item, cls, argument, f"{path}.{name}", trusted)
            for name, item in value.items()
        }
        return lambda: {name: make() for name, make in item_makers.items()}
    if isinstance(value, list):
        makers = [
            _value_maker(item, cls, argument, f"{path}.{index}", trusted)
            for index, item in enumerate(value)
        ]
        return lambda: [make() for make in makers]
    return lambda: value


def _require_parameters(cls: type, path: str, arguments: Mapping[str, Any]) -> None:
    """Raises `InvalidValue` where a class does not take one of the arguments by name, or needs another one."""
    parameters = inspect.signature(cls).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    by_name = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    names = tuple(by_name)
    for name in arguments:
        if name not in by_name:
            part = path.partition(".")[0]
            near = papers_words.hint(name, names, part=part) or nearest(name, names)
            rule = f"a key of {cls.__name__}: one of {', '.join(names)}{near}"
            raise InvalidValue(f"{path}.{name}", rule=rule)
    for name, parameter in by_name.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise InvalidValue(f"{path}.{name}", rule=f"a value, {cls.__name__} assumes none")
