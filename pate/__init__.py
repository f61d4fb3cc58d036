"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.classifier import PATEClassifier
    from pate.run.bundle import load

_MODULE_OF = {"PATEClassifier": "pate.classifier", "load": "pate.run.bundle"}

__all__ = ["PATEClassifier", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("pate.validation").require_extra(f"pate.{name}", "train")
    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    try:
        import_module("pate.validation").require_extra("pate", "train")
    except ImportError:  # `help(pate)` asks for whatever stands here
        return sorted(globals())
    return sorted({*globals(), *__all__})


def _other_project() -> str | None:
    """Where the other distribution `pate` is installed: it owns a file `pate/__init__.py`, too."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name[:5].lower() == "pate-" and name.endswith((".dist-info", ".egg-info")):
                return os.path.join(folder, name)
    return None


if (_found := _other_project()) is not None:  # half a millisecond; importlib.metadata takes twenty
    import warnings

    _mend = "pip uninstall pate, then install pate-multilabel again: both own pate/__init__.py"
    warnings.warn(f"another project's distribution `pate` is beside pate-multilabel ({_found}): {_mend}", stacklevel=2)
