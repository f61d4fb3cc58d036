"""Vectors of texts as weighted means of word vectors from a file, such as those of GloVe."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.data.fitted_transform import CONTENT_ERRORS
from pate.data.texts.counts import count_words, damped, stack_blocks
from pate.data.texts.directions import principal_directions
from pate.data.texts.reading import evenly_spaced
from pate.data.texts.vectors import TextVectors, origin_of_texts
from pate.data.texts.weights import TEXT_WEIGHTS_RULES, TextWeights
from pate.extras import require_extra
from pate.files.reading import DamagedFile, read_json
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue

# The share of public texts at which a word has half the weight of a word that no public text has. With a smaller share,
# short texts, which have few rare words, would have worse vectors.
_HALF_WEIGHT_SHARE = 0.3
# The largest number of words that are read of a file, the first ones. Files begin with the most frequent words.
_MAX_VECTORS = 2**18
# The largest number of letters of a piece of a word.
_MAX_PIECE = 64
# The largest number of characters of an error's text in a message.
_MAX_REASON = 200


class WordVectors(NamedTuple):
    """The words in a file of word vectors, and their vectors.

    Attributes:
        words: the distinct words, or pieces of words (subword tokens).
        vectors: `[num_words, d]`.
        first_and_later_prefix: two prefixes: of the first piece of a word, and of its later pieces. The second is None
            if words are not split into pieces.
    """

    words: list[str]
    vectors: NDArray[Any]
    first_and_later_prefix: list[str | None]


class StaticVectors(TextVectors):
    """Vectors of texts: weighted means of the vectors of their words, centered by the mean of the public texts.

    A word that occurs in a share p of the public texts has the weight .3 / (.3 + p), times 1 + the logarithm of its
    count in the text. So rare words have larger weights. The vectors of words are projected on the principal
    directions of the public texts, and stored as numbers of 16 bits. The array `components` has a row for each entry of
    `words` in `settings`. The two `marks` in `settings` are the `first_and_later_prefix` of `WordVectors`.

    Source: S. Arora, Y. Liang and T. Ma, "A simple but tough-to-beat baseline for sentence embeddings", ICLR 2017. The
    paper takes the frequency of a word for p, a smaller constant, and the count itself; in place of the mean it
    subtracts the projection on the first singular vector.
    """

    kind: ClassVar[str] = "static"

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        open_stage: StageOpener = unwatched,
        *,
        pretrained_files: TextWeights,
        dimension: int = 128,
    ) -> Self:
        """Returns the transform whose word weights, center and directions are fitted to public texts.

        Args:
            texts: the public texts; at most 10,000 of them, evenly spaced, are used.
            open_stage: opens the stage that reports progress.
            pretrained_files: the file or folder of word vectors.
            dimension: the largest number of directions.

        Raises:
            InvalidValue: the file holds no word vectors, or fewer than two of the used texts have a vector other than
                0, or all of these vectors are equal.
        """
        words, vectors_of_words, first_and_later_prefix = read_vectors(
            vectors_path=pretrained_files.path
        )
        sample = evenly_spaced(texts)
        settings = {"words": words, "marks": first_and_later_prefix}
        unweighted = cls(
            arrays={
                "components": vectors_of_words,
                "weights": np.ones(len(words)),
                "center": np.zeros(1),
            },
            settings=settings,
            origin={},
        )

        def count_pieces_of_block(text_block: Sequence[str]) -> Any:
            piece_counts, _ = unweighted.count_pieces(text_block)
            return piece_counts

        with open_stage("words of the public texts", len(sample)) as advance:
            piece_counts = stack_blocks(
                transform_block=count_pieces_of_block, texts=sample, report_progress=advance
            )
        share_of_texts = piece_counts.getnnz(axis=0) / max(len(sample), 1)
        word_weights = _HALF_WEIGHT_SHARE / (_HALF_WEIGHT_SHARE + share_of_texts)
        weighted = replace(unweighted, arrays={**unweighted.arrays, "weights": word_weights})
        center, components = principal_directions(
            weighted.mean_vectors(piece_counts), max_directions=dimension
        )
        projected_vectors = vectors_of_words @ components.astype(np.float32)
        # Divided by this scale, numbers are in the range of 16 bits.
        scale = np.abs(projected_vectors).max()
        arrays = {
            "components": (projected_vectors / scale).astype(np.float16),
            "weights": word_weights,
            "center": center @ components / scale,
        }
        origin = origin_of_texts(texts=sample, pretrained_files=pretrained_files)
        return cls(arrays=arrays, settings=settings, origin=origin)

    def is_usable(self) -> bool:
        """Returns True if the arrays and words that were read from a file fit together."""
        words = self.settings["words"]
        first_prefix, later_prefix = self.settings["marks"]
        vectors_of_words = self.arrays["components"]
        word_weights = self.arrays["weights"]
        center = self.arrays["center"]
        are_words = all(isinstance(word, str) for word in words)
        are_prefixes = isinstance(first_prefix, str) and isinstance(later_prefix, str | None)
        have_lengths = len(words) == len(vectors_of_words) == len(word_weights) and len(center) > 0
        have_shapes = (
            vectors_of_words.ndim == 2
            and word_weights.ndim == 1
            and vectors_of_words.shape[1:] == center.shape
        )
        are_positive = bool(np.all(word_weights > 0))
        return are_words and are_prefixes and have_lengths and have_shapes and are_positive

    def count_known(self, texts: Sequence[str]) -> tuple[int, int]:
        """Returns the number of words in the texts that also occur in public texts, and the number of all words.

        Both count repetitions. The first number counts the pieces of a split word as words, and is at most the second.
        """
        piece_counts, num_word_occurrences = self.count_pieces(texts)
        is_public = self.arrays["weights"] < 1  # a word that no public text has has weight 1
        occurrences_of_pieces = np.asarray(piece_counts.sum(axis=0)).ravel()
        num_known_pieces = int(occurrences_of_pieces[is_public].sum())
        # A word may have several pieces, so there may be more pieces than words.
        return min(num_word_occurrences, num_known_pieces), num_word_occurrences

    def count_pieces(self, texts: Sequence[str]) -> tuple[Any, int]:
        """Returns how often each word or piece in the file of vectors occurs in each text, and the number of all words.

        The occurrences are a sparse matrix `[num_texts, num_words_of_file]`. The number counts all words in the texts,
        with repetitions, also words that the file lacks.
        """
        from scipy.sparse import csr_matrix

        words, word_counts = count_words(texts)
        piece_indices_of_words = list(map(self.piece_indices_of, words))
        row_ends = np.cumsum([0, *map(len, piece_indices_of_words)])
        piece_indices = np.array(
            [index for indices in piece_indices_of_words for index in indices], np.int64
        )
        shape = (len(words), len(self.settings["words"]))
        piece_counts = word_counts @ csr_matrix(
            (np.ones(len(piece_indices)), piece_indices, row_ends), shape
        )
        piece_counts.sort_indices()  # sums of a row are in one order
        return piece_counts, int(word_counts.sum())

    def mean_vectors(self, piece_counts: Any) -> FloatArray:
        """Returns the mean of each text's word vectors, weighted as the class says, `[num_texts, d]`.

        The mean of a text without a known word is 0.

        Args:
            piece_counts: the number of occurrences of each word of the file in each text, sparse `[num_texts,
                num_words_of_file]`.
        """
        weighted_counts = piece_counts.copy()
        word_weights = self.arrays["weights"][piece_counts.indices]
        weighted_counts.data = damped(counts=piece_counts.data) * word_weights
        # Only the vectors of words that occur are converted to 64 bits.
        occurring_pieces = np.unique(piece_counts.indices)
        num_pieces = piece_counts.shape[1]
        total_weight_per_text = weighted_counts @ np.ones((num_pieces, 1))
        vectors_of_pieces = self.arrays["components"][occurring_pieces].astype(np.float64)
        sums = weighted_counts[:, occurring_pieces] @ vectors_of_pieces
        return np.asarray(sums / np.where(total_weight_per_text > 0, total_weight_per_text, 1))

    def _unscaled(self, texts: Sequence[str]) -> FloatArray:
        text_vectors = self.mean_vectors(self.count_pieces(texts)[0])
        return np.where(
            text_vectors.any(axis=1, keepdims=True), text_vectors - self.arrays["center"], 0
        )

    def piece_indices_of(self, word: str) -> list[int]:
        """Returns the indices of a word's pieces in the file; an empty list if the word cannot be split.

        A word that the file has, with or without its accents, is its own piece. Otherwise the longest piece of the file
        is split off from the left, repeatedly. If this fails, it is tried with the word without accents.
        """
        first_prefix, later_prefix = self.settings["marks"]
        forms = (word, _without_accents(word))
        for word_form in forms:
            index = self._index_of_word.get(first_prefix + word_form)
            if index is not None:
                return [index]
        if later_prefix is not None:
            for word_form in forms:
                pieces = self._longest_pieces(
                    word_form, first_prefix=first_prefix, later_prefix=later_prefix
                )
                if pieces:
                    return pieces
        return []

    def _longest_pieces(self, word: str, first_prefix: str, later_prefix: str) -> list[int]:
        """Returns the indices, in the file, of the longest pieces into which a word is split from the left.

        The list is empty if the word cannot be split.

        Args:
            word: the word.
            first_prefix: the prefix that the file writes before the first piece of a word.
            later_prefix: the prefix that it writes before all later pieces.
        """
        indices = []
        start = 0
        piece_prefix = first_prefix
        while start < len(word):
            ends = range(min(len(word), start + _MAX_PIECE), start, -1)
            end = next(
                (end for end in ends if piece_prefix + word[start:end] in self._index_of_word), None
            )
            if end is None:
                return []
            indices.append(self._index_of_word[piece_prefix + word[start:end]])
            start = end
            piece_prefix = later_prefix
        return indices


def _without_accents(word: str) -> str:
    """Returns a word without accents and other combining marks, its letters decomposed (Unicode's form NFD)."""
    return "".join(letter for letter in normalize("NFD", word) if category(letter) != "Mn")


def read_vectors(vectors_path: Path) -> WordVectors:
    """Reads word vectors from a text file of GloVe or word2vec, or from `model.safetensors` and `tokenizer.json`.

    Args:
        vectors_path: the text file, the folder with the other two files, or the path of a file in safetensors.

    Raises:
        InvalidValue: the file or folder holds no word vectors.
    """
    try:
        is_model = vectors_path.is_dir() or vectors_path.suffix == ".safetensors"
        word_vectors = (
            _vectors_of_model(vectors_path) if is_model else _vectors_of_lines(vectors_path)
        )
        if not np.isfinite(word_vectors.vectors).all() or not word_vectors.vectors.any():
            raise ValueError("a number that is not finite, or zeros alone")
    except DamagedFile:
        raise
    except (OSError, *CONTENT_ERRORS) as error:
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON]
        raise InvalidValue(
            "features.weights", vectors_path, rule=f"{TEXT_WEIGHTS_RULES['static']} ({reason})"
        ) from error
    return word_vectors


