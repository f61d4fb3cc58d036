"""The embedded real data set."""

from pate.data.wordnet.wordnet40 import WordNet40

__all__ = ["WordNet40"]
