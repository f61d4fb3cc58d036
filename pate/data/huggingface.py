"""Data sets of Hugging Face's library, saved to disk or on the hub: columns for inputs and labels by name."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from pate.data.dataset import SPLITS, Dataset, ImageForm, Pixels, Stage, unwatched
from pate.data.table.cells import arrow, as_texts
from pate.data.table.remarks import UNGROUPED
from pate.data.table.rows import Roles, Rows, column_names, owners_of, private_cells, three_splits
from pate.data.table.schema import TableSchema
from pate.data.texts import TEXTS_ASKED, TextReader, TfidfVectors, remarks_on, texts_of
from pate.validation import InvalidValue, nearest, require, require_choice, require_count, require_extra, require_text

_BATCH = 16384


class OneColumn(ABC):
    """A column that holds whole inputs. It encodes batches as `TableSchema` does, and refuses at once what is wrong."""

    columns: ClassVar[tuple[()]] = ()

    def encode(self, batch: Any, _: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return self.rows(batch), np.zeros((batch.num_rows, 0), np.bool_)

    @abstractmethod
    def rows(self, batch: Any) -> NDArray[Any]:
        """Rows `[n, …]`, or raises."""

    def require_right(self, *_: Any) -> None:  # noqa: B027 - it is
        """It is."""


@dataclass(frozen=True)
class ImageColumn(OneColumn):
    """Encoded pictures, each a row of bytes `[channels * height * width]`."""

    name: str
    preprocessing: ImageForm

    def rows(self, batch: Any) -> NDArray[Any]:
        rows = []
        for place, cell in enumerate(batch.column(self.name).to_pylist(), start=1):
            content, path = (cell or {}).get("bytes"), (cell or {}).get("path")
            try:
                with Image.open(io.BytesIO(content) if content is not None else str(path)) as opened:
                    rows.append(self.preprocessing.levels(ImageOps.exif_transpose(opened), self.name).ravel())
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                rule = f"pictures that can be read, one cannot, at place {place} of its block"
                raise InvalidValue(f"data.inputs={self.name}: expected {rule}") from error
        return np.stack(rows)


@dataclass(frozen=True)
class VectorColumn(OneColumn):
    """Lists of numbers, all of one length."""

    name: str
    length: int

    preprocessing: ClassVar[None] = None

    @classmethod
    def of(cls, name: str, part: Any) -> Self | None:
        """That of a part of a data set, by the length of its first list; None where the column holds no lists."""
        types, column = arrow().types, part.select_columns([name]).with_format("arrow")[:1].column(name)
        lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        return cls(name, len(column[0].as_py() or ())) if any(of(column.type) for of in lists) else None

    def rows(self, batch: Any) -> NDArray[Any]:
        cells = batch.column(self.name).to_pylist()
        wrong = sum(cell is None or len(cell) != self.length for cell in cells)
        if wrong or not self.length:
            rule = f"lists of {self.length} numbers, {wrong} of {len(cells)} records have others"
            raise InvalidValue(f"data.inputs={self.name}: expected {rule}")
        try:
            rows = np.array(cells, np.float32)
        except (TypeError, ValueError):
            rows = np.full((len(cells), self.length), np.nan, np.float32)
        if not np.isfinite(rows).all():
            raise InvalidValue(f"data.inputs={self.name}: expected lists of finite numbers")
        return rows


@dataclass(frozen=True)
class LabelLists:
    """A column of lists that says all labels of a record."""

    name: str
    names: tuple[str, ...]  # of the labels
    of_classes: bool  # whether a list holds the classes that apply; else a 0 or 1 for each label

    @classmethod
    def of(cls, name: str, feature: Any) -> Self | None:
        """That of a feature of the library, None where it is no list; raises where it does not name or count labels."""
        inner = getattr(feature, "feature", None)
        if inner is None:
            return None
        if (names := getattr(inner, "names", None)) is not None:
            return cls(name, tuple(map(str, names)), True)
        if (length := getattr(feature, "length", -1)) > 0:
            return cls(name, tuple(f"{name}_{place}" for place in range(length)), False)
        rule = "columns of 0 and 1, lists of classes (ClassLabel with names), or lists of a length that the data say"
        raise InvalidValue(f"data.labels={name}: expected {rule}")

    def unfolded(self, batch: Any) -> Any:
        """A batch with a column for each label in the list's place.

        Cells are judged as in any column of labels: a list that is missing, or of another length, gives missing ones. A
        list with a class that is none, such as -1, gives -1 for each label.
        """
        if self.name not in batch.column_names:
            return batch
        pa = arrow()
        column = batch.column(self.name).combine_chunks()
        rows, said = pa.compute.list_parent_indices(column).to_numpy(), pa.compute.list_flatten(column)
        if self.of_classes:
            said = said.cast(pa.int64()).fill_null(-1).to_numpy()
            known = (said >= 0) & (said < len(self.names))
            bits = np.zeros((len(column), len(self.names)), np.int8)
            bits[rows[known], said[known]] = 1
            bits[rows[~known]] = -1
            missing = column.is_null().to_numpy(zero_copy_only=False)
            cells = [pa.array(label, mask=missing) for label in bits.T]
        else:
            count = np.bincount(rows, minlength=len(column))
            first, other = np.cumsum(count) - count, count != len(self.names)
            cells = [said.take(pa.array(first + place, mask=other)) for place in range(len(self.names))]
        batch = batch.drop_columns([self.name])
        for name, label in zip(self.names, cells, strict=True):
            batch = batch.append_column(name, pa.chunked_array([label]))
        return batch


@dataclass(frozen=True)
class HuggingFace(TextReader):
    """A data set with three splits, in the folder of `save_to_disk` or under a name of the hub.

    Inputs are one column of pictures, one of lists of numbers (such as embeddings), or any columns of numbers, dates
    and words. The public split alone says how these columns become features, as in `Table`. Labels are columns
    of 0 and 1, or one column of lists: of classes that apply (`List(ClassLabel)`), or of a 0 or 1 for each label.

    Attributes:
        path: folder or name.
        config: of a data set that has several, on the hub.
        private: name of the split of private records.
        public: of the public ones, whose labels serve measurements alone and may be missing.
        test: of those that measure.
        inputs: columns that become inputs.
        text: columns of free text, which become inputs as well: see `Table`.
        labels: columns that are labels.
        group: column that says which records belong together, such as those of a person.
        id: column that names each record; public ids are published.
        image_size: height and width that pictures are brought to.
        channels: 3 for color, 1 for gray.
        fit: crop or stretch, see `ImageForm`.
        name: of the data set, in the report and on the card.
        seed: of the public records' order.
    """

    path: str | None = None
    config: str | None = None
    private: str = "private"
    public: str = "public"
    test: str = "test"
    inputs: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    group: str | None = None
    id: str | None = None
    image_size: int = field(default=64, metadata={"public": True})
    channels: int = field(default=3, metadata={"public": True})
    fit: str = field(default="crop", metadata={"public": True})
    name: str = field(default="huggingface", metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        require_count("data.seed", self.seed, minimum=0)
        require_count("data.image_size", self.image_size)
        require_choice("data.fit", self.fit, ("crop", "stretch"))
        for name in ("inputs", "text", "labels"):
            object.__setattr__(self, name, column_names(f"data.{name}", getattr(self, name)))
        object.__setattr__(self, "inputs", tuple(dict.fromkeys((*self.inputs, *self.text))))
        parts = [getattr(self, split) for split in SPLITS]
        require(len(set(parts)) == len(parts), "data.public", self.public, "three different splits")

    def require_settings(self) -> None:
        """Raises unless settings name a data set, inputs and labels."""
        require(self.path is not None, "data.path", self.path, "a folder of save_to_disk, or a name on the hub")
        for name in ("inputs", "labels"):
            require(len(getattr(self, name)) > 0, f"data.{name}", list(getattr(self, name)), "columns: [NAME,NAME]")

    @property
    def has_text(self) -> bool:
        return bool(self.text)

    def load(self, stage: Stage = unwatched) -> Dataset:
        """Reads the three splits; nothing of the data set is run, and nothing is written beside it."""
        self.require_settings()
        form = self._form
        if self.text:
            fit = self.text_fit or TfidfVectors.fit
            form = form.fitted(self._table_of("public"), self.text, fit, stage)
        of_pictures, of_cells = isinstance(form, ImageColumn), isinstance(form, TableSchema)
        rows = {split: self._rows(split, form) for split in SPLITS}

        def shown(inputs: NDArray[Any]) -> Any:
            """Features as they are; pictures as bytes that read like numbers in [0, 1]."""
            if not of_pictures:
                return inputs
            levels = inputs.reshape(len(inputs), *form.preprocessing.input_shape)
            return Pixels(levels, np.arange(len(levels), dtype=np.int64))

        group = () if self.group is None else (self.group,)
        parts, public_ids = three_splits(rows, group=group, id=self.id, seed=self.seed, shown=shown)
        return Dataset(
            name=self.name,
            real=True,
            kind="images" if of_pictures else "features",
            label_names=self._label_names,
            preprocessing=form if of_cells else form.preprocessing,
            public_ids=public_ids,
            public_labeled=rows["public"].labeled,
            notes=(*(() if self.group is not None else (UNGROUPED,)), *self._remarks_on_texts(form)),
            private_cells=private_cells(self._batches("private"), split=None) if of_cells else None,
            owners=owners_of(rows["private"]),
            **parts,
        )

    @cached_property
    def _parts(self) -> dict[str, Any]:
        require_extra("data=huggingface", "huggingface")
        import datasets  # loads slowly, and is optional

        saved = Path(str(self.path)) / "dataset_dict.json"
        try:
            if saved.is_file():
                opened = datasets.load_from_disk(str(self.path))
            else:
                opened = datasets.load_dataset(str(self.path), self.config)
        except Exception as error:  # of many libraries: files, connections, formats
            rule = f"a folder that DatasetDict.save_to_disk wrote, or a data set of the hub ({type(error).__name__})"
            raise InvalidValue(f"data.path={self.path}: expected {rule}") from error
        known = tuple(map(str, opened)) if isinstance(opened, dict) else ()
        for split in SPLITS:
            wanted = getattr(self, split)
            if wanted not in known:
                rule = f"one of the splits {', '.join(known) or 'of a DatasetDict'}{nearest(wanted, known)}"
                raise InvalidValue(f"data.{split}={wanted}: expected {rule}")
        return {split: opened[getattr(self, split)] for split in SPLITS}

    @cached_property
    def _lists(self) -> LabelLists | None:
        """How one column of lists becomes a bit for each label; None where labels are columns of bits."""
        first, *others = self.labels
        return None if others else LabelLists.of(first, self._parts["private"].features.get(first))

    @property
    def _label_names(self) -> tuple[str, ...]:
        return self.labels if self._lists is None else self._lists.names

    @cached_property
    def _form(self) -> Any:
        """How inputs are made: of pictures, of lists, or of cells, by what the public split says."""
        public = self._parts["public"]
        self._require_columns("public")
        if len(self.inputs) == 1 and not self.text:
            feature = public.features[self.inputs[0]]
            if type(feature).__name__ == "Image":
                return ImageColumn(self.inputs[0], ImageForm(self.channels, self.image_size, self.image_size, self.fit))
            if (vectors := VectorColumn.of(self.inputs[0], public)) is not None:
                return vectors
        schema = TableSchema.of(self._table_of("public"), texts=self.text)
        schema.require_usable("data.public", texts=self.text)
        return schema

    def _table_of(self, split: str) -> Any:
        return self._parts[split].select_columns(list(self.inputs)).with_format("arrow")[:]

    def _require_columns(self, split: str) -> None:
        known = tuple(self._parts[split].column_names)
        unlabeled = split == "public" and not set(self.labels) & set(known)
        for role in ("inputs", "labels", "group", "id"):
            named = getattr(self, role) or ()
            for column in (named,) if isinstance(named, str) else named:
                if column not in known and not (role == "labels" and unlabeled):
                    rule = f"a column of the split {getattr(self, split)}{nearest(column, known)}"
                    raise InvalidValue(f"data.{role}={column}: expected {rule}")

    def _batches(self, split: str) -> Iterator[Any]:
        """Tables of the columns that are read, labels as bits."""
        part = self._parts[split]
        wanted = [*self.inputs, *self.labels, *(each for each in (self.group, self.id) if each is not None)]
        columns = [each for each in dict.fromkeys(wanted) if each in part.column_names]
        batches = part.select_columns(columns).with_format("arrow").iter(batch_size=_BATCH)
        yield from batches if self._lists is None else map(self._lists.unfolded, batches)

    def _remarks_on_texts(self, form: Any) -> Iterator[str]:
        first = self._parts["private"].select(range(min(TEXTS_ASKED, len(self._parts["private"]))))
        for name in self.text:
            texts = texts_of(as_texts(first.select_columns([name]).with_format("arrow")[:].column(name)))
            yield from remarks_on(name, form.texts[name], texts)

    def _rows(self, split: str, form: Any) -> Rows:
        self._require_columns(split)
        roles = Roles(self._label_names, () if self.group is None else (self.group,), self.id)
        return Rows(self._batches(split), form, roles, name=f"data.{split}", split=split)
