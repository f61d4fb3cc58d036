"""Comparing methods: the same votes, queries and seeds, several epsilons, one table, one frontier."""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.comparison.comparison import ComparisonPlan, compare
from pate.comparison.frontier import Frontier, Run, read_runs, write_runs
from pate.comparison.method import Bench, Contender, Method, PATEMethod, Reference, Trained

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
