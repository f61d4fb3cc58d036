"""What every data set looks like to the rest: three splits of labeled records, label names, how inputs were made."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pate.accounting import PrivacyUnit
from pate.data.pictures import MODES, is_white, read_picture
from pate.files.arrays import row_blocks, taken
from pate.files.disk import damaged, file_digest, file_identity, replacing, require_file, unreadable
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_choice,
    require_count,
    require_entries,
    require_moderate,
    require_text,
)

# Of a data set that does not say more: whether groups have several records is the records' secret.
_ONE_GROUP = PrivacyUnit("one group of records, those with one number in group_ids")
_STEPS = 16
_MARGIN = 2.0**-20  # above the rounding error of a sum of weights
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SharedRecords:
    """What private records count that have several owners, by who belongs with whom alone, which is taken as public."""

    names: tuple[str, ...]  # of the kinds of owners, at least two
    # `[num_private]`, in (0, 1]: what each record counts, one owner's 1 at most; None where linked ones are one group
    weights: NDArray[np.float64] | None
    num_groups: int  # of linked records
    largest: int  # how many records the largest of these has

    @classmethod
    def of(cls, names: tuple[str, ...], owners: Sequence[Numbers]) -> Self:
        """By the rule that leaves more of what records say, from the owner of each record `[n]`, >= 0, of each kind."""
        # n unrelated records of one group say as much as the root of n, records that count w as the sum of their w.
        sizes = np.bincount(linked(owners))
        weights = np.ones(len(owners[0]))
        # Each begins with 1 over the number of records of its owner who has most. Where all its owners then have room,
        # it is raised until one of them has none.
        for _ in range(_STEPS):
            weights /= np.max([np.bincount(owner, weights)[owner] for owner in owners], axis=0)
        weights *= 1 - _MARGIN
        keeps = np.sqrt(sizes).sum() >= weights.sum()
        return cls(names, None if keeps else weights, len(sizes), int(sizes.max()))

    @property
    def unit(self) -> PrivacyUnit:
        """Returns the unit of privacy: all records of one owner, by the columns that name owners."""
        return PrivacyUnit.of_owners(self.names)

    def said(self) -> str:
        """Returns a line that says whom linked records protect and how they count."""
        setting = f"data.group=[{','.join(self.names)}]"
        either_name = " or ".join(f"one {name}" for name in self.names)
        rule = f"records linked by any of them are a group: {self.num_groups:,} groups, the largest of {self.largest:,}"
        if self.weights is not None:
            rule = f"no owner's records count more than once: {len(self.weights):,} count as {self.weights.sum():,.0f}"
        return f"{setting}: protects all records of {either_name}; {rule}; who belongs with whom is taken as public"


def linked(owners: Sequence[Numbers]) -> Numbers:
    """The group of each record, `[n]`: records are in one group if a chain of shared owners leads between them."""
    count = len(owners[0])
    # nodes: the records, then owners by kind
    firsts = np.cumsum([count, *(int(owner.max()) + 1 for owner in owners)])
    pairs = np.tile(np.arange(count), len(owners)), np.concatenate([*map(np.add, owners, firsts)])
    graph = coo_array((np.ones(len(pairs[0]), np.int8), pairs), shape=(firsts[-1], firsts[-1]))
    return np.unique(connected_components(graph, directed=False)[1][:count], return_inverse=True)[
        1
    ].astype(np.int64)


_WHITE = np.float32(255)
_BLOCK = 4096
_LARGEST = 4096
SPLITS = ("private", "public", "test")
# The rule where records may not count differently.
PLAIN = "none but in pate-train: elsewhere all groups have one budget, and records one owner each"
Kind = Literal["features", "images"]
_RANKS = {"features": 2, "images": 4}
Stage = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Announces a stage by its name and number of steps; inside, the callable is told how many are done."""


