"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.classifier import PATEClassifier
    from pate.run.bundle import load

_MODULE_OF = {
    "PATEClassifier": "pate.classifier",
    "load": "pate.run.bundle",
}

__all__ = ["PATEClassifier", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