def _vectors_of_model(folder: Path) -> WordVectors:
    """Reads word vectors from a matrix in safetensors, and the word of each row from the tokenizer beside it.

    `folder` has `model.safetensors` and `tokenizer.json`, or is the path of the former.
    """
    from safetensors.numpy import load_file

    word_vectors_file = folder / "model.safetensors" if folder.is_dir() else folder
    tokenizer_settings = read_json(
        word_vectors_file.with_name("tokenizer.json"),
        rule="the tokenizer of word vectors",
        remedy="copy it again",
    )["model"]
    arrays = load_file(word_vectors_file)
    vocabulary = tokenizer_settings["vocab"]
    if isinstance(vocabulary, dict):
        row_of = dict(vocabulary)
    else:  # Unigram lists words with their probabilities
        row_of = {word: row for row, (word, _) in enumerate(vocabulary)}
    vectors_of_words = next(array for array in arrays.values() if array.ndim == 2).astype(
        np.float32
    )
    if "mapping" in arrays:  # rows that words share
        vectors_of_words = vectors_of_words[arrays["mapping"]]
    if "weights" in arrays:  # the weight of each row in a mean
        vectors_of_words = vectors_of_words * arrays["weights"].astype(np.float32)[:, None]
    words = [word for word, row in row_of.items() if row < len(vectors_of_words)]
    words = sorted(words, key=row_of.__getitem__)[:_MAX_VECTORS]
    vectors = vectors_of_words[[row_of[word] for word in words]]
    return WordVectors(
        words=words,
        vectors=vectors,
        first_and_later_prefix=_prefixes_of(tokenizer_settings, words=words),
    )


