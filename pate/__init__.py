"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.classifier import PATEClassifier

__all__ = ["PATEClassifier"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The classifier, loaded when it is asked for: it needs scikit-learn, and importing `pate` stays light."""
    if name == "PATEClassifier":
        from pate.classifier import PATEClassifier

        return PATEClassifier
    raise AttributeError(f"module 'pate' has no attribute '{name}'")
