"""Building of objects from configuration: `build` builds the object of a node and all objects within it.

The first pass finds and checks the classes of all nodes (`pate.config.classes`), and turns each node into a function.
The second pass calls these functions. So no object is built before all classes are accepted.
"""

import inspect
from collections.abc import Callable, Container, Iterable, Mapping
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
from pate.config.schema import PUBLIC_LABELS
from pate.validation import InvalidValue, nearest

# The key of a node whose value is the name of its class.
_TARGET = "_target_"


def build(
    node: DictConfig,
    slot: str,
    *,
    allowed_targets: Iterable[str] = (),
    left_out: Container[str] = (),
    **arguments: Any,
) -> Any:
    """Builds the object that a configuration node describes, and the objects that it contains.

    The class in `_target_` is called with the other values of the node as keyword arguments. The class must fit the
    slot. It must come from pate, from scikit-learn, from a module in `allowed_targets`, or from an entry point of an
    installed package. All classes are checked before the first object is built, and no other module is imported.

    Args:
        node: a node with the key `_target_`.
        slot: the role of the object: accountant, aggregator, data, engine, estimator, features, method, student or
            teacher.
        allowed_targets: the user's own modules.
        left_out: keys of the node that are settings of the run and no arguments of the class.
        **arguments: further keyword arguments of the class.

    Raises:
        InvalidValue: the class does not fit the slot, does not accept a key, or refuses a value.
    """
    # `hydra.utils.instantiate` would turn these plain values into a configuration again. A text `${oc.create:…}` in
    # them would become a node whose `_target_` nobody judged. So the classes are called with the judged values.
    # A missing value is named by its whole path as long as the node lies in the configuration; a copy would not.
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    trusted = (*TRUSTED_PREFIXES, *allowed_targets)
    for module in trusted:
        if not is_class_name(f"{module.rstrip('.')}.Class"):
            rule = "names of modules, such as my_module."
            raise InvalidValue("allowed_targets", f"[{module}]", rule=rule)
    if not isinstance(plain, dict) or _TARGET not in plain:
        raise InvalidValue(slot, plain, rule="a node with a _target_, the name of a class")
    plain = {key: value for key, value in plain.items() if key not in left_out}
    if slot == "data":
        public_labels = plain.pop(PUBLIC_LABELS, None)
        if public_labels is not None:
            rule = "none but in pate-train: no other command trains on labels of public rows"
            raise InvalidValue(f"data.{PUBLIC_LABELS}", public_labels, rule=rule)
    make = _object_maker(plain, path=slot, kind=kind_of_group(group=slot), trusted_prefixes=trusted)
    return make(**arguments)


def build_aggregator(
    node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()
) -> Aggregator:
    """Builds the aggregator that a configuration node describes, with the adjacency of the command.

    Args:
        node: the node of the aggregator.
        adjacency: "replace_one" or "add_remove".
        allowed_targets: the user's own modules.
    """
    aggregator: Aggregator = build(
        node,
        slot="aggregator",
        allowed_targets=allowed_targets,
        adjacency=Adjacency.parse(adjacency),
    )
    return aggregator


def part_maker(config: DictConfig, *, takes_public_labels: bool = False) -> Callable[[str], Any]:
    """Returns a function that builds a part of the configuration by its name: `part_maker(config)("data")`.

    A teacher is built without `num_teachers`, which is a setting of the run and not an argument of the teacher's class.
    With `features=kernel` a teacher must be a `KernelTeacher`, and gets `nonlinear=True`. An aggregator gets the
    adjacency of the configuration. Data are built without `public_labels`, which is a setting of the run.

    Args:
        config: the configuration.
        takes_public_labels: whether the student of the command may start from labels of public rows. If not, a value of
            `data.public_labels` is refused.
    """

    def build_part(group: str) -> Any:
        node = config[group]
        arguments: dict[str, Any] = {}
        left_out: tuple[str, ...] = ()
        if group == "teacher":
            left_out = ("num_teachers",)
            if str(config.get("features", {}).get(_TARGET)).endswith(".Kernel"):
                # Only kernel teachers vote along directions of the public pool, which `features=kernel` asks for.
                name = str(node[_TARGET]).rpartition(".")[2]
                if name != "KernelTeacher":
                    rule = "KernelTeacher beside features=kernel: experiment=centered_votes, or no word of teachers"
                    raise InvalidValue("teacher", name, rule=rule)
                arguments["nonlinear"] = True
        if group == "data" and takes_public_labels:
            left_out = (PUBLIC_LABELS,)
        if group == "aggregator":
            arguments["adjacency"] = Adjacency.parse(config.adjacency)
        return build(
            node,
            slot=group,
            allowed_targets=list(config.allowed_targets),
            left_out=left_out,
            **arguments,
        )

    return build_part


