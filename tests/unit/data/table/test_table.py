"""Tables in files: three CSV files by hand, and every way in which they can be wrong."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table, TableSchema
from pate.validation import InvalidValue

pa = pytest.importorskip("pyarrow")

HEAD = "patient,seen,age,sex,note,flu,cough"
PUBLIC = [
    "p1,2025-01-01,20,F,a,0,1",
    "p1,2025-01-03,,M,a,1,0",
    "p2,2025-01-05,40,F,b,0,0",
    "p3,2025-01-07,60,,b,true,False",
]
PRIVATE = ["q1,2025-01-02,1000,F,a,1,1", "q1,2025-01-03,NA,D\u00fc,c,0,1", "q2,2024-01-01,40,M,b,1.0,0.0"]
TEST = ["t1,2025-01-04,30,F,a,1,0"]

Write = Callable[..., dict[str, Any]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the three files, some rows replaced, and gives the settings."""

    def written(head: str = HEAD, **rows: list[str] | bytes) -> dict[str, Any]:
        settings: dict[str, Any] = {"labels": ["flu", "cough"], "group": "patient", "drop": []}
        for name, lines in {"private": PRIVATE, "public": PUBLIC, "test": TEST, **rows}.items():
            path = tmp_path / f"{name}.csv"
            path.write_bytes(lines if isinstance(lines, bytes) else "\n".join([head, *lines, ""]).encode())
            settings[name] = str(path)
        return settings

    return written


def test_a_small_table_by_hand(write: Write) -> None:
    dataset = Table(**write()).load()
    assert dataset.label_names == ("flu", "cough")
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    names = ("seen", "age", "age=missing", "sex=F", "sex=M", "sex=other", "sex=missing", "note=a", "note=b")
    assert schema.feature_names == (*names, "note=other")
    days, spread = np.sqrt(5.0), np.std([20.0, 40.0, 60.0])  # of 0, 2, 4, 6 days; the mean is 40 years
    private = [
        [-2 / days, 20 / spread, 0, 1, 0, 0, 0, 1, 0, 0],  # 1000 years are cut to 60
        [-1 / days, 0, 1, 0, 0, 1, 0, 0, 0, 1],  # a missing age is the mean, a new category is other
        [-3 / days, 0, 0, 0, 1, 0, 0, 0, 1, 0],  # a date before all public ones is the first of them
    ]
    assert np.allclose(dataset.private.inputs, private, atol=1e-6)
    assert dataset.private.labels.tolist() == [[True, True], [False, True], [True, False]]
    assert dataset.private.group_ids[0] == dataset.private.group_ids[1] != dataset.private.group_ids[2]
    assert sorted(dataset.published_ids.tolist()) == [0, 1, 2, 3]


def test_public_rows_are_shuffled_with_their_ids(write: Write) -> None:
    rows = [f"p{i},2025-01-01,{i},F,a,0,1" for i in range(40)]
    dataset = Table(**write(public=rows), id=None).load()
    order = dataset.published_ids
    assert order.tolist() != sorted(order.tolist())
    assert np.array_equal(np.argsort(dataset.public.inputs[:, 1]), np.argsort(order))


def test_the_schema_knows_the_public_file_alone(write: Write) -> None:
    changed = ["r1,1999-01-01,1,X,z,0,0", "r2,1999-01-02,2,Y,,0,0"]
    schemas = [
        Table(**write(**rows)).load().preprocessing for rows in ({}, {"private": changed, "test": ["s" + changed[1]]})
    ]
    assert schemas[0] == schemas[1]


def test_other_public_records_change_no_private_group(write: Write) -> None:
    groups = [
        Table(**write(**rows)).load().private.group_ids.tolist() for rows in ({}, {"public": ["a" + r for r in PUBLIC]})
    ]
    assert groups[0] == groups[1]


