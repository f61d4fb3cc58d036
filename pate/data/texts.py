"""Texts as numbers: what the public texts say of words, and the vector of length 1 that stands for a text."""

from __future__ import annotations

import hashlib
import html
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Stage, unwatched
from pate.files.disk import damaged, file_digest, make_folder, replacing, require_file, unreadable
from pate.validation import InvalidValue

MOST_TEXTS = 10_000
"""Public texts that something is fitted on: more say little more. They are spread evenly over the pool."""

_LONGEST = 100_000  # characters that are read of a text
_ROWS = 1024  # texts that are worked on at once
_MOST_WORDS, _MOST_GRAMS = 2**14, 2**14  # those that occur in most public texts
_BUCKETS = 2**18  # of parts of words
_GRAMS = (3, 4)  # letters of a part
_FEWEST = 2  # public texts that have a word
_BITS = 26  # of a row and of a direction: their products, and sums of these, stay below 2**53
_NO_LENGTH = 1e-6  # of what is left of a text, whose length is 1 before it is projected
_LOGARITHMS = 1 + np.log(np.arange(1, _LONGEST + 2))  # by count: a function of nothing else, bit for bit
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_ENTRY = "texts"
_RULE = "what makes numbers of texts"


@cache
def _marks() -> str:
    """A class of a regular expression: signs that belong to the letter before, such as vowels of Indian scripts."""
    return "".join(re.escape(chr(code)) for code in range(0x300, 0x10000) if category(chr(code)) in ("Mn", "Mc"))


@cache
def _piled() -> re.Pattern[str]:
    """Signs in a row of which no script has so many, and whose order would take long to find."""
    return re.compile(f"[{_marks()}]{{9,}}")


@cache
def word_pattern() -> str:
    """A word: letters, digits and their marks."""
    return rf"[\w{_marks()}]+"


def plain_text(text: str) -> str:
    r"""What is read of a text: its first 100,000 characters in small letters, composed and of one width, no HTML tags.

    >>> plain_text("<p>Z\u00dcRICH &amp; Bern</p>").split()
    ['zürich', '&', 'bern']
    """
    text = text[:_LONGEST]
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = html.unescape(text)
    return (text if text.isascii() else normalize("NFKC", _piled().sub("", text))).casefold()


def texts_of(words: Any) -> list[str]:
    """Of pyarrow words `[n]`; one that is missing is empty."""
    return [text or "" for text in words.to_pylist()]


def spread(texts: Sequence[str], most: int = MOST_TEXTS) -> list[str]:
    """At most so many texts, evenly spread."""
    places = np.linspace(0, len(texts) - 1, min(most, len(texts))).astype(np.int64)
    return [texts[place] for place in places.tolist()]