def _object_maker(
    node: dict[Any, Any], *, path: str, kind: Kind, trusted_prefixes: tuple[str, ...]
) -> Callable[..., Any]:
    """Checks the class of a node and of all nodes within it, and returns a function that builds the node's object.

    Args:
        node: a node with the key `_target_`.
        path: the path of the node in the configuration, for messages.
        kind: the classes that are allowed at this path.
        trusted_prefixes: prefixes of modules whose classes may be loaded.

    Returns:
        A function of further keyword arguments of the class, which returns the object.

    Raises:
        InvalidValue: a class is not allowed, or a key of a node is no name of an argument.
    """
    cls = trusted_class(class_path=node[_TARGET], kind=kind, trusted_prefixes=trusted_prefixes)
    value_makers: dict[str, Callable[[], Any]] = {}
    for name, value in node.items():
        if name == _TARGET:
            continue
        if not isinstance(name, str) or name.startswith("_"):
            raise InvalidValue(f"{path}.{name}", rule=f"arguments of {cls.__name__} by their names")
        value_makers[name] = _value_maker(
            value,
            cls=cls,
            argument=name,
            path=f"{path}.{name}",
            trusted_prefixes=trusted_prefixes,
        )

    def make(**arguments: Any) -> Any:
        values = {name: make_value() for name, make_value in value_makers.items()}
        values.update(arguments)
        _require_parameters(cls, path=path, arguments=values)
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
    value: Any, *, cls: type, argument: str, path: str, trusted_prefixes: tuple[str, ...]
) -> Callable[[], Any]:
    """Checks a value in a node, and returns a function that builds the value.

    Args:
        value: a plain value, a node (a mapping with `_target_`), or a list or mapping of these.
        cls: the class of the node that contains the value.
        argument: the argument of `cls` that the value is passed to.
        path: the path of the value in the configuration, for messages.
        trusted_prefixes: prefixes of modules whose classes may be loaded.
    """
    key = path.rpartition(".")[2].rpartition("__")[2]
    is_estimator = any(base.__module__.startswith("sklearn.") for base in cls.__mro__)
    if is_estimator and key == "memory" and value is not None:
        raise InvalidValue(path, value, rule="null: a cache of joblib's is read as code")
    if isinstance(value, dict) and _TARGET in value:
        is_of_sklearn = cls.__module__.startswith("sklearn.")
        kind = kind_of_argument(None if is_of_sklearn else cls, name=argument)
        return _object_maker(value, path=path, kind=kind, trusted_prefixes=trusted_prefixes)
    if isinstance(value, dict):
        item_makers = {
            name: _value_maker(
                item,
                cls=cls,
                argument=argument,
                path=f"{path}.{name}",
                trusted_prefixes=trusted_prefixes,
            )
            for name, item in value.items()
        }
        return lambda: {name: make_item() for name, make_item in item_makers.items()}
    if isinstance(value, list):
        makers = [
            _value_maker(
                item,
                cls=cls,
                argument=argument,
                path=f"{path}.{index}",
                trusted_prefixes=trusted_prefixes,
            )
            for index, item in enumerate(value)
        ]
        return lambda: [make_item() for make_item in makers]
    return lambda: value


def _require_parameters(cls: type, *, path: str, arguments: Mapping[str, Any]) -> None:
    """Raises `InvalidValue` if a class does not accept one of the keyword arguments, or lacks a required one.

    Args:
        cls: the class.
        path: the path of the node in the configuration, for messages.
        arguments: the keyword arguments.
    """
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
            hint = papers_words.hint(word=name, known_settings=names, part_name=part)
            if not hint:
                hint = nearest(name, choices=names)
            rule = f"a key of {cls.__name__}: one of {', '.join(names)}{hint}"
            raise InvalidValue(f"{path}.{name}", rule=rule)
    for name, parameter in by_name.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise InvalidValue(f"{path}.{name}", rule=f"a value, {cls.__name__} assumes none")
