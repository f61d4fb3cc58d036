"""The fixed splits of WordNet-40: by whole gloss families, in an order that no library can change."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from scripts.wordnet40.dictionary import Synset


def gloss_families(synsets: Sequence[Synset]) -> dict[int, int]:
    """Returns each synset's family: the smallest offset among the synsets whose normalized gloss is the same.

    "a variety of aster" explains 23 synsets. They have the same features, so they share whatever split and
    whatever teacher they get.
    """
    first: dict[str, int] = {}
    for synset in sorted(synsets, key=lambda synset: synset.offset):
        first.setdefault(synset.normalized, synset.offset)
    return {synset.offset: first[synset.normalized] for synset in synsets}


def deal_splits(families: dict[int, int], sizes: Sequence[int]) -> list[list[int]]:
    """Deals whole families into splits of exactly the given sizes; what is left over is the last split.

    Families come in the order of the SHA-256 of their number: a fixed order that looks random, is
    unrelated to content and does not depend on the version of a random generator. A split takes the next
    family that still fits into it. Within a split the records are ordered by the SHA-256 of their own number.

    Args:
        families: family of each record.
        sizes: records wanted in each split but the last.

    Returns:
        `len(sizes) + 1` lists of records.
    """
    members = defaultdict(list)
    for record, family in families.items():
        members[family].append(record)
    splits: list[list[int]] = [[] for _ in range(len(sizes) + 1)]
    for family in sorted(members, key=lambda family: _rank("family", family)):
        room = (len(splits[i]) + len(members[family]) <= size for i, size in enumerate(sizes))
        chosen = next((i for i, fits in enumerate(room) if fits), len(sizes))
        splits[chosen].extend(members[family])
    return [sorted(split, key=lambda record: _rank("record", record)) for split in splits]


def _rank(unit: str, number: int) -> bytes:
    return hashlib.sha256(f"WordNet-40 {unit} {number}".encode()).digest()
