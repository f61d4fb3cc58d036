"""The common base of all kinds of text vectors: guarantees, parallel computation, and a cache between runs."""

import hashlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from pate.array_types import Float32Array, FloatArray
from pate.data.fitted_transform import FittedTransform
from pate.data.texts.blocks import BLOCK_ROWS, Workers, map_blocks
from pate.data.texts.directions import ROUNDING
from pate.data.texts.reading import texts_digest, without_markup
from pate.data.texts.weights import FILE_RULE, TextWeights
from pate.files.atomic import atomic_write
from pate.validation import normalize_field

NUM_COUNTED_TEXTS = 2000
"""The number of private texts, the first ones, whose words are counted for the owner."""

# The number of texts that are sent to another process at once.
_TASK_ROWS = 4 * BLOCK_ROWS
# The number of characters from which on other processes are worth their start.
_MANY_CHARACTERS = 10**7
# The size of a SHA-256 digest.
_DIGEST_BYTES = 32
# A public pool with fewer texts is remarked on.
_FEW_TEXTS = 1000


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class TextVectors(FittedTransform):
    """A transform from a text to a vector of length 1, or to the vector 0 if the text has no known word or is empty.

    Formal guarantee: a vector is a function of its text, the public pool and public weights, bit for bit, and does not
    depend on the other texts of the same call.

    Attributes:
        cache: a folder for the vectors of blocks of texts, as private as the texts; None for no cache.
        pretrained_files: the files of an encoder, which are read unless the arrays store them; None if the encoder is
            stored, lies in the transform's folder, or is not needed.
    """

    cache: Path | None = None
    pretrained_files: TextWeights | None = None

    metadata_key: ClassVar[str] = "texts"
    description: ClassVar[str] = FILE_RULE
    # The workers that compute the vectors of many texts.
    worker_kind: ClassVar[Workers] = "processes"

    @classmethod
    def class_for_kind(cls, kind: str) -> type[FittedTransform]:
        """Returns the subclass whose class attribute `kind` has this value; raises `LookupError` if there is none."""
        from pate.data.texts.kinds import TEXT_KINDS  # imports this module

        text_class: type[TextVectors] = TEXT_KINDS[kind]
        return text_class

    def _output_for_artificial_input(self) -> Float32Array:
        """Returns the vector of a short text, `[1, dimension]`; raises an error if the arrays do not fit together."""
        if not self.is_usable():
            raise ValueError("arrays of other shapes")
        return self.vectors(["a text"])

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        _, num_directions = self.arrays["components"].shape
        return int(num_directions)

    @abstractmethod
    def is_usable(self) -> bool:
        """Returns True if the arrays and settings that were read from a file fit together.

        If they do not, an implementation may also raise any error.
        """

    @abstractmethod
    def _unscaled(self, texts: Sequence[str]) -> FloatArray:
        """Returns vectors `[num_texts, dimension]` before they are scaled to length 1."""

    def count_known(self, texts: Sequence[str]) -> tuple[int, int]:
        """Returns the number of words in the texts that the transform knows from public texts, and that of all words.

        Both count repetitions in `texts`. Both are 0 for a kind of vectors that is not based on words.
        """
        return 0, 0

    def vectors(
        self, texts: Sequence[str], report_progress: Callable[[int], object] = lambda done: None
    ) -> Float32Array:
        """Returns the vectors of texts, `[num_texts, dimension]`. Many texts are divided among all cores.

        Args:
            texts: the texts.
            report_progress: is called with the number of texts that are done so far.
        """
        is_long = sum(map(len, texts)) > _MANY_CHARACTERS
        worker_kind = self.worker_kind if is_long or self.worker_kind == "threads" else None
        texts_at_once = _TASK_ROWS if worker_kind == "processes" else BLOCK_ROWS
        # A copy has no cached properties, which would also be sent to other processes.
        transform = replace(self) if worker_kind == "processes" else self
        blocks = map_blocks(
            transform._compute_vectors,
            texts,
            block_size=texts_at_once,
            report_progress=report_progress,
            worker_kind=worker_kind,
        )
        return np.concatenate([np.empty((0, self.dimension), np.float32), *blocks])

    def _compute_vectors(self, texts: Sequence[str]) -> Float32Array:
        firsts = range(0, len(texts), BLOCK_ROWS)
        return np.concatenate([self._block(texts[first : first + BLOCK_ROWS]) for first in firsts])

    def _block(self, texts: Sequence[str]) -> Float32Array:
        """Returns the vectors of one block of texts, `[num_texts, dimension]`.

        If `cache` is set, they are read from its file for these texts; if that is missing or damaged, they are computed
        and stored there.
        """
        if self.cache is None:
            return self._scaled(texts)
        path = self.cache / f"{texts_digest(texts)[:32]}.f32"
        content = path.read_bytes() if path.is_file() else b""
        digest, vector_bytes = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        has_all_rows = len(vector_bytes) == 4 * len(texts) * self.dimension
        if has_all_rows and hashlib.sha256(vector_bytes).digest() == digest:
            return np.frombuffer(vector_bytes, np.float32).reshape(len(texts), self.dimension)
        text_vectors = self._scaled(texts)
        with atomic_write(path) as file:
            file.write(hashlib.sha256(text_vectors.data).digest() + text_vectors.tobytes())
        return text_vectors

    def _scaled(self, texts: Sequence[str]) -> Float32Array:
        """Returns the vectors of texts, `[num_texts, dimension]`, scaled to length 1.

        A vector that consists of rounding errors alone becomes 0.
        """
        vectors = self._unscaled(texts)
        lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
        divisors = np.where(lengths > ROUNDING, lengths, np.inf)
        return np.ascontiguousarray(vectors / divisors, np.float32)

    @property
    def file(self) -> str:
        """The name of the file that stores the transform, in the folder of a published model or of a schema."""
        return f"text-{self.digest[:12]}.safetensors"

    @cached_property
    def _index_of_word(self) -> dict[str, int]:
        """The index of each word in the list of words in `settings`, by the word and also by its form in lower case.

        A form that several words have in lower case stands for the word that is in lower case itself, or else for the
        first one.
        """
        words: list[str] = self.settings["words"]
        numbered_words = list(enumerate(words))
        index_of_folded = {word.casefold(): index for index, word in reversed(numbered_words)}
        return index_of_folded | {word: index for index, word in numbered_words}


