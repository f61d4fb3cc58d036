"""Objects from configuration: every class is found and judged before any is made.

A configuration is no code. A `_target_` may name a class that is defined in an allowed package and of the kind that its
place takes, and nothing else.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.config.location import is_part_of_others
from pate.validation import InvalidValue, nearest

TRUSTED_PREFIXES = ("pate.", "sklearn.")

_TARGET = "_target_"
_NAME = re.compile(r"[A-Za-z]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_NO_API = {"conftest", "experimental", "externals", "tests"}
_BASES = {
    "accountant": ("pate.accounting.Accountant",),
    "aggregator": ("pate.aggregators.Aggregator",),
    "engine": ("pate.teachers.Engine",),
    "estimator": ("sklearn.base.BaseEstimator",),
    "features": ("pate.features.Features",),
    "method": ("pate.comparison.Method",),
    "student": ("pate.student.Student",),
    "teacher": ("pate.teachers.Voter",),
}
_PARTS_OF_ESTIMATORS = (
    "sklearn.base.BaseEstimator",
    "sklearn.gaussian_process.kernels.Kernel",
    "sklearn.model_selection.BaseCrossValidator",
    "sklearn.model_selection.BaseShuffleSplit",
)
_SAY_NOTHING = (Any, object, list, tuple, dict)

GROUPS_OF_CLASSES = ("data", *sorted(_BASES))
"""The kinds that have a name: of the groups, and estimators within teachers."""


class Kind(NamedTuple):
    """Which classes a slot takes: a rule for messages, such as "a subclass of pate.teachers.Voter", and a test."""

    rule: str
    accepts: Callable[[type], bool]


class _Call(NamedTuple):
    """A class that was found and judged, and the values that it is called with; calls within them for nodes."""

    path: str  # of the node, such as teacher.estimator
    cls: type
    values: dict[str, Any]


def build(node: DictConfig, slot: str, *, allowed_targets: Iterable[str] = (), **arguments: Any) -> Any:
    """Makes the object of a node, and those within it, each by calling its class with the node's values by their names.

    A `_target_` is a class that the place takes, by its kind: of pate, of scikit-learn, of a module of
    `allowed_targets`, or one that an installed package names as a part by an entry point. Nothing is made before all of
    them are found to be that, and no other module is loaded.

    Args:
        node: with `_target_`.
        slot: accountant, aggregator, data, engine, estimator, features, method, student or teacher.
        allowed_targets: modules of one's own.
        **arguments: beside the node's values, as they are.

    Raises:
        InvalidValue: a `_target_` of another kind; keys that the class does not take; values that it refuses.
    """
    # `hydra.utils.instantiate` would make a configuration of these plain values again, in which a text that reads
    # ${oc.create:…} becomes a node whose `_target_` nobody judged. So the classes are called with the values that were.
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    trusted = (*TRUSTED_PREFIXES, *allowed_targets)
    for module in trusted:
        if not _is_name(f"{module.rstrip('.')}.Class"):
            raise InvalidValue(f"allowed_targets=[{module}]: expected names of modules, such as my_module.")
    for target in _targets(plain):
        _require_trusted(target, trusted)
    if not isinstance(plain, dict) or _TARGET not in plain:
        raise InvalidValue(f"{slot}={plain}: expected a node with a _target_, the name of a class")
    return _made(_judged(plain, slot, kind_of_group(slot), trusted), arguments)


def build_aggregator(node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()) -> Aggregator:
    """The aggregator of a configuration, under the adjacency that all commands share."""
    made: Aggregator = build(node, "aggregator", allowed_targets=allowed_targets, adjacency=Adjacency.parse(adjacency))
    return made


def _require_trusted(target: Any, trusted: tuple[str, ...]) -> None:
    if not isinstance(target, str) or not (is_within(target, trusted) or is_part_of_others(target)):
        rule = f"a name that begins with {' or '.join(trusted)}, or with a prefix in allowed_targets"
        raise InvalidValue(f"_target_={target}: expected {rule}")
    if not _is_name(target):
        raise InvalidValue(f"_target_={target}: expected the public name of a class, such as sklearn.svm.SVC")


def _items(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list):
        yield from enumerate(node)


def _targets(node: Any) -> Iterator[Any]:
    """Every `_target_` in a tree of dictionaries and lists."""
    for key, value in _items(node):
        if key == _TARGET:
            yield value
        yield from _targets(value)


def _judged(node: dict[Any, Any], path: str, kind: Kind, trusted: tuple[str, ...]) -> _Call:
    """Finds the classes of a node and of all within it, each within the modules that are trusted."""
    cls = class_of(node[_TARGET], kind)
    if not is_within(cls.__module__, trusted) and not is_part_of_others(node[_TARGET]):
        _require_trusted(f"{cls.__module__}.{cls.__qualname__}", trusted)
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
    known = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    for name in given:
        if name not in known:
            rule = f"a key of {call.cls.__name__}: one of {', '.join(known)}{nearest(name, tuple(known))}"
            raise InvalidValue(f"{call.path}.{name}: expected {rule}")
    for name, each in known.items():
        if each.default is each.empty and name not in given:
            raise InvalidValue(f"{call.path}.{name}: expected a value, {call.cls.__name__} assumes none")


def _require_no_cache(value: Any, path: str) -> None:
    """Raises where an estimator is to keep a cache: what is read from it again are pickles, and a pickle is code."""
    for key, item in _items(value):
        if str(key).rpartition("__")[2] == "memory" and item is not None:
            raise InvalidValue(f"{path}.{key}={item}: expected null: a cache of joblib's is read as code")
        _require_no_cache(item, f"{path}.{key}" if isinstance(value, dict) else path)


def is_within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of some modules, or lies in one; `mine.` and `mine` are the same module."""
    return any(name == module or name.startswith(f"{module}.") for module in (each.rstrip(".") for each in prefixes))


