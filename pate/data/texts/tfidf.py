"""Vectors of texts by tf-idf weights of words and parts of words, projected on directions of the public pool.

scikit-learn computes counts, weights and directions (`CountVectorizer`, `HashingVectorizer`, `TfidfTransformer`,
`TruncatedSVD`). Two steps differ. First, the vocabulary is chosen by the number of public texts that have a word, block
by block; scikit-learn's `max_features` would choose the words with most occurrences, and needs all texts at once.
Second, parts are counted once in each distinct word and not in each text, which is many times faster. The counts of
parts in texts are the matrix product of the counts of words in texts and of parts in words.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.data.texts.blocks import map_blocks
from pate.data.texts.counts import count_words, stack_blocks
from pate.data.texts.directions import ROUNDING, SEVERAL_TEXTS, fixed_point, from_product
from pate.data.texts.reading import evenly_spaced
from pate.data.texts.vectors import TextVectors, origin_of_texts
from pate.progress import StageOpener, unwatched
from pate.threads import one_blas_thread
from pate.validation import InvalidValue

# The largest numbers of words and of parts of words in the vocabulary, those that most public texts have.
_MAX_WORDS = 2**14
_MAX_PARTS = 2**14
# The smallest number of public texts with a word or part of the vocabulary. A word of one text would identify the text.
_MIN_TEXTS = 2
# The number of buckets into which parts are hashed.
_BUCKETS = 2**18
# The smallest and the largest number of letters of a part.
_PART_LETTERS = (3, 4)
_DTYPE_OF_BUCKETS = np.int32


class _Vocabulary(NamedTuple):
    """The most frequent words, and parts of words, that at least two public texts have.

    A part has three or four letters and is represented by its hash, the number of a bucket.

    Attributes:
        words: the words, sorted.
        part_buckets: the buckets of the parts, in ascending order, `[num_buckets]`.
        document_frequency: the number of public texts with each word, and then with a part in each bucket,
            `[num_words + num_buckets]`.
    """

    words: list[str]
    part_buckets: NDArray[np.int32]
    document_frequency: FloatArray


class WeightedTexts(NamedTuple):
    """The tf-idf weights of texts, before they are projected on directions.

    Attributes:
        weights: a sparse matrix, `[num_texts, d]`, whose rows have at most length 1. The first columns belong to the
            words of the vocabulary, the others to its buckets. A bucket has all parts of words with one hash.
        num_known: the number of words in the texts that are in the vocabulary, with repetitions.
        num_words: the number of all words in the texts, with repetitions.
    """

    weights: Any
    num_known: int
    num_words: int


class TfidfVectors(TextVectors):
    """Vectors of texts: tf-idf weights of words and parts of words, projected on directions of the public texts.

    A weight is 1 + log(count), multiplied by the inverse document frequency in the public texts. The words are listed
    in `settings`. Parts of words have three or four letters and are hashed to `buckets`. The array `idf` has an entry
    for each word, then for each bucket. The weights of words and those of parts are each normalized to the same length.
    The array `components`, the leading right singular vectors of the public texts, projects them.
    """

    kind: ClassVar[str] = "tfidf"

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        open_stage: StageOpener = unwatched,
        *,
        dimension: int = 128,
        seed: int = 0,
    ) -> Self:
        """Returns the transform whose vocabulary, weights and directions are fitted to public texts.

        Args:
            texts: the public texts; at most 10,000 of them, evenly spaced, are used.
            open_stage: opens the stage of each of the two passes over the texts.
            dimension: the largest number of directions.
            seed: the seed of the randomized singular value decomposition.

        Raises:
            InvalidValue: no word occurs in two texts.
        """
        from sklearn.decomposition import TruncatedSVD

        sample = evenly_spaced(texts)
        with open_stage("words of the public texts", len(sample)) as advance:
            vocabulary = _frequent_in(texts=sample, report_progress=advance)
        if not vocabulary.words:
            raise InvalidValue(
                "data.text", rule="public texts that share words, features are fitted on them"
            )
        # This is the smooth idf of scikit-learn, which counts one more text that has every word.
        idf = np.log((1 + len(sample)) / (1 + vocabulary.document_frequency)) + 1
        settings = {"words": vocabulary.words}
        origin = origin_of_texts(sample)
        arrays: dict[str, NDArray[Any]] = {"buckets": vocabulary.part_buckets, "idf": idf}
        unprojected = cls(arrays=arrays, settings=settings, origin=origin)
        with (
            open_stage("directions of the public texts", len(sample)) as advance,
            one_blas_thread(),
        ):
            weights_of_texts = stack_blocks(
                transform_block=lambda block: unprojected.weigh(texts=block).weights,
                texts=sample,
                report_progress=advance,
            )
            num_directions = min(dimension, min(weights_of_texts.shape) - 1)
            if num_directions < 1:
                raise InvalidValue("data.text", rule=SEVERAL_TEXTS)
            with np.errstate(invalid="ignore"):  # texts that are all equal have no variance
                decomposition = TruncatedSVD(num_directions, n_iter=4, random_state=seed)
                decomposition.fit(weights_of_texts)
        singular_values = decomposition.singular_values_
        varies = singular_values > ROUNDING * singular_values[0]
        arrays["components"] = np.ascontiguousarray(decomposition.components_[varies].T, np.float32)
        return cls(arrays=arrays, settings=settings, origin=origin)

    def is_usable(self) -> bool:
        """Returns True if the arrays and words of a file fit together.

        Each direction, a column of `components`, must have at most length 1 except for rounding.
        """
        vocabulary_words = self.settings["words"]
        part_buckets = self.arrays["buckets"]
        idf = self.arrays["idf"]
        components = self.arrays["components"]
        if not all(isinstance(word, str) for word in vocabulary_words):
            return False
        are_different_words = len(set(vocabulary_words)) == len(vocabulary_words)
        have_shapes = part_buckets.ndim == idf.ndim == 1 and components.ndim == 2
        if not (are_different_words and have_shapes) or part_buckets.dtype != _DTYPE_OF_BUCKETS:
            return False
        are_buckets = bool(np.all((part_buckets >= 0) & (part_buckets < _BUCKETS)))
        belong_together = len(idf) == len(components) == len(vocabulary_words) + len(part_buckets)
        squared_length_per_direction = np.square(components, dtype=np.float64).sum(axis=0)
        # A direction has length 1 except for rounding to 32 bits. With longer ones products would not be exact.
        have_lengths = len(squared_length_per_direction) > 0 and bool(
            np.all(squared_length_per_direction < 1.01)
        )
        return are_buckets and belong_together and have_lengths

    def count_known(self, texts: Sequence[str]) -> tuple[int, int]:
        """Returns the number of words in the texts that the vocabulary has, and the number of all words in the texts.

        Both count repetitions.
        """
        weighted = self.weigh(texts)
        return weighted.num_known, weighted.num_words

    def weigh(self, texts: Sequence[str]) -> WeightedTexts:
        """Returns the tf-idf weights of words and of parts of words in each text.

        In the row of a text, the weights of words have the length sqrt(1/2), or are 0 if the text has no known word.
        The same holds for the weights of parts.
        """
        from scipy.sparse import csr_matrix, hstack

        words, counts = count_words(texts)
        columns = np.array([self._index_of_word.get(word, -1) for word in words], np.int64)
        is_known_word = columns >= 0
        num_vocabulary_words = len(self.settings["words"])
        idf_of_words = self.arrays["idf"][:num_vocabulary_words]
        idf_of_parts = self.arrays["idf"][num_vocabulary_words:]

        # The matrix `[len(words), num_vocabulary_words]` has a 1 for each known word, in the word's column.
        known_rows = np.flatnonzero(is_known_word)
        known_columns = columns[known_rows]
        known_word_selector = csr_matrix(
            (np.ones(len(known_rows)), (known_rows, known_columns)),
            shape=(len(words), num_vocabulary_words),
        )
        word_weights = _weigh_counts(counts @ known_word_selector, idf=idf_of_words)
        parts_of_words = _count_parts(words)[:, self.arrays["buckets"]]
        part_weights = _weigh_counts(counts @ parts_of_words, idf=idf_of_parts)
        tfidf_weights = hstack([word_weights, part_weights], format="csr")
        # Each half of a row has length 1 or 0, so the row has at most length 1 after this product.
        tfidf_weights.data *= np.sqrt(0.5)

        occurrences_of_words = np.asarray(counts.sum(axis=0)).ravel()
        return WeightedTexts(
            weights=tfidf_weights,
            num_known=int(occurrences_of_words[is_known_word].sum()),
            num_words=int(occurrences_of_words.sum()),
        )

    def _unscaled(self, texts: Sequence[str]) -> FloatArray:
        tfidf_weights = self.weigh(texts).weights
        tfidf_weights.data = fixed_point(values=tfidf_weights.data)
        return from_product(tfidf_weights @ self._fixed_components)

    @cached_property
    def _fixed_components(self) -> FloatArray:
        return fixed_point(values=self.arrays["components"])


def _weigh_counts(counts: Any, idf: FloatArray) -> Any:
    """Returns tf-idf weights, a sparse matrix `[num_texts, d]` whose rows have length 1, or 0 without any count.

    Args:
        counts: the number of occurrences of each of d words in each text, sparse `[num_texts, d]`; it is overwritten.
        idf: the inverse document frequency of each word, `[d]`.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    # The length of a row is then a sum in one order, whatever other words the block has.
    counts.sort_indices()
    transformer = TfidfTransformer(sublinear_tf=True)
    transformer.idf_ = idf
    return transformer.transform(counts, copy=False)


