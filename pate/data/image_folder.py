"""Data sets of pictures in a folder, with a table of the labels and the split of each picture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import IntArray
from pate.data.copies import remarks_on_copies
from pate.data.dataset import Dataset
from pate.data.image_form import ImageForm
from pate.data.owner_names import owner_names
from pate.data.picture_column import PictureColumn
from pate.data.pictures import is_white
from pate.data.split import SPLITS, Split
from pate.data.table.cells import as_texts
from pate.data.table.column_names import as_column_names, as_name, require_column, require_columns
from pate.data.table.labels import Labels
from pate.data.table.people import People, person_name, smallest_of_group
from pate.data.table.rows import Roles, Rows
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import CellSpelling, canonical_word
from pate.data.table.table_dataset import (
    UNGROUPED,
    remarks_on_gaps,
    require_apart,
    split_numbers,
)
from pate.data.table.table_file import TableFile
from pate.data.table.uncertain import UncertainLabels, as_words
from pate.files.digests import file_digest
from pate.files.paths import at_home, file_identity
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_choice,
    require_count,
    require_text,
)


@dataclass(frozen=True)
class ImageFolder:
    """A reader of a folder of pictures, and of a table with the labels, the split and the owner of each picture.

    Attributes:
        root: the folder of the pictures.
        table: the file with a row for each picture: .csv, .parquet and others, as for `Table`.
        file: the column with the path of the picture below `root`. The path is the name of the record; paths of public
            records are published.
        labels: the columns of 0 and 1. A missing cell is an unknown label.
        missing: words that mean a missing cell, as for `Table`.
        uncertain: what -1, ? and uncertain mean as a label: missing, positive or negative, as for `Table`.
        uncertain_words: words that mean the same as -1, ? and uncertain, such as maybe.
        split: the column with the words private, public or test.
        group: the column that names the owner of each picture, such as a person; None if pictures have no owners.
        image_size: height and width to which pictures are brought, in pixels.
        channels: 3 for color, 1 for gray.
        fit: crop or stretch, see `ImageForm`.
        white: the level that is white in gray pictures of more than 8 bits: 65535, or 4095 from a camera of 12 bits.
        encoding: the encoding of a CSV file.
        name: the name of the data set, in the report and on the card.
        seed: the seed of the order of the public pictures.
    """

    root: str | None = None
    table: str | None = None
    file: str = "file"
    labels: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    uncertain: str | None = None
    uncertain_words: tuple[str, ...] = ()
    split: str = "split"
    group: str | None = None
    image_size: int = field(default=64, metadata={"public": True})
    channels: int = field(default=3, metadata={"public": True})
    fit: str = field(default="crop", metadata={"public": True})
    white: float | None = field(default=None, metadata={"public": True})
    encoding: str = "utf-8"
    name: str = field(default="image_folder", metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        require_count("data.seed", self.seed, minimum=0)
        require_count("data.image_size", self.image_size)
        require_choice("data.fit", self.fit, ("crop", "stretch"))
        require(is_white(self.white), "data.white", self.white, "a number > 0, or null")
        for name in ("root", "table"):
            normalize_field(self, name, at_home(getattr(self, name)))
        normalize_field(self, "labels", as_column_names(setting="data.labels", values=self.labels))
        for name in ("file", "split", "group"):
            normalize_field(self, name, as_name(getattr(self, name)))
        for name in ("missing", "uncertain_words"):
            normalize_field(self, name, as_words(getattr(self, name)))
        self._cell_notation.require(setting_prefix="data.")
        self._reading_of_uncertain_cells.require()

    def require_settings(self) -> None:
        """Raises `InvalidValue` if the folder of pictures is missing, or the table or label columns are not set."""
        has_root = self.root is not None and Path(self.root).is_dir()
        require(has_root, "data.root", self.root, "the folder of the pictures")
        has_table = self.table is not None
        require(has_table, "data.table", self.table, "the file with the labels of each picture")
        has_labels = len(self.labels) > 0
        require(has_labels, "data.labels", list(self.labels), "columns: 'data.labels=[NAME,NAME]'")

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the table, decodes all pictures, and returns the data set.

        Raises:
            InvalidValue: a setting is missing, a picture cannot be read, or the table has a picture twice.
        """
        self.require_settings()
        picture_column, encoded_rows_of_splits = self._read_rows(open_stage=stage)
        root = Path(str(self.root)).resolve()
        picture_names = np.array(
            [name for rows in encoded_rows_of_splits.values() for name in rows.record_names],
            np.str_,
        )
        picture_paths = [(root / name).resolve() for name in picture_names.tolist()]
        self._require_different_pictures(picture_names=picture_names, picture_paths=picture_paths)
        remarks: list[str] = []
        owner_word_of_pictures = None
        # Unless a setting names owners, each picture is a group of its own.
        _, group_of_picture = np.unique(picture_names, return_inverse=True)
        if self.group is not None:
            picture_owners = self._picture_owners(encoded_rows_of_splits)
            remarks += picture_owners.remarks(setting=f"data.group={self.group}")
            owner_word_of_pictures = _canonical_owners(encoded_rows_of_splits)
            group_of_picture = _groups_of_owners(
                picture_owners, owner_word_of_pictures=owner_word_of_pictures
            )
        split_ends = np.cumsum([len(rows.row_numbers) for rows in encoded_rows_of_splits.values()])[
            :-1
        ]
        num_private, num_private_and_public = split_ends
        public_order = np.random.default_rng(self.seed).permutation(
            num_private_and_public - num_private
        )
        splits = self._make_splits(
            picture_column=picture_column,
            encoded_rows_of_splits=encoded_rows_of_splits,
            groups_of_split=np.split(group_of_picture.astype(np.int64), split_ends),
            public_order=public_order,
        )
        remarks += remarks_on_gaps(splits, label_names=self.labels)
        remarks += remarks_on_copies(
            private_split=splits["private"],
            public_split=splits["public"],
            test_split=splits["test"],
        )
        # The private pictures are the first.
        private_names = [
            name
            for listed_name, path in zip(
                picture_names[:num_private].tolist(), picture_paths[:num_private], strict=True
            )
            for name in _names_of_picture(listed_name=listed_name, path=path, root=root)
        ]
        has_public_labels = encoded_rows_of_splits["public"].labeled
        if owner_word_of_pictures is None:
            notes = [UNGROUPED, *remarks]
            group_unit = PrivacyUnit("one picture")
            owner_words = None
        else:
            notes = remarks
            group_unit = PrivacyUnit.of_column(column=str(self.group), records="pictures")
            owner_words = _names_of_owners(owner_word_of_pictures[:num_private].tolist())
        return Dataset(
            name=self.name,
            real=True,
            kind="images",
            label_names=self.labels,
            private=splits["private"],
            public=splits["public"],
            test=splits["test"],
            preprocessing=picture_column.form,
            public_ids=picture_names[num_private:num_private_and_public][public_order],
            public_labeled=has_public_labels,
            owners=owner_names(
                names_of_records=np.array(private_names), names_of_owners=owner_words
            ),
            notes=tuple(notes),
            group_unit=group_unit,
        )

    @property
    def _cell_notation(self) -> CellSpelling:
        return CellSpelling(missing=self.missing)

    @property
    def _reading_of_uncertain_cells(self) -> UncertainLabels:
        return UncertainLabels(reading=self.uncertain, words=self.uncertain_words)

    def _read_rows(self, open_stage: StageOpener) -> tuple[PictureColumn, dict[str, Rows]]:
        """Reads the table and decodes the pictures; `open_stage` opens the stage that reports progress.

        Returns:
            The column of pictures, and the rows of each split, whose features are the bytes of the pictures.

        Raises:
            InvalidValue: the table lacks a column, or a picture cannot be read.
        """
        table_file = TableFile(
            path=Path(str(self.table)), setting="data.table", encoding=self.encoding
        )
        content_of_column = {
            "file": "paths below data.root",
            "split": "private, public or test",
        }
        for role, content in content_of_column.items():
            require_column(
                f"data.{role}",
                column_name=getattr(self, role),
                column_names=table_file.names,
                table_description=f"data.table that holds {content}, data.{role}=NAME",
            )
        group_columns = () if self.group is None else (self.group,)
        column_names = list(dict.fromkeys([self.file, *self.labels, *group_columns]))
        require_columns("data.table", column_names=table_file.names, required=column_names)
        num_pictures = sum(table.num_rows for table in table_file.batches([self.file]))
        with open_stage("decoding pictures", num_pictures) as advance:
            picture_column = self._picture_column(advance)
            schema = TableSchema(columns=(picture_column,), spelling=self._cell_notation)
            encoded_rows_of_splits = {}
            for split in SPLITS:
                encoded_rows_of_splits[split] = Rows(
                    batches=replace(table_file, split_column=self.split, split_name=split).rows(
                        column_names
                    ),
                    schema=schema,
                    label_form=Labels(
                        names=self.labels,
                        reading_of_uncertain_cells=self._reading_of_uncertain_cells,
                    ),
                    roles=Roles(group=group_columns, id=self.file),
                    setting_name=table_file.setting,
                    split_name=split,
                )
        return picture_column, encoded_rows_of_splits

    def _picture_column(self, advance: Callable[[int], object]) -> PictureColumn:
        """Returns the column of pictures, which opens the file of a cell and decodes it in the form of the settings.

        Args:
            advance: is called with the number of pictures that are opened so far.
        """
        root = Path(str(self.root)).resolve()
        num_opened = count(1)

        def find_picture_file(name: Any) -> Path | None:
            advance(next(num_opened))
            path = (root / ("" if name is None else str(name).strip())).resolve()
            return path if path.is_relative_to(root) else None

        form = ImageForm(
            channels=self.channels,
            height=self.image_size,
            width=self.image_size,
            fit=self.fit,
            white=self.white,
        )
        return PictureColumn(
            name=self.file,
            has_missing=False,
            form=form,
            find_picture_file=find_picture_file,
            readable_rule=(
                f"pictures that can be read and lie below data.root={self.root}, "
                "endings such as .png included"
            ),
        )

    def _require_different_pictures(
        self, picture_names: NDArray[np.str_], picture_paths: Sequence[Path]
    ) -> None:
        """Raises `InvalidValue` if the table has a picture twice, under one name or under two names of one file.

        Args:
            picture_names: the name of each picture in the table, `[num_pictures]`.
            picture_paths: the file of each picture, in the same order.
        """
        setting = f"data.table.{self.file}"
        if len(np.unique(picture_names)) < len(picture_names):
            raise InvalidValue(setting, "a name twice", rule="each picture once")
        if len(set(map(file_identity, picture_paths))) < len(picture_paths):
            rule = "each picture once, under one name: ./a.png, a link to a.png and a.png are one picture"
            raise InvalidValue(setting, "a picture twice", rule=rule)

    def _picture_owners(self, encoded_rows_of_splits: Mapping[str, Rows]) -> People:
        """Returns the owners of the pictures; raises `InvalidValue` if an owner is in two splits."""
        picture_owners = People.from_names(
            cells_of_splits=[
                rows.owner_cells_of_kinds[0] for rows in encoded_rows_of_splits.values()
            ]
        )
        require_apart(
            "group",
            column_name=self.group,
            id_arrays_of_splits=picture_owners.person_arrays_of_splits,
        )
        return picture_owners

    def _make_splits(
        self,
        picture_column: PictureColumn,
        encoded_rows_of_splits: Mapping[str, Rows],
        groups_of_split: Sequence[IntArray],
        public_order: IntArray,
    ) -> dict[str, Split]:
        """Returns the records of each split, by the split's name.

        Args:
            picture_column: the column of pictures.
            encoded_rows_of_splits: the rows of each split.
            groups_of_split: the group of each row, by split.
            public_order: the public rows in the order that the public records get.
        """
        id_arrays_of_splits = split_numbers(
            [rows.row_numbers for rows in encoded_rows_of_splits.values()]
        )
        splits = {}
        for (split, rows), ids, groups in zip(
            encoded_rows_of_splits.items(), id_arrays_of_splits, groups_of_split, strict=True
        ):
            file_order = np.arange(len(rows.row_numbers), dtype=np.int64)
            splits[split] = Split.from_pictures(
                all_pictures=picture_column.pixels(rows.inputs).levels,
                row_numbers=public_order if split == "public" else file_order,
                labels=rows.labels,
                record_ids=ids,
                group_ids=groups,
                known=rows.known,
            )
        return splits


