"""What every data set looks like to the rest: three splits of labeled records, label names, how inputs were made."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import row_blocks, taken
from pate.validation import InvalidValue, require, require_choice, require_entries, require_moderate, require_text

_WHITE = np.float32(255)
_BLOCK = 4096

SPLITS = ("private", "public", "test")
Kind = Literal["features", "images"]
_KINDS = ("features", "images")
_RANKS = {"features": 2, "images": 4}
Stage = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Announces a stage by its name and number of steps; inside, the callable is told how many are done."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """Reads like a float32 array `[n, channels, height, width]` with values in [0, 1], and holds none.

    `pixels[rows]` (a slice or an array of row numbers) converts those rows, `np.asarray(pixels)` all of them.
    Length, `shape`, `ndim` and `dtype` are those of the array; arithmetic needs `np.asarray` first. So 202,599
    images of 64x64 take 2.5 GB of file, not 10 GB of memory, as long as nobody asks for all rows at once.

    Attributes:
        levels: uint8 `[m, channels, height, width]`, 0 is black; may be a `np.memmap`.
        rows: int64 `[n]`, which of the m images these are, in this order.

    Example:
        >>> pixels = Pixels(np.full((2, 3, 8, 8), 51, np.uint8), np.array([1]))
        >>> pixels.shape, float(pixels[:1].max())
        ((1, 3, 8, 8), 0.20000000298023224)
    """

    levels: NDArray[np.uint8]
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        require(self.levels.dtype == np.uint8, "levels.dtype", self.levels.dtype, "uint8")
        require(self.levels.ndim == 4, "levels.ndim", self.levels.ndim, "4: [m, channels, height, width]")
        require(self.rows.ndim == 1 and self.rows.dtype == np.int64, "rows", self.rows.dtype, "int64 [n]")
        inside = (self.rows >= 0) & (self.rows < len(self.levels))
        require_entries("rows", inside, f"rows in 0..{len(self.levels) - 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, channels, height, width)`."""
        return (len(self.rows), *self.levels.shape[1:])

    @property
    def ndim(self) -> int:
        """4."""
        return self.levels.ndim

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """float32, that of what is read."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: NDArray[Any] | slice) -> NDArray[np.float32]:
        images = self.levels[self.rows[rows]].astype(np.float32)
        images /= _WHITE
        return images

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        images = self[:]
        return images if dtype is None else images.astype(dtype, copy=False)

    def blocks(self) -> Iterator[NDArray[np.uint8]]:
        """The levels, a few thousand images at a time, in order."""
        for first in range(0, len(self), _BLOCK):
            yield np.ascontiguousarray(self.levels[self.rows[first : first + _BLOCK]])


class Preprocessing(ABC):
    """From a table or pictures to inputs. It was fitted on public data alone, or on nothing.

    Attributes:
        kind: its name in a file, of the class.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """A name for each number of an input, or none where inputs are pictures."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @abstractmethod
    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Inputs float32 `[n, …]`; raises `InvalidValue` where something is missing or of another kind."""

    def tells(self, inputs: NDArray[np.float32]) -> Mapping[str, bool]:
        """Of each column, whether inputs `[n, …]` say something of it that the public file knows; {} of pictures."""
        return {}

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """Which features stand for pictures, what they were fitted on, and digests; nothing where inputs are plain."""
        return {}

    def save(self, folder: Path) -> None:
        """Writes what JSON cannot hold into the folder of a bundle; there may be nothing."""
        return

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """All of it, for JSON."""


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled records that play one role: the private pool, the public pool or the test set.

    Attributes:
        inputs: float32 `[n, d]` features, or `[n, channels, height, width]` images in [0, 1]. Large image data
            give `Pixels` in its place, which reads like the array: `inputs[rows]` is one, and so is
            `take(rows).inputs`; the whole only after `np.asarray(inputs)`. Those of a large table are a read-only
            `np.memmap`, of which `take` reads some thousand rows at a time.
        labels: bool `[n, num_labels]`; any number of labels may hold for a record.
        record_ids: int64 `[n]`, the name of each record in its source.
        group_ids: int64 `[n]`, what must stay together: records of one person, one text, one source image.

    Raises:
        InvalidValue: an array of another dtype, rank or length, a masked one, or one without features or labels; inputs
            that are not finite or beyond 1e12, whose squares have no sum in float32.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.bool_]
    record_ids: NDArray[np.int64]
    group_ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        _require_array("inputs", self.inputs, np.float32, ranks=(2, 3, 4))
        _require_array("labels", self.labels, np.bool_, ranks=(2,))
        _require_array("record_ids", self.record_ids, np.int64, ranks=(1,))
        _require_array("group_ids", self.group_ids, np.int64, ranks=(1,))
        for name in ("labels", "record_ids", "group_ids"):
            found = len(getattr(self, name))
            require(found == len(self), f"len({name})", found, f"{len(self)}, one row for each input")
        for name in ("inputs", "labels"):
            shape = getattr(self, name).shape
            require(0 not in shape[1:], f"{name}.shape", shape, f"at least one {name[:-1]} value per record")
        if isinstance(self.inputs, np.ndarray):
            for block in row_blocks(self.inputs):
                _require_moderate(block, self.inputs)

    @classmethod
    def of_pictures(
        cls,
        levels: NDArray[np.uint8],
        labels: NDArray[np.bool_],
        record_ids: NDArray[np.int64],
        group_ids: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> Split:
        """Some rows of pictures that are kept as bytes `[m, channels, height, width]`, and of what is known of them."""
        inputs = cast(NDArray[np.float32], Pixels(levels, rows))  # reads like one
        return cls(inputs, labels[rows], record_ids[rows], group_ids[rows])

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_groups(self) -> int:
        """In a private split, the units of privacy: as many teachers as there can be."""
        return len(np.unique(self.group_ids))

    def take(self, rows: NDArray[np.int64] | slice) -> Split:
        """Returns the given rows, in the given order, as a split of their own."""
        return Split(taken(self.inputs, rows), self.labels[rows], self.record_ids[rows], self.group_ids[rows])

    def digest(self) -> str:
        """SHA-256 of the records in the order of their ids, in hexadecimal. Covered by no epsilon."""
        digest, order = hashlib.sha256(b"records"), np.argsort(self.record_ids, kind="stable")
        _enter(
            digest, self.record_ids[order], self.group_ids[order], self.labels[order], _reordered(self.inputs, order)
        )
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """A private pool for the teachers, a public pool for queries and student, a test set for the report.

    Formal guarantees:
        * No record and no group is shared by two splits, and no split lists a record twice.
        * All splits have the same input shape and one column for each name in `label_names`.

    The public pool's order is part of the data set: the first `num_queries` of it are the queries, so a
    reader shuffles it where its source is sorted. Nothing public (features, scaling, vocabulary) may be
    fitted on private inputs or labels: no epsilon would cover it.

    Attributes:
        name: what the data set is called in configs and reports.
        real: False for synthetic data, which every report says.
        kind: "features" (`[n, d]`) or "images" (`[n, channels, height, width]`, values in [0, 1]).
        label_names: one distinct name for each label.
        private: the records that only epsilon may leak about.
        public: unlabeled for the private pipeline; its labels serve measurements alone.
        test: held out from everything until the report.
        preprocessing: how inputs were made, for a model that is used by others; public. None where inputs are given.
        public_ids: `[num_public]`, whole numbers or texts: what public records are called where they are published;
            None for their `record_ids`.
        private_cells: a digest of the private records as they were before any preprocessing, so that a budget over
            several runs knows them again; None for that of `private`. No epsilon covers it.
        owners: names of the people and records of the private split, as bytes, by kind: as far as the source has any,
            a ledger of several runs knows people again by them in another table. No epsilon covers them.
        public_labeled: whether the public labels are known; never where all of them are False. Nothing is measured by
            labels that are not known: neither how right the release is, nor a student of true labels.
        notes: lines for the owner of the records on how they were read; not published.

    Raises:
        InvalidValue: names that are no text or occur twice, an unknown kind, images beyond [0, 1], an empty split,
            shapes that disagree, a record or group in two splits.
    """

    name: str
    real: bool
    kind: Kind
    label_names: tuple[str, ...]
    private: Split
    public: Split
    test: Split
    preprocessing: Preprocessing | None = None
    public_ids: NDArray[Any] | None = None
    private_cells: str | None = None
    public_labeled: bool = True
    notes: tuple[str, ...] = ()
    owners: Mapping[str, frozenset[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require(isinstance(self.real, bool), "real", type(self.real).__name__, "True, or False for synthetic data")
        require(isinstance(self.kind, str), "kind", type(self.kind).__name__, " or ".join(_KINDS))
        require_choice("kind", self.kind, _KINDS)
        _require_label_names(self.label_names)
        for name, split in self._splits():
            self._check_shapes(name, split)
        if not self.public.labels.any():  # a pool in which nothing is present measures nothing, whoever filled it in
            object.__setattr__(self, "public_labeled", False)
        for unit in ("record", "group"):
            _require_disjoint(unit, [(name, getattr(s, f"{unit}_ids")) for name, s in self._splits()])

        if self.public_ids is not None:
            good = self.public_ids.dtype.kind in "iuU" and self.public_ids.shape == (len(self.public),)
            require(good, "public_ids", self.public_ids.dtype, "whole numbers or texts, one for each public record")

    @property
    def published_ids(self) -> NDArray[Any]:
        """What public records are called where they are published: whole numbers or texts `[num_public]`."""
        return self.public.record_ids if self.public_ids is None else self.public_ids

    @property
    def num_labels(self) -> int:
        """How many labels each record carries a bit for."""
        return len(self.label_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: `(d,)`, or `(channels, height, width)` of an image, as teachers are given it."""
        return tuple(self.private.inputs.shape[1:])

    def digest(self) -> str:
        """SHA-256 of all inputs, labels and ids, in hexadecimal: equal for equal data only. Covered by no epsilon."""
        digest = hashlib.sha256(repr((self.name, self.label_names)).encode())
        for _, split in self._splits():
            _enter(digest, split.inputs, split.labels, split.record_ids, split.group_ids)
        return digest.hexdigest()

    def private_digest(self) -> str:
        """`private_cells`, or else `Split.digest` of the private records: what a budget over several runs is kept for.

        Their order, the public pool and the test set change nothing of it. Other inputs of the same people, a subset of
        them or records with other ids are other data to it.
        """
        return self.private_cells or self.private.digest()

    def _splits(self) -> tuple[tuple[str, Split], ...]:
        return ("private", self.private), ("public", self.public), ("test", self.test)

    def _check_shapes(self, name: str, split: Split) -> None:
        require(isinstance(split, Split), name, type(split).__name__, "a pate.data.Split")
        require(len(split) > 0, f"len({name})", len(split), "at least one record")
        rank = _RANKS[self.kind]
        require(split.inputs.ndim == rank, f"{name}.inputs.ndim", split.inputs.ndim, f"{rank} for {self.kind}")
        shape, wanted = split.inputs.shape[1:], self.input_shape
        require(shape == wanted, f"{name}.inputs.shape[1:]", shape, f"{wanted} as in the private split")
        found = split.labels.shape[1]
        require(found == self.num_labels, f"{name}.labels.shape[1]", found, f"{self.num_labels} label names")
        require_distinct(f"{name}.record_ids", split.record_ids)
        if self.kind == "images" and isinstance(split.inputs, np.ndarray):
            inside = (split.inputs >= 0) & (split.inputs <= 1)
            require_entries(f"{name}.inputs", inside, "images with values in [0, 1]")


def require_dataset(loaded: Any) -> Dataset:
    """Returns what a reader gave, or raises where it is no data set."""
    if not isinstance(loaded, Dataset):
        raise InvalidValue(f"load()={type(loaded).__name__}: expected a pate.data.Dataset")
    return loaded


def named_owners(**columns: NDArray[Any] | None) -> dict[str, frozenset[bytes]]:
    """`Dataset.owners` of ids and groups, whole numbers or words, by kind: `id` and `group`, as in tables."""
    return {
        kind: frozenset(str(each).encode() for each in set(np.asarray(names).tolist()))
        for kind, names in columns.items()
        if names is not None
    }


def require_distinct(name: str, ids: NDArray[np.int64]) -> None:
    """Raises, with two of the rows, where an id occurs more than once."""
    order = np.argsort(ids, kind="stable")
    repeated = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(repeated):
        first, second = order[repeated[0] : repeated[0] + 2].tolist()
        raise InvalidValue(f"{name}: expected each record once, rows {first} and {second} are one")


def _require_label_names(names: Any) -> None:
    """Raises unless it is a tuple of at least one name, each once, each of them text that fits on a line."""
    require(isinstance(names, tuple) and len(names) > 0, "label_names", type(names).__name__, "a tuple of names")
    for index, name in enumerate(names):
        require_text(f"label_names[{index}]", name)
    repeated = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    require(repeated is None, "label_names", f"{repeated}, twice", "each name once")


def _require_moderate(block: NDArray[np.float32], inputs: NDArray[np.float32]) -> None:
    """Raises, with the place among all inputs, where a number of a block is not finite or too large."""
    try:
        require_moderate("inputs", block)
    except InvalidValue:
        require_moderate("inputs", inputs)
        raise


def _enter(digest: Any, *arrays: Any) -> None:
    """Adds shapes and values to a digest."""
    for array in arrays:
        digest.update(repr(array.shape).encode())
        for block in array.blocks() if isinstance(array, Pixels) else row_blocks(array):
            digest.update(np.ascontiguousarray(block).data)


def _reordered(inputs: Any, order: NDArray[np.int64]) -> Any:
    """The rows in another order, without a copy where it is theirs; of `Pixels` without holding them."""
    if np.array_equal(order, np.arange(len(order))):
        return inputs
    return Pixels(inputs.levels, inputs.rows[order]) if isinstance(inputs, Pixels) else inputs[order]


def _require_array(name: str, array: object, dtype: type, *, ranks: tuple[int, ...]) -> None:
    if not isinstance(array, (np.ndarray, Pixels)):
        raise InvalidValue(f"{name}={type(array).__name__}: expected a numpy array")
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidValue(f"{name}=MaskedArray: expected a plain array, .filled(…) says what masked entries are")
    require(array.dtype == dtype, f"{name}.dtype", array.dtype, np.dtype(dtype).name)
    require(array.ndim in ranks, f"{name}.ndim", array.ndim, " or ".join(map(str, ranks)))


def _require_disjoint(unit: str, ids: list[tuple[str, NDArray[np.int64]]]) -> None:
    for position, (first, first_ids) in enumerate(ids):
        for second, second_ids in ids[position + 1 :]:
            shared = np.intersect1d(first_ids, second_ids)
            if len(shared):
                found = f"found {len(shared)} in {first} and {second}"
                raise InvalidValue(f"{unit}_ids: expected each {unit} in one split, {found}")


@dataclass(frozen=True, eq=False)
class PrivateRecords:
    """What a holder teaches with.

    Attributes:
        name: public name of the data set, the same at every holder.
        label_names: L.
        records: private.
        preprocessing: how inputs were made; None where they are given.
        private_cells: see `Dataset`.
        real: False for synthetic records.
        notes: see `Dataset`.
    """

    name: str
    label_names: tuple[str, ...]
    records: Split
    preprocessing: Preprocessing | None = None
    private_cells: str | None = None
    real: bool = True
    notes: tuple[str, ...] = ()

    def asked(self, inputs: NDArray[np.float32], record_ids: NDArray[Any]) -> Dataset:
        """A data set of these records and the public samples `[P, …]` that they are asked about.

        Nothing is tested at a holder: the test split is one empty record.
        """
        shape, found = self.records.inputs.shape[1:], inputs.shape[1:]
        require(found == shape, "queries.inputs.shape[1:]", found, f"{shape} as in data.private")
        free = 1 + max(int(self.records.record_ids.max()), int(self.records.group_ids.max()))
        kind: Kind = "images" if inputs.ndim == 4 else "features"
        return Dataset(
            name=self.name,
            real=self.real,
            kind=kind,
            label_names=self.label_names,
            private=self.records,
            public=_unlabeled(inputs, len(self.label_names), free + 1),
            test=_unlabeled(np.zeros_like(inputs[:1]), len(self.label_names), free),
            preprocessing=self.preprocessing,
            public_ids=record_ids,
            private_cells=self.private_cells,
            public_labeled=False,
            notes=self.notes,
        )


@runtime_checkable
class ReadsPrivateRecords(Protocol):
    """A reader that can do without public and test files."""

    def private_records(self) -> PrivateRecords:
        """The private records alone."""


def _unlabeled(inputs: NDArray[np.float32], num_labels: int, first: int) -> Split:
    rows = first + np.arange(len(inputs), dtype=np.int64)
    return Split(inputs, np.zeros((len(inputs), num_labels), dtype=np.bool_), rows, rows)


@runtime_checkable
class LoadsInStages(Protocol):
    """A data set that can be watched while it is read: `load()` and this one return the same."""

    def load_in_stages(self, stage: Stage) -> Dataset:
        """Reads the data set and announces what takes long."""


@contextmanager
def unwatched(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A stage that nobody watches."""
    yield lambda done: None


@runtime_checkable
class KnowsItsSettings(Protocol):
    """A data set that can say which setting is missing without opening a file."""

    def require_settings(self) -> None:
        """Returns if `load()` has the settings that it needs.

        Raises:
            InvalidValue: one is missing, or two contradict each other.
        """