def digest_of(texts: Sequence[str]) -> str:
    """SHA-256 of texts in their order, in hexadecimal."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class TextVectors(ABC):
    """From a text to a vector of length 1, or 0 for a text that says nothing. It was fitted on public texts.

    Formal guarantee: the vector is a function of the text and the public pool, bit for bit, whatever other texts there
    are.

    Attributes:
        arrays: all that was learned or read, by name.
        settings: plain values that say how arrays are used.
        origin: plain values: what it was fitted on, with digests.
        kept: a folder for vectors that were made, as private as the texts; None keeps none.
    """

    arrays: Mapping[str, NDArray[Any]]
    settings: Mapping[str, Any]
    origin: Mapping[str, str | int]
    kept: Path | None = None

    kind: ClassVar[str]

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Numbers a text."""

    @abstractmethod
    def _made(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Vectors `[n, dimension]` of any length, of some texts."""

    @abstractmethod
    def known(self, texts: Sequence[str]) -> tuple[int, int]:
        """How many words of these texts the public texts, or a model, know; and how many there are."""

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Of any number of texts, `[n, dimension]`."""
        rows = np.empty((len(texts), self.dimension), np.float32)
        for first in range(0, len(texts), _ROWS):
            rows[first : first + _ROWS] = self._block(texts[first : first + _ROWS])
        return rows

    def _block(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Those of a block, read where they are kept; a file that was damaged is made again."""
        if self.kept is None:
            return self._scaled(texts)
        path, size = self.kept / f"{digest_of(texts)[:32]}.f32", 4 * len(texts) * self.dimension
        content = path.read_bytes() if path.is_file() else b""
        if len(content) == size + 32 and hashlib.sha256(content[32:]).digest() == content[:32]:
            return np.frombuffer(content, np.float32, offset=32).reshape(len(texts), self.dimension)
        rows = self._scaled(texts)
        with replacing(path) as file:
            file.write(hashlib.sha256(rows.data).digest() + rows.tobytes())
        return rows

    def _scaled(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = self._made(texts)
        lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        return np.ascontiguousarray(rows / np.where(lengths > _NO_LENGTH, lengths, np.inf), np.float32)

    @cached_property
    def _bytes(self) -> bytes:
        from safetensors.numpy import save

        said = {"kind": self.kind, "settings": dict(self.settings), "origin": dict(self.origin)}
        arrays = {name: np.ascontiguousarray(array) for name, array in sorted(self.arrays.items())}
        return save(arrays, metadata={_ENTRY: json.dumps(said, sort_keys=True, ensure_ascii=True)})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its file, in hexadecimal."""
        return hashlib.sha256(self._bytes).hexdigest()

    @property
    def file(self) -> str:
        """The name of its file in a bundle, or beside a schema."""
        return f"text-{self.digest[:12]}.safetensors"

    def save(self, folder: Path | str) -> None:
        """Writes the file into a folder: safetensors, with words, settings and origin in its head."""
        with replacing(Path(folder, self.file)) as file:
            file.write(self._bytes)

    def beside(self, folder: Path) -> Self:
        """The same, with a folder that vectors are kept in."""
        make_folder(folder)
        other = copy(self)
        object.__setattr__(other, "kept", folder)
        return other

    @abstractmethod
    def require_usable(self) -> None:
        """Raises `ValueError` where arrays and settings are none of this kind."""

    @staticmethod
    def load(path: Path, *, sha256: str | None = None, remedy: str) -> TextVectors:
        """Reads what `save` wrote, or raises; nothing is unpickled and nothing is run."""
        from safetensors import SafetensorError, safe_open

        require_file(path, rule=_RULE, remedy=remedy)
        if sha256 is not None and file_digest(path, rule=_RULE, remedy=remedy) != sha256:
            raise damaged(path, _RULE, "it is another", remedy)
        try:
            with safe_open(path, framework="numpy") as file:
                said = json.loads((file.metadata() or {})[_ENTRY])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            made = _KINDS[said["kind"]](arrays, dict(said["settings"]), dict(said["origin"]))
            made.require_usable()
            good = all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
            found = made.vectors(["a text"]) if good else None
        except OSError as error:
            raise unreadable(path, error, rule=_RULE, remedy=remedy) from error
        except InvalidValue:
            raise
        except (
            SafetensorError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            raise damaged(path, _RULE, type(error).__name__, remedy) from None
        if found is None or not np.isfinite(found).all():
            raise damaged(path, _RULE, "arrays that give no numbers", remedy)
        return made


class TextFit(Protocol):
    """How public texts become `TextVectors`: `TfidfVectors.fit`, or what `features=text` says."""

    def __call__(self, texts: Sequence[str], stage: Stage = unwatched) -> TextVectors: ...


class TextReader:
    """A reader of data that may have texts; `text_fit` says how they become numbers, None that nobody said it."""

    text_fit: ClassVar[TextFit | None] = None

    @property
    def has_text(self) -> bool:
        """Whether there is a text that it is for."""
        return True

    def with_text(self, fit: TextFit) -> Self:
        """The same reader, whose texts become numbers so."""
        other = copy(self)
        object.__setattr__(other, "text_fit", fit)
        return other


class TfidfVectors(TextVectors):
    """Words and parts of words, by logarithm of count and inverse document frequency, in directions of the public pool.

    Words are those of `settings`, parts of three and four letters are hashed to `buckets`. `idf` belongs to both.
    Each of the two halves has length 1 before `components`, the leading right singular vectors of the public texts,
    project them. Values are cut to 26 bits there, so that sums of products are exact in any order.
    """

    kind = "tfidf"

    @classmethod
    def fit(
        cls, texts: Sequence[str], stage: Stage = unwatched, *, dimension: int = 128, seed: int = 0
    ) -> TfidfVectors:
        """Learns words, frequencies and directions of public texts: equal texts give the same on the same machine.

        Raises:
            InvalidValue: texts of which no two share a word, or that are all alike.
        """
        from sklearn.decomposition import TruncatedSVD
        from threadpoolctl import threadpool_limits

        shown = spread(texts)
        with stage("words of the public texts", len(shown)) as advance:
            known, buckets, frequency = _frequent(shown, advance)
        if not known:
            raise InvalidValue("data.text: expected public texts that share words, features are fitted on them")
        idf = np.log((1 + len(shown)) / (1 + frequency)) + 1
        origin: dict[str, str | int] = {
            "fitted_on": "the public pool",
            "num_texts": len(shown),
            "texts_sha256": digest_of(shown),
        }
        blank = np.zeros((len(idf), 1), np.float32)
        made = cls({"buckets": buckets, "idf": idf, "components": blank}, {"words": known}, origin)
        with stage("directions of the public texts", len(shown)) as advance, threadpool_limits(1):
            from scipy.sparse import vstack

            blocks = []
            for first in range(0, len(shown), _ROWS):
                blocks.append(made.weighted(shown[first : first + _ROWS])[0])
                advance(first + blocks[-1].shape[0])
            matrix = vstack(blocks, format="csr")
            count = min(dimension, min(matrix.shape) - 1)
            if count < 1:
                raise InvalidValue("data.text: expected several public texts, features are fitted on them")
            found = TruncatedSVD(count, n_iter=4, random_state=seed).fit(matrix)
            kept = found.singular_values_ > _NO_LENGTH * found.singular_values_[0]
        components = np.ascontiguousarray(found.components_[kept].T, np.float32)
        return cls({"buckets": buckets, "idf": idf, "components": components}, {"words": known}, origin)

    @property
    def dimension(self) -> int:
        return int(self.arrays["components"].shape[1])

    def require_usable(self) -> None:
        words, buckets, idf, components = (
            self.settings["words"],
            *(self.arrays[n] for n in ("buckets", "idf", "components")),
        )
        good = all(isinstance(word, str) for word in words) and len(set(words)) == len(words)
        good = good and buckets.ndim == idf.ndim == 1 and components.ndim == 2 and components.shape[1] > 0
        good = good and len(idf) == len(components) == len(words) + len(buckets)
        good = good and bool(np.all((buckets >= 0) & (buckets < _BUCKETS))) and buckets.dtype == np.int32
        good = good and bool(np.all(np.square(components, dtype=np.float64).sum(axis=0) < 1.01))
        if not good:
            raise ValueError("arrays of other shapes")

    def known(self, texts: Sequence[str]) -> tuple[int, int]:
        _, known, total = self.weighted(texts)
        return known, total

    def weighted(self, texts: Sequence[str]) -> tuple[Any, int, int]:
        """A sparse matrix `[n, words + parts]`, rows of length 1 or 0; how many words are known, of how many."""
        from scipy.sparse import csr_matrix, hstack
        from sklearn.preprocessing import normalize as to_length_1

        words, counts = _counted(texts)
        places = np.array([self._place_of.get(word, -1) for word in words], np.int64)
        rows = np.flatnonzero(places >= 0)
        ones = np.ones(len(rows))
        half = len(self.settings["words"])
        of_words = csr_matrix((ones, (rows, places[rows])), shape=(len(words), half))
        halves = counts @ of_words, counts @ _grams_of(words)[:, self.arrays["buckets"]]
        for matrix, idf in zip(halves, (self.arrays["idf"][:half], self.arrays["idf"][half:]), strict=True):
            matrix.sort_indices()  # sums of a row are in one order, whatever the order of the block's words
            matrix.data = _LOGARITHMS[matrix.data.astype(np.int64) - 1] * idf[matrix.indices]
            to_length_1(matrix, copy=False)
        joined = hstack(halves, format="csr")
        joined.data *= np.sqrt(0.5)
        often = np.asarray(counts.sum(axis=0)).ravel()
        return joined, int(often[rows].sum()), int(often.sum())

    def _made(self, texts: Sequence[str]) -> NDArray[np.float64]:
        rows, _, _ = self.weighted(texts)
        rows.data = np.trunc(np.ldexp(rows.data, _BITS))
        return np.asarray(np.ldexp(rows @ self._whole, -2 * _BITS), np.float64)

    @cached_property
    def _whole(self) -> NDArray[np.float64]:
        return np.asarray(np.trunc(np.ldexp(self.arrays["components"].astype(np.float64), _BITS)))

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.settings["words"])}


_KINDS: Mapping[str, type[TextVectors]] = {TfidfVectors.kind: TfidfVectors}


def _counted(texts: Sequence[str]) -> tuple[list[str], Any]:
    """The words of some texts, and how often each occurs in each, sparse `[n, words]`."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(preprocessor=plain_text, token_pattern=word_pattern(), dtype=np.float64)
    try:
        counts = counter.fit_transform(texts)
    except ValueError:  # no word at all
        return [], csr_matrix((len(texts), 0), dtype=np.float64)
    return counter.get_feature_names_out().tolist(), counts


def _grams_of(words: Sequence[str]) -> Any:
    """How often each part, by its bucket, is in each word, sparse `[words, buckets]`."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import HashingVectorizer

    if not words:
        return csr_matrix((0, _BUCKETS), dtype=np.float64)
    hashing = HashingVectorizer(
        analyzer="char_wb", ngram_range=_GRAMS, n_features=_BUCKETS, lowercase=False, alternate_sign=False, norm=None
    )
    return hashing.transform(words)


def _frequent(
    texts: Sequence[str], advance: Callable[[int], None]
) -> tuple[list[str], NDArray[np.int32], NDArray[np.float64]]:
    """The frequent words, buckets of frequent parts, and in how many texts each of both is."""
    in_texts: dict[str, int] = {}
    of_grams = np.zeros(_BUCKETS)
    for first in range(0, len(texts), _ROWS):
        words, counts = _counted(texts[first : first + _ROWS])
        for word, count in zip(words, counts.getnnz(axis=0).tolist(), strict=True):
            in_texts[word] = in_texts.get(word, 0) + count
        of_grams += (counts @ _grams_of(words)).getnnz(axis=0)
        advance(min(first + _ROWS, len(texts)))
    often = sorted(
        (word for word, count in in_texts.items() if count >= _FEWEST), key=lambda word: (-in_texts[word], word)
    )
    known = sorted(often[:_MOST_WORDS])
    order = np.argsort(-of_grams, kind="stable")[:_MOST_GRAMS]
    buckets = np.sort(order[of_grams[order] >= _FEWEST]).astype(np.int32)
    frequency = np.append([float(in_texts[word]) for word in known], of_grams[buckets])
    return known, buckets, frequency
