"""WordNet's nouns as a table: its dictionary, labels, splits, representation, and the archive."""

from __future__ import annotations

import bz2
import hashlib
import io
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.feature_extraction.text import TfidfVectorizer

from pate.array_types import BoolArray, FloatArray
from pate.validation import InvalidValue

_EXAMPLE = re.compile(r'"[^"]*"?')
_NOT_WORD = re.compile(r"\W+")
_IS_A = ("@", "@i")  # hypernym, and the class of which the synset is an instance


@dataclass(frozen=True)
class Synset:
    """A meaning: a set of synonyms with its place in the hierarchy and its definition."""

    offset: int  # the synset's byte offset in its file, which WordNet uses as its identifier
    lemma: str  # its first word, blanks written as underscores
    # offsets of the synsets right above it; several are possible, the root has none
    hypernyms: tuple[int, ...]
    definition: str  # the gloss without its quoted examples

    @property
    def normalized(self) -> str:
        """Returns the definition in lower case with each run of punctuation and blanks made one blank."""
        return _NOT_WORD.sub(" ", self.definition.lower()).strip()


def parse_dictionary(lines: Iterable[str]) -> tuple[Synset, ...]:
    """Reads the lines of `data.noun`; the license at its top (indented lines) is passed over.

    Raises:
        InvalidValue: a line that is no synset, no synset at all, or a hypernym that is not in the file.

    Source: the manual page wndb(5WN), "Data File Format".
    """
    numbered = enumerate(lines, start=1)
    synsets = tuple(_parse(number, line) for number, line in numbered if not line.startswith(" "))
    if not synsets:
        raise InvalidValue("dictionary", "empty", rule="the lines of WordNet's data.noun")
    offsets = {synset.offset for synset in synsets}
    for synset in synsets:
        for hypernym in synset.hypernyms:
            if hypernym not in offsets:
                raise InvalidValue(
                    "hypernym", f"{hypernym:08d}", rule="a synset of the same dictionary"
                )
    return synsets


def ancestors(synsets: Iterable[Synset]) -> dict[int, frozenset[int]]:
    """Returns, for each offset, the offsets of the synset itself and of all above it."""
    above = {synset.offset: synset.hypernyms for synset in synsets}
    return {offset: _reachable(offset, above) for offset in above}


def _reachable(offset: int, above: dict[int, tuple[int, ...]]) -> frozenset[int]:
    reached: set[int] = set()
    ahead = [offset]
    while ahead:
        current = ahead.pop()
        if current not in reached:
            reached.add(current)
            ahead.extend(above[current])
    return frozenset(reached)


def _parse(number: int, line: str) -> Synset:
    try:
        data, gloss = line.split("|", 1)
        fields = data.split()
        # offset, file, type, word count, then (word, lexical id) pairs
        pointers_at = 4 + 2 * int(fields[3], 16)
        pointers = fields[pointers_at + 1 : pointers_at + 1 + 4 * int(fields[pointers_at])]
        symbols = pointers[0::4]
        targets = pointers[1::4]
        kinds = pointers[2::4]
        hypernyms = tuple(
            int(target)
            for symbol, target, kind in zip(symbols, targets, kinds, strict=True)
            if symbol in _IS_A and kind == "n"
        )
        return Synset(
            int(fields[0]),
            lemma=fields[4],
            hypernyms=hypernyms,
            definition=_EXAMPLE.sub("", gloss).strip(" ;\n"),
        )
    except (ValueError, IndexError) as error:
        raise InvalidValue(
            f"dictionary line {number}", f"{line[:40]!r}", rule="a synset of data.noun"
        ) from error


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
) -> BoolArray:
    """Returns bool `[n, num_labels]`: True where a record is, or lies below, a label."""
    return np.array(
        [[label in ancestors[record] for label in labels] for record in records], dtype=np.bool_
    )


def label_names(synsets: Iterable[Synset], labels: Sequence[int]) -> tuple[str, ...]:
    """Returns the labels' lemmas; labels that share a lemma are numbered by offset (`substance_1`)."""
    lemma_of = {synset.offset: synset.lemma for synset in synsets}
    sharing: dict[str, list[int]] = {}
    for label in sorted(labels):
        sharing.setdefault(lemma_of[label], []).append(label)
    return tuple(
        _name(lemma_of[label], place=sharing[lemma_of[label]].index(label), sharing=sharing)
        for label in labels
    )


def _name(lemma: str, place: int, sharing: dict[str, list[int]]) -> str:
    return lemma if len(sharing[lemma]) == 1 else f"{lemma}_{place + 1}"


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
    """Assigns whole families to splits of exactly the given sizes where possible; the last split takes all others.

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
    for family in sorted(members, key=lambda family: _rank(unit="family", number=family)):
        room = (len(splits[i]) + len(members[family]) <= size for i, size in enumerate(sizes))
        chosen = next((i for i, fits in enumerate(room) if fits), len(sizes))
        splits[chosen].extend(members[family])
    return [
        sorted(split, key=lambda record: _rank(unit="record", number=record)) for split in splits
    ]


def _rank(unit: str, number: int) -> bytes:
    return hashlib.sha256(f"WordNet-40 {unit} {number}".encode()).digest()


STEPS = 127
"""Quantization steps on each side of zero: a feature x in [-1, 1] is stored as round(127 x)."""

# a projection this short is rounding error; on WordNet the next longer one is 1e-3
_NO_LENGTH = 1e-6


@dataclass(frozen=True, eq=False)
class Representation:
    """A map from texts to unit vectors, fitted on public texts.

    Formal guarantees:
        * Vocabulary, document frequencies and singular vectors come from the texts given to `fit` alone, and
          the stored number does not depend on any other text: `encode` treats each text by itself.
        * `fit` is deterministic: fixed start vector, iteration to machine precision, and each singular vector
          turned so that its largest entry is positive.
    """

    # the fitted tf-idf (words seen in at least two texts, logarithmic term frequency)
    vectorizer: TfidfVectorizer
    # float64 `[vocabulary, num_dims]`, right singular vectors, the strongest first
    components: FloatArray

    @classmethod
    def fit(cls, texts: Sequence[str], *, num_dims: int) -> Representation:
        """Fits the vocabulary and the leading `num_dims` singular vectors of the tf-idf matrix."""
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


_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip entry can carry
_UNIX = 3


def glosses(lines: Iterable[str]) -> bytes:
    """Returns the definitions of all synsets by offset, a line each, as bzip2, for `data=wordnet features=text`."""
    ordered = sorted(parse_dictionary(lines), key=lambda synset: synset.offset)
    return bz2.compress("\n".join(synset.definition for synset in ordered).encode())


def write_archive(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes named arrays for `numpy.load`, whose bytes depend on no clock, platform or compressor."""
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            entry.create_system = _UNIX
            archive.writestr(entry, content.getvalue())


@dataclass(frozen=True)
class Recipe:
    """The sizes of WordNet-40."""

    num_public: int = 10_000  # records in the public pool
    num_test: int = 10_000  # records in the test set; the private pool is all the rest
    num_labels: int = 40  # how many hypernyms are labels
    num_dims: int = 128  # dimensions of the features

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
        families = gloss_families(synsets)
        above = ancestors(synsets)
        splits = deal_splits(families, sizes=(self.num_public, self.num_test))
        records = [record for split in splits for record in split]
        public = splits[0]
        labels = choose_labels(above, public, num_labels=self.num_labels)
        representation = Representation.fit(
            _definitions(by_offset, records=public), num_dims=self.num_dims
        )
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
