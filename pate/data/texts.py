"""Texts as numbers: the vector of length 1 that stands for a text, by public texts, word vectors or an encoder."""

import csv
import hashlib
import html
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self, TypeVar
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import WRONG, Fitted, Stage, unwatched
from pate.extras import how_to_install, require_extra
from pate.files.disk import DamagedFile, damaged, file_digest, read_json, replacing
from pate.threads import one_blas_thread
from pate.validation import InvalidValue, MissingPackage, normalize_field

T = TypeVar("T")
Array = NDArray[np.float32]
# public texts that something is fitted on, spread evenly over the pool: more say little more
MOST_TEXTS = 10_000
TEXTS_ASKED = 2000  # private texts whose words are counted for the owner, the first ones
_LONGEST = 100_000  # characters that are read of a text
_ROWS = 1024  # texts that are worked on at once
_TASK = 4 * _ROWS  # texts that a process is given
_MANY = 10**7  # characters from which other processes are worth their start
# those that occur in most public texts
_MOST_WORDS = 2**14
_MOST_GRAMS = 2**14
_BUCKETS = 2**18  # of parts of words
_GRAMS = (3, 4)  # letters of a part
_FEWEST = 2  # public texts that have a word
# share of the public texts at which a word's vector counts half: short texts lose by less
_OFTEN = 0.3
_BITS = 26  # of a row and of a direction: their products, and sums of these, stay below 2**53
_NO_LENGTH = 1e-6  # of what is left of a text, whose length is 1 before it is projected
# words of a file of vectors, the first ones: files begin with the frequent words
_MOST_VECTORS = 2**18
_LONGEST_PIECE = 64  # letters
_MOST_ENCODED = 2000  # public texts that an encoder's directions are fitted on
_MOST_TOKENS = 512  # where an encoder does not say how many it reads
_SMALL = 100_000_000  # bytes of an encoder that a published model carries
_FEW = 1000  # public texts below which the owner is told so
_AT_ONCE = 32  # texts that one core encodes between two reports
_LONGEST_REASON = 200
_MEAN = "pooling_mode_mean_tokens"
_FIRST = "pooling_mode_cls_token"
_SEVERAL = "several public texts, features are fitted on them"
WEIGHTS = {  # what `features.weights` is, by kind
    "static": "a file of word vectors such as glove.txt, or a folder with model.safetensors and tokenizer.json",
    "encoder": "an .onnx file, or a folder with model.onnx and tokenizer.json or of sentence-transformers",
}
# by count: a function of nothing else, bit for bit
_LOGARITHMS = 1 + np.log(np.arange(1, _LONGEST + 2))
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_CODE, _CODE_ENDS = (
    re.compile(f"<{sign}(?:script|style)[^<>]*>", re.IGNORECASE) for sign in ("", "/")
)
# Chinese and Japanese
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{3,}")
_RULE = "what makes numbers of texts"


@cache
def patterns() -> tuple[str, re.Pattern[str]]:
    """A word: letters, digits and marks, such as vowels of Indian scripts; more marks than any script has."""
    marks = "".join(
        re.escape(chr(code))
        for code in range(0x300, 0x10000)
        if category(chr(code)) in ("Mn", "Mc")
    )
    return rf"[\w{marks}]+", re.compile(f"[{marks}]{{9,}}")


def plain_text(text: str) -> str:
    r"""What is read of a text, in small letters; Chinese and Japanese as pairs of letters, they have no spaces.

    >>> plain_text("<p>Z\u00dcRICH &amp; Bern</p>").split()
    ['zürich', '&', 'bern']
    """
    text = readable(text).casefold()
    return (
        text
        if text.isascii()
        else _UNSPACED.sub(lambda run: " ".join(map("".join, pairwise(run[0]))), text)
    )


def readable(text: str) -> str:
    """The first 100,000 characters of a text, composed and of one width, without HTML's tags, scripts and styles."""
    text = text[:_LONGEST]
    if "<" in text:
        first, *later_words = _CODE.split(text)
        text = _TAG.sub(
            " ", " ".join([first, *(_CODE_ENDS.split(other, 1)[-1] for other in later_words)])
        )
    if "&" in text:
        text = html.unescape(text)
    return text if text.isascii() else normalize("NFKC", patterns()[1].sub("", text))


