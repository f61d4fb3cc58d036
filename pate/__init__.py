"""Multi-label PATE: private aggregation of teacher ensembles with prices that hold."""

__version__ = "0.1.0"