def unwatched(name: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """A stage that nobody watches."""
    return nullcontext(lambda done: None)


@dataclass(frozen=True, eq=False)
class Pixels:
    """Reads like a float32 array `[n, channels, height, width]` with values in [0, 1], and holds none.

    `pixels[rows]` (a slice or an array of row numbers) converts those rows, `np.asarray(pixels)` all of them, which
    arithmetic needs. Length, `shape`, `ndim` and `dtype` are those of the array.

    >>> pixels = Pixels(np.full((2, 3, 8, 8), 51, np.uint8), np.array([1]))
    >>> pixels.shape, float(pixels[:1].max())
    ((1, 3, 8, 8), 0.20000000298023224)
    """

    # uint8 `[m, channels, height, width]`, 0 is black; may be a `np.memmap`
    levels: NDArray[np.uint8]
    rows: NDArray[np.int64]  # int64 `[n]`, which of the m images these are, in this order

    def __post_init__(self) -> None:
        require(self.levels.dtype == np.uint8, "levels.dtype", self.levels.dtype, "uint8")
        require(
            self.levels.ndim == 4,
            "levels.ndim",
            self.levels.ndim,
            "4: [m, channels, height, width]",
        )
        require(
            self.rows.ndim == 1 and self.rows.dtype == np.int64,
            "rows",
            self.rows.dtype,
            "int64 [n]",
        )
        inside = (self.rows >= 0) & (self.rows < len(self.levels))
        require_entries("rows", inside, f"rows in 0..{len(self.levels) - 1}")

    ndim: ClassVar[int] = 4
    dtype: ClassVar[np.dtype[np.float32]] = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the pictures have together, `(n, channels, height, width)`."""
        return (len(self.rows), *self.levels.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: NDArray[Any] | slice) -> NDArray[np.float32]:
        images = self.levels[self.rows[rows]].astype(np.float32)
        images /= _WHITE
        return images

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.float32, copy=False)

    def blocks(self) -> Iterator[NDArray[np.uint8]]:
        """The levels, some thousand images at a time, in order."""
        for first in range(0, len(self), _BLOCK):
            yield np.ascontiguousarray(self.levels[self.rows[first : first + _BLOCK]])


class Preprocessing(ABC):
    """From a table or pictures to inputs. It was fitted on public data alone, or on nothing."""

    kind: ClassVar[str]  # its name in a file

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """A name for each number of an input, or none where inputs are pictures."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, without the axis of samples."""

    @abstractmethod
    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Inputs float32 `[n, …]`; raises `InvalidValue` where something is missing or of another kind."""

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """Which features stand for pictures, what they were fitted on, and digests; nothing where inputs are plain."""
        return {}

    def save(self, folder: Path | str) -> None:  # noqa: B027 - there may be nothing
        """Writes what JSON cannot hold into the folder of a bundle."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """All of it, for JSON."""


WRONG = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    MemoryError,
    RuntimeError,
    ArithmeticError,
)
"""What Python raises where arrays and settings of a file are not what they are taken for."""


@dataclass(frozen=True, eq=False)
class Fitted(ABC):
    """What was fitted on public data, or on nothing; its file is safetensors, with plain values in its head."""

    arrays: Mapping[str, NDArray[Any]]  # all that was learned or read, by name
    settings: Mapping[str, Any]  # plain values that say how arrays are used
    origin: Mapping[str, Any]  # plain values: what it was fitted on, with digests
    path: Path | None = None  # of the file that it was read from

    kind: ClassVar[str]
    entry: ClassVar[str]  # of the head
    rule: ClassVar[str]  # what a file has to be, for messages

    @classmethod
    @abstractmethod
    def of_kind(cls, kind: str) -> Any:
        """The class of a kind; `LookupError` where there is none."""

    @abstractmethod
    def tried(self) -> NDArray[Any]:
        """Numbers that it gives; raises where arrays and settings are none of this kind."""

    @cached_property
    def content(self) -> bytes:  # of the file; equal ones give equal bytes
        """The bytes of the file; equal arrays, settings and origins give equal bytes."""
        from safetensors.numpy import save  # which is optional

        header = {"kind": self.kind, "settings": dict(self.settings), "origin": dict(self.origin)}
        arrays = {name: np.ascontiguousarray(array) for name, array in sorted(self.arrays.items())}
        return save(arrays, metadata={self.entry: json.dumps(header, sort_keys=True)})

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def save(self, path: Path | str) -> None:
        """Writes the file in one step; a file that is there is replaced."""
        with replacing(path) as file:
            file.write(self.content)

    @classmethod
    def load(
        cls, path: Path | str, *, remedy: str, sha256: str | None = None, **beside: Any
    ) -> Self:
        """Reads what `save` wrote, or raises; nothing is unpickled and nothing is run."""
        from safetensors import SafetensorError, safe_open

        if sha256 is not None and file_digest(path, rule=cls.rule, remedy=remedy) != sha256:
            raise damaged(path, cls.rule, "it is another", remedy)
        require_file(path, rule=cls.rule, remedy=remedy)
        try:
            with safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {})[cls.entry])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            preprocessing: Self = cls.of_kind(header["kind"])(
                arrays, dict(header["settings"]), dict(header["origin"]), path=Path(path), **beside
            )
            good = all(
                np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"
            )
            if not good or not np.isfinite(preprocessing.tried()).all():
                raise ValueError("arrays that give no numbers")
        except OSError as error:
            raise unreadable(path, error, rule=cls.rule, remedy=remedy) from error
        except InvalidValue:
            raise
        except (SafetensorError, *WRONG) as error:
            raise damaged(
                path, cls.rule, f"{type(error).__name__}: {error}"[:100], remedy
            ) from None
        return preprocessing


@dataclass(frozen=True)
class ImageForm(Preprocessing):
    """How pictures of any size become inputs `[channels, height, width]`: upright, in 8 bits, on white."""

    channels: int = 3  # 1 for gray, 3 for red, green and blue
    height: int = 64  # in pixels
    width: int = 64  # in pixels
    # `crop` scales until the shorter side fits and cuts the middle out; `stretch` scales both sides
    fit: str = "crop"
    # The level that is white in gray pictures of more than 8 bits, such as 65535; None where training had none.
    white: float | None = None

    kind: ClassVar[str] = "images"

    def __post_init__(self) -> None:
        require(self.channels in MODES, "channels", self.channels, "1 or 3")
        for name in ("height", "width"):
            size = require_count(name, getattr(self, name))
            require(size <= _LARGEST, name, size, f"at most {_LARGEST} pixels")
        require_choice("fit", self.fit, ("crop", "stretch"))
        require(is_white(self.white), "white", self.white, "a number > 0, or null")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Channels, height and width of a picture."""
        return self.channels, self.height, self.width

    @property
    def feature_names(self) -> tuple[str, ...]:
        """No names: the pixels of pictures have none."""
        return ()

    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Of a list of files or of PIL images."""
        pictures = (
            [given]
            if isinstance(given, (str, PathLike)) or hasattr(given, "resize")
            else list(given)
        )
        levels = [self.levels(picture, f"data[{place}]") for place, picture in enumerate(pictures)]
        return np.reshape(levels, (-1, *self.input_shape)).astype(np.float32) / _WHITE

    def levels(self, picture: Any, name: str, *, needs_white: bool = False) -> NDArray[np.uint8]:
        """Reads one picture, a file or a PIL image, as bytes `[channels, height, width]`; see `read_picture`."""
        image = read_picture(
            picture, name, channels=self.channels, white=self.white, needs_white=needs_white
        )
        from PIL import Image, ImageOps  # which is optional

        size = (self.width, self.height)
        if image.size != size:
            resampling = Image.Resampling.BILINEAR
            image = (
                ImageOps.fit(image, size, resampling)
                if self.fit == "crop"
                else image.resize(size, resampling)
            )
        pixels = np.asarray(image, np.uint8).reshape(self.height, self.width, self.channels)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def plain(self) -> dict[str, Any]:
        """Returns the settings as JSON can hold them, for a bundle's schema."""
        settings = {
            name: value
            for name, value in vars(self).items()
            if name != "white" or value is not None
        }
        return {"kind": self.kind, **settings}

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Self:
        """Makes a form from what `plain` returned."""
        return cls(
            channels=said["channels"],
            height=said["height"],
            width=said["width"],
            fit=said["fit"],
            white=said.get("white"),
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled records that play one role: the private pool, the public pool or the test set.

    Raises `InvalidValue` for an array of another dtype, rank or length, masked, or without features or labels, and for
    inputs that are not finite or beyond 1e12, whose squares have no sum in float32.
    """

    # float32 `[n, d]` features, or `[n, channels, height, width]` images in [0, 1], of which `Pixels` may stand in the
    # place. Those of a large table are a read-only `np.memmap`, of which `take` reads some thousand rows at a time.
    inputs: NDArray[np.float32]
    labels: NDArray[np.bool_]  # bool `[n, num_labels]`; any number of labels may hold for a record
    record_ids: NDArray[np.int64]  # int64 `[n]`, the name of each record in its source
    # int64 `[n]`, what must stay together: records of one person, one text, one image
    group_ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        forms = {"inputs": ("float32", (2, 3, 4)), "labels": ("bool", (2,))}
        for name, (dtype, ranks) in (
            forms | dict.fromkeys(("record_ids", "group_ids"), ("int64", (1,)))
        ).items():
            array = getattr(self, name)
            plain = isinstance(array, (np.ndarray, Pixels)) and not isinstance(
                array, np.ma.MaskedArray
            )
            require(
                plain,
                name,
                type(array).__name__,
                "a numpy array; .filled(…) says what masked entries are",
            )
            require(array.dtype == dtype, f"{name}.dtype", array.dtype, dtype)
            require(array.ndim in ranks, f"{name}.ndim", array.ndim, " or ".join(map(str, ranks)))
            require(
                len(array) == len(self),
                f"len({name})",
                len(array),
                f"{len(self)}, one row for each input",
            )
            require(
                0 not in array.shape[1:],
                f"{name}.shape",
                array.shape,
                "at least one value per record",
            )
        if isinstance(self.inputs, np.ndarray):
            try:
                for block in row_blocks(self.inputs):
                    require_moderate("inputs", block)
            except InvalidValue:
                require_moderate("inputs", self.inputs)  # which says its place among all inputs
                raise

    @classmethod
    def of_pictures(
        cls, rows: NDArray[np.int64], levels: NDArray[np.uint8], *known: NDArray[Any]
    ) -> Split:
        """Some rows of pictures kept as bytes `[m, channels, height, width]`, and of labels, record and group ids."""
        return cls(Pixels(levels, rows), *(column[rows] for column in known))  # type: ignore[arg-type]  # reads like one

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_groups(self) -> int:
        """In a private split, the units of privacy: as many teachers as there can be."""
        return len(np.unique(self.group_ids))

    def take(self, rows: NDArray[np.int64] | slice) -> Split:
        """Returns the given rows, in the given order, as a split of their own."""
        return Split(
            taken(self.inputs, rows), self.labels[rows], self.record_ids[rows], self.group_ids[rows]
        )

    def digest(self) -> str:
        """SHA-256 of the records in the order of their ids, in hexadecimal. Covered by no epsilon."""
        digest = hashlib.sha256(b"records")
        order = np.argsort(self.record_ids, kind="stable")
        inputs = self.inputs
        if isinstance(inputs, Pixels):
            inputs = Pixels(inputs.levels, inputs.rows[order])
        elif not np.array_equal(order, np.arange(len(order))):  # else without a copy
            inputs = inputs[order]
        _enter(digest, self.record_ids[order], self.group_ids[order], self.labels[order], inputs)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """A private pool for the teachers, a public pool for queries and student, a test set for the report.

    Formal guarantees, or else `InvalidValue`:
        * No record and no group is shared by two splits, and no split is empty or lists a record twice.
        * All splits have the same input shape, images in [0, 1], and one column for each name in `label_names`.

    The public pool's order is part of the data set: the first `num_queries` of it are the queries, so a reader shuffles
    it where its source is sorted. Nothing public (features, scaling, vocabulary) may be fitted on private inputs or
    labels: no epsilon would cover it.
    """

    name: str  # what the data set is called in configs and reports
    real: bool  # False for synthetic data, which every report says
    # "features" (`[n, d]`) or "images" (`[n, channels, height, width]`, values in [0, 1])
    kind: Kind
    label_names: tuple[str, ...]  # one distinct name for each label
    private: Split  # the records that only epsilon may leak about
    public: Split  # unlabeled for the private pipeline; its labels serve measurements alone
    test: Split  # held out from everything until the report
    # how inputs were made, for a model that is used by others; public. None where inputs are given.
    preprocessing: Preprocessing | None = None
    # `[num_public]`, numbers or texts: what public records are called where they are published. None numbers them from
    # 0 in the order of the pool, as `record_ids` may count private records of the same source.
    public_ids: NDArray[Any] | None = None
    # a digest of the private records as they were before any preprocessing, so that a budget over several runs knows
    # them again; None for that of `private`. No epsilon covers it.
    private_cells: str | None = None
    # never where all of them are False; by labels that are not known nothing is measured, neither release nor student
    public_labeled: bool = True
    # lines for the owner of the records on how they were read; not published
    notes: tuple[str, ...] = ()
    # names of the people and records of the private split, as bytes, by kind: as far as the source has any, a ledger of
    # several runs knows people again by them in another table. No epsilon covers them.
    owners: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    # texts `[num_private]`, the budget class of each private record, public and one per group; None where all have one
    budgets: NDArray[np.str_] | None = None
    shared: SharedRecords | None = None  # of private records that have several owners each
    # what a group of private records is, by the columns that say it and never by the records; see `privacy_unit`
    group_unit: PrivacyUnit = _ONE_GROUP

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require(
            isinstance(self.real, bool),
            "real",
            type(self.real).__name__,
            "True, or False for synthetic data",
        )
        require_choice("kind", self.kind, tuple(_RANKS))
        names = self.label_names
        require(
            isinstance(names, tuple) and len(names) > 0,
            "label_names",
            type(names).__name__,
            "a tuple of names",
        )
        for index, name in enumerate(names):
            require_text(f"label_names[{index}]", name)
        twice = f"{Counter(names).most_common(1)[0][0]}, twice"
        require(len(set(names)) == len(names), "label_names", twice, "each name once")
        for name, split in self._splits():
            self._check_shapes(name, split)
        # a pool in which nothing is present measures nothing, whoever filled it in
        if not self.public.labels.any():
            normalize_field(self, "public_labeled", False)
        for unit in ("record", "group"):
            for (first, ids), (second, other_ids) in combinations(self._splits(), 2):
                if shared := _num_shared(
                    getattr(ids, f"{unit}_ids"), getattr(other_ids, f"{unit}_ids")
                ):
                    overlap = f"found {shared} in {first} and {second}"
                    raise InvalidValue(f"{unit}_ids", rule=f"each {unit} in one split, {overlap}")
        if self.budgets is not None:
            require(
                self.weights is None,
                "budgets",
                "several",
                "one beside records that count differently",
            )
            good = self.budgets.dtype.kind == "U" and self.budgets.shape == (len(self.private),)
            require(
                good,
                "budgets",
                f"{self.budgets.dtype} {self.budgets.shape}",
                "texts, one for each private record",
            )
            pairs = set(zip(self.private.group_ids.tolist(), self.budgets, strict=True))
            if mixed := sum(count > 1 for count in Counter(group for group, _ in pairs).values()):
                rule = f"one class in all records of a group, {mixed} groups have several"
                raise InvalidValue("data.budget", rule=rule)
        if self.public_ids is not None:
            good = self.public_ids.dtype.kind in "iuU" and self.public_ids.shape == (
                len(self.public),
            )
            require(
                good,
                "public_ids",
                self.public_ids.dtype,
                "whole numbers or texts, one for each public record",
            )

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """The private records that one change replaces together, in words that no record has a part in."""
        unit = self.group_unit if self.shared is None else self.shared.unit
        return unit if self.budgets is None else unit.within_class

    @property
    def published_ids(self) -> NDArray[Any]:
        """Names that public records have where they are published, `[num_public]`; no private record moves one."""
        return np.arange(len(self.public)) if self.public_ids is None else self.public_ids

    @property
    def num_labels(self) -> int:
        """The number of labels, L."""
        return len(self.label_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """`(d,)`, or `(channels, height, width)` of an image."""
        return tuple(self.private.inputs.shape[1:])

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """What each private record counts where it has several owners, `[num_private]`; None where all count once."""
        return None if self.shared is None else self.shared.weights

    def repeated(self, times: NDArray[np.int64]) -> Dataset:
        """With each private record so many times, `[num_private]`, each time in another group."""
        _, group_of = np.unique(self.private.group_ids, return_inverse=True)
        rows = np.repeat(np.arange(len(times)), times)
        # 0, 1, … of each record
        turn = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        free = 1 + max(
            int(max(split.record_ids.max(), split.group_ids.max())) for _, split in self._splits()
        )
        record_ids, group_ids = (
            free + numbers * int(times.max()) + turn for numbers in (rows, group_of[rows])
        )
        private = replace(self.private.take(rows), record_ids=record_ids, group_ids=group_ids)
        return replace(self, private=private, budgets=None)

    def digest(self) -> str:
        """SHA-256 of all inputs, labels and ids, in hexadecimal: equal for equal data only. Covered by no epsilon."""
        digest = hashlib.sha256(repr((self.name, self.label_names)).encode())
        for _, split in self._splits():
            _enter(digest, split.inputs, split.labels, split.record_ids, split.group_ids)
        if self.budgets is not None:
            digest.update(repr(self.budgets.tolist()).encode())
        if self.weights is not None:
            _enter(digest, self.weights)
        return digest.hexdigest()

    def private_digest(self) -> str:
        """`private_cells`, or else `Split.digest` of the private records: by it a budget of several runs knows them."""
        return self.private_cells or self.private.digest()

    def _splits(self) -> tuple[tuple[str, Split], ...]:
        return ("private", self.private), ("public", self.public), ("test", self.test)

    def _check_shapes(self, name: str, split: Split) -> None:
        require(isinstance(split, Split), name, type(split).__name__, "a pate.data.Split")
        require(len(split) > 0, f"len({name})", len(split), "at least one record")
        rank = _RANKS[self.kind]
        require(
            split.inputs.ndim == rank,
            f"{name}.inputs.ndim",
            split.inputs.ndim,
            f"{rank} for {self.kind}",
        )
        shape = split.inputs.shape[1:]
        input_shape = self.input_shape
        require(
            shape == input_shape,
            f"{name}.inputs.shape[1:]",
            shape,
            f"{input_shape} as in the private split",
        )
        num_labels = split.labels.shape[1]
        require(
            num_labels == self.num_labels,
            f"{name}.labels.shape[1]",
            num_labels,
            f"{self.num_labels} label names",
        )
        order = np.argsort(split.record_ids, kind="stable")
        for repeated in np.flatnonzero(np.diff(split.record_ids[order]) == 0)[:1]:
            first, second = order[repeated : repeated + 2].tolist()
            raise InvalidValue(
                f"{name}.record_ids", rule=f"each record once, rows {first} and {second} are one"
            )
        if self.kind == "images" and isinstance(split.inputs, np.ndarray):
            inside = (split.inputs >= 0) & (split.inputs <= 1)
            require_entries(f"{name}.inputs", inside, "images with values in [0, 1]")


def require_files_apart(paths: Mapping[str, Path | str]) -> None:
    """Raises where the files of two splits, by their names, are one file, under whatever name or link."""
    split_of: dict[tuple[int, int] | str, str] = {}
    for split, path in paths.items():
        other = split_of.setdefault(file_identity(path), split)
        rule = f"another file than data.{other}: no record may be in two splits"
        require(other == split, f"data.{split}", path, rule)


def require_dataset(loaded: Any, *, weighted: bool = False) -> Dataset:
    """Returns what a reader gave; raises where it is no data set, or groups count differently and may not."""
    if not isinstance(loaded, Dataset):
        raise InvalidValue("load()", type(loaded).__name__, rule="a pate.data.Dataset")
    if not weighted:
        require(loaded.budgets is None, "data.budget", "several", PLAIN)
        require(
            loaded.weights is None,
            "data.group",
            list(loaded.shared.names if loaded.shared else ()),
            PLAIN,
        )
    return loaded


def named_owners(**columns: NDArray[Any] | None) -> dict[str, frozenset[bytes]]:
    """`Dataset.owners` of ids and groups, whole numbers or words, by kind: `id` and `group`, as in tables."""
    names_of_kind = {
        kind: set(np.asarray(names).tolist())
        for kind, names in columns.items()
        if names is not None
    }
    return {
        kind: frozenset(str(each).encode() for each in names)
        for kind, names in names_of_kind.items()
    }


def read(data: Any, stage: Stage = unwatched) -> Dataset:
    """What `data.load()` gives, or `load(stage)` where it announces what takes long; raises where it is no data set."""
    watched = "stage" in signature(data.load).parameters
    return require_dataset(data.load(stage) if watched else data.load(), weighted=True)


def _num_shared(some: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """How many ids both have; by sorting, as numpy's sets of a million whole numbers take ten times as long."""
    shorter, longer = sorted((some, others), key=len)
    if shorter.max() < longer.min() or longer.max() < shorter.min():
        return 0
    longer = np.sort(longer)
    return len(
        set(
            shorter[
                longer[np.minimum(np.searchsorted(longer, shorter), len(longer) - 1)] == shorter
            ].tolist()
        )
    )


def enter(digest: Any, array: Any) -> None:
    """Adds the bytes of an array to a digest, of pictures as they are kept."""
    for block in array.blocks() if isinstance(array, Pixels) else row_blocks(array):
        digest.update(np.ascontiguousarray(block).data)


def _enter(digest: Any, *arrays: Any) -> None:
    for array in arrays:
        digest.update(repr(array.shape).encode())
        enter(digest, array)


@dataclass(frozen=True, eq=False)
class PrivateRecords:
    """What a holder teaches with; see `Dataset`."""

    name: str  # of the data set, the same at every holder
    label_names: tuple[str, ...]
    records: Split
    preprocessing: Preprocessing | None = None
    private_cells: str | None = None
    real: bool = True
    notes: tuple[str, ...] = ()
    group_unit: PrivacyUnit = _ONE_GROUP

    def asked(self, inputs: NDArray[np.float32], record_ids: NDArray[Any]) -> Dataset:
        """These records and the public samples `[P, …]` that they are asked about; one empty record is for test."""
        shape = self.records.inputs.shape[1:]
        input_shape = inputs.shape[1:]
        require(
            input_shape == shape,
            "queries.inputs.shape[1:]",
            input_shape,
            f"{shape} as in data.private",
        )
        free = 1 + max(int(self.records.record_ids.max()), int(self.records.group_ids.max()))

        def unlabeled(inputs: NDArray[np.float32], first: int) -> Split:
            rows = first + np.arange(len(inputs), dtype=np.int64)
            return Split(
                inputs, np.zeros((len(inputs), len(self.label_names)), np.bool_), rows, rows
            )

        kind: Kind = "images" if inputs.ndim == 4 else "features"
        split_fields: dict[str, Any] = {
            "private_cells": self.private_cells,
            "public_labeled": False,
            "notes": self.notes,
        }
        split_fields["group_unit"] = self.group_unit
        return Dataset(
            self.name,
            self.real,
            kind,
            self.label_names,
            self.records,
            unlabeled(inputs, free + 1),
            unlabeled(np.zeros_like(inputs[:1]), free),
            self.preprocessing,
            record_ids,
            **split_fields,
        )