def _count_parts(words: Sequence[str]) -> Any:
    """Returns how many parts of each word have each hash, sparse `[num_words, _BUCKETS]`.

    The parts are all sequences of three or four letters, where a blank stands before and behind the word.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import HashingVectorizer

    if not words:
        return csr_matrix((0, _BUCKETS), dtype=np.float64)
    hashing = HashingVectorizer(
        analyzer="char_wb",
        ngram_range=_PART_LETTERS,
        n_features=_BUCKETS,
        lowercase=False,
        alternate_sign=False,
        norm=None,
    )
    return hashing.transform(words)


def _frequent_in(texts: Sequence[str], report_progress: Callable[[int], object]) -> _Vocabulary:
    """Returns the vocabulary of public texts: words, and parts of words, that each occur in at least two texts.

    Of all such words it has the `_MAX_WORDS` that occur in most texts, and of all such parts the `_MAX_PARTS` that
    occur in most texts. Parts with the same hash count as one part.

    Args:
        texts: the public texts.
        report_progress: is called after each block with the number of texts that are done so far.
    """
    num_texts_with_word = Counter[str]()
    num_texts_with_part = np.zeros(_BUCKETS)
    for block_words, block_counts in map_blocks(
        count_words, texts, report_progress=report_progress
    ):
        num_texts = block_counts.getnnz(axis=0).tolist()
        num_texts_with_word.update(dict(zip(block_words, num_texts, strict=True)))
        num_texts_with_part += (block_counts @ _count_parts(block_words)).getnnz(axis=0)
    frequent = [word for word, count in num_texts_with_word.items() if count >= _MIN_TEXTS]
    frequent.sort(key=lambda word: (-num_texts_with_word[word], word))
    most_frequent_words = sorted(frequent[:_MAX_WORDS])
    by_frequency = np.argsort(-num_texts_with_part, kind="stable")[:_MAX_PARTS]
    is_frequent = num_texts_with_part[by_frequency] >= _MIN_TEXTS
    part_buckets = np.sort(by_frequency[is_frequent]).astype(_DTYPE_OF_BUCKETS)
    document_frequency = np.append(
        [float(num_texts_with_word[word]) for word in most_frequent_words],
        num_texts_with_part[part_buckets],
    )
    return _Vocabulary(
        words=most_frequent_words,
        part_buckets=part_buckets,
        document_frequency=document_frequency,
    )
