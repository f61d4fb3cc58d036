"""Lists of labels in a cell, as JSON, pandas, numpy and Spark write them: the labels that they name and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table
from pate.data.table.label_cells import NoNames, names_in
from pate.validation import InvalidValue
from tests.refusals import refused

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
def test_names_of_a_cell(cell: str, names: list[str]) -> None:
    assert names_in(cell, ";") == names


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
def test_cells_that_look_like_lists_and_name_nothing(cell: str) -> None:
    with pytest.raises(NoNames):
        names_in(cell, ";")


# The labels of seven records; each split has the same.
RECORDS: list[list[str]] = [
    ["flu"],
    ["flu", "pain; chest"],
    [],
    ["pain; chest"],
    ["flu"],
    ["flu", "flu"],
    [],
]
COUNTS = {"flu": 4, "pain; chest": 2}


def table(folder: Path, form: Any, ending: str, **settings: Any) -> Table:
    """A reader of files in which each cell has `form` of its record's labels."""
    files = {}
    for place, split in enumerate(("private", "public", "test")):
        people = np.arange(7) + 10 * place
        frame = pd.DataFrame({"person": people, "age": 20 + np.arange(7)})
        frame["dx"] = [form(labels) for labels in RECORDS]
        path = folder / f"{split}.{ending}"
        if ending == "jsonl":
            lines = (json.dumps(row) for row in frame.to_dict("records"))
            path.write_text("\n".join(lines), encoding="utf-8")
        elif ending == "csv":
            frame.to_csv(path, index=False)
        else:
            (frame.to_parquet if ending == "parquet" else frame.to_feather)(path)
        files[split] = str(path)
    return Table(
        **files | {"labels": ("dx",), "label_separator": ";", "group": "person"} | settings
    )


FORMS = {
    "parquet": list,
    "feather": list,
    "parquet of arrays": lambda labels: np.array(labels, object),
    "parquet of tuples": tuple,
    "csv": list,
    "csv of sets": set,
    "csv of arrays": np.array,
    "csv of JSON": json.dumps,
    "jsonl": list,
    "jsonl with nothing for none": lambda labels: labels or None,
    "jsonl with nulls": lambda labels: [*labels, None, ""],
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("settings", [{}, {"label_separator": ","}, {"missing": ("?",)}])
def test_lists_are_read_as_lists_whatever_the_separator(
    tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    data = table(tmp_path, FORMS[name], name.partition(" ")[0], **settings).load()
    assert (
        dict(zip(data.label_names, data.private.labels.sum(axis=0).tolist(), strict=True)) == COUNTS
    )
    assert data.private.labels[:4].tolist() == [
        [True, False],
        [True, True],
        [False, False],
        [False, True],
    ]


@pytest.mark.parametrize("labels", [("dx", "pain; chest", "flu"), ("pain; chest", "flu")])
def test_labels_that_are_named_may_have_the_separator(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    data = table(tmp_path, list, "jsonl", labels=labels).load()
    assert data.label_names == ("pain; chest", "flu")
    assert data.private.labels.sum(axis=0).tolist() == [2, 4]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    "form", [lambda labels: [[word] for word in labels], lambda labels: {"flu": "flu" in labels}]
)
def test_lists_of_lists_and_objects_are_refused(tmp_path: Path, ending: str, form: Any) -> None:
    rule = r"expected names of labels with ; between them, or a list of names in quotes"
    with pytest.raises(InvalidValue, match=rf"^data\.public\.dx: {rule}$"):
        table(tmp_path, form, ending).load()
    with pytest.raises(
        InvalidValue, match=rf"^data\.private\.dx: {rule}, \d of 7 rows hold something else, row 1"
    ):
        table(tmp_path, form, ending, labels=("dx", "flu", "pain; chest")).load()


def test_lists_of_bits_name_no_labels(tmp_path: Path) -> None:
    with refused("data.public.dx", rule="names of labels, found lists of 0"):
        table(tmp_path, lambda labels: [int("flu" in labels), 1], "parquet").load()


def test_lists_without_a_separator_tell_the_setting(tmp_path: Path) -> None:
    with refused("data.private.dx", rule="'data.label_separator="):
        table(tmp_path, list, "parquet", label_separator=None).load()


def test_lists_of_a_feature_stay_one_word(tmp_path: Path) -> None:
    plain = table(
        tmp_path, list, "jsonl", labels=("age",), drop=(), label_separator=None
    ).public_schema()
    assert {name for column in plain.columns for name in column.feature_names} >= {"dx=flu"}
