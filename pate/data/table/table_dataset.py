"""A data set made of the rows of three splits: owners of records, order of records, and remarks for the owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.array_types import IntArray
from pate.data.copies import CellNumbers, remarks_on_copies
from pate.data.dataset import Dataset, Kind
from pate.data.id_arrays import count_shared, distinct
from pate.data.owner_names import OwnerNames
from pate.data.preprocessing import Preprocessing
from pate.data.shared_records import SharedRecords, linked_groups
from pate.data.split import SPLITS, Split
from pate.data.table.arrow import import_pyarrow, joined
from pate.data.table.cells import as_texts
from pate.data.table.column import Column
from pate.data.table.people import People, person_names
from pate.data.table.rows import Roles, Rows
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import CellSpelling, canonical_words
from pate.data.texts.vectors import remarks_on_texts
from pate.validation import InvalidValue

UNGROUPED = (
    "data: no group is named, so each row by itself is protected; data.group=COLUMN protects a "
    "person's rows at once"
)
"""The remark for the owner of the records where no setting names a group."""

# The distance between the ids of two splits. No file has as many rows.
_SPLIT_STEP = 2**48
# The smallest number of records for a remark on a column whose cells are all unknown. Few records may all be rare ones.
_MIN_RECORDS = 100
# The number of names that are Python objects at the same time.
_NAMES_AT_ONCE = 2**14


def make_dataset(
    encoded_rows_of_splits: Mapping[str, Rows],
    schema: TableSchema,
    roles: Roles,
    *,
    name: str,
    input_kind: Kind,
    label_names: tuple[str, ...],
    seed: int,
    notes: tuple[str, ...] = (),
    preprocessing: Preprocessing | None = None,
    cell_digests: Mapping[str, str] | None = None,
    compute_fingerprints: CellNumbers | None = None,
) -> Dataset:
    """Returns the data set that consists of the rows of each split.

    Args:
        encoded_rows_of_splits: the rows of each split, by the split's name.
        schema: the schema that encoded the inputs.
        roles: the columns that name records and owners.
        name: the name of the data set.
        input_kind: the kind of inputs, features or images.
        label_names: the names of the labels.
        seed: the seed of the order of the public records.
        notes: remarks for the owner, to which remarks on records are added.
        preprocessing: the function from raw samples to inputs, for a published model; None if there is none.
        cell_digests: the digests of the private and of the test rows, by the split's name; None if they are not
            computed.
        compute_fingerprints: a function from a split's name to a number for each record, see `remarks_on_copies`;
            None compares inputs alone in the search for copies.

    Raises:
        InvalidValue: a record or an owner is in two splits, even if the names are written differently; or rows of
            different groups, or public rows, have the same id.
    """
    private_rows = encoded_rows_of_splits["private"]
    public_rows = encoded_rows_of_splits["public"]
    ids_and_groups = _identify(
        rows_per_split=[encoded_rows_of_splits[split] for split in SPLITS],
        roles=roles,
        cell_notation=schema.spelling,
    )
    splits = {}
    for split_number, split in enumerate(SPLITS):
        rows = encoded_rows_of_splits[split]
        splits[split] = Split(
            inputs=rows.inputs,
            labels=rows.labels,
            record_ids=ids_and_groups.id_arrays_of_splits[split_number],
            group_ids=ids_and_groups.group_arrays_of_splits[split_number],
            known=rows.known,
        )
    remarks = _remarks_on_content(
        encoded_rows_of_splits, schema=schema, ids_and_groups=ids_and_groups
    )
    remarks += remarks_on_gaps(splits, label_names=label_names)
    remarks += remarks_on_copies(
        private_split=splits["private"],
        public_split=splits["public"],
        test_split=splits["test"],
        compute_fingerprints=compute_fingerprints,
    )
    for split in ("private", "test"):
        rows = encoded_rows_of_splits[split]
        remarks += remarks_on_lost_columns(
            name=f"data.{split}",
            columns=schema.columns,
            num_unknown_and_missing=rows.num_unknown_and_missing,
            num_records=len(rows.row_numbers),
        )
    public_record_names: NDArray[Any] = public_rows.row_numbers
    if public_rows.ids is not None:
        public_record_names = np.array(public_rows.record_names, np.str_)
    random_order = np.random.default_rng(seed).permutation(len(public_rows.labels))
    return Dataset(
        name=name,
        real=True,
        kind=input_kind,
        label_names=label_names,
        private=splits["private"],
        public=splits["public"].take(random_order),
        test=splits["test"],
        preprocessing=preprocessing,
        public_ids=public_record_names[random_order],
        private_cells=cell_digests["private"] if cell_digests else None,
        test_cells=cell_digests["test"] if cell_digests else None,
        public_labeled=public_rows.labeled,
        notes=(*notes, *remarks),
        owners=_owner_names(private_rows, cell_notation=schema.spelling),
        budgets=_budget_classes(private_rows, cell_notation=schema.spelling),
        shared=ids_and_groups.records_of_several_owners,
        group_unit=roles.group_unit,
    )


def _remarks_on_content(
    encoded_rows_of_splits: Mapping[str, Rows], schema: TableSchema, ids_and_groups: _IdsAndGroups
) -> list[str]:
    """Returns remarks for the owner of the data: on private texts, shared records and similar names.

    The remarks are about words that public texts lack, about records of several owners, and about similar names of
    records or of owners.
    """
    private_texts = encoded_rows_of_splits["private"].texts
    remarks: list[str] = []
    for column_name, text_transform in schema.texts.items():
        remarks += remarks_on_texts(
            column_name, text_transform=text_transform, texts=private_texts[column_name]
        )
    if ids_and_groups.records_of_several_owners is not None:
        remarks.append(ids_and_groups.records_of_several_owners.description())
    return remarks + ids_and_groups.remarks


def _owner_names(private_rows: Rows, cell_notation: CellSpelling) -> dict[str, OwnerNames]:
    """Returns the names of the private records by the key "id", and those of their owners by "group".

    A key is left out if no column has such names. `cell_notation` is the notation of the cells.
    """
    name_columns_of_role = {
        "id": [] if private_rows.ids is None else [private_rows.ids],
        "group": private_rows.owner_cells_of_kinds,
    }
    return {
        role: _names_for_ledgers(name_columns, cell_notation=cell_notation)
        for role, name_columns in name_columns_of_role.items()
        if name_columns
    }


def _budget_classes(private_rows: Rows, cell_notation: CellSpelling) -> NDArray[np.str_] | None:
    """Returns the canonical name of each private record's budget class, `[num_private]`; None without such a column."""
    if private_rows.budget_cells is None:
        return None
    coded = joined(private_rows.budget_cells).dictionary_encode()
    classes = canonical_words(coded.dictionary, number_notation=cell_notation).to_pylist()
    return np.asarray(np.array(classes, np.str_)[coded.indices.to_numpy()])


