"""The class behind a `_target_`, found by walking modules of one package and nothing else."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

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
