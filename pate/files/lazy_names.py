"""Names of a package that are loaded when they are first used: what nobody asks for costs no start."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import Any

_ONE_AT_A_TIME = RLock()


@contextmanager
def lazy_names(package: dict[str, Any]) -> Iterator[None]:
    """Has imports of the form `from module import name` in the block load their modules when a name is first read.

    A name that is also that of its module has to be imported outside of the block: once the module is loaded, Python
    finds the module under it.

    Args:
        package: `globals()` of the package's `__init__.py`.

    >>> package = {"__name__": "package"}
    >>> with lazy_names(package):
    ...     exec("from math import tau", package)
    >>> "tau" in package, round(package["__getattr__"]("tau"), 2), "tau" in package
    (False, 6.28, True)
    """
    modules: dict[str, str] = {}

    def noted(name: str, importing: Any = None, local: Any = None, names: Any = (), level: int = 0) -> Any:
        if importing is not package:  # another thread, or a module that is loaded meanwhile
            return real(name, importing, local, names, level)
        if level or not names or "*" in names:
            raise ImportError(f"lazy_names: expected from module import name, found another form at {name}")
        modules.update(dict.fromkeys(names, name))
        return _Absent()

    with _ONE_AT_A_TIME:
        real = builtins.__import__
        builtins.__import__ = noted  # type: ignore[assignment]  # typed with more exact sequences
        try:
            yield
        finally:
            builtins.__import__ = real
    for name in modules:
        del package[name]

    def loaded(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        package[name] = getattr(import_module(modules[name]), name)
        return package[name]

    package |= {"__getattr__": loaded, "__dir__": lambda: sorted({*package, *modules})}


class _Absent:
    """Stands for a module that is not loaded yet."""

    def __getattr__(self, name: str) -> None:
        """Stands for whatever it holds."""
