"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.classifier import PATEClassifier
    from pate.run.bundle import load

__all__ = ["PATEClassifier", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Names that are loaded on first use, so that importing `pate` stays light."""
    if name == "PATEClassifier":
        from pate.classifier import PATEClassifier

        return PATEClassifier
    if name == "load":
        from pate.run.bundle import load

        return load
    raise AttributeError(f"module 'pate' has no attribute '{name}'")
