"""What may stand in a slot of a configuration: a group, a field of a class, a parameter of an estimator."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_PARTS_OF_ESTIMATORS = (
    "sklearn.base.BaseEstimator",
    "sklearn.gaussian_process.kernels.Kernel",
    "sklearn.model_selection.BaseCrossValidator",
    "sklearn.model_selection.BaseShuffleSplit",
)
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
_SAY_NOTHING = (Any, object, list, tuple, dict)
GROUPS_OF_CLASSES = ("data", *sorted(_BASES))
"""The kinds that have a name: of the groups, and estimators within teachers."""


@dataclass(frozen=True)
class Kind:
    """Which classes a slot takes.

    Attributes:
        rule: for messages, such as "a subclass of pate.teachers.Voter".
        accepts: whether a class is one of them.
    """

    rule: str
    accepts: Callable[[type], bool]


def kind_of_group(group: str) -> Kind:
    """What a group takes, or `estimator`: subclasses of its base; of a data set there is none, but `load()`."""
    if group == "data":
        return Kind("a class with a method load() that needs no argument", _is_reader)
    return _subclasses(_BASES[group])


def kind_of_parameter(cls: type, name: str) -> Kind:
    """What a parameter of a class takes where it is given an object.

    It is what the annotation says, in whatever union, sequence or mapping; `metadata={"kind": "estimator"}` of a field
    says it where the annotation cannot. Without an annotation, and for `Any`, it is what one of the groups takes. Of
    scikit-learn's it is an estimator, a kernel or a cross-validator: it annotates none.
    """
    if cls.__module__.startswith("sklearn."):
        return _subclasses(_PARTS_OF_ESTIMATORS)
    if (declared := _declared(cls, name)) is not None:
        return kind_of_group(declared)
    parts = tuple(_parts(_hints(cls).get(name, Any)))
    if any(part in _SAY_NOTHING for part in parts):
        return _of_any_group()
    return _annotated(parts)


def _subclasses(bases: tuple[str, ...]) -> Kind:
    def accepts(cls: type) -> bool:
        names = (base.rpartition(".") for base in bases)
        return issubclass(cls, tuple(getattr(import_module(module), name) for module, _, name in names))

    return Kind(f"a subclass of {' or '.join(bases)}", accepts)


def _of_any_group() -> Kind:
    rule = f"a part of a run ({', '.join(GROUPS_OF_CLASSES)}), or an annotation of the field that says what it takes"
    return Kind(rule, lambda cls: any(kind_of_group(group).accepts(cls) for group in GROUPS_OF_CLASSES))


def _annotated(parts: tuple[Any, ...]) -> Kind:
    """Subclasses of an annotation's classes that are no plain values, and callables that take as many arguments."""
    bases = tuple(part for part in parts if isinstance(part, type) and part.__module__ != "builtins")
    arities = tuple(_arity(part) for part in parts if get_origin(part) is Callable)

    def accepts(cls: type) -> bool:
        return issubclass(cls, bases) or any(_is_called_with(cls, arity) for arity in arities)

    rules = [f"a class of callables of {arity} argument{'s' * (arity != 1)}" for arity in arities]
    if bases:
        rules.append("a subclass of " + " or ".join(f"{base.__module__}.{base.__qualname__}" for base in bases))
    return Kind(" or ".join(rules) or "a plain value, and no _target_", accepts)


def _declared(cls: type, name: str) -> str | None:
    """The kind that a field's metadata names."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return next((item.metadata.get("kind") for item in fields if item.name == name), None)


def _parts(hint: Any) -> Iterator[Any]:
    """The classes in an annotation, those of a container's items as well; a callable as a whole."""
    origin = get_origin(hint)
    held = getattr(origin, "__module__", None) in ("builtins", "collections.abc") and origin is not Callable
    if held or origin in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _parts(part)
    else:
        yield hint if origin in (None, Callable) else origin


def _hints(cls: type) -> dict[str, Any]:
    """Annotations of the fields, or of the constructor's parameters; none where names in them cannot be read."""
    try:
        return get_type_hints(cls if dataclasses.is_dataclass(cls) else vars(cls).get("__init__", cls))
    except (NameError, TypeError):
        return {}


def _is_reader(cls: type) -> bool:
    load = inspect.getattr_static(cls, "load", None)
    return isinstance(load, FunctionType) and _binds(load, 1)


def _is_called_with(cls: type, arity: int) -> bool:
    call = inspect.getattr_static(cls, "__call__", None)
    return isinstance(call, FunctionType) and _binds(call, 1 + arity)


def _arity(hint: Any) -> int:
    arguments = get_args(hint)[:1]
    return len(arguments[0]) if arguments and isinstance(arguments[0], list) else 0


def _binds(function: FunctionType, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True