def _canonical_owners(encoded_rows_of_splits: Mapping[str, Rows]) -> NDArray[np.str_]:
    """Returns the name of each picture's owner as a `canonical_word`, `[num_pictures]`, one split after the other."""
    words = [
        word
        for rows in encoded_rows_of_splits.values()
        for word in as_texts(rows.owner_cells_of_kinds[0]).to_pylist()
    ]
    return np.array([canonical_word(word) for word in words])


def _groups_of_owners(picture_owners: People, owner_word_of_pictures: NDArray[np.str_]) -> IntArray:
    """Returns the group of each picture, `[num_pictures]`; a group is all pictures of one person.

    A person may be written in several ways. The number of a group is the smallest position of these words in the
    alphabetic order of all words.

    Args:
        picture_owners: the owners of the pictures.
        owner_word_of_pictures: the name of each picture's owner, as `_canonical_owners` returns it.
    """
    _, position_of_word = np.unique(owner_word_of_pictures, return_inverse=True)
    return smallest_of_group(
        group_of_row=np.concatenate(picture_owners.groups()),
        value_of_row=position_of_word.astype(np.int64),
    )


def _names_of_picture(listed_name: str, path: Path, root: Path) -> tuple[str, str, str]:
    """Returns three names by which a ledger recognizes a picture: that in the table, its path, and its content.

    The path is relative to `root`. The content is named by a SHA-256 digest of its bytes, which is the same for a copy
    or a hard link.

    Args:
        listed_name: the name of the picture in the table.
        path: the file of the picture.
        root: the folder of all pictures.
    """
    digest = file_digest(
        path, rule="a picture of data.root", remedy="leave the folder alone while it is read"
    )
    return listed_name, path.relative_to(root).as_posix(), f"sha256:{digest}"


def _names_of_owners(owner_words: Sequence[str]) -> NDArray[np.str_]:
    """Returns the names by which a ledger recognizes owners, `[3 * num_words]`.

    The result has the words, then the `person_name` of each word, then these names in lower case.
    """
    person_names = [person_name(word) for word in owner_words]
    return np.array([*owner_words, *person_names, *(name.casefold() for name in person_names)])