def remarks_on_texts(name: str, text_transform: TextVectors, texts: Sequence[str]) -> Iterator[str]:
    """Yields remarks for the owner on a column of texts. Remarks have counts, but no word of a text.

    A remark is made if there are fewer than 1,000 public texts. Another one states the share of the private texts'
    words that the transform does not know, and the number of private texts without any word, known or not.

    Args:
        name: the name of the column.
        text_transform: the transform that was fitted to the public texts.
        texts: the first private texts; their words are counted.
    """
    num_public = int(text_transform.origin.get("num_texts", _FEW_TEXTS))
    if num_public < _FEW_TEXTS:
        yield (
            f"data.public.{name}: expected {_FEW_TEXTS:,} texts or more, {num_public} say little of words: each "
            f"becomes {text_transform.dimension} numbers"
        )
    num_known, num_words = text_transform.count_known(texts)
    num_without_words = sum(re.search(r"\w", without_markup(text)) is None for text in texts)
    losses = []
    if num_words:
        share = 1 - num_known / num_words
        losses.append(f"{share:.0%} of their words are unknown, as too few public texts have them")
    if num_without_words:
        losses.append(f"{num_without_words} have no word")
    if losses:
        yield f"data.private.{name}: of the first {len(texts):,} texts {'; '.join(losses)}"


TextFit = Callable[..., TextVectors]
"""A function from public texts and a `StageOpener` to vectors: `TfidfVectors.fit`, or what `features=text` names."""


class TextReader:
    """A base class of readers whose data may have columns of text.

    The attribute `text_fit` is the function that fits vectors to public texts; None if no setting names one.
    """

    text_fit: ClassVar[TextFit | None] = None

    def with_text(self, fit_vectors: TextFit) -> Self:
        """Returns a copy of the reader in which `fit_vectors` fits vectors to public texts."""
        reader = copy(self)  # `dataclasses.replace` does not set `text_fit`, which is no field
        normalize_field(reader, "text_fit", value=fit_vectors)
        return reader


def origin_of_texts(
    texts: Sequence[str], pretrained_files: TextWeights | None = None
) -> dict[str, str | int]:
    """Returns a description of the texts to which vectors were fitted, for the file of the vectors and the model card.

    It has the number and a digest of the texts, but none of their words. For pretrained files, it also has the name of
    their file or folder, and a digest.

    Args:
        texts: the public texts.
        pretrained_files: the files of an encoder or of word vectors; None if there are none.
    """
    origin: dict[str, str | int] = {
        "fitted_on": "the public pool",
        "num_texts": len(texts),
        "texts_sha256": texts_digest(texts),
    }
    if pretrained_files is not None:
        origin["model"] = pretrained_files.path.resolve().name
        origin["weights_sha256"] = pretrained_files.sha256
    return origin
