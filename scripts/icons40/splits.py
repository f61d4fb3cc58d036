"""The splits of the icons by families, and the labels, which the public pool's names alone decide."""

from __future__ import annotations

import hashlib
import heapq
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

    The pool grows family by family, in the order of their numbers, for as long as at most `num_public` of its icons
    have one of the labels that are chosen from it. No name beyond it counts, but for those of the family that is too
    many.

    Args:
        words: of each icon, those that may be labels.
        families: int64 `[n]`, the number of each icon's family.
        num_public: icons with a label that the pool may hold.
        num_labels: how many to choose.
    """
    counts, pool, labels = Counter[str](), list[frozenset[str]](), list[str]()
    num_labeled, order = 0, np.argsort(families, kind="stable")
    for family in np.split(order, np.flatnonzero(np.diff(families[order])) + 1):
        joining = [words[row] for row in family.tolist()]
        counts.update(word for each in joining for word in each)
        pool += joining
        chosen = _most_frequent(counts, num_labels)
        counted = joining if set(chosen) == set(labels) else pool
        num_labeled = (num_labeled if counted is joining else 0) + sum(not each.isdisjoint(chosen) for each in counted)
        if num_labeled > num_public:
            break
        labels = chosen
    return labels


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


def _most_frequent(counts: Counter[str], num_labels: int) -> list[str]:
    return heapq.nsmallest(num_labels, counts, key=lambda word: (-counts[word], word))
