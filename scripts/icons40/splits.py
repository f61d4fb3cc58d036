"""The splits of the icons by families, and the labels, which the public pool's names alone decide."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def number_of(unit: str, name: str) -> int:
    """A fixed number of 62 bits for an icon or a family: it looks random and depends on its name alone."""
    digest = hashlib.sha256(f"icons {unit} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def choose_labels(
    words: Sequence[frozenset[str]], families: NDArray[np.int64], *, num_public: int, num_labels: int
) -> list[str]:
    """The words that are most frequent in the public pool, the most frequent first; ties by the alphabet.

    The pool is the longest run of families, in the order of their numbers, in which at most `num_public` icons have
    one of the labels that are chosen from it. No name beyond the pool is counted.

    Args:
        words: of each icon, those that may be labels.
        families: int64 `[n]`, the number of each icon's family.
        num_public: icons with a label that the pool may hold.
        num_labels: how many to choose.
    """
    order = np.argsort(families, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(families[order])) + 1, len(order))  # of the families, one after another
    ordered = [words[row] for row in order]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        pool = ordered[: ends[middle - 1]]
        labels = set(_most_frequent(pool, num_labels))
        low, high = (
            (middle, high) if sum(not labels.isdisjoint(each) for each in pool) <= num_public else (low, middle - 1)
        )
    return _most_frequent(ordered[: ends[low - 1]] if low else [], num_labels)


def deal_splits(families: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Deals whole families into splits of exactly the given sizes where that is possible; what is left is the last.

    Families come in the order of their numbers, and each goes to the first split into which it still fits.

    Args:
        families: int64 `[n]`, the number of each record's family.
        sizes: records wanted in each split but the last.

    Returns:
        int64 `[n]`, the split of each record, from 0 to `len(sizes)`.
    """
    numbers, of, counts = np.unique(families, return_inverse=True, return_counts=True)
    room = [*sizes, len(families)]
    split_of_family = np.empty(len(numbers), np.int64)
    for place, count in enumerate(counts.tolist()):
        chosen = next(split for split, left in enumerate(room) if count <= left)
        room[chosen] -= count
        split_of_family[place] = chosen
    return split_of_family[of]


def _most_frequent(pool: Sequence[frozenset[str]], num_labels: int) -> list[str]:
    counts = Counter(word for words in pool for word in words)
    return sorted(counts, key=lambda word: (-counts[word], word))[:num_labels]
