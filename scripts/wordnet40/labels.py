"""The labels of WordNet-40: the commonest hypernyms, as seen in the public pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scripts.wordnet40.dictionary import Synset


def choose_labels(
    ancestors: dict[int, frozenset[int]],
    public: Sequence[int],
    *,
    num_labels: int = 40,
    max_prevalence: float = 0.6,
) -> list[int]:
    """Returns the hypernyms that hold most often in the public pool, the commonest first.

    The rule: count over the public records; drop what holds for more than `max_prevalence` of them (that is
    the root, "entity", alone); keep the first `num_labels`. Ties go to the smaller offset. Private
    records are not counted. On WordNet 3.0 the 40 prevalences go from 56% down to 3%.
    """
    counts = Counter(offset for record in public for offset in ancestors[record])
    allowed = [offset for offset, count in counts.items() if count <= max_prevalence * len(public)]
    return sorted(allowed, key=lambda offset: (-counts[offset], offset))[:num_labels]


def label_matrix(
    ancestors: dict[int, frozenset[int]], records: Sequence[int], labels: Sequence[int]
) -> NDArray[np.bool_]:
    """Returns bool `[n, num_labels]`: whether each record is, or lies below, each label."""
    return np.array([[label in ancestors[record] for label in labels] for record in records], dtype=np.bool_)


def label_names(synsets: Iterable[Synset], labels: Sequence[int]) -> tuple[str, ...]:
    """Returns the labels' lemmas; labels that share a lemma are numbered by offset (`substance_1`)."""
    lemma_of = {synset.offset: synset.lemma for synset in synsets}
    sharing: dict[str, list[int]] = {}
    for label in sorted(labels):
        sharing.setdefault(lemma_of[label], []).append(label)
    return tuple(_name(lemma_of[label], sharing[lemma_of[label]].index(label), sharing) for label in labels)


def _name(lemma: str, place: int, sharing: dict[str, list[int]]) -> str:
    return lemma if len(sharing[lemma]) == 1 else f"{lemma}_{place + 1}"