def test_private_records_are_the_same_whatever_is_made_of_them(write: Write, tmp_path: Path) -> None:
    """What a budget over several runs goes by: their cells, not what the public file makes of them."""

    def digest(changes: dict[str, Any] | None = None, **rows: list[str]) -> str:
        return Table(**(write(**rows) | (changes or {}))).load().private_digest()

    same = [
        digest(public=[*PUBLIC, "p4,2025-01-07,99,X,z,1,1"]),
        digest(private=PRIVATE[::-1]),
        digest({"labels": ["flu"], "drop": ["cough"]}),
        digest({"drop": ["seen", "note"]}),
    ]
    settings = write()
    whole = tmp_path / "whole.csv"
    lines = [f"{row},{split}" for split in ("private", "public", "test") for row in globals()[split.upper()]]
    whole.write_text("\n".join([f"{HEAD},which", *lines, ""]))
    together = {"path": str(whole), "split": "which", "labels": settings["labels"], "group": "patient"}
    one = Table(**together).load().private_digest()
    whole.write_text("\n".join([f"{HEAD},which", *lines[::-1], ""]))
    assert set(same) == {digest()}
    assert Table(**together).load().private_digest() == one
    assert digest(private=[PRIVATE[0].replace("1000", "999"), *PRIVATE[1:]]) != digest()
    assert digest(private=PRIVATE[:2]) != digest()


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "csv.gz"])
def test_other_formats_give_the_same(write: Write, tmp_path: Path, ending: str) -> None:
    from pyarrow import csv, feather, ipc, parquet

    settings = write()
    wanted = Table(**settings).load()
    for name in ("private", "public", "test"):
        path = tmp_path / f"{name}.{ending}"
        if ending == "csv.gz":
            path.write_bytes(gzip.compress(Path(settings[name]).read_bytes()))
        else:
            options = csv.ConvertOptions(
                column_types={"flu": pa.string(), "cough": pa.string()}, null_values=["", "NA"]
            )
            options.strings_can_be_null = True
            table = csv.read_csv(settings[name], convert_options=options)
            if ending == "parquet":
                parquet.write_table(table, path)
            elif ending == "feather":
                feather.write_feather(table, path)
            else:
                with ipc.new_stream(path, table.schema) as file:
                    file.write_table(table)
        settings[name] = str(path)
    found = Table(**settings).load()
    for split in ("private", "public", "test"):
        assert np.allclose(getattr(found, split).inputs, getattr(wanted, split).inputs)
        assert np.array_equal(getattr(found, split).labels, getattr(wanted, split).labels)


def test_one_file_with_a_column_of_splits(write: Write, tmp_path: Path) -> None:
    wanted = Table(**write()).load()
    rows = [
        f"{split},{row}" for split, rows in (("public", PUBLIC), ("test", TEST), ("private", PRIVATE)) for row in rows
    ]
    path = tmp_path / "all.csv"
    path.write_text("\n".join([f"part,{HEAD}", *rows]))
    found = Table(path=str(path), split="part", labels=("flu", "cough"), group="patient").load()
    assert found.preprocessing == wanted.preprocessing
    assert np.array_equal(found.private.inputs, wanted.private.inputs)
    assert sorted(found.published_ids.tolist()) == [0, 1, 2, 3]


def test_a_schema_from_a_file_is_the_same(write: Write, tmp_path: Path) -> None:
    table = Table(**write())
    table.public_schema().write(tmp_path / "schema.yaml")
    again = Table(**write(), schema=str(tmp_path / "schema.yaml")).load()
    assert again.preprocessing == table.load().preprocessing
    assert TableSchema.read(again.preprocessing.plain(), name="x") == again.preprocessing  # type: ignore[union-attr]


def test_semicolons_marks_of_byte_order_and_other_encodings_are_read(write: Write, tmp_path: Path) -> None:
    wanted = Table(**write()).load()
    settings = write()
    for name in ("private", "public", "test"):
        text = Path(settings[name]).read_text().replace(",", ";")
        Path(settings[name]).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert np.array_equal(Table(**settings).load().private.inputs, wanted.private.inputs)
    for name in ("private", "public", "test"):
        Path(settings[name]).write_bytes(Path(settings[name]).read_bytes()[3:].decode().encode("latin-1"))
    assert np.array_equal(Table(**settings, encoding="latin-1").load().private.inputs, wanted.private.inputs)
    with pytest.raises(
        InvalidValue, match=r"^data\.private=\S+: expected text in utf-8; name its encoding: data\.encoding=latin-1"
    ):
        Table(**settings).load()


SECRET = "Secret"


