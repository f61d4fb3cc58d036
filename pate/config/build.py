"""Objects from configuration: every class is found and judged before any is made.

A configuration is no code. A `_target_` may name a class that is defined in an allowed package and of the kind that its
place takes, and nothing else.
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.config import papers_words
from pate.validation import InvalidValue, nearest

TRUSTED_PREFIXES = ("pate.", "sklearn.")

_TARGET = "_target_"
_NAME = re.compile(r"[A-Za-z]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_NO_API = {"conftest", "experimental", "externals", "tests"}
_IN_SKLEARN = "within an estimator"
_BASES = {
    "accountant": "pate.accounting.Accountant",
    "aggregator": "pate.aggregators.Aggregator",
    "engine": "pate.teachers.Engine",
    "estimator": "sklearn.base.BaseEstimator",
    "features": "pate.features.Features",
    "method": "pate.comparison.Method",
    "student": "pate.student.Student",
    "teacher": "pate.teachers.Voter",
    _IN_SKLEARN: "sklearn.base.BaseEstimator or sklearn.gaussian_process.kernels.Kernel or "
    "sklearn.model_selection.BaseCrossValidator or sklearn.model_selection.BaseShuffleSplit",
}
_ENTRY_POINTS = {
    "aggregator": "pate.aggregators",
    "data": "pate.data",
    "student": "pate.students",
    "teacher": "pate.teachers",
}
# the kinds that have a name: of groups, and estimators in teachers
GROUPS_OF_CLASSES = ("data", *list(_BASES)[:-1])


class Kind(NamedTuple):
    """Which classes a slot takes."""

    rule: str  # for messages, such as "a subclass of pate.teachers.Voter"
    accepts: Callable[[type], bool]


def build(
    node: DictConfig, slot: str, *, allowed_targets: Iterable[str] = (), **arguments: Any
) -> Any:
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
            raise InvalidValue(
                "allowed_targets", f"[{module}]", rule="names of modules, such as my_module."
            )
    if not isinstance(plain, dict) or _TARGET not in plain:
        raise InvalidValue(slot, plain, rule="a node with a _target_, the name of a class")
    return _maker(plain, slot, kind_of_group(slot), trusted)(**arguments)


def build_aggregator(
    node: DictConfig, *, adjacency: str, allowed_targets: Iterable[str] = ()
) -> Aggregator:
    """The aggregator of a configuration, under the adjacency that all commands share."""
    made: Aggregator = build(
        node, "aggregator", allowed_targets=allowed_targets, adjacency=Adjacency.parse(adjacency)
    )
    return made


def maker(config: DictConfig) -> Callable[[str], Any]:
    """How the part of a group is made: `maker(config)("data")`; of a teacher without `num_teachers`."""

    def make(group: str) -> Any:
        node = config[group]
        arguments = dict[str, Any]()
        if group == "teacher":
            node = OmegaConf.masked_copy(node, [key for key in node if key != "num_teachers"])
            if str(config.get("features", {}).get(_TARGET)).endswith(".Kernel"):
                # others do not vote in the pool's directions
                name = str(node[_TARGET]).rpartition(".")[2]
                if name != "KernelTeacher":
                    rule = "KernelTeacher beside features=kernel: experiment=centered_votes, or no word of teachers"
                    raise InvalidValue("teacher", name, rule=rule)
                arguments["nonlinear"] = True
        if group == "aggregator":
            arguments["adjacency"] = Adjacency.parse(config.adjacency)
        return build(node, group, allowed_targets=list(config.allowed_targets), **arguments)

    return make


def _maker(
    node: dict[Any, Any], path: str, kind: Kind, trusted: tuple[str, ...]
) -> Callable[..., Any]:
    """Judges the class of a node and of all within it; what makes them, with arguments beside the node's values."""
    cls = class_of(node[_TARGET], kind, trusted)
    within = None if cls.__module__.startswith("sklearn.") else cls
    is_estimator = any(base.__module__.startswith("sklearn.") for base in cls.__mro__)

    def judged(value: Any, name: str, at: str) -> Callable[[], Any]:
        if (
            is_estimator
            and at.rpartition(".")[2].rpartition("__")[2] == "memory"
            and value is not None
        ):
            # of pickles
            raise InvalidValue(at, value, rule="null: a cache of joblib's is read as code")
        if isinstance(value, dict) and _TARGET in value:
            return _maker(value, at, kind_within(within, name), trusted)
        if isinstance(value, dict):
            items = {key: judged(item, name, f"{at}.{key}") for key, item in value.items()}
            return lambda: {key: make() for key, make in items.items()}
        if isinstance(value, list):
            makers = [judged(item, name, f"{at}.{index}") for index, item in enumerate(value)]
            return lambda: [make() for make in makers]
        return lambda: value

    values: dict[str, Callable[[], Any]] = {}
    for name in (each for each in node if each != _TARGET):
        if not isinstance(name, str) or name.startswith("_"):
            raise InvalidValue(f"{path}.{name}", rule=f"arguments of {cls.__name__} by their names")
        values[name] = judged(node[name], name, f"{path}.{name}")

    def make(**arguments: Any) -> Any:
        given = {name: value() for name, value in values.items()} | arguments
        _require_parameters(cls, path, given)
        try:
            return cls(**given)
        except (InvalidValue, OSError, MemoryError):
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise InvalidValue(
                path, rule=f"settings that {cls.__name__} takes ({found})"
            ) from error

    return make


