"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.stability_table import StabilityTable, optimal_stability_table
from pate.mechanisms.stability_test import StabilityTest

__all__ = ["GapSelection", "StabilityTable", "StabilityTest", "optimal_stability_table"]
