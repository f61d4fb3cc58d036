"""Texts of words of two syllables, for tests of vectors."""

import numpy as np

SYLLABLES = [
    first + second for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "un", "ar")
]
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES[:20]]
SECRET = "zyxwordsecret"  # a word that no public text has


def some_texts(count: int, seed: int) -> list[str]:
    """Returns random texts of twelve words, in which the first words of the vocabulary are more frequent."""
    places = np.random.default_rng(seed).geometric(0.01, (count, 12)) % len(WORDS)
    return [" ".join(WORDS[place] for place in row) for row in places.tolist()]


PUBLIC = some_texts(count=300, seed=0)
