"""What a `_target_` may name: a class that is defined in an allowed package and of the kind that its place takes.

A configuration is no code. Every class of a tree is found and judged here before `pate.config.build` makes any.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pate.validation import InvalidValue

TRUSTED_PREFIXES = ("pate.", "sklearn.")

_NAME = re.compile(r"[A-Za-z]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_NO_API = {"conftest", "experimental", "externals", "tests"}


def is_within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of some modules, or lies in one; `mine.` and `mine` are the same module."""
    return any(name == module or name.startswith(f"{module}.") for module in (each.rstrip(".") for each in prefixes))


def is_name(target: str) -> bool:
    """Whether it is a name by which a class may be loaded: dotted, no dunder in it, of scikit-learn a public one."""
    if not _NAME.fullmatch(target) or any(part.startswith("__") for part in target.split(".")):
        return False
    package, *modules, _ = target.split(".")
    return package != "sklearn" or not any(part.startswith("_") or part in _NO_API for part in modules)


def located(target: str) -> type | None:
    """The class of that name; None where there is none.

    Modules are loaded one within the other, and only of the package that the name begins with. An attribute is read
    from the innermost one alone, never through a module that it holds, and what is found has to be a class defined in
    the same package, under its own name: `pate.x.np.testing.runstring` leads nowhere. Nothing is called.

    Raises:
        ModuleNotFoundError: a module that lacks another.
    """
    if not is_name(target):
        return None
    module, rest = _innermost(target)
    if module is None:
        return None
    found: Any = getattr(module, rest[0], None)
    for part in rest[1:]:  # a class within a class
        found = vars(found).get(part) if isinstance(found, type) else None
    return found if isinstance(found, type) and _is_defined(found, target.partition(".")[0]) else None


def _innermost(target: str) -> tuple[ModuleType | None, list[str]]:
    """The innermost module that a name leads through, and what is left of the name, at least one part."""
    first, *rest = target.split(".")
    try:
        module = import_module(first)
    except ModuleNotFoundError as error:
        if error.name == first:
            return None, rest
        raise
    while len(rest) > 1 and hasattr(module, "__path__") and _is_module(name := f"{module.__name__}.{rest[0]}"):
        module, rest = import_module(name), rest[1:]
    return module, rest


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


def require_modules(allowed: Iterable[str]) -> tuple[str, ...]:
    """The modules that may be named beside the trusted ones; raises unless they are names of modules."""
    modules = tuple(allowed)
    for module in modules:
        if not is_name(f"{module.rstrip('.')}.Class"):
            raise InvalidValue(f"allowed_targets=[{module}]: expected names of modules, such as my_module.")
    return modules


def require_trusted(target: Any, trusted: tuple[str, ...]) -> None:
    """Raises unless a `_target_` is the public name of something within trusted modules."""
    if not isinstance(target, str) or not is_within(target, trusted):
        rule = f"a name that begins with {' or '.join(trusted)}, or with a prefix in allowed_targets"
        raise InvalidValue(f"_target_={target}: expected {rule}")
    if not is_name(target):
        raise InvalidValue(f"_target_={target}: expected the public name of a class, such as sklearn.svm.SVC")