def texts_of(words: Any) -> list[str]:
    """Of pyarrow words `[n]`; one that is missing is empty."""
    return [text or "" for text in words.to_pylist()]


def spread(texts: Sequence[T], most: int = MOST_TEXTS) -> list[T]:
    """At most so many texts, or what stands for them, evenly spread."""
    places = np.linspace(0, len(texts) - 1, min(most, len(texts))).astype(np.int64)
    return [texts[place] for place in places.tolist()]


def digest_of(texts: Sequence[str]) -> str:
    """SHA-256 of texts in their order, in hexadecimal."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


@dataclass(frozen=True)
class Weights:
    """A file or folder of vectors of words, or of an encoder."""

    place: Path

    @cached_property
    def sha256(self) -> str:
        """Of a file, or of all files of a folder with their names, in hexadecimal; computed once."""
        files = (
            [self.place]
            if self.place.is_file()
            else sorted(filter(Path.is_file, self.place.rglob("*")))
        )
        digests = [(path, file_digest(path, rule=_RULE, remedy="copy it again")) for path in files]
        if self.place.is_file():
            return digests[0][1]
        lines = (
            f"{path.relative_to(self.place).as_posix()}\0{digest}\n" for path, digest in digests
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class TextVectors(Fitted):
    """From a text to a vector of length 1, or 0 for a text that says nothing. It was fitted on public texts.

    Formal guarantee: it is a function of the text and the public pool, bit for bit, whatever other texts there are.
    """

    # a folder for vectors that were made, as private as the texts; None keeps none
    kept: Path | None = None
    # of an encoder that is not among the arrays; None where it lies beside the file
    weights: Weights | None = None

    entry = "texts"
    rule = _RULE
    prefers: ClassVar[str] = "processes"  # where there are many texts

    @classmethod
    def of_kind(cls, kind: str) -> Any:
        """Returns the class of vectors that a file names."""
        return TEXT_KINDS[kind]

    def tried(self) -> Array:
        """Returns the vectors of a short text, to see that the arrays of a file work."""
        if not self.is_usable():
            raise ValueError("arrays of other shapes")
        return self.vectors(["a text"])

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        return int(self.arrays["components"].shape[1])

    @abstractmethod
    def _made(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Vectors `[n, dimension]` of any length, of some texts."""

    def known(self, texts: Sequence[str]) -> tuple[int, int]:
        """How many words of these texts the public texts have, and how many there are; 0 where nobody counts them."""
        return 0, 0

    def vectors(
        self, texts: Sequence[str], advance: Callable[[int], object] = lambda done: None
    ) -> Array:
        """Of any number of texts, `[n, dimension]`; of many on all cores. `advance` is told how many are done."""
        preference = (
            self.prefers if sum(map(len, texts)) > _MANY or self.prefers == "threads" else None
        )
        size = _TASK if preference == "processes" else _ROWS
        none = np.empty((0, self.dimension), np.float32)
        # another process is sent no cached values
        make = replace(self)._blocks if preference == "processes" else self._blocks
        return np.concatenate([none, *_mapped(make, texts, size, advance, preference)])

    def _blocks(self, texts: Sequence[str]) -> Array:
        return np.concatenate(
            [self._block(texts[first : first + _ROWS]) for first in range(0, len(texts), _ROWS)]
        )

    def _block(self, texts: Sequence[str]) -> Array:
        """Those of a block, read where they are kept; a file that was damaged is made again."""
        path = None if self.kept is None else self.kept / f"{digest_of(texts)[:32]}.f32"
        content = path.read_bytes() if path is not None and path.is_file() else b""
        is_whole = len(content) == 32 + 4 * len(texts) * self.dimension
        if is_whole and hashlib.sha256(content[32:]).digest() == content[:32]:
            return np.frombuffer(content, np.float32, offset=32).reshape(len(texts), self.dimension)
        vectors = self._made(texts)
        lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
        rows = np.ascontiguousarray(
            vectors / np.where(lengths > _NO_LENGTH, lengths, np.inf), np.float32
        )
        if path is not None:
            with replacing(path) as file:
                file.write(hashlib.sha256(rows.data).digest() + rows.tobytes())
        return rows

    @property
    def file(self) -> str:  # its name in a bundle, or beside a schema
        """The name of the file of vectors for a column, in the folder of a schema."""
        return f"text-{self.digest[:12]}.safetensors"

    @abstractmethod
    def is_usable(self) -> bool:
        """Whether arrays and settings are of this kind; may raise what Python does where they are none."""

    @cached_property
    def _place_of(self) -> dict[str, int]:
        """By word, in small letters where these are no word of their own."""
        words: list[str] = self.settings["words"]
        places = {word.casefold(): place for place, word in reversed(list(enumerate(words)))}
        return places | {word: place for place, word in enumerate(words)}