def _prefixes_of(tokenizer_settings: dict[str, Any], words: Sequence[str]) -> list[str | None]:
    """Returns the prefixes by which a tokenizer marks the first piece of a word, and later pieces.

    The second is None if the tokenizer splits no words.

    Args:
        tokenizer_settings: the key `model` of tokenizer.json.
        words: the words and pieces of the tokenizer.
    """
    if tokenizer_settings["type"] == "WordPiece":
        return ["", tokenizer_settings.get("continuing_subword_prefix", "##")]
    if tokenizer_settings["type"] == "WordLevel":
        return ["", None]
    # Unigram and BPE mark the blank before a word: with SentencePiece's lower block, or with GPT-2's dotted G
    first_prefix = max(
        "\u2581\u0120", key=lambda mark: sum(word.startswith(mark) for word in words)
    )
    return [first_prefix, ""]


def _vectors_of_lines(path: Path) -> WordVectors:
    """Reads word vectors from a text file in which each line is a word and the numbers of its vector.

    A few words of GloVe contain a blank; their lines are skipped.
    """
    require_extra("features.kind", extra="table", value="static")
    import pandas

    def read_lines(max_lines: int, *, num_skipped: int = 0, dtype: Any = None) -> Any:
        return pandas.read_csv(
            path,
            nrows=max_lines,
            skiprows=num_skipped,
            dtype=dtype,
            sep=r"\s+",
            header=None,
            quoting=csv.QUOTE_NONE,
            na_filter=False,
            on_bad_lines="skip",
        )

    # The first line of word2vec has two numbers: the number of words, and the number of numbers for each word.
    has_heading = read_lines(max_lines=1).shape[1] == 2
    frame = read_lines(max_lines=_MAX_VECTORS, num_skipped=int(has_heading), dtype={0: str})
    vectors = frame.iloc[:, 1:].to_numpy(np.float32)
    return WordVectors(words=frame[0].tolist(), vectors=vectors, first_and_later_prefix=["", None])