@pytest.mark.parametrize(
    ("rows", "changes", "line"),
    [
        (
            {"private": [*PRIVATE, "q3,2025-01-01,Secret,F,a,0,1"]},
            {},
            r"data\.private\.age: expected numbers as in the public file, 1 of 4 rows hold something else, row 4 .*",
        ),
        (
            {"private": [*PRIVATE, "q3,Secret,1,F,a,0,1"]},
            {},
            r"data\.private\.seen: expected dates such as 2025-01-31 as in the public file, 1 of 4 rows .*",
        ),
        (
            {"private": [*PRIVATE, "q3,2025-01-01,1,F,a,2,1"]},
            {},
            r"data\.private\.flu: expected 0 or 1 in a label's column, 1 of 4 rows hold something else, row 4 .*",
        ),
        (
            {"test": ["t1,2025-01-01,1,F,a,,1"]},
            {},
            r"data\.test\.flu: expected 0 or 1 in a label's column, 1 of 1 rows .*",
        ),
        (
            {"private": [*PRIVATE, ",2025-01-01,1,F,a,0,1"]},
            {},
            r"data\.private\.patient: expected a value in each row, as data\.group, 1 of 4 rows have none",
        ),
        (
            {"private": [*PRIVATE, "p3,2025-01-01,1,F,a,0,1"]},
            {},
            r"data\.group=patient: expected each patient in one split, 1 are in private and public",
        ),
        (
            {"private": [*PRIVATE, "Secret,2025-01-01,1,F"]},
            {},
            r"data\.private=\S+: expected 7 cells in every row, 1 of 4 rows have more or fewer, row 4 is the first",
        ),
        ({"private": b""}, {}, r"data\.private=\S+: expected a line of names and rows below it, and the file is empty"),
        ({"private": HEAD.encode() + b"\n"}, {}, r"data\.private: expected at least one row, the table has none"),
        ({"private": b"a,b,a\n1,2,3\n"}, {}, r"data\.private\.columns=a: expected each name once"),
        (
            {"private": (HEAD + ",more\n").encode()},
            {},
            r"data\.private\.more: expected it in every file, data\.public lacks it; data\.drop=\[more\]",
        ),
        (
            {"private": HEAD.replace("age", "years").encode() + b"\n"},
            {},
            r"data\.private\.years: expected it in every file, data\.public lacks it.*",
        ),
        ({}, {"labels": ["flue"]}, r"data\.labels=flue: expected a column of data\.private \(did you mean flu\?\)"),
        ({}, {"labels": []}, r"data\.labels=\[\]: expected the columns that are labels.*"),
        ({}, {"labels": "flu"}, r"data\.labels=flu: expected a list of columns: data\.labels=\[flu\]"),
        ({}, {"labels": ["flu", "patient"]}, r"data\.group=patient: expected another column than data\.labels"),
        ({}, {"drop": ["agee"]}, r"data\.drop=agee: expected a column of a file \(did you mean age .*\)"),
        ({}, {"group": "person"}, r"data\.group=person: expected a column of data\.private.*"),
        ({}, {"private": "nowhere.csv"}, r"data\.private=nowhere\.csv: expected a file that is there"),
        ({}, {"private": None}, r"data\.private=None: expected the file of the private records; or one .*"),
        ({}, {"private": __file__}, r"data\.private=\S+: expected a file that ends in \.csv, .*"),
        ({}, {"encoding": "klingon"}, r"data\.encoding=klingon: expected an encoding, such as latin-1"),
        ({}, {"id": "sex"}, r"data\.private\.sex: expected a value in each row.*|data\.(?:test|public)\.sex: .*"),
        (
            {},
            {"id": "age", "group": None, "drop": ["patient"]},
            r"data\.private\.age: expected a value in each row, as data\.id, 1 of 3 rows have none",
        ),
        ({}, {"schema": "nowhere.yaml"}, r"data\.schema=nowhere\.yaml: expected a file that pate-schema wrote .*"),
        ({}, {"path": "x.csv"}, r"data\.path=x\.csv: expected no data\.private beside it"),
    ],
)
def test_what_is_wrong_is_one_line_and_no_cell(
    write: Write, rows: dict[str, Any], changes: dict[str, Any], line: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^{line}$") as caught:
        Table(**write(**rows) | changes).load()
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_id_that_occurs_twice_is_refused(write: Write) -> None:
    line = r"^data\.id=patient: expected another id in each row, 1 of 3 rows of private have that of another row$"
    with pytest.raises(InvalidValue, match=line):
        Table(**write() | {"id": "patient", "group": None}).load()


def test_ids_of_public_records_are_published(write: Write) -> None:
    dataset = Table(**write(private=PRIVATE[1:], public=PUBLIC[1:]) | {"id": "patient"}).load()
    assert sorted(dataset.published_ids.tolist()) == ["p1", "p2", "p3"]


def test_names_are_no_feature(write: Write) -> None:
    rows = [f"p{i},2025-01-01,1,F,remark {i},0,1" for i in range(300)]
    line = r"^data\.public\.note: expected numbers, dates such as 2025-01-31, or words that occur again; data\.drop=\["
    with pytest.raises(InvalidValue, match=line):
        Table(**write(public=rows)).load()
    assert "note=a" not in Table(**write(public=rows) | {"drop": ["note"]}).load().preprocessing.feature_names  # type: ignore[union-attr]


def test_a_column_that_is_empty_in_public_is_refused(write: Write) -> None:
    with pytest.raises(InvalidValue, match=r"^data\.public\.age: expected a value in some row of the public file; "):
        Table(**write(public=["p1,2025-01-01,,F,a,0,1"])).load()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("columns: [", r"data\.schema=\S+: expected YAML as pate-schema writes it, line 1"),
        ("rows: 3", r"data\.schema=\S+: expected `columns`, what is known of each, as pate-schema writes it"),
        ("columns: {age: {kind: digit}}", r"data\.schema=\S+\.columns\.age\.kind=digit: expected one of number, .*"),
        (
            "columns: {age: {kind: date, min: 0, missing: false}}",
            r"data\.schema=\S+\.columns\.age: expected also mean, std, max, which kind: date needs",
        ),
        (
            "columns: {age: {kind: number, mean: 0, std: 0, min: 0, max: 1, missing: false}}",
            r"data\.schema=\S+\.columns\.age=.*: expected finite numbers, and std > 0",
        ),
        (
            "columns: {age: {kind: category, categories: [1], missing: false}}",
            r"data\.schema=\S+\.columns\.age\.categories: expected a list of words.*",
        ),
        (
            "columns: {age: {kind: category, categories: [a], missing: 3}}",
            r"data\.schema=\S+\.columns\.age: expected values as pate-schema writes them",
        ),
        (
            "columns: {age: {kind: category, categories: [a], missing: true}}",
            r"data\.schema=\S+: expected also the column seen, or data\.drop=\[seen\]",
        ),
    ],
)
def test_a_schema_that_was_changed_for_the_worse_is_one_line(
    write: Write, tmp_path: Path, text: str, line: str
) -> None:
    (tmp_path / "schema.yaml").write_text(text)
    with pytest.raises(InvalidValue, match=f"^{line}$"):
        Table(**write(), schema=str(tmp_path / "schema.yaml")).load()


