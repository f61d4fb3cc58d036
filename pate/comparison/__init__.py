"""Comparison of methods of private learning on the same data, queries and seeds, at several epsilons."""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.comparison.bench import Bench
from pate.comparison.comparison import compare
from pate.comparison.frontier import Frontier
from pate.comparison.method import Contender, Method
from pate.comparison.pate_method import PATEMethod
from pate.comparison.plan import ComparisonPlan
from pate.comparison.runs import Run, read_runs, write_runs
from pate.comparison.trained import Reference, Trained

__all__ = [
    "Bench",
    "ComparisonPlan",
    "Contender",
    "Frontier",
    "Method",
    "PATEMethod",
    "Reference",
    "Run",
    "Trained",
    "compare",
    "read_runs",
    "write_runs",
]
