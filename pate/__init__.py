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


def __getattr__(public_name: str) -> Any:
    """Returns the object with a public name of the package; its module is imported when it is first used (PEP 562)."""
    if public_name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {public_name!r}")
    import_module("pate.extras").require_extra(f"pate.{public_name}", _EXTRA_OF[public_name])
    module = import_module(_MODULE_OF[public_name])
    globals()[public_name] = value = getattr(module, public_name)
    return value


def __dir__() -> list[str]:
    try:
        import_module("pate.extras").require_extra(__name__, extra="train")
    except ImportError:  # `help(pate)` reads every name that is listed
        return sorted(globals())
    return sorted({*globals(), *__all__})


# Another project's distribution is named `pate`, and owns a file `pate/__init__.py`, too. A search by
# importlib.metadata would take twenty milliseconds of every import.
_pattern = os.path.join("{}", "[Pp][Aa][Tt][Ee]-*.*-info")
_other_paths = [
    path for folder in sys.path for path in glob.glob(_pattern.format(glob.escape(folder or ".")))
]
if _other_paths:
    import warnings

    _remedy = "pip uninstall pate, then install pate-multilabel again: both own pate/__init__.py"
    _conflict = (
        f"another project's distribution `pate` is beside pate-multilabel ({_other_paths[0]})"
    )
    warnings.warn(f"{_conflict}: {_remedy}", stacklevel=2)