def _is_name(target: str) -> bool:
    """Whether it is a name by which a class may be loaded: dotted, no dunder in it, of scikit-learn a public one."""
    if not _NAME.fullmatch(target) or any(part.startswith("__") for part in target.split(".")):
        return False
    package, *modules, _ = target.split(".")
    return package != "sklearn" or not any(part.startswith("_") or part in _NO_API for part in modules)


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


def located(target: str) -> type | None:
    """The class of that name; None where there is none. Raises `ModuleNotFoundError` for a module that lacks another.

    Modules are loaded one within the other, and only of the package that the name begins with. An attribute is read
    from the innermost one alone, never through a module that it holds, and what is found has to be a class defined in
    the same package, under its own name: `pate.x.np.testing.runstring` leads nowhere. Nothing is called.
    """
    if not _is_name(target):
        return None
    package, *rest = target.split(".")
    try:
        module = import_module(package)
    except ModuleNotFoundError as error:
        if error.name == package:
            return None
        raise
    while len(rest) > 1 and hasattr(module, "__path__") and _is_module(name := f"{module.__name__}.{rest[0]}"):
        module, rest = import_module(name), rest[1:]
    found: Any = getattr(module, rest[0], None)
    for part in rest[1:]:  # a class within a class
        found = vars(found).get(part) if isinstance(found, type) else None
    return found if isinstance(found, type) and _is_defined(found, package) else None


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module without a spec, as one that a program made itself
        return name in sys.modules


def _is_defined(cls: type, package: str) -> bool:
    """Whether a class says that it was defined in the package, and is what lies where it says so."""
    if not is_within(cls.__module__, (package,)):
        return False
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = vars(found).get(part) if isinstance(found, (type, ModuleType)) else None
    return found is cls


def kind_of_group(group: str) -> Kind:
    """What a group takes, or `estimator`: subclasses of its base; of a data set there is none, but `load()`."""
    if group == "data":
        return Kind("a class with a method load() that needs no argument", lambda cls: _takes(cls, "load", 0))
    return _subclasses(_BASES[group])


def kind_of_parameter(cls: type, name: str) -> Kind:
    """What a parameter of a class takes where it is given an object.

    It is what the annotation says, in whatever union, sequence or mapping; `metadata={"kind": "estimator"}` of a field
    says it where the annotation cannot. Without an annotation, and for `Any`, it is what one of the groups takes. Of
    scikit-learn's it is an estimator, a kernel or a cross-validator: it annotates none.
    """
    if cls.__module__.startswith("sklearn."):
        return _subclasses(_PARTS_OF_ESTIMATORS)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    if declared := next((item.metadata.get("kind") for item in fields if item.name == name), None):
        return kind_of_group(declared)
    try:
        hints = get_type_hints(cls if dataclasses.is_dataclass(cls) else vars(cls).get("__init__", cls))
    except (NameError, TypeError):  # names in them that cannot be read
        hints = {}
    parts = tuple(_parts(hints.get(name, Any)))
    if not any(part in _SAY_NOTHING for part in parts):
        return _annotated(parts)
    rule = f"a part of a run ({', '.join(GROUPS_OF_CLASSES)}), or an annotation of the field that says what it takes"
    return Kind(rule, lambda cls: any(kind_of_group(group).accepts(cls) for group in GROUPS_OF_CLASSES))


def _subclasses(bases: tuple[str, ...]) -> Kind:
    def accepts(cls: type) -> bool:
        names = (base.rpartition(".") for base in bases)
        return issubclass(cls, tuple(getattr(import_module(module), name) for module, _, name in names))

    return Kind(f"a subclass of {' or '.join(bases)}", accepts)


def _annotated(parts: tuple[Any, ...]) -> Kind:
    """Subclasses of an annotation's classes that are no plain values, and callables that take as many arguments."""
    bases = tuple(part for part in parts if isinstance(part, type) and part.__module__ != "builtins")
    given = [get_args(part)[:1] for part in parts if get_origin(part) is Callable]
    arities = [len(each[0]) if each and isinstance(each[0], list) else 0 for each in given]

    def accepts(cls: type) -> bool:
        return issubclass(cls, bases) or any(_takes(cls, "__call__", arity) for arity in arities)

    rules = [f"a class of callables of {arity} argument{'s' * (arity != 1)}" for arity in arities]
    if bases:
        rules.append("a subclass of " + " or ".join(f"{base.__module__}.{base.__qualname__}" for base in bases))
    return Kind(" or ".join(rules) or "a plain value, and no _target_", accepts)


def _parts(hint: Any) -> Iterator[Any]:
    """The classes in an annotation, those of a container's items as well; a callable as a whole."""
    origin = get_origin(hint)
    held = getattr(origin, "__module__", None) in ("builtins", "collections.abc") and origin is not Callable
    if held or origin in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _parts(part)
    else:
        yield hint if origin in (None, Callable) else origin


def _takes(cls: type, method: str, count: int) -> bool:
    """Whether instances have a method that so many arguments, and no other, can be given to."""
    function = inspect.getattr_static(cls, method, None)
    if not isinstance(function, FunctionType):
        return False
    try:
        inspect.signature(function).bind(*[None] * (1 + count))
    except TypeError:
        return False
    return True
