"""Comparing aggregators: the same votes, queries and seeds, several epsilons, one table, one frontier."""

from pate.comparison.comparison import ComparisonPlan, compare
from pate.comparison.entrant import Entrant
from pate.comparison.frontier import Frontier
from pate.comparison.run import METRICS, Run, read_runs, write_runs

__all__ = ["METRICS", "ComparisonPlan", "Entrant", "Frontier", "Run", "compare", "read_runs", "write_runs"]
