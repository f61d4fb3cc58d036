"""The classes that a configuration may name. They are found by name and checked before any object is built.

A configuration must not execute arbitrary code. So a `_target_` may only name a class that is defined in a trusted
package and that fits its slot. A function such as `os.system`, or a class that was smuggled into another package's
namespace, is refused.
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

from pate.validation import InvalidValue

TRUSTED_PREFIXES = ("pate.", "sklearn.")
"""The modules whose classes may always be loaded; the user and installed packages add others."""

# The dotted name of a class, in ASCII.
_NAME = re.compile(r"[A-Za-z]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
# Modules of scikit-learn that are not for users, though no underscore says so.
_PRIVATE_SKLEARN_MODULES = {"conftest", "experimental", "externals", "tests"}
# A slot without a group of its own: an argument of a class of scikit-learn.
_IN_SKLEARN = "within an estimator"
# The base classes that each slot allows; `data` has none.
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
# The group of entry points under which other packages offer members of a configuration group.
_ENTRY_POINTS = {
    "aggregator": "pate.aggregators",
    "data": "pate.data",
    "student": "pate.students",
    "teacher": "pate.teachers",
}
GROUPS_OF_CLASSES = ("data", *(slot for slot in _BASES if slot != _IN_SKLEARN))
"""The slots that have a name: the groups of the configuration, and the estimator in a teacher."""


class AllowedClasses(NamedTuple):
    """The classes that are allowed in a slot.

    Attributes:
        rule: a description of these classes for messages, such as "a subclass of pate.teachers.Voter".
        accepts_class: returns True for an allowed class.
    """

    rule: str
    accepts_class: Callable[[type], bool]


@cache
def installed_parts(group: str) -> Mapping[str, str]:
    """Returns the parts that installed packages add to a group: the `_target_` of each part, by the part's name.

    The names come from the packages' entry points. No package is imported.
    """
    group_entry_points = entry_points(group=_ENTRY_POINTS[group]) if group in _ENTRY_POINTS else ()
    return {
        part_entry_point.name: f"{part_entry_point.module}.{part_entry_point.attr}"
        for part_entry_point in group_entry_points
        if part_entry_point.attr
    }


def is_within(dotted_name: str, module_prefixes: tuple[str, ...]) -> bool:
    """Returns True if a dotted name is that of a module in `module_prefixes`, or of something within one.

    A prefix may end in a dot: `mine.` and `mine` mean the same module.
    """
    modules = [prefix.rstrip(".") for prefix in module_prefixes]
    return any(dotted_name == module or dotted_name.startswith(f"{module}.") for module in modules)


def is_class_name(class_path: str) -> bool:
    """Returns True if a class may be loaded by this name.

    The name must be dotted and without parts that begin with two underscores. A name in scikit-learn must be in public
    modules.
    """
    if not _NAME.fullmatch(class_path):
        return False
    package, *modules, cls = class_path.split(".")
    if any(part.startswith("__") for part in (package, *modules, cls)):
        return False
    if package != "sklearn":
        return True
    return not any(
        module.startswith("_") or module in _PRIVATE_SKLEARN_MODULES for module in modules
    )


def trusted_class(
    class_path: Any, allowed_classes: AllowedClasses, trusted_prefixes: tuple[str, ...]
) -> type:
    """Returns the class that a `_target_` names.

    Args:
        class_path: the value of `_target_`.
        allowed_classes: the classes that the slot allows.
        trusted_prefixes: prefixes of the modules whose classes may be loaded. A class that an entry point of an
            installed package names is trusted as well, because the user has installed the package.

    Raises:
        InvalidValue: the class does not exist, is defined in another place, is abstract, or does not fit the slot.
    """
    is_installed_part = any(
        class_path in installed_parts(group).values() for group in _ENTRY_POINTS
    )
    if not isinstance(class_path, str) or not (
        is_installed_part or is_within(class_path, module_prefixes=trusted_prefixes)
    ):
        rule = f"a name that begins with {' or '.join(trusted_prefixes)}, or with a prefix in allowed_targets"
        raise InvalidValue("_target_", class_path, rule=rule)
    cls = None
    missing_module = ""
    try:
        cls = find_class(class_path)
    except ModuleNotFoundError as error:
        missing_module = f": it needs {error.name}"
    if cls is None or not (
        is_installed_part or is_within(cls.__module__, module_prefixes=trusted_prefixes)
    ):
        rule = (
            f"a class that can be imported{missing_module}: install its package, or put its folder into PYTHONPATH; "
            "public, such as sklearn.svm.SVC, no function, and no name of another package within it"
        )
        raise InvalidValue("_target_", class_path, rule=rule)
    if not allowed_classes.accepts_class(cls):
        raise InvalidValue("_target_", class_path, rule=allowed_classes.rule)
    missing_methods = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing_methods:
        raise InvalidValue(
            "_target_", class_path, rule=f"a class with {' and '.join(missing_methods)}"
        )
    return cls


def find_class(class_path: str) -> type | None:
    """Returns the class with a dotted name; None if there is no such class. The class is not called.

    Only modules within the package that begins the name are imported. An attribute is read from the innermost module
    alone, never through another module that it imports. The class must be defined in the same package under its own
    name. So `pate.x.np.testing.runstring` gives None.

    Raises:
        ModuleNotFoundError: a module in the name needs another module that is not installed.
        MissingPackage: a module of pate in the name needs an extra that is not installed.
    """
    if not is_class_name(class_path):
        return None
    unread_names = class_path.split(".")
    package = unread_names[0]
    module = None
    # Only a package, which has a `__path__`, has modules within it.
    while len(unread_names) > 1 and (module is None or hasattr(module, "__path__")):
        module_name = package if module is None else f"{module.__name__}.{unread_names[0]}"
        try:
            module = import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name:
                raise
            break
        unread_names = unread_names[1:]
    outer_name, *inner_names = unread_names
    cls: object = getattr(module, outer_name, None)
    for inner_name in inner_names:
        cls = vars(cls).get(inner_name) if isinstance(cls, type) else None
    if not isinstance(cls, type) or not is_within(cls.__module__, module_prefixes=(package,)):
        return None
    return cls if cls is _definition(cls) else None


def _definition(cls: type) -> object:
    """Returns the object that a module has under a class's own `__module__` and `__qualname__`; None if there is none.

    For a class that is defined where it says, this is the class itself.
    """
    definition: object = sys.modules.get(cls.__module__)
    for inner_name in cls.__qualname__.split("."):
        if not isinstance(definition, (type, ModuleType)):
            return None
        definition = vars(definition).get(inner_name)
    return definition


def classes_allowed_in_group(group: str) -> AllowedClasses:
    """Returns the classes that are allowed in a configuration group.

    These are the subclasses of the group's base class. In the group `data` they are the classes with a method `load()`.
    """
    if group == "data":
        return AllowedClasses(
            rule="a class with a method load() that needs no argument", accepts_class=_has_load
        )

    def is_subclass(cls: type) -> bool:
        split_class_paths = [
            class_path.rpartition(".") for class_path in _BASES[group].split(" or ")
        ]
        base_classes = tuple(
            getattr(import_module(module_name), base_name)
            for module_name, _, base_name in split_class_paths
        )
        return issubclass(cls, base_classes)

    return AllowedClasses(rule=f"a subclass of {_BASES[group]}", accepts_class=is_subclass)


def _has_load(cls: type) -> bool:
    """Returns True if a class has a method `load()` that needs no argument."""
    return _has_method(cls, method_name="load", num_arguments=0)


def classes_allowed_in_argument(cls: type | None, argument_name: str) -> AllowedClasses:
    """Returns the classes whose objects may be passed to an argument, alone or in a list or mapping.

    These are parts of a run, callables with one argument, and the classes in the annotation of the argument. A field
    with `metadata={"kind": GROUP}`, such as `estimator`, allows the classes of this group instead.

    Args:
        cls: the class that has the argument; None for a class of scikit-learn, which annotates no argument. Its
            arguments take scikit-learn's estimators, kernels of Gaussian processes, and splitters.
        argument_name: the name of the argument.
    """
    if cls is None:
        return classes_allowed_in_group(group=_IN_SKLEARN)
    dataclass_fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    for dataclass_field in dataclass_fields:
        if dataclass_field.name == argument_name and "kind" in dataclass_field.metadata:
            return classes_allowed_in_group(group=dataclass_field.metadata["kind"])
    try:
        annotation_by_argument = get_type_hints(
            cls if dataclass_fields else vars(cls).get("__init__", cls)
        )
    except (NameError, TypeError):  # annotations that cannot be read
        annotation_by_argument = {}
    annotated_classes = tuple(
        annotated_class
        for annotated_class in _classes_in(annotation_by_argument.get(argument_name))
        if annotated_class.__module__ != "builtins"
    )

    def accepts_class(passed_class: type) -> bool:
        is_part = any(
            classes_allowed_in_group(group=group).accepts_class(passed_class)
            for group in GROUPS_OF_CLASSES
        )
        is_callable = _has_method(passed_class, method_name="__call__", num_arguments=1)
        return is_part or is_callable or issubclass(passed_class, annotated_classes)

    group_names = ", ".join(GROUPS_OF_CLASSES)
    rule = (
        f"a part of a run ({group_names}), or a class that the annotation of {argument_name} names"
    )
    return AllowedClasses(rule=rule, accepts_class=accepts_class)


def _classes_in(annotation: Any) -> Iterator[type]:
    """Yields the classes in an annotation, including those in its arguments: `int` and `str` for `list[int | str]`."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner_annotation in get_args(annotation):
        yield from _classes_in(inner_annotation)


def _has_method(cls: type, method_name: str, *, num_arguments: int) -> bool:
    """Returns True if a class has a method that can be called with `num_arguments` positional arguments."""
    method_function = inspect.getattr_static(cls, method_name, default=None)
    if not isinstance(method_function, FunctionType):
        return False
    placeholder_arguments = [None] * (1 + num_arguments)  # one more for self
    try:
        inspect.signature(method_function).bind(*placeholder_arguments)
    except TypeError:
        return False
    return True
