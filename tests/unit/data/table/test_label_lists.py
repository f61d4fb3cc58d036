"""Lists of labels in a cell, as JSON, Python, pandas and NumPy write them, give exactly the listed labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table
from pate.data.table.label_cells import NoNames, names_in
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.data.split_paths import SplitPaths

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("flu;cough", ["flu", "cough"]),
        (" flu ; cough;", ["flu", "cough"]),
        ("(left) pain;(right) pain", ["(left) pain", "(right) pain"]),
        ("(1)", ["(1)"]),
        ("[old] flu;cough", ["[old] flu", "cough"]),
        ("['flu', 'cough']", ["flu", "cough"]),
        ('["flu", "pain; chest"]', ["flu", "pain; chest"]),
        ('["\\u00e9", " flu  x "]', ["é", "flu x"]),
        ("[\"it's\", 'a']", ["it's", "a"]),
        ("['flu', 'flu', '', None, nan]", ["flu", "flu"]),
        ('["flu", null]', ["flu"]),
        ("[1, 2.0]", ["1", "2"]),
        ("('flu',)", ["flu"]),
        ("{'flu'}", ["flu"]),
        ("frozenset({'flu'})", ["flu"]),
        ("array(['flu', 'cough'], dtype=object)", ["flu", "cough"]),
        (str(np.array(["flu", "cough"])), ["flu", "cough"]),
        *((empty, []) for empty in ("[]", "()", "set()", "array([], dtype=object)")),
    ],
)
def test_names_in_returns_the_listed_labels(cell: str, names: list[str]) -> None:
    """`names_in` returns the labels of a cell with ; between them, or written as a list of JSON, Python or NumPy."""
    assert names_in(cell, separator=";") == names


@pytest.mark.parametrize(
    "cell",
    [
        "[['flu']]",
        '[["flu"]]',
        '["flu", true]',
        '{"flu": true}',
        "{'flu': True}",
        "[flu, cough]",
        "{flu,cough}",
        "['flu' 'flu' ... 'flu']",
        '["flu"',
        "[datetime.date(2020, 1, 1)]",
    ],
)
def test_malformed_lists_are_refused(cell: str) -> None:
    """`names_in` refuses objects, and lists that are nested, shortened, without quotation marks or with a truth value.

    The error is `NoNames`: the cell is no list of label names.
    """
    with pytest.raises(NoNames):
        names_in(cell, separator=";")


CellOf = Callable[[list[str]], Any]
"""A function from the labels of a record to its cell."""

# The labels of seven records, which are the same in each split, and the bits of the labels flu and "pain; chest".
RECORDS: list[list[str]] = [
    ["flu"],
    ["flu", "pain; chest"],
    [],
    ["pain; chest"],
    ["flu"],
    ["flu", "flu"],
    [],
]
BITS = [[1, 0], [1, 1], [0, 0], [0, 1], [1, 0], [1, 0], [0, 0]]


def write_lists(folder: Path, *, cell_of: CellOf, ending: str) -> Table:
    """Writes three files of seven records each, and returns their reader. A cell `dx` lists the labels of its record.

    Args:
        folder: the folder of the files.
        cell_of: the function from the labels of a record to its cell.
        ending: the ending of the files' names: jsonl, csv, parquet or feather.
    """
    for split_number, split in enumerate(("private", "public", "test")):
        persons = np.arange(7) + 10 * split_number
        frame = pd.DataFrame({"person": persons, "age": 20 + np.arange(7)})
        frame["dx"] = [cell_of(labels) for labels in RECORDS]
        path = folder / f"{split}.{ending}"
        if ending == "jsonl":
            lines = [json.dumps(row) for row in frame.to_dict("records")]
            path.write_text("\n".join(lines), encoding="utf-8")
        elif ending == "csv":
            frame.to_csv(path, index=False)
        elif ending == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_feather(path)
    table = SplitPaths.in_folder(folder=folder, ending=f".{ending}").table_with_labels("dx")
    return replace(table, label_separator=";", group="person")


def as_list_or_null(labels_of_one_record: list[str]) -> Any:
    """Returns the list of labels; None if it is empty."""
    return labels_of_one_record or None


def as_list_with_missing_items(labels_of_one_record: list[str]) -> Any:
    """Returns the list of labels with None and an empty text as further items."""
    return [*labels_of_one_record, None, ""]


def as_array_of_objects(labels_of_one_record: list[str]) -> Any:
    """Returns a numpy array of objects with the labels."""
    return np.array(labels_of_one_record, object)


# The function that makes a cell, for each kind of file. A name begins with the ending of the file.
CELL_FORMS: dict[str, CellOf] = {
    "parquet": list,
    "feather": list,
    "parquet of arrays": as_array_of_objects,
    "parquet of tuples": tuple,
    "csv": list,
    "csv of sets": set,
    "csv of arrays": np.array,
    "csv of JSON": json.dumps,
    "jsonl": list,
    "jsonl with null for no label": as_list_or_null,
    "jsonl with nulls": as_list_with_missing_items,
}


@pytest.mark.parametrize("form", CELL_FORMS)
@pytest.mark.parametrize(("separator", "missing"), [(";", ()), (",", ()), (";", ("?",))])
def test_lists_are_parsed_whatever_the_separator(
    tmp_path: Path, form: str, separator: str, missing: tuple[str, ...]
) -> None:
    """Lists of labels in several kinds of files give the two labels and their bits, with the separator ; or a comma."""
    ending = form.partition(" ")[0]
    table = write_lists(folder=tmp_path, cell_of=CELL_FORMS[form], ending=ending)
    dataset = replace(table, label_separator=separator, missing=missing).load()
    assert dataset.label_names == ("flu", "pain; chest")
    assert dataset.private.labels.astype(int).tolist() == BITS


@pytest.mark.parametrize("labels", [("dx", "pain; chest", "flu"), ("pain; chest", "flu")])
def test_labels_named_in_settings_may_contain_the_separator(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    """`data.labels` names the labels of lists in their order, one of which contains the separator."""
    table = write_lists(folder=tmp_path, cell_of=list, ending="jsonl")
    dataset = replace(table, labels=labels).load()
    assert dataset.label_names == ("pain; chest", "flu")
    assert dataset.private.labels[:, ::-1].astype(int).tolist() == BITS


def as_lists_of_lists(labels: list[str]) -> Any:
    """Returns a list with a list for each label."""
    return [[label] for label in labels]


def as_objects(labels: list[str]) -> Any:
    """Returns an object with a truth value for the label flu."""
    return {"flu": "flu" in labels}


def as_bits(labels: list[str]) -> Any:
    """Returns a list with the bit of the label flu, and a 1."""
    return [int("flu" in labels), 1]


RULE = r"expected names of labels with ; between them, or a list of names in quotes"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("cell_of", [as_lists_of_lists, as_objects])
def test_lists_of_lists_and_objects_are_refused(
    tmp_path: Path, ending: str, cell_of: CellOf
) -> None:
    """Public cells with lists of lists, or with objects, are refused as lists of labels.

    If the settings name the labels, the private file is refused with the number of the first such row.
    """
    table = write_lists(folder=tmp_path, cell_of=cell_of, ending=ending)
    with pytest.raises(InvalidValue, match=rf"^data\.public\.dx: {RULE}$"):
        table.load()
    line = rf"^data\.private\.dx: {RULE}, \d of 7 rows hold something else, row 1"
    with pytest.raises(InvalidValue, match=line):
        replace(table, labels=("dx", "flu", "pain; chest")).load()


def test_lists_of_bits_are_refused_as_label_names(tmp_path: Path) -> None:
    """Cells with lists of 0 and 1 are refused as names of labels."""
    table = write_lists(folder=tmp_path, cell_of=as_bits, ending="parquet")
    with refused_parameter("data.public.dx", rule_words="names of labels, found lists of 0"):
        table.load()


def test_refusal_of_lists_without_separator_names_the_setting(tmp_path: Path) -> None:
    """Lists of labels are refused without `data.label_separator`, and the error names this setting."""
    table = write_lists(folder=tmp_path, cell_of=list, ending="parquet")
    with refused_parameter("data.private.dx", rule_words="'data.label_separator="):
        replace(table, label_separator=None).load()


def test_list_in_a_feature_column_is_one_word(tmp_path: Path) -> None:
    """A list in a column of features is one category, whose name has all items of the list."""
    table = write_lists(folder=tmp_path, cell_of=list, ending="jsonl")
    schema = replace(table, labels=("age",), label_separator=None).public_schema()
    assert {"dx=flu", "dx=flu;pain; chest"} <= set(schema.feature_names)
