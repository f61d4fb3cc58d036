"""Comparing methods: the same votes, queries and seeds, several epsilons, one table, one frontier."""

from pate.comparison.bench import Bench
from pate.comparison.comparison import ComparisonPlan, compare
from pate.comparison.frontier import Frontier
from pate.comparison.method import Contender, Method, Reference, Trained
from pate.comparison.pate_method import PATEMethod
from pate.comparison.run import METRICS, Run, read_runs, write_runs

__all__ = [
    "METRICS",
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
