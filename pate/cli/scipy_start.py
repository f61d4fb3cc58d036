"""SciPy, loaded without numpy's tools for developers: it copies all names of numpy, and so would load these."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_TOOLS = {"f2py", "testing"}  # they take about as long to load as numpy


def load_scipy() -> None:
    """Loads `scipy.special`. The tools are loaded later by whoever reads `numpy.testing` or imports them."""
    numpy: Any = import_module("numpy")
    names, listed = numpy.__all__, numpy.__dir__
    numpy.__all__ = [name for name in names if name not in _TOOLS]
    numpy.__dir__ = lambda: [name for name in listed() if name not in _TOOLS]
    try:
        import_module("scipy.special")
    finally:
        numpy.__all__, numpy.__dir__ = names, listed