def _names_for_ledgers(name_columns: Sequence[Any], cell_notation: CellSpelling) -> OwnerNames:
    """Returns the distinct names by which ledgers recognize owners or records, as a set.

    Each owner has up to three names: a canonical word, as in older ledgers; the normalized name of a person; and that
    name in lower case. Whole numbers have one name, their digits.

    Args:
        name_columns: chunked pyarrow arrays, words or int64, that name owners or records.
        cell_notation: the notation of the words.
    """
    pa = import_pyarrow()
    names = []
    for name_column in name_columns:
        if len(name_columns) == 1 and name_column.type == pa.int64():
            return OwnerNames(distinct(name_column.to_numpy()))
        distinct_cells = as_texts(name_column.unique())
        for first in range(0, len(distinct_cells), _NAMES_AT_ONCE):
            words = distinct_cells[first : first + _NAMES_AT_ONCE]
            persons = person_names(words, cell_notation=cell_notation)
            folded = [name.casefold() for name in persons.to_pylist()]
            names += [
                canonical_words(words, number_notation=cell_notation),
                persons,
                pa.array(folded, pa.string()),
            ]
    return OwnerNames(pa.chunked_array(names, pa.string()).unique())


def remarks_on_gaps(splits: Mapping[str, Split], label_names: Sequence[str]) -> Iterator[str]:
    """Yields remarks on unknown labels, for the owner of the records: a line for each split that has some.

    Args:
        splits: the records of some splits, by the split's name.
        label_names: the names of the labels.
    """
    for name, split in splits.items():
        if split.known is None or split.known.all():
            continue
        known_shares = split.known.mean(axis=0)
        best_known = int(known_shares.argmax())
        least_known = int(known_shares.argmin())
        line = (
            f"data.{name}: {1 - known_shares.mean():.1%} of the labels are unknown and left out; "
            f"{known_shares[best_known]:.1%} of the records tell {label_names[best_known]}, "
            f"{known_shares[least_known]:.1%} {label_names[least_known]}"
        )
        if name == "private":
            line += "; which ones is protected, that there are some is public"
        yield line