def _require_parameters(cls: type, path: str, given: Mapping[str, Any]) -> None:
    """Raises unless the class takes these names and needs no other."""
    parameters = inspect.signature(cls).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = {
        each.name: each
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }
    for name in given:
        if name not in known:
            part = path.partition(".")[0]
            near = papers_words.hint(name, tuple(known), part=part) or nearest(name, tuple(known))
            rule = f"a key of {cls.__name__}: one of {', '.join(known)}{near}"
            raise InvalidValue(f"{path}.{name}", rule=rule)
    for name, each in known.items():
        if each.default is each.empty and name not in given:
            raise InvalidValue(f"{path}.{name}", rule=f"a value, {cls.__name__} assumes none")


@cache
def parts_of_others(group: str) -> Mapping[str, str]:
    """The `_target_` of each part that an installed package has for a group, by its name; nothing of it is loaded."""
    found = entry_points(group=_ENTRY_POINTS[group]) if group in _ENTRY_POINTS else ()
    return {point.name: f"{point.module}.{point.attr}" for point in found if point.attr}


def is_within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of some modules, or lies in one; `mine.` and `mine` are the same module."""
    return any(
        name == module or name.startswith(f"{module}.")
        for module in (each.rstrip(".") for each in prefixes)
    )


def _is_name(target: str) -> bool:
    """Whether it is a name by which a class may be loaded: dotted, no dunder in it, of scikit-learn a public one."""
    if not _NAME.fullmatch(target) or any(part.startswith("__") for part in target.split(".")):
        return False
    package, *modules, _ = target.split(".")
    return package != "sklearn" or not any(
        part.startswith("_") or part in _NO_API for part in modules
    )


def class_of(target: Any, kind: Kind, trusted: tuple[str, ...]) -> type:
    """The class of a `_target_`; raises `InvalidValue` unless it is one of modules that are trusted, of the kind."""
    # who installed a package trusts the parts that it names by entry points
    is_part = any(target in parts_of_others(group).values() for group in _ENTRY_POINTS)
    cls = None
    lacking = ""
    rule = f"a name that begins with {' or '.join(trusted)}, or with a prefix in allowed_targets"
    if isinstance(target, str) and (is_part or is_within(target, trusted)):
        try:
            cls = located(target)
        except ModuleNotFoundError as error:
            lacking = f": it needs {error.name}"
        rule = f"a class that can be imported{lacking}: install its package, or put its folder into PYTHONPATH"
        rule += "; public, such as sklearn.svm.SVC, no function, and no name of another package within it"
    if cls is not None and (is_part or is_within(cls.__module__, trusted)):
        rule = kind.rule
        if kind.accepts(cls):
            if not (lacks := sorted(getattr(cls, "__abstractmethods__", ()))):
                return cls
            rule = f"a class with {' and '.join(lacks)}"
    raise InvalidValue("_target_", target, rule=rule)


def located(target: str) -> type | None:
    """The class of that name; None where there is none. Raises `ModuleNotFoundError` for a module that lacks another.

    Modules are loaded one within the other, and only of the package that the name begins with. An attribute is read
    from the innermost one alone, never through a module that it holds, and what is found has to be a class defined in
    the same package, under its own name: `pate.x.np.testing.runstring` leads nowhere. Nothing is called.
    """
    if not _is_name(target):
        return None
    names = target.split(".")
    package = names[0]
    module = None
    while len(names) > 1 and (module is None or hasattr(module, "__path__")):
        name = package if module is None else f"{module.__name__}.{names[0]}"
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            break
        names = names[1:]
    cls: Any = getattr(module, names[0], None)
    for part in names[1:]:  # a class within a class
        cls = vars(cls).get(part) if isinstance(cls, type) else None
    if not isinstance(cls, type) or not is_within(cls.__module__, (package,)):
        return None
    # is it what lies where it says that it was defined?
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = vars(found).get(part) if isinstance(found, (type, ModuleType)) else None
    return cls if found is cls else None


def kind_of_group(group: str) -> Kind:
    """What a group takes, or `estimator`: subclasses of its base; of a data set there is none, but `load()`."""
    if group == "data":
        return Kind(
            "a class with a method load() that needs no argument",
            lambda cls: _takes(cls, "load", 0),
        )

    def accepts(cls: type) -> bool:
        names = (base.rpartition(".") for base in _BASES[group].split(" or "))
        return issubclass(
            cls, tuple(getattr(import_module(module), name) for module, _, name in names)
        )

    return Kind(f"a subclass of {_BASES[group]}", accepts)


def kind_within(cls: type | None, name: str) -> Kind:
    """What a parameter of a class takes where it is given an object, whatever sequence or mapping that lies in.

    It is a part of a run, a callable of one number, or what the annotation names beside these; or what
    `metadata={"kind": "estimator"}` of a field says. Of scikit-learn's classes, which annotate none, None stands.
    """
    if cls is None:
        return kind_of_group(_IN_SKLEARN)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    if declared := next((item.metadata.get("kind") for item in fields if item.name == name), None):
        return kind_of_group(declared)
    try:
        hints = get_type_hints(cls if fields else vars(cls).get("__init__", cls))
    except (NameError, TypeError):  # names in them that cannot be read
        hints = {}
    named = tuple(each for each in _classes(hints.get(name)) if each.__module__ != "builtins")

    def accepts(inner: type) -> bool:
        is_part = any(kind_of_group(group).accepts(inner) for group in GROUPS_OF_CLASSES)
        return is_part or issubclass(inner, named) or _takes(inner, "__call__", 1)

    rule = f"a part of a run ({', '.join(GROUPS_OF_CLASSES)}), or a class that the annotation of {name} names"
    return Kind(rule, accepts)


def _classes(hint: Any) -> Iterator[type]:
    """The classes in an annotation, those of a container's items as well."""
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _classes(part)


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
