"""Glosses as vectors of 8-bit numbers: tf-idf, then a truncated SVD, both fitted on public glosses only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.feature_extraction.text import TfidfVectorizer

STEPS = 127
"""Quantization steps on each side of zero: a feature x in [-1, 1] is stored as round(127 x)."""

_NO_LENGTH = 1e-6  # a projection this short is rounding error; on WordNet the next longer one is 1e-3


@dataclass(frozen=True, eq=False)
class Representation:
    """A map from texts to unit vectors, fitted on public texts.

    Formal guarantees:
        * Vocabulary, document frequencies and singular vectors come from the texts given to `fit` alone, and
          the stored number does not depend on any other text: `encode` treats each text by itself.
        * `fit` is deterministic: fixed start vector, iteration to machine precision, and each singular vector
          turned so that its largest entry is positive.

    Attributes:
        vectorizer: the fitted tf-idf (words seen in at least two texts, logarithmic term frequency).
        components: float64 `[vocabulary, num_dims]`, right singular vectors, the strongest first.
    """

    vectorizer: TfidfVectorizer
    components: NDArray[np.float64]

    @classmethod
    def fit(cls, texts: Sequence[str], *, num_dims: int) -> Representation:
        """Learns the vocabulary and the leading `num_dims` singular vectors of the tf-idf matrix."""
        vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True)
        matrix = vectorizer.fit_transform(texts)
        _, _, rows = svds(matrix, k=num_dims, v0=np.ones(min(matrix.shape)), tol=0)
        components = rows[::-1].T  # svds gives the weakest first
        largest = np.abs(components).argmax(axis=0)
        return cls(vectorizer, components * np.sign(components[largest, np.arange(num_dims)]))

    def encode(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Returns int8 `[n, num_dims]`: each text's projection, scaled to length 1, times 127, rounded.

        A text whose known words all lie outside the components, or that has none, is all zeros.
        """
        projected = self.vectorizer.transform(texts) @ self.components
        lengths = np.linalg.norm(projected, axis=1, keepdims=True)
        unit = projected / np.where(lengths > _NO_LENGTH, lengths, np.inf)
        return np.asarray(np.rint(unit * STEPS), dtype=np.int8)
