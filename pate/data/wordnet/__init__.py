"""The embedded real data set; the modules that build it are not imported here and may be heavy."""

from pate.data.wordnet.wordnet40 import WordNet40

__all__ = ["WordNet40"]
