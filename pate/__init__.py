"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
    from pate.classifier import PATEClassifier
    from pate.run.bundle import load

__all__ = ["PATEClassifier", "load"]
__version__ = "0.1.0"