def remarks_on(name: str, vectors: TextVectors, private: Sequence[str]) -> Iterator[str]:
    """For the owner: public texts that are too few, private ones that are empty or of other words."""
    count = int(vectors.origin.get("num_texts", _FEW))
    if count < _FEW:
        rule = f"expected {_FEW:,} texts or more, {count} say little of words: each becomes {vectors.dimension} numbers"
        yield f"data.public.{name}: {rule}"
    (is_known, total) = vectors.known(private)
    empty = sum(re.search(r"\w", text) is None for text in private)
    rule = f"{1 - is_known / max(total, 1):.0%} of their words are in no public text, and so tell nothing"
    losses = [*([rule] if total else []), *([f"{empty} have no word"] if empty else [])]
    if losses:
        yield f"data.private.{name}: of the first {len(private):,} texts {'; '.join(losses)}"


TextFit = Callable[..., TextVectors]
"""From public texts and a `Stage` to what makes numbers of texts: `TfidfVectors.fit`, or what `features=text` says."""


class TextReader:
    """A reader of data that may have texts; `text_fit` says how they become numbers, None that nobody said it."""

    text_fit: ClassVar[TextFit | None] = None

    def with_text(self, fit: TextFit) -> Self:
        """Returns the same reader, whose texts become vectors as `features=text` says."""
        other = copy(self)
        normalize_field(other, "text_fit", fit)
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
    ) -> Self:
        """Fits weights of words and directions to public texts."""
        from sklearn.decomposition import TruncatedSVD

        sample = spread(texts)
        with stage("words of the public texts", len(sample)) as advance:
            words, buckets, frequency = _frequent(sample, advance)
        if not words:
            raise InvalidValue(
                "data.text", rule="public texts that share words, features are fitted on them"
            )
        idf = np.log((1 + len(sample)) / (1 + frequency)) + 1
        origin = _origin(sample)
        blank = np.zeros((len(idf), 1), np.float32)
        vectors = cls(
            {"buckets": buckets, "idf": idf, "components": blank}, {"words": words}, origin
        )
        with stage("directions of the public texts", len(sample)) as advance, one_blas_thread():
            matrix = _stacked(lambda block: vectors.weighted(block)[0], sample, advance)
            count = min(dimension, min(matrix.shape) - 1)
            if count < 1:
                raise InvalidValue("data.text", rule=_SEVERAL)
            with np.errstate(invalid="ignore"):  # of texts that are all alike
                decomposition = TruncatedSVD(count, n_iter=4, random_state=seed).fit(matrix)
            is_long = (
                decomposition.singular_values_ > _NO_LENGTH * decomposition.singular_values_[0]
            )
        components = np.ascontiguousarray(decomposition.components_[is_long].T, np.float32)
        return cls(
            {"buckets": buckets, "idf": idf, "components": components}, {"words": words}, origin
        )

    def is_usable(self) -> bool:
        """True where arrays and words that were read belong together."""
        words = self.settings["words"]
        buckets, idf, components = (self.arrays[name] for name in ("buckets", "idf", "components"))
        good = all(isinstance(word, str) for word in words) and len(set(words)) == len(words)
        good = (
            good
            and buckets.ndim == idf.ndim == 1
            and components.ndim == 2
            and components.shape[1] > 0
        )
        good = good and len(idf) == len(components) == len(words) + len(buckets)
        good = (
            good
            and bool(np.all((buckets >= 0) & (buckets < _BUCKETS)))
            and buckets.dtype == np.int32
        )
        return good and bool(np.all(np.square(components, dtype=np.float64).sum(axis=0) < 1.01))

    def known(self, texts: Sequence[str]) -> tuple[int, int]:
        """Returns which words of texts have weights, and how many words there are."""
        return self.weighted(texts)[1:]

    def weighted(self, texts: Sequence[str]) -> tuple[Any, int, int]:
        """A sparse matrix `[n, words + parts]`, rows of length 1 or 0; how many words are known, of how many."""
        from scipy.sparse import csr_matrix, hstack
        from sklearn.preprocessing import normalize as to_length_1

        (words, counts) = _counted(texts)
        half = len(self.settings["words"])
        places = np.array([self._place_of.get(word, -1) for word in words], np.int64)
        rows = np.flatnonzero(places >= 0)
        of_words = csr_matrix((np.ones(len(rows)), (rows, places[rows])), shape=(len(words), half))
        halves = counts @ of_words, counts @ _grams_of(words)[:, self.arrays["buckets"]]
        for matrix, idf in zip(
            halves, (self.arrays["idf"][:half], self.arrays["idf"][half:]), strict=True
        ):
            # sums of a row are in one order, whatever the order of the block's words
            matrix.sort_indices()
            matrix.data = _LOGARITHMS[matrix.data.astype(np.int64) - 1] * idf[matrix.indices]
            to_length_1(matrix, copy=False)
        joined = hstack(halves, format="csr")
        joined.data *= np.sqrt(0.5)
        often = np.asarray(counts.sum(axis=0)).ravel()
        return joined, int(often[rows].sum()), int(often.sum())

    def _made(self, texts: Sequence[str]) -> NDArray[np.float64]:
        rows = self.weighted(texts)[0]
        rows.data = _whole(rows.data)
        return np.asarray(np.ldexp(rows @ self._directions, -2 * _BITS), np.float64)

    @cached_property
    def _directions(self) -> NDArray[np.float64]:
        return _whole(self.arrays["components"])


