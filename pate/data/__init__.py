"""Data sets in three splits, and the disjoint partition of the private one into teachers."""

from pate.data.dataset import Dataset, Split
from pate.data.partition import Partition
from pate.data.wordnet import WordNet40

__all__ = ["Dataset", "Partition", "Split", "WordNet40"]
