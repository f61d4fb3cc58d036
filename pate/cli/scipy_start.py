"""SciPy, loaded without what numpy loads when it is asked for: SciPy copies all names of numpy, and so would ask."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load_scipy() -> None:
    """Loads `scipy.special`. Modules such as `numpy.f2py` and `numpy.testing` are loaded later by whoever reads them.

    They take a third of the time that numpy and SciPy take together.
    """
    numpy: Any = import_module("numpy")
    listed, names = numpy.__dir__, numpy.__all__
    loaded = [name for name in names if name in vars(numpy)]
    numpy.__dir__, numpy.__all__ = (lambda: loaded), loaded
    try:
        import_module("scipy.special")
    finally:
        numpy.__dir__, numpy.__all__ = listed, names
