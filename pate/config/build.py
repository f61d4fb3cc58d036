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
    AllowedClasses,
    classes_allowed_in_argument,
    classes_allowed_in_group,
    is_class_name,
    trusted_class,
)
from pate.config.schema import NUM_PUBLIC_LABELS_KEY
from pate.validation import InvalidValue, nearest

# The key of a node whose value is the name of its class.
_TARGET = "_target_"


def build(
    node: DictConfig,
    slot: str,
    *,
    allowed_targets: Iterable[str] = (),
    left_out_keys: Container[str] = (),
    **further_arguments: Any,
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
        left_out_keys: keys of the node that are settings of the run and no arguments of the class.
        **further_arguments: further keyword arguments of the class.

    Raises:
        InvalidValue: the class does not fit the slot, does not accept a key, or refuses a value.
    """
    # `hydra.utils.instantiate` would turn these plain values into a configuration again. A text `${oc.create:…}` in
    # them would become a node whose `_target_` nobody judged. So the classes are called with the judged values.
    # A missing value is named by its whole path as long as the node lies in the configuration; a copy would not.
    plain_node = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    trusted_prefixes = (*TRUSTED_PREFIXES, *allowed_targets)
    for module_prefix in trusted_prefixes:
        if not is_class_name(f"{module_prefix.rstrip('.')}.Class"):
            rule = "names of modules, such as my_module."
            raise InvalidValue("allowed_targets", f"[{module_prefix}]", rule=rule)
    if not isinstance(plain_node, dict) or _TARGET not in plain_node:
        raise InvalidValue(slot, plain_node, rule="a node with a _target_, the name of a class")
    plain_node = {key: value for key, value in plain_node.items() if key not in left_out_keys}
    if slot == "data":
        num_public_labels = plain_node.pop(NUM_PUBLIC_LABELS_KEY, None)
        if num_public_labels is not None:
            rule = "none but in pate-train: no other command trains on labels of public rows"
            raise InvalidValue(f"data.{NUM_PUBLIC_LABELS_KEY}", num_public_labels, rule=rule)
    make_object = _object_maker(
        plain_node,
        setting_path=slot,
        allowed_classes=classes_allowed_in_group(group=slot),
        trusted_prefixes=trusted_prefixes,
    )
    return make_object(**further_arguments)


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
        part_node = config[group]
        further_arguments: dict[str, Any] = {}
        left_out_keys: tuple[str, ...] = ()
        if group == "teacher":
            left_out_keys = ("num_teachers",)
            if str(config.get("features", {}).get(_TARGET)).endswith(".Kernel"):
                # Only kernel teachers vote along directions of the public pool, which `features=kernel` asks for.
                teacher_class_name = str(part_node[_TARGET]).rpartition(".")[2]
                if teacher_class_name != "KernelTeacher":
                    rule = "KernelTeacher beside features=kernel: experiment=centered_votes, or no word of teachers"
                    raise InvalidValue("teacher", teacher_class_name, rule=rule)
                further_arguments["nonlinear"] = True
        if group == "data" and takes_public_labels:
            left_out_keys = (NUM_PUBLIC_LABELS_KEY,)
        if group == "aggregator":
            further_arguments["adjacency"] = Adjacency.parse(config.adjacency)
        allowed_modules = list(config.allowed_targets)
        return build(
            part_node,
            slot=group,
            allowed_targets=allowed_modules,
            left_out_keys=left_out_keys,
            **further_arguments,
        )

    return build_part


def _object_maker(
    node: dict[Any, Any],
    *,
    setting_path: str,
    allowed_classes: AllowedClasses,
    trusted_prefixes: tuple[str, ...],
) -> Callable[..., Any]:
    """Checks the class of a node and of all nodes within it, and returns a function that builds the node's object.

    Args:
        node: a node with the key `_target_`.
        setting_path: the path of the node in the configuration, for messages.
        allowed_classes: the classes that are allowed at this path.
        trusted_prefixes: prefixes of modules whose classes may be loaded.

    Returns:
        A function of further keyword arguments of the class, which returns the object.

    Raises:
        InvalidValue: a class is not allowed, or a key of a node is no name of an argument.
    """
    cls = trusted_class(
        class_path=node[_TARGET], allowed_classes=allowed_classes, trusted_prefixes=trusted_prefixes
    )
    maker_by_argument: dict[str, Callable[[], Any]] = {}
    for argument_name, argument_value in node.items():
        if argument_name == _TARGET:
            continue
        if not isinstance(argument_name, str) or argument_name.startswith("_"):
            raise InvalidValue(
                f"{setting_path}.{argument_name}",
                rule=f"arguments of {cls.__name__} by their names",
            )
        maker_by_argument[argument_name] = _value_maker(
            argument_value,
            cls=cls,
            argument_name=argument_name,
            setting_path=f"{setting_path}.{argument_name}",
            trusted_prefixes=trusted_prefixes,
        )

    def make(**further_arguments: Any) -> Any:
        value_by_argument = {
            argument_name: make_value() for argument_name, make_value in maker_by_argument.items()
        }
        value_by_argument.update(further_arguments)
        _require_parameters(cls, setting_path=setting_path, keyword_arguments=value_by_argument)
        try:
            return cls(**value_by_argument)
        except (InvalidValue, OSError, MemoryError):
            raise
        except Exception as error:
            error_text = f"{type(error).__name__}: {error}"
            rule = f"settings that {cls.__name__} takes ({error_text})"
            raise InvalidValue(setting_path, rule=rule) from error

    return make


def _value_maker(
    value: Any,
    *,
    cls: type,
    argument_name: str,
    setting_path: str,
    trusted_prefixes: tuple[str, ...],
) -> Callable[[], Any]:
    """Checks a value in a node, and returns a function that builds the value.

    Args:
        value: a plain value, a node (a mapping with `_target_`), or a list or mapping of these.
        cls: the class of the node that contains the value.
        argument_name: the argument of `cls` that the value is passed to.
        setting_path: the path of the value in the configuration, for messages.
        trusted_prefixes: prefixes of modules whose classes may be loaded.
    """
    last_key = setting_path.rpartition(".")[2].rpartition("__")[2]
    is_estimator = any(base.__module__.startswith("sklearn.") for base in cls.__mro__)
    if is_estimator and last_key == "memory" and value is not None:
        raise InvalidValue(setting_path, value, rule="null: a cache of joblib's is read as code")
    if isinstance(value, dict) and _TARGET in value:
        is_of_sklearn = cls.__module__.startswith("sklearn.")
        allowed_classes = classes_allowed_in_argument(
            None if is_of_sklearn else cls, argument_name=argument_name
        )
        return _object_maker(
            value,
            setting_path=setting_path,
            allowed_classes=allowed_classes,
            trusted_prefixes=trusted_prefixes,
        )
    if isinstance(value, dict):
        item_makers = {
            inner_key: _value_maker(
                inner_value,
                cls=cls,
                argument_name=argument_name,
                setting_path=f"{setting_path}.{inner_key}",
                trusted_prefixes=trusted_prefixes,
            )
            for inner_key, inner_value in value.items()
        }
        return lambda: {inner_key: make_item() for inner_key, make_item in item_makers.items()}
    if isinstance(value, list):
        makers_of_items = [
            _value_maker(
                inner_value,
                cls=cls,
                argument_name=argument_name,
                setting_path=f"{setting_path}.{inner_index}",
                trusted_prefixes=trusted_prefixes,
            )
            for inner_index, inner_value in enumerate(value)
        ]
        return lambda: [make_item() for make_item in makers_of_items]
    return lambda: value


def _require_parameters(
    cls: type, *, setting_path: str, keyword_arguments: Mapping[str, Any]
) -> None:
    """Raises `InvalidValue` if a class does not accept one of the keyword arguments, or lacks a required one.

    A class that accepts keyword arguments of any name is not checked.

    Args:
        cls: the class.
        setting_path: the path of the node in the configuration, for messages.
        keyword_arguments: the keyword arguments.
    """
    parameters = inspect.signature(cls).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    parameter_by_name = {
        parameter_name: parameter
        for parameter_name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    parameter_names = tuple(parameter_by_name)
    for parameter_name in keyword_arguments:
        if parameter_name not in parameter_by_name:
            part_name = setting_path.partition(".")[0]
            hint = papers_words.hint(
                word=parameter_name, known_settings=parameter_names, part_name=part_name
            )
            if not hint:
                hint = nearest(parameter_name, choices=parameter_names)
            rule = f"a key of {cls.__name__}: one of {', '.join(parameter_names)}{hint}"
            raise InvalidValue(f"{setting_path}.{parameter_name}", rule=rule)
    for parameter_name, parameter in parameter_by_name.items():
        if parameter.default is parameter.empty and parameter_name not in keyword_arguments:
            raise InvalidValue(
                f"{setting_path}.{parameter_name}", rule=f"a value, {cls.__name__} assumes none"
            )
