"""WordNet-40, the embedded real data set: 82,115 glosses, 40 labels, nothing to fetch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Split

ARCHIVE = Path(__file__).parent / "wordnet" / "wordnet40.npz"
"""The vendored arrays, made by `scripts/build_wordnet.py`."""

_STEPS = np.float32(127)


@dataclass(frozen=True)
class WordNet40:
    """The noun synsets of WordNet 3.0: the sample is a gloss, the labels are 40 hypernyms.

    A record is a synset, a group is a family of synsets with the same gloss. 62,115 records are private,
    10,000 public (in a fixed random order), 10,000 for test; the splits are part of the file.

    What is computed from what:
        * Features (tf-idf of the gloss without its examples, truncated SVD of 128 dimensions, scaled
          to length 1, 8 bits): fitted on the 10,000 public glosses only. Scale and steps are constants.
        * The choice of the 40 labels: the hypernyms that hold most often in the public pool, but for the
          root. Their names and the hierarchy are WordNet's and public.
        * The groups, hence the splits: from all glosses, by equality of text. This decides which records
          stay together; no feature and no label depends on it otherwise.

    Source: WordNet 3.0, Princeton University; its license is in LICENSE-WORDNET beside the file.
    """

    def load(self) -> Dataset:
        """Reads the vendored file: features float32 `[n, 128]`, multiples of 1/127 in [-1, 1]."""
        with np.load(ARCHIVE, allow_pickle=False) as archive:
            arrays: dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
        names = tuple(str(name) for name in arrays["label_names"])
        rows = Split(
            inputs=arrays["features"].astype(np.float32) / _STEPS,
            labels=np.unpackbits(arrays["labels"], axis=1, count=len(names)).view(np.bool_),
            record_ids=arrays["record_ids"].astype(np.int64),
            group_ids=arrays["group_ids"].astype(np.int64),
        )
        public_end, test_end, private_end = np.cumsum(arrays["split_sizes"]).tolist()
        return Dataset(
            name="wordnet",
            real=True,
            kind="features",
            label_names=names,
            private=rows.take(slice(test_end, private_end)),
            public=rows.take(slice(public_end)),
            test=rows.take(slice(public_end, test_end)),
        )