def remarks_on_lost_columns(
    name: str,
    columns: Sequence[Column],
    num_unknown_and_missing: IntArray,
    *,
    num_records: int,
) -> Iterator[str]:
    """Yields a remark for each column whose cells are unknown or missing in all of 100 or more records.

    Args:
        name: the name of the records in the remarks, such as `data.private`.
        columns: the columns of the schema.
        num_unknown_and_missing: the numbers of unknown and of missing cells of each column, `[num_columns, 2]`.
        num_records: the number of records.
    """
    rule = (
        "every cell is missing, or has no known word, or is outside the public range; in other words or "
        "units?"
    )
    num_lost_per_column = num_unknown_and_missing.sum(axis=1).tolist()
    for column, count in zip(columns, num_lost_per_column, strict=True):
        if count == num_records >= _MIN_RECORDS:
            yield f"{name}.{column.name}: {rule}"


def require_apart(
    role: str, column_name: str | None, id_arrays_of_splits: Sequence[IntArray]
) -> None:
    """Raises `InvalidValue` if an owner or a record is in two splits.

    Args:
        role: the name of the setting that names the column, for the message.
        column_name: the value of that setting.
        id_arrays_of_splits: for each split, the number of each row's owner or record, `[num_rows]`.
    """
    ids_of_split = dict(zip(SPLITS, id_arrays_of_splits, strict=True))
    for first_split, second_split in combinations(SPLITS, 2):
        num_shared = count_shared(ids_of_split[first_split], other_ids=ids_of_split[second_split])
        if num_shared:
            rule = f"each {column_name} in one split, {num_shared} are in {first_split} and {second_split}"
            raise InvalidValue(f"data.{role}", column_name, rule=rule)


def split_numbers(row_numbers_per_split: Sequence[IntArray]) -> list[IntArray]:
    """Returns, for each split, its row numbers plus 2**48 times the number of the split, so that splits share none.

    Args:
        row_numbers_per_split: for each split, the numbers of its rows, from 0, `[num_rows]`.
    """
    return [rows | (split * _SPLIT_STEP) for split, rows in enumerate(row_numbers_per_split)]


class _IdsAndGroups(NamedTuple):
    """The whole numbers that identify the record and the group of each row, by split.

    Attributes:
        id_arrays_of_splits: for each split, the number of each row's record, `[num_rows]`.
        group_arrays_of_splits: for each split, the number of each row's group, `[num_rows]`. A group has all rows of an
            owner, or with several kinds of owners all rows that shared owners link. A group is one row if rows have no
            owners, or if weights protect the owners instead (`SharedRecords.weights`).
        records_of_several_owners: the rule for records of several owners; None if each record has at most one owner.
        remarks: remarks for the owner of the data on similar names of records or of owners.
    """

    id_arrays_of_splits: list[IntArray]
    group_arrays_of_splits: list[IntArray]
    records_of_several_owners: SharedRecords | None
    remarks: list[str]


