"""Data sets in three splits, and the disjoint partition of the private one into teachers."""

from pate.data.dataset import Dataset, Split
from pate.data.partition import Partition

__all__ = ["Dataset", "Partition", "Split"]
