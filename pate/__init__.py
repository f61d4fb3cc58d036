"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

import glob
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.bundle import load
    from pate.classifier import PATEClassifier

_MODULE_OF = {"PATEClassifier": "pate.classifier", "load": "pate.bundle"}
_EXTRA_OF = {"PATEClassifier": "train", "load": "predict"}

__all__ = ["PATEClassifier", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("pate.extras").require_extra(f"pate.{name}", _EXTRA_OF[name])
    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    try:
        import_module("pate.extras").require_extra("pate", "train")
    except ImportError:  # `help(pate)` asks for whatever stands here
        return sorted(globals())
    return sorted({*globals(), *__all__})


# the other distribution `pate` owns a file `pate/__init__.py`, too; importlib.metadata would take twenty milliseconds
_pattern = os.path.join("{}", "[Pp][Aa][Tt][Ee]-*.*-info")
if _found := [
    path for folder in sys.path for path in glob.glob(_pattern.format(glob.escape(folder or ".")))
]:
    import warnings

    _mend = "pip uninstall pate, then install pate-multilabel again: both own pate/__init__.py"
    _where = f"another project's distribution `pate` is beside pate-multilabel ({_found[0]})"
    warnings.warn(f"{_where}: {_mend}", stacklevel=2)