def _identify(
    rows_per_split: Sequence[Rows], roles: Roles, cell_notation: CellSpelling
) -> _IdsAndGroups:
    """Returns the numbers of the records and groups of all rows, in the order of the splits.

    Args:
        rows_per_split: the rows of each split.
        roles: the columns that name records and owners.
        cell_notation: the notation of the cells.

    Raises:
        InvalidValue: an owner or a record is in two splits, or rows of different groups, or public rows, have the same
            id.
    """
    remarks: list[str] = []
    id_arrays_of_splits = split_numbers([rows.row_numbers for rows in rows_per_split])
    if roles.id is not None:
        records = People.from_names(
            cells_of_splits=[rows.ids for rows in rows_per_split], cell_notation=cell_notation
        )
        id_arrays_of_splits = list(records.person_arrays_of_splits)
        require_apart("id", column_name=roles.id, id_arrays_of_splits=id_arrays_of_splits)
        if roles.id not in roles.group:
            remarks += records.remarks(setting=f"data.id={roles.id}")
    # for each kind of owner, the owners of each split's rows
    owner_numbers_per_kind_and_split: list[list[IntArray]] = []
    for kind, column in enumerate(roles.group):
        people = People.from_names(
            cells_of_splits=[rows.owner_cells_of_kinds[kind] for rows in rows_per_split],
            cell_notation=cell_notation,
        )
        require_apart(
            "group", column_name=column, id_arrays_of_splits=people.person_arrays_of_splits
        )
        owner_numbers_per_kind_and_split.append(people.groups())
        remarks += people.remarks(setting=f"data.group={column}")
    group_arrays_of_splits = None
    shared = None
    if len(owner_numbers_per_kind_and_split) == 1:
        group_arrays_of_splits = owner_numbers_per_kind_and_split[0]
    elif len(owner_numbers_per_kind_and_split) > 1:
        group_arrays_of_splits = _link_owners(owner_numbers_per_kind_and_split)
        shared = SharedRecords.from_owners(
            owner_kinds=roles.group,
            owner_numbers_of_kinds=[owners[0] for owners in owner_numbers_per_kind_and_split],
        )
    if roles.id is not None:
        id_arrays_of_splits = _with_ids_of_repeats(
            column_name=roles.id,
            id_arrays_of_splits=id_arrays_of_splits,
            group_arrays_of_splits=group_arrays_of_splits,
        )
    have_weights = shared is not None and shared.weights is not None
    if group_arrays_of_splits is None or have_weights:
        group_arrays_of_splits = id_arrays_of_splits
    return _IdsAndGroups(
        id_arrays_of_splits=id_arrays_of_splits,
        group_arrays_of_splits=group_arrays_of_splits,
        records_of_several_owners=shared,
        remarks=remarks,
    )


def _link_owners(owner_numbers_per_kind_and_split: Sequence[Sequence[IntArray]]) -> list[IntArray]:
    """Returns, for each split, the group of each row, where rows that share an owner of any kind have one group.

    The caller has checked that no owner is in two splits.

    Args:
        owner_numbers_per_kind_and_split: for each kind of owner and each split, the number of each row's owner,
            `[num_rows]`.
    """
    group_of_row = linked_groups(
        [np.concatenate(owner_numbers) for owner_numbers in owner_numbers_per_kind_and_split]
    )
    split_ends = np.cumsum([len(numbers) for numbers in owner_numbers_per_kind_and_split[0]])[:-1]
    return np.split(group_of_row, split_ends)


def _with_ids_of_repeats(
    column_name: str,
    id_arrays_of_splits: Sequence[IntArray],
    group_arrays_of_splits: Sequence[IntArray] | None,
) -> list[IntArray]:
    """Returns, for each split, ids that differ between rows: every further row with the same id gets a new number.

    Args:
        column_name: the column of ids, for messages.
        id_arrays_of_splits: for each split, the number of each row's id, `[num_rows]`.
        group_arrays_of_splits: for each split, the group of each row, `[num_rows]`; None if each row is a group of its
            own.

    Raises:
        InvalidValue: rows with the same id are in different groups, or two public rows have the same id.
    """
    first_free_id = 1 + max(int(record_ids.max()) for record_ids in id_arrays_of_splits)
    id_arrays_without_repeats = []
    for split_number, (split, record_ids) in enumerate(
        zip(SPLITS, id_arrays_of_splits, strict=True)
    ):
        _, first_row_of_id, id_of_row = np.unique(
            record_ids, return_index=True, return_inverse=True
        )
        is_repeat = np.ones(len(record_ids), np.bool_)
        is_repeat[first_row_of_id] = False
        repeats = np.flatnonzero(is_repeat)
        have_one_group = False
        if group_arrays_of_splits is not None:
            group_of_row = group_arrays_of_splits[split_number]
            first_row_with_same_id = first_row_of_id[id_of_row]
            have_one_group = np.array_equal(group_of_row[first_row_with_same_id], group_of_row)
        if len(repeats) > 0 and (split == "public" or not have_one_group):
            rule = (
                f"another id in each row, {len(repeats)} of {len(record_ids)} rows of {split} have "
                "that of another row"
            )
            raise InvalidValue("data.id", column_name, rule=rule)
        ids_without_repeats = record_ids.copy()
        ids_without_repeats[repeats] = (
            first_free_id + split_number * _SPLIT_STEP + np.arange(len(repeats))
        )
        id_arrays_without_repeats.append(ids_without_repeats)
    return id_arrays_without_repeats