def test_a_kind_may_be_changed_in_the_file(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    Table(**write()).public_schema().write(path)
    text = path.read_text()
    begin, end = text.index("  age:"), text.index("  sex:")
    path.write_text(text[:begin] + "  age: {kind: category, categories: ['20', '40'], missing: false}\n" + text[end:])
    dataset = Table(**write(), schema=str(path)).load()
    columns = [dataset.preprocessing.feature_names.index(f"age={each}") for each in ("20", "40", "other")]  # type: ignore[union-attr]
    assert dataset.private.inputs[:, columns].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]


def test_a_frame_has_the_columns_again(write: Write) -> None:
    pandas = pytest.importorskip("pandas")
    dataset = Table(**write()).load()
    assert isinstance(dataset.preprocessing, TableSchema)
    frame = dataset.preprocessing.frame(dataset.private.inputs)
    assert frame.columns.tolist() == ["seen", "age", "sex", "note"]
    assert frame["age"].tolist()[::2] == [60.0, 40.0]  # 1000 years are cut to the public range
    assert frame["age"].isna().tolist() == [False, True, False]
    assert frame["sex"].tolist() == ["F", "other", "M"]
    assert frame["note"].tolist() == ["a", "other", "b"]
    assert isinstance(frame["sex"].dtype, pandas.CategoricalDtype)
    again = dataset.preprocessing.inputs(frame.assign(seen=["2025-01-02", "2025-01-03", "2025-01-01"]))
    assert np.allclose(again[:, 1:], dataset.private.inputs[:, 1:], atol=1e-6)


def test_public_records_need_no_labels(write: Write, tmp_path: Path) -> None:
    """Neither the columns nor, where there are any, what stands in them; a label alone is a mistake."""
    known = Table(**write()).load()
    settings = write(public=[row.rsplit(",", 2)[0] + ",," for row in PUBLIC])
    emptied = Table(**settings).load()
    lines = [HEAD.rsplit(",", 2)[0], *(row.rsplit(",", 2)[0] for row in PUBLIC)]
    (tmp_path / "public.csv").write_text("\n".join(lines))
    bare = Table(**settings).load()
    for dataset in (emptied, bare):
        assert not dataset.public_labeled
        assert not dataset.public.labels.any()
        assert np.array_equal(dataset.public.inputs, known.public.inputs)
        assert np.array_equal(dataset.private.labels, known.private.labels)
    assert known.public_labeled
    (tmp_path / "public.csv").write_text("\n".join([f"{lines[0]},flu", *(f"{row},1" for row in lines[1:])]))
    with pytest.raises(InvalidValue, match=r"^data\.labels=cough: expected a column of data\.public"):
        Table(**settings).load()


def test_private_records_need_labels(write: Write) -> None:
    settings = write(private=[row.rsplit(",", 2)[0] + ",," for row in PRIVATE])
    with pytest.raises(InvalidValue, match=r"^data\.private\.flu: expected 0 or 1 in a label's column, 3 of 3 rows"):
        Table(**settings).load()
