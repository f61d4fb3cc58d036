"""Data sets in three splits, and the disjoint partition of the private one into teachers."""

from pate.data.celeba import CelebA
from pate.data.dataset import Dataset, Split
from pate.data.digits_grid import DigitsGrid
from pate.data.partition import Partition
from pate.data.wordnet import WordNet40
from pate.data.yeast import Yeast

__all__ = ["CelebA", "Dataset", "DigitsGrid", "Partition", "Split", "WordNet40", "Yeast"]