class StaticVectors(TextVectors):
    """Vectors of words from a file, averaged by inverse frequency in the public texts, less the public mean.

    A word that a share p of the public texts has counts .3 / (.3 + p), times 1 + the logarithm of how often it occurs.
    Vectors are in directions of the public texts, as numbers of 16 bits, and belong to `words` of `settings`. Its
    two `marks` stand before the first piece of a word and before later ones; without the second, words have no pieces.
    """

    kind = "static"

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        stage: Stage = unwatched,
        *,
        weights: Weights,
        dimension: int = 128,
    ) -> Self:
        """Fits a center and weights of words to public texts; the words' vectors are given."""
        words, table, marks = read_vectors(weights.place)
        sample = spread(texts)
        ones = np.ones(len(words))
        vectors = cls(
            {"components": table, "weights": ones, "center": np.zeros(1)},
            {"words": words, "marks": marks},
            {},
        )
        with stage("words of the public texts", len(sample)) as advance:
            counts = _stacked(lambda block: vectors.counted(block)[0], sample, advance)
        weight = _OFTEN / (_OFTEN + counts.getnnz(axis=0) / max(len(sample), 1))
        rows = replace(vectors, arrays={**vectors.arrays, "weights": weight}).averaged(counts)
        center, components = _directions(rows, dimension)
        table = table @ components.astype(np.float32)
        size = np.abs(table).max()
        table = (table / size).astype(np.float16)
        center = center @ components / size
        arrays = {"components": table, "weights": weight, "center": center}
        return cls(arrays, vectors.settings, _origin(sample, weights))

    def is_usable(self) -> bool:
        """True where arrays and words that were read belong together."""
        words = self.settings["words"]
        marks = self.settings["marks"]
        table, weights, center = (self.arrays[name] for name in ("components", "weights", "center"))
        good = all(isinstance(word, str) for word in words) and len(words) == len(table) == len(
            weights
        )
        good = (
            good
            and len(marks) == 2
            and isinstance(marks[0], str)
            and isinstance(marks[1], str | None)
        )
        good = (
            good
            and table.ndim == 2
            and weights.ndim == 1
            and table.shape[1:] == center.shape
            and len(center) > 0
        )
        return good and bool(np.all(weights > 0))

    def known(self, texts: Sequence[str]) -> tuple[int, int]:
        """Returns which words of texts have vectors, and how many words there are."""
        counts, total = self.counted(texts)
        is_seen = self.arrays["weights"] < 1  # in some public text
        return min(total, int(np.asarray(counts.sum(axis=0)).ravel()[is_seen].sum())), total

    def counted(self, texts: Sequence[str]) -> tuple[Any, int]:
        """How often each word of the file, or piece, is in each text, sparse `[n, words]`; how many words there are."""
        from scipy.sparse import csr_matrix

        words, counts = _counted(texts)
        parts = list(map(self._parts, words))
        sizes = np.cumsum([0, *map(len, parts)])
        places = np.array([place for part in parts for place in part], np.int64)
        of_words = csr_matrix(
            (np.ones(len(places)), places, sizes), (len(words), len(self.settings["words"]))
        )
        sums = counts @ of_words
        sums.sort_indices()  # sums of a row are in one order
        return sums, int(counts.sum())

    def averaged(self, counts: Any) -> NDArray[np.float64]:
        """Means `[n, d]` of the vectors that occur so often, weighted; 0 where none does."""
        counts = counts.copy()
        counts.data = (
            _LOGARITHMS[counts.data.astype(np.int64) - 1] * self.arrays["weights"][counts.indices]
        )
        columns = np.unique(counts.indices)
        total = counts @ np.ones((counts.shape[1], 1))
        sums = counts[:, columns] @ self.arrays["components"][columns].astype(np.float64)
        return np.asarray(sums / np.where(total > 0, total, 1))

    def _made(self, texts: Sequence[str]) -> NDArray[np.float64]:
        rows = self.averaged(self.counted(texts)[0])
        return np.where(rows.any(axis=1, keepdims=True), rows - self.arrays["center"], 0)

    def _parts(self, word: str) -> list[int]:
        """A word as it is, or without accents; or else its pieces, from the left the longest ones."""
        (first, later) = self.settings["marks"]
        bare = "".join(c for c in normalize("NFD", word) if category(c) != "Mn")
        for said in (word, bare):
            if (place := self._place_of.get(first + said)) is not None:
                return [place]
        for said in (word, bare) if later is not None else ():
            places = list[int]()
            start = 0
            mark = first
            while start < len(said):
                ends = range(min(len(said), start + _LONGEST_PIECE), start, -1)
                end = next((end for end in ends if mark + said[start:end] in self._place_of), None)
                if end is None:
                    break
                places.append(self._place_of[mark + said[start:end]])
                start = end
                mark = later
            else:
                return places
        return []


