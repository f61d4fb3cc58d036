"""Comparing methods: the same votes, queries and seeds, several epsilons, one table, one frontier."""

from pate.comparison.bench import Bench, Trained
from pate.comparison.comparison import ComparisonPlan, compare
from pate.comparison.frontier import Frontier
from pate.comparison.method import Contender, Method, Reference
from pate.comparison.pate_method import PATEMethod
from pate.comparison.run import Run, read_runs, write_runs

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
