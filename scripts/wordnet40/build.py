"""From WordNet's dictionary to the arrays of WordNet-40."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.wordnet40.dictionary import Synset, ancestors, parse_dictionary
from scripts.wordnet40.labels import choose_labels, label_matrix, label_names
from scripts.wordnet40.representation import Representation
from scripts.wordnet40.splits import deal_splits, gloss_families


@dataclass(frozen=True)
class Recipe:
    """The sizes of WordNet-40.

    Attributes:
        num_public: records in the public pool.
        num_test: records in the test set; the private pool is all the rest.
        num_labels: how many hypernyms are labels.
        num_dims: dimensions of the features.
    """

    num_public: int = 10_000
    num_test: int = 10_000
    num_labels: int = 40
    num_dims: int = 128

    def build(self, lines: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Makes the arrays that `WordNet40` reads, from the lines of `data.noun`.

        Formal guarantees:
            * Labels are chosen, and the representation is fitted, on the public pool alone.
            * The same lines give the same arrays, whatever the number of threads.

        Returns:
            `features` int8 `[n, num_dims]`, `labels` uint8 `[n, ceil(num_labels / 8)]` (packed bits),
            `record_ids` and `group_ids` int32 `[n]` (synset offsets), rows in the order public, test,
            private; `split_sizes` int32 `[3]` in that order; `label_names`; `label_offsets` int32.
        """
        synsets = parse_dictionary(lines)
        by_offset = {synset.offset: synset for synset in synsets}
        families, above = gloss_families(synsets), ancestors(synsets)
        splits = deal_splits(families, (self.num_public, self.num_test))
        records, public = [record for split in splits for record in split], splits[0]
        labels = choose_labels(above, public, num_labels=self.num_labels)
        representation = Representation.fit(_definitions(by_offset, public), num_dims=self.num_dims)
        return {
            "features": representation.encode(_definitions(by_offset, records)),
            "labels": np.packbits(label_matrix(above, records, labels), axis=1),
            "record_ids": np.array(records, dtype="<i4"),
            "group_ids": np.array([families[record] for record in records], dtype="<i4"),
            "split_sizes": np.array([len(split) for split in splits], dtype="<i4"),
            "label_names": np.array(label_names(synsets, labels), dtype="<U"),
            "label_offsets": np.array(labels, dtype="<i4"),
        }


def _definitions(by_offset: dict[int, Synset], records: Iterable[int]) -> list[str]:
    return [by_offset[record].definition for record in records]