class EncoderVectors(TextVectors):
    """What an encoder of sentences says of a text, less the public mean, in directions of the public texts.

    Each text is encoded by itself: no other one has a part in its vector, as in a batch it would have in the last bits.
    """

    kind = "encoder"
    prefers = "threads"

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        stage: Stage = unwatched,
        *,
        weights: Weights,
        dimension: int = 128,
    ) -> Self:
        """Fits a center and directions to the encoder's vectors of public texts."""
        sample = spread(texts, _MOST_ENCODED)
        try:
            arrays, settings = _encoder_of(weights)
            vectors = cls(arrays, settings, {}, weights=weights)
            vectors.measured(["a text"])  # a mistake is said before there are threads
            with stage("encoding public texts", len(sample)) as advance:
                blocks = list(_mapped(vectors.measured, sample, _AT_ONCE, advance, cls.prefers))
        except InvalidValue:
            raise
        except WRONG as error:
            raise InvalidValue(
                "features.weights", weights.place, rule=f"{WEIGHTS['encoder']} ({error})"
            ) from error
        center, components = _directions(np.concatenate([*blocks] or [np.zeros((0, 1))]), dimension)
        arrays |= {"center": center, "components": components}
        return cls(arrays, settings, _origin(sample, weights), weights=weights)

    def is_usable(self) -> bool:
        """True where arrays that were read belong together, and the encoder is there."""
        center = self.arrays["center"]
        components = self.arrays["components"]
        good = (
            components.ndim == 2
            and components.shape[1] > 0
            and center.shape == components.shape[:1]
        )
        good = (
            good
            and bool(np.all(np.square(components).sum(axis=0) < 1.01))
            and bool(center @ center < 1.01)
        )
        place = self._weights.place
        rule = f"the encoder of SHA-256 {self.settings['sha256']}"
        problem = "it is another" if place.exists() else "it is gone"
        if "model" not in self.arrays and (
            not place.exists() or self._weights.sha256 != self.settings["sha256"]
        ):
            raise damaged(place, rule, problem, "it is published by name: copy it there")
        return good and 0 < int(self.settings["most_tokens"]) < 2**20

    @cached_property
    def _weights(self) -> Weights:
        return self.weights or Weights(
            (self.path or Path()).parent / Path(str(self.settings["name"])).name
        )

    def measured(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """What the encoder says, `[n, d]`: of length 1, or 0 for an empty text."""
        readable_texts = [readable(text).strip() for text in texts]
        try:
            rows = np.stack([self._encode(text or "-") for text in readable_texts]).astype(
                np.float64
            )
        except ImportError:
            raise
        except Exception as error:  # of runtimes, each has its own
            raise ValueError(f"{type(error).__name__}: {error}"[:_LONGEST_REASON]) from error
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise ValueError("it gives no vector of numbers for a text")
        rows[[place for place, text in enumerate(readable_texts) if not text]] = 0
        lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        return np.asarray(rows / np.where(lengths > 0, lengths, 1))

    def _made(self, texts: Sequence[str]) -> NDArray[np.float64]:
        rows = self.measured(texts)
        centered = np.where(rows.any(axis=1, keepdims=True), (rows - self.arrays["center"]) / 2, 0)
        return np.asarray(
            np.ldexp(_whole(centered) @ _whole(self.arrays["components"]), -2 * _BITS)
        )

    @cached_property
    def _encode(self) -> Callable[[str], NDArray[Any]]:
        if self.settings["format"] == "onnx":
            files = (self.arrays.get(name) for name in ("model", "tokenizer"))
            carried = [None if file is None else file.tobytes() for file in files]
            model, tokenizer = (
                carried if carried[0] is not None else _onnx_files(self._weights.place)
            )
            return _onnx(model, tokenizer, self.settings)
        encoder = _package("sentence_transformers").SentenceTransformer(
            str(self._weights.place),
            device="cpu",
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
        lock = Lock()

        def encode(text: str) -> NDArray[Any]:
            with lock:  # its tokenizers are not made for several threads
                return np.asarray(encoder.encode([text], show_progress_bar=False)[0])

        return encode


TEXT_KINDS: Mapping[str, Any] = {
    kind.kind: kind for kind in (TfidfVectors, StaticVectors, EncoderVectors)
}


def read_vectors(place: Path) -> tuple[list[str], NDArray[Any], list[str | None]]:
    """Words of a file, their vectors `[n, d]`, and what stands before first and later pieces: see `StaticVectors`.

    Read are GloVe's and word2vec's lines of text, and a folder with `model.safetensors` and `tokenizer.json`.
    """
    try:
        is_model = place.is_dir() or place.suffix == ".safetensors"
        vectors = _vectors_of_model(place) if is_model else _vectors_of_lines(place)
        if not np.isfinite(vectors[1]).all() or not vectors[1].any():
            raise ValueError("numbers that are none")
    except DamagedFile:
        raise
    except (OSError, *WRONG) as error:
        reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        raise InvalidValue(
            "features.weights", place, rule=f"{WEIGHTS['static']} ({reason})"
        ) from error
    return vectors


def _vectors_of_model(place: Path) -> tuple[list[str], NDArray[Any], list[str | None]]:
    from safetensors.numpy import load_file

    path = place / "model.safetensors" if place.is_dir() else place
    tokenizer = path.with_name("tokenizer.json")
    normalizer = read_json(tokenizer, rule="the tokenizer of word vectors", remedy="copy it again")[
        "model"
    ]
    arrays = load_file(path)
    listed = normalizer["vocab"]
    rows = (
        dict(listed)
        if isinstance(listed, dict)
        else {word: row for row, (word, _) in enumerate(listed)}
    )
    table = next(array for array in arrays.values() if array.ndim == 2).astype(np.float32)
    table = table[arrays["mapping"]] if "mapping" in arrays else table
    table = table * arrays["weights"].astype(np.float32)[:, None] if "weights" in arrays else table
    words = sorted((word for word, row in rows.items() if row < len(table)), key=rows.__getitem__)[
        :_MOST_VECTORS
    ]
    marks = {
        "WordPiece": ["", normalizer.get("continuing_subword_prefix", "##")],
        "WordLevel": ["", None],
    }.get(normalizer["type"])
    if marks is None:
        marks = [
            max("\u2581\u0120", key=lambda mark: sum(word.startswith(mark) for word in words)),
            "",
        ]
    return words, table[[rows[word] for word in words]], marks


def _vectors_of_lines(path: Path) -> tuple[list[str], NDArray[Any], list[str | None]]:
    require_extra("features.kind", "table", "static")
    import pandas

    # A few words of GloVe's have spaces: such lines are left out.
    # word2vec's first line: how many words and numbers
    counted = (
        pandas.read_csv(
            path,
            nrows=1,
            sep=r"\s+",
            header=None,
            quoting=csv.QUOTE_NONE,
            na_filter=False,
            on_bad_lines="skip",
        ).shape[1]
        == 2
    )
    frame = pandas.read_csv(
        path,
        skiprows=int(counted),
        nrows=_MOST_VECTORS,
        dtype={0: str},
        sep=r"\s+",
        header=None,
        quoting=csv.QUOTE_NONE,
        na_filter=False,
        on_bad_lines="skip",
    )
    return frame[0].tolist(), frame.iloc[:, 1:].to_numpy(np.float32), ["", None]


def _encoder_of(weights: Weights) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What a published model carries of an encoder, nothing if it is large; and how it is used."""
    place = weights.place

    def said(name: str) -> Any:
        path = place / name
        return read_json(path, remedy="copy it again") if path.is_file() else {}

    model, tokenizer = _onnx_files(place)
    parts = {str(part["type"]).rpartition(".")[2] for part in said("modules.json")}
    pooling = said("1_Pooling/config.json").items()
    modes = {name for name, on in pooling if name.startswith("pooling_mode_") and on is True}
    plain = not parts - {"Transformer", "Pooling", "Normalize"} and (
        modes <= {_MEAN} or modes == {_FIRST}
    )
    if model is None and not parts:
        raise InvalidValue("features.weights", place, rule=WEIGHTS["encoder"])
    settings = {
        "name": place.resolve().name,
        "sha256": weights.sha256,
        "first_token": modes == {_FIRST},
        "most_tokens": int(said("sentence_bert_config.json").get("max_seq_length") or _MOST_TOKENS),
        "format": "onnx" if model is not None and plain else "sentence_transformers",
    }
    files = {
        name: path
        for name, path in (("model", model), ("tokenizer", tokenizer))
        if path is not None
    }
    is_alone = model is not None and not any(
        file != model for file in model.parent.glob(f"{model.name}*")
    )
    small = sum(path.stat().st_size for path in files.values()) <= _SMALL
    carried = files if settings["format"] == "onnx" and is_alone and small else {}
    return {name: np.fromfile(path, np.uint8) for name, path in carried.items()}, settings


def _onnx_files(place: Path) -> tuple[Path | None, Path | None]:
    folder = place if place.is_dir() else place.parent
    graphs = (folder / "onnx" / "model.onnx", folder / "model.onnx") if place.is_dir() else (place,)
    tokenizers = (folder / "tokenizer.json", folder.parent / "tokenizer.json")
    return next(filter(Path.is_file, graphs), None), next(filter(Path.is_file, tokenizers), None)


def _onnx(
    model: bytes | Path | None, tokenizer: bytes | Path | None, settings: Mapping[str, Any]
) -> Callable[[str], Any]:
    """From one text to its vector, by a graph that takes a text, or the tokens that a tokenizer makes of it."""
    runtime = _package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    source = model if isinstance(model, bytes) else str(model)
    session = runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    outputs = [output.name for output in session.get_outputs()]
    output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
    if inputs[0].type == "tensor(string)":
        return lambda text: session.run([output], {inputs[0].name: np.array([text], object)})[0][0]
    if tokenizer is None:
        raise ValueError("no tokenizer.json beside it")
    content = tokenizer if isinstance(tokenizer, bytes) else tokenizer.read_bytes()
    tokens = _package("tokenizers").Tokenizer.from_buffer(content)
    tokens.no_padding()
    tokens.enable_truncation(settings["most_tokens"])

    def encode(text: str) -> NDArray[Any]:
        encoding = tokens.encode(text)
        inputs_of_name = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        outputs = session.run(
            [output],
            {input_.name: np.array([inputs_of_name[input_.name]], np.int64) for input_ in inputs},
        )[0][0]
        if outputs.ndim == 1:
            return np.asarray(outputs)
        return np.asarray(outputs[0] if settings["first_token"] else outputs.mean(axis=0))

    return encode


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackage(
            "features.kind", "encoder", rule=f"the package {name}: {how_to_install('text')}"
        ) from error


def _origin(texts: Sequence[str], weights: Weights | None = None) -> dict[str, str | int]:
    of_file = (
        {}
        if weights is None
        else {"model": weights.place.resolve().name, "weights_sha256": weights.sha256}
    )
    return {
        "fitted_on": "the public pool",
        "num_texts": len(texts),
        "texts_sha256": digest_of(texts),
        **of_file,
    }


def _directions(
    rows: NDArray[np.float64], dimension: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean `[d]` of rows that are not 0, and the directions `[d, k]` in which these vary most."""
    rows = rows[rows.any(axis=1)]
    if len(rows) < 2:
        raise InvalidValue("data.text", rule=_SEVERAL)
    center = rows.mean(axis=0)
    with one_blas_thread():
        variances, directions = np.linalg.eigh((rows - center).T @ (rows - center) / len(rows))
    chosen = np.flatnonzero(variances > max(_NO_LENGTH**2 * variances[-1], 1e-12))[::-1][:dimension]
    if not len(chosen):
        raise InvalidValue("data.text", rule=_SEVERAL)
    return center, np.ascontiguousarray(directions[:, chosen])


def _whole(values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers as integers of 26 bits after the point: sums of their products are exact in any order."""
    return np.asarray(np.trunc(np.ldexp(values.astype(np.float64), _BITS)))


def _mapped(
    make: Callable[[Any], T],
    items: Sequence[str],
    size: int,
    advance: Callable[[int], object],
    how: str | None = None,
) -> Iterator[T]:
    """What is made of each block of texts, in order: in `threads`, in `processes`, or in this one."""
    from joblib import Parallel, cpu_count, delayed

    blocks = [items[first : first + size] for first in range(0, len(items), size)]
    pool = Parallel(
        min(cpu_count(), len(blocks)) or 1 if how else 1, prefer=how, return_as="generator"
    )
    done = 0
    for block, rows in zip(blocks, pool(map(delayed(make), blocks)), strict=True):
        advance(done := done + len(block))
        yield rows


def _stacked(
    count: Callable[[Sequence[str]], Any], texts: Sequence[str], advance: Callable[[int], object]
) -> Any:
    from scipy.sparse import csr_matrix, vstack

    return vstack(list(_mapped(count, texts, _ROWS, advance)) or [csr_matrix((0, 1))], format="csr")


def _counted(texts: Sequence[str]) -> tuple[list[str], Any]:
    """The words of some texts, and how often each occurs in each, sparse `[n, words]`."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(
        preprocessor=plain_text, token_pattern=patterns()[0], dtype=np.float64
    )
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
        analyzer="char_wb",
        ngram_range=_GRAMS,
        n_features=_BUCKETS,
        lowercase=False,
        alternate_sign=False,
        norm=None,
    )
    return hashing.transform(words)


def _frequent(
    texts: Sequence[str], advance: Callable[[int], None]
) -> tuple[list[str], NDArray[np.int32], NDArray[np.float64]]:
    """The frequent words, buckets of frequent parts, and in how many texts each of both is."""
    in_texts = Counter[str]()
    of_grams = np.zeros(_BUCKETS)
    for words, counts in _mapped(_counted, texts, _ROWS, advance):
        in_texts.update(dict(zip(words, counts.getnnz(axis=0).tolist(), strict=True)))
        of_grams += (counts @ _grams_of(words)).getnnz(axis=0)
    often = sorted((-count, word) for word, count in in_texts.items() if count >= _FEWEST)
    known = sorted(word for _, word in often[:_MOST_WORDS])
    order = np.argsort(-of_grams, kind="stable")[:_MOST_GRAMS]
    buckets = np.sort(order[of_grams[order] >= _FEWEST]).astype(np.int32)
    frequency = np.append([float(in_texts[word]) for word in known], of_grams[buckets])
    return known, buckets, frequency
