"""Random texts for tests of text vectors; each word has two syllables."""

import numpy as np

SYLLABLES = [
    consonant + ending
    for consonant in "bdfgklmnprst"
    for ending in ("a", "e", "i", "o", "un", "ar")
]
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES[:20]]
# A word that no public text has.
SECRET = "zyxwordsecret"


def some_texts(num_texts: int, seed: int) -> list[str]:
    """Returns random texts of twelve words.

    `WORDS[1]` is the most frequent word, later words are rarer, and `WORDS[0]` hardly occurs.
    """
    rng = np.random.default_rng(seed)
    word_numbers = rng.geometric(p=0.01, size=(num_texts, 12)) % len(WORDS)
    return [" ".join(WORDS[number] for number in row) for row in word_numbers.tolist()]


PUBLIC_TEXTS = some_texts(num_texts=300, seed=0)
