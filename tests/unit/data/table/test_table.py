"""Tables in files: three CSV files by hand, as other programs write them, and every way in which they can be wrong."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import Table, TableSchema
from pate.data.table.column_names import require_columns
from pate.data.table.schema import load_settings
from pate.data.table.table_file import TableFile
from pate.data.table.table_settings import TableSettings
from pate.files.arrays import Spilled
from pate.validation import InvalidValue
from tests.refusals import ANY, Refusal, refused

pa = pytest.importorskip("pyarrow")

HEAD = "patient,seen,age,sex,note,flu,cough"
PUBLIC = [
    "p1,2025-01-01,20,F,a,0,1",
    "p1,2025-01-03,,M,a,1,0",
    "p2,2025-01-05,40,F,b,0,0",
    "p3,2025-01-07,60,,b,true,False",
]
PRIVATE = [
    "q1,2025-01-02,1000,F,a,1,1",
    "q1,2025-01-03,NA,D\u00fc,c,0,1",
    "q2,2024-01-01,40,M,b,1.0,0.0",
]
TEST = ["t1,2025-01-04,30,F,a,1,0"]

Write = Callable[..., dict[str, Any]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the three files, some rows replaced, and gives the settings."""

    def written(head: str = HEAD, **rows: list[str] | bytes) -> dict[str, Any]:
        settings: dict[str, Any] = {"labels": ["flu", "cough"], "group": "patient", "drop": []}
        for name, lines in {"private": PRIVATE, "public": PUBLIC, "test": TEST, **rows}.items():
            path = tmp_path / f"{name}.csv"
            path.write_bytes(
                lines if isinstance(lines, bytes) else "\n".join([head, *lines, ""]).encode()
            )
            settings[name] = str(path)
        return settings

    return written


def test_a_small_table_by_hand(write: Write) -> None:
    dataset = Table(**write()).load()
    assert dataset.label_names == ("flu", "cough")
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    names = (
        "seen",
        "age",
        "age=missing",
        "sex=F",
        "sex=M",
        "sex=other",
        "sex=missing",
        "note=a",
        "note=b",
    )
    assert schema.feature_names == (*names, "note=other")
    # of 0, 2, 4, 6 days; the mean is 40 years
    days = np.sqrt(5.0)
    spread = np.std([20.0, 40.0, 60.0])
    private = [
        [-2 / days, 20 / spread, 0, 1, 0, 0, 0, 1, 0, 0],  # 1000 years are cut to 60
        # a missing age is the mean, a new category is other
        [-1 / days, 0, 1, 0, 0, 1, 0, 0, 0, 1],
        # a date before all public ones is the first of them
        [-3 / days, 0, 0, 0, 1, 0, 0, 0, 1, 0],
    ]
    assert np.allclose(dataset.private.inputs, private, atol=1e-6)
    assert dataset.private.labels.tolist() == [[True, True], [False, True], [True, False]]
    assert (
        dataset.private.group_ids[0] == dataset.private.group_ids[1] != dataset.private.group_ids[2]
    )
    assert sorted(dataset.published_ids.tolist()) == [0, 1, 2, 3]
    assert dataset.privacy_unit == PrivacyUnit(
        "one value of the column patient, with all its rows", ("patient",)
    )
    alone = Table(**write() | {"group": None, "drop": ["patient"]}).load()
    assert alone.privacy_unit == PrivacyUnit("one row")


def test_two_numbers_stay_one_apart_and_a_long_tail_gets_a_power(tmp_path: Path) -> None:
    """By the public file alone, and there and back; a schema that says nothing of a scale has units of the spread."""
    bytes_ = [1.0, *np.exp(np.arange(30) / 3).round(), 1e6]
    lines = [f"{int(i == 5)},{i % 4},{size:.0f}" for i, size in enumerate(bytes_)]
    (tmp_path / "public.csv").write_text("\n".join(["rare,level,bytes", *lines]))
    table = Table(public=str(tmp_path / "public.csv"))
    schema = table.public_schema()
    said = schema.plain()["columns"]
    assert "unit" in said["rare"] and said["level"].keys() == {
        "kind",
        "mean",
        "std",
        "min",
        "max",
        "missing",
    }
    assert 0 <= said["bytes"]["power"] < 0.5
    given = {"rare": [0.0, 1.0, 9.0], "level": [0.0, 3.0, 3.0], "bytes": [1.0, 400.0, 2e6]}
    inputs = schema.inputs(given)
    assert np.allclose(np.diff(inputs[:, 0]), [1, 0], atol=1e-6)  # 9 is cut to 1
    assert np.allclose(schema.frame(inputs)["bytes"], [1, 400, 1e6], rtol=1e-3)
    own = schema.inputs({"rare": np.zeros(32), "level": np.zeros(32), "bytes": bytes_})[:, 2]
    assert np.allclose([own.mean(), own.std()], [0, 1], atol=1e-6)
    assert TableSchema.read(schema.plain(), name="x") == schema
    flags = "data: column rare: two numbers alone, such as 0 and 1, which are taken as they are"
    tails = "data: column bytes: a few numbers far larger than all others, which a power brings closer to them"
    remarks = table.public_remarks()
    assert flags in remarks
    assert f"{tails}; the schema has it as power" in remarks
    for column in said.values():
        column |= {"power": 1.0, "unit": 1.0, "center": 0.0}
    of_old = TableSchema.read({"columns": said}, name="x").inputs(given)
    assert np.allclose(np.diff(of_old[:2, 0]), 1 / np.sqrt(1 / 32 - 1 / 32**2), rtol=1e-5)
    said["bytes"]["power"] = 3
    with refused("x.columns.bytes", (3.0, 0.0, 1.0)):
        TableSchema.read({"columns": said}, name="x")


def test_public_rows_are_shuffled_with_their_ids_which_are_published(write: Write) -> None:
    rows = [f"p{i},2025-01-01,{i},F,a,0,1" for i in range(40)]
    dataset = Table(**write(public=rows), id=None).load()
    order = dataset.published_ids
    assert order.tolist() != sorted(order.tolist())
    assert np.array_equal(np.argsort(dataset.public.inputs[:, 1]), np.argsort(order))
    dataset = Table(**write(private=PRIVATE[1:], public=PUBLIC[1:]) | {"id": "patient"}).load()
    assert sorted(dataset.published_ids.tolist()) == ["p1", "p2", "p3"]


def test_the_schema_knows_the_public_file_alone_and_private_groups_do_not_know_it(
    write: Write,
) -> None:
    changed = ["r1,1999-01-01,1,X,z,0,0", "r2,1999-01-02,2,Y,,0,0"]
    usual = Table(**write()).load()
    others = Table(**write(private=changed, test=["s" + changed[1]])).load()
    assert usual.preprocessing == others.preprocessing
    renamed = Table(**write(public=["a" + row for row in PUBLIC])).load()
    assert usual.private.group_ids.tolist() == renamed.private.group_ids.tolist()


def test_private_records_are_the_same_whatever_is_made_of_them(
    write: Write, tmp_path: Path
) -> None:
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
    lines = [
        f"{row},{split}"
        for split in ("private", "public", "test")
        for row in globals()[split.upper()]
    ]
    whole.write_text("\n".join([f"{HEAD},which", *lines, ""]))
    together = {
        "path": str(whole),
        "split": "which",
        "labels": settings["labels"],
        "group": "patient",
    }
    one = Table(**together).load().private_digest()
    whole.write_text("\n".join([f"{HEAD},which", *lines[::-1], ""]))
    assert set(same) == {digest()}
    assert Table(**together).load().private_digest() == one
    assert digest(private=[PRIVATE[0].replace("1000", "999"), *PRIVATE[1:]]) != digest()
    assert digest(private=PRIVATE[:2]) != digest()


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "csv.gz"])
def test_other_formats_give_the_same(write: Write, tmp_path: Path, ending: str) -> None:
    from pyarrow import csv, feather, ipc, parquet

    def stream(table: Any, path: Path) -> None:
        with ipc.new_stream(path, table.schema) as file:
            file.write_table(table)

    settings = write()
    wanted = Table(**settings).load()
    written = {"parquet": parquet.write_table, "feather": feather.write_feather}
    words = dict.fromkeys(("flu", "cough"), pa.string())
    options = csv.ConvertOptions(
        column_types=words, null_values=["", "NA"], strings_can_be_null=True
    )
    for name in ("private", "public", "test"):
        path = tmp_path / f"{name}.{ending}"
        if ending == "csv.gz":
            path.write_bytes(gzip.compress(Path(settings[name]).read_bytes()))
        else:
            table = csv.read_csv(settings[name], convert_options=options)
            written.get(ending, stream)(table, path)
        settings[name] = str(path)
    found = Table(**settings).load()
    for split in ("private", "public", "test"):
        assert np.allclose(getattr(found, split).inputs, getattr(wanted, split).inputs)
        assert np.array_equal(getattr(found, split).labels, getattr(wanted, split).labels)


def test_one_file_with_a_column_of_splits(write: Write, tmp_path: Path) -> None:
    wanted = Table(**write()).load()
    rows = [
        f"{split},{row}"
        for split, rows in (("public", PUBLIC), ("test", TEST), ("private", PRIVATE))
        for row in rows
    ]
    path = tmp_path / "all.csv"
    path.write_text("\n".join([f"part,{HEAD}", *rows]))
    found = Table(path=str(path), split="part", labels=("flu", "cough"), group="patient").load()
    assert found.preprocessing == wanted.preprocessing
    assert np.array_equal(found.private.inputs, wanted.private.inputs)
    assert sorted(found.published_ids.tolist()) == [0, 1, 2, 3]


REMARKS = [f"p{i},2025-01-01,1,F,remark {i},0,1" for i in range(300)]


def private(row: str) -> dict[str, Any]:
    return {"private": [*PRIVATE, row]}


@pytest.mark.parametrize(
    ("rows", "changes", "refusal"),
    [
        (
            private("q3,2025-01-01,Secret,F,a,0,1"),
            {},
            refused("data.private.age", rule="1 of 4 rows"),
        ),
        (
            private("q3,Secret,1,F,a,0,1"),
            {},
            refused("data.private.seen", rule="dates such"),
        ),
        (
            private("q3,2025-01-01,1,F,a,2,1"),
            {},
            refused("data.private.flu", rule="0 or 1 in a label's column, 1 of 4"),
        ),
        (
            {"test": ["t1,2025-01-01,1,F,a,,1"]},
            {},
            refused("data.test.flu", rule="0 or 1 in a label's column, 1 of 1"),
        ),
        (private(",2025-01-01,1,F,a,0,1"), {}, refused("data.private.patient", rule="1 of 4 rows")),
        (
            private("p3,2025-01-01,1,F,a,0,1"),
            {},
            refused("data.group", "patient", "split, 1 are in private and public"),
        ),
        (
            private("Secret,2025-01-01,1,F"),
            {},
            refused("data.private", ANY, "1 of 4"),
        ),
        (
            {"private": b""},
            {},
            refused("data.private", ANY, "empty"),
        ),
        (
            {"private": HEAD.encode() + b"\n"},
            {},
            refused("data.private", rule="row, the table"),
        ),
        (
            {"private": b"a,b,a\n1,2,3\n"},
            {},
            refused("data.private.columns", "a"),
        ),
        (
            {"private": b",age\n0,3\n"},
            {},
            refused("data.private.columns", "''"),
        ),
        (
            {},
            {"private": "book.xlsx"},
            refused("data.private", ANY, "a spreadsheet is"),
        ),
        (
            {"private": (HEAD + ",more\n").encode()},
            {},
            refused("data.private.more", rule="'data.drop="),
        ),
        (
            {"private": HEAD.replace("age", "years").encode() + b"\n"},
            {},
            refused("data.private.years", rule="lacks it"),
        ),
        (
            {},
            {"labels": ["flue"]},
            refused("data.labels", "flue", "did you mean flu"),
        ),
        ({}, {"labels": []}, refused("data.labels", "[]", "columns that")),
        (
            {},
            {"labels": "flu"},
            refused("data.labels", "flu"),
        ),
        (
            {},
            {"labels": ["flu", "patient"]},
            refused("data.group", "patient", "another column"),
        ),
        (
            {},
            {"drop": ["agee"]},
            refused("data.drop", "agee", "did you mean age"),
        ),
        ({}, {"group": "person"}, refused("data.group", "person", "column of data.private")),
        (
            {},
            {"private": "nowhere.csv"},
            refused("data.private", ANY, "there"),
        ),
        (
            {},
            {"private": None},
            refused("data.private", None),
        ),
        (
            {},
            {"private": __file__},
            refused("data.private", ANY, "there and"),
        ),
        (
            {},
            {"encoding": "klingon"},
            refused("data.encoding", "klingon"),
        ),
        (
            {},
            {"id": "sex"},
            refused("data.public.sex", rule="value in each"),
        ),
        (
            {},
            {"id": "age", "group": None, "drop": ["patient"]},
            refused("data.private.age", rule="1 of 3 rows"),
        ),
        (
            {},
            {"id": "patient", "group": None},
            refused("data.id", "patient"),
        ),
        (
            {},
            {"schema": "nowhere.yaml"},
            refused("data.schema=nowhere.yaml", rule="pate-schema wrote"),
        ),
        (
            {},
            {"path": "x.csv"},
            refused("data.path", "x.csv"),
        ),
        (
            {"public": REMARKS},
            {},
            refused("data.public.note", rule="'data.drop=["),
        ),
        (
            {"public": ["p1,2025-01-01,,F,a,0,1"]},
            {},
            refused("data.public.age", rule="value in some"),
        ),
        (
            {"public": [",2025-01-01,3,F,a,0,1"]},
            {"group": None},
            refused("data.public.patient", rule="value in some"),
        ),
        (
            {"private": [row[:-3] + "," for row in PRIVATE[:2]]},
            {},
            refused("data.private.flu", rule="column, 2"),
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_no_cell(
    write: Write, rows: Any, changes: dict[str, Any], refusal: Refusal
) -> None:
    with refusal as caught:
        Table(**write(**rows) | changes).load()
    assert "Secret" not in str(caught.value)


NUMBER = "columns: {{age: {{kind: number, {}, missing: false}}}}"
WORDS = "columns: {{age: {{kind: category, categories: {}, missing: {}}}}}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("columns: [", r": expected YAML as pate-schema writes it, line 1"),
        ("rows: 3", r": expected `columns`, what is known of each, as pate-schema writes it"),
        (
            "columns: {age: {kind: digit}}",
            r"\.columns\.age\.kind=digit: expected one of number, .*",
        ),
        (
            "columns: {age: {kind: date, min: 0, missing: false}}",
            r"\.columns\.age: expected mean, std, min, max, missing as pate-schema writes them .*",
        ),
        (
            NUMBER.format("mean: 0, std: 0, min: 0, max: 1"),
            r"\.columns\.age=.*: expected finite numbers, and std > 0",
        ),
        (
            WORDS.format("[1]", "false"),
            r"\.columns\.age\.categories=\[1\]: expected a list of words.*",
        ),
        (
            WORDS.format("[a]", "3"),
            r"\.columns\.age: expected categories, missing as pate-schema writes them .*",
        ),
        (
            WORDS.format("[a]", "true"),
            r": expected no other column in data\.public than it lists, and there is seen; 'data\.drop=.*",
        ),
    ],
)
def test_a_schema_that_was_changed_for_the_worse_is_one_line(
    write: Write, tmp_path: Path, text: str, line: str
) -> None:
    (tmp_path / "schema.yaml").write_text(text)
    with pytest.raises(InvalidValue, match=rf"^data\.schema=\S+?{line}$"):
        Table(**write(), schema=str(tmp_path / "schema.yaml")).load()


def test_a_schema_from_a_file_is_the_same_and_a_kind_may_be_changed_there(
    write: Write, tmp_path: Path
) -> None:
    table = Table(**write())
    path = tmp_path / "schema.yaml"
    table.public_schema().write(path)
    again = Table(**write(), schema=str(path)).load()
    assert again.preprocessing == table.load().preprocessing
    assert TableSchema.read(again.preprocessing.plain(), name="x") == again.preprocessing  # type: ignore[union-attr]
    text = path.read_text()
    begin = text.index("  age:")
    end = text.index("  sex:")
    path.write_text(
        text[:begin]
        + "  age: {kind: category, categories: ['20', '40'], missing: false}\n"
        + text[end:]
    )
    dataset = Table(**write(), schema=str(path)).load()
    columns = [
        dataset.preprocessing.feature_names.index(f"age={each}") for each in ("20", "40", "other")
    ]  # type: ignore[union-attr]
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
    again = dataset.preprocessing.inputs(
        frame.assign(seen=["2025-01-02", "2025-01-03", "2025-01-01"])
    )
    assert np.allclose(again[:, 1:], dataset.private.inputs[:, 1:], atol=1e-6)


def test_public_records_need_no_labels(write: Write, tmp_path: Path) -> None:
    """Neither the columns nor, where there are any, what stands in them; a label alone is a mistake."""
    known = Table(**write()).load()
    settings = write(public=[row.rsplit(",", 2)[0] + ",," for row in PUBLIC])
    emptied = Table(**settings).load()
    lines = [HEAD.rsplit(",", 2)[0], *(row.rsplit(",", 2)[0] for row in PUBLIC)]
    (tmp_path / "public.csv").write_text("\n".join(lines))
    bare = Table(**settings).load()
    assert (
        not Table(**settings | {"group": None, "drop": ["patient"], "missing": ["?"]})
        .load()
        .public_labeled
    )
    for dataset in (emptied, bare):
        assert not dataset.public_labeled
        assert not dataset.public.labels.any()
        assert np.array_equal(dataset.public.inputs, known.public.inputs)
        assert np.array_equal(dataset.private.labels, known.private.labels)
    assert known.public_labeled
    (tmp_path / "public.csv").write_text(
        "\n".join([f"{lines[0]},flu", *(f"{row},1" for row in lines[1:])])
    )
    with refused("data.labels", "cough"):
        Table(**settings).load()


FOREIGN = "age;town;ill;well"
FOREIGN_ROWS = {
    "private": ["20.5;Aachen, Stadt;yes;No", "31;Bonn;no;YES", "40.25;Bonn;TRUE;false"],
    "public": ["20.5;Bonn;1;0", "50.5;Aachen, Stadt;0;1", "30;Bonn;0;1"],
    "test": ["25.5;Bonn;y;0"],
}


def written(
    folder: Path, *, comma: bool = False, encoding: str = "utf-8", **rows: list[str]
) -> dict[str, Any]:
    """Three files and their settings."""
    settings: dict[str, Any] = {"labels": ["ill", "well"]}
    for name, lines in {**FOREIGN_ROWS, "test": ["25.5;Bonn;1;0"], **rows}.items():
        text = "\n".join([FOREIGN, *lines, ""])
        (folder / f"{name}.csv").write_text(
            text.replace(".", ",") if comma else text, encoding=encoding
        )
        settings[name] = str(folder / f"{name}.csv")
    return settings


def test_yes_and_no_are_labels_and_a_decimal_comma_is_read_where_a_setting_says_so(
    tmp_path: Path,
) -> None:
    wanted = Table(**written(tmp_path)).load()
    assert wanted.private.labels.tolist() == [[True, False], [False, True], [True, False]]
    with refused("data.test.ill", rule="yes and no"):
        Table(**written(tmp_path, test=FOREIGN_ROWS["test"])).load()
    settings = written(tmp_path, comma=True)
    found = Table(**settings, decimal="comma").load()
    assert np.array_equal(found.private.inputs, wanted.private.inputs)
    assert found.preprocessing == wanted.preprocessing  # "Aachen, Stadt" is no number and stays
    for name in ("data.private", "data"):
        with refused("data.decimal" if name == "data.private" else "decimal", ","):
            TableFile(tmp_path / "test.csv", name, decimal=",")
    mixed = written(tmp_path, private=[row.replace(".", ",") for row in FOREIGN_ROWS["private"]])
    with refused("data.private.age", rule="numbers", hint="other numbers need data.decimal=comma,"):
        Table(**mixed).load()


@pytest.mark.parametrize(
    ("encoding", "mark"), [("utf-16", ""), ("latin-1", ""), ("utf-8", "\ufeff")]
)
def test_encodings_are_named_and_read(tmp_path: Path, encoding: str, mark: str) -> None:
    wanted = Table(**written(tmp_path)).load()
    public = [row.replace("Bonn", "K\u00f6ln") for row in FOREIGN_ROWS["public"]]
    settings = written(tmp_path, encoding=encoding, public=public)
    for name in FOREIGN_ROWS:
        path = Path(settings[name])
        path.write_text(mark + path.read_text(encoding=encoding), encoding=encoding)
    assert len(Table(**settings, encoding=encoding).load().private) == len(wanted.private)
    if encoding == "latin-1":
        line = (
            r"expected text in utf-8; name its encoding: (data\.)?encoding=latin-1 or utf-16, say"
        )
        for read in (
            Table(**settings).load,
            lambda: list(TableFile(tmp_path / "public.csv", "data").batches()),
        ):
            with pytest.raises(InvalidValue, match=line):
                read()


def test_one_file_for_two_splits_and_a_label_in_other_letters_are_refused_and_numbers_of_records_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    with refused("data.public", "private.csv"):
        Table(**settings | {"public": "private.csv"}).load()
    with refused("data.labels", "Ill"):
        Table(**settings | {"labels": ["Ill"]}).public_schema()
    rows = [f"{7000 + row},{row % 9},{row / 2},{'ab'[row % 2]},{row % 2}" for row in range(40)]
    (tmp_path / "public.csv").write_text("\n".join(["contract,age,price,sex,ill", *rows]))
    (line,) = Table(
        public=str(tmp_path / "public.csv"), labels=("ill",), group="sex"
    ).public_remarks()
    assert line.startswith(
        "contract: another number in each row; if it is the number of a record, data.id=contract "
    )


def test_a_large_table_is_the_same_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(**written(tmp_path))
    held = table.load()
    monkeypatch.setattr("pate.data.table.rows.Spilled", partial(Spilled, 0))
    mapped = table.load()
    assert isinstance(mapped.private.inputs, np.memmap)
    assert mapped.digest() == held.digest()


def test_a_column_of_budgets_is_no_feature_and_one_class_a_group(write: Write) -> None:
    lines = [f"{line},{word}" for line, word in zip(PRIVATE, ("1", "1.0", "4"), strict=True)]
    settings = write()
    Path(settings["private"]).write_text("\n".join([f"{HEAD},agreed", *lines, ""]))
    dataset = Table(**settings, budget="agreed").load()
    assert dataset.budgets is not None and dataset.budgets.tolist() == ["1", "1", "4"]
    assert dataset.digest() != Table(**write()).load().digest()
    agreed = "one value of the column patient, with all its rows, within its budget class"
    assert dataset.privacy_unit == PrivacyUnit(agreed, ("patient",))
    several = [f"{line}{number}" for number, line in enumerate(lines)]
    Path(settings["private"]).write_text("\n".join([f"{HEAD},agreed", *several, ""]))
    with refused("data.budget", rule="class in all"):
        Table(**settings, budget="agreed").load()
    with refused("data.budget", "agreed"):
        Table(**settings | {"group": ["patient", "note"]}, budget="agreed")


def test_rows_of_several_owners_are_linked_or_count_less(write: Write) -> None:
    """Two chains of two rows are groups; a doctor with all rows would leave one group, as with counting less."""
    rows = [
        "q1,2025-01-02,20,F,d1,1,1",
        "q1,2025-01-03,20,F,d2,0,1",
        "q2,2024-01-01,40,M,d3,1,0",
        "q3,,40,M,d3,1,0",
    ]
    test = ["t1,2025-01-04,30,F,t,1,0"]
    settings = write(private=rows, test=test) | {"group": ["patient", "note"]}
    dataset = Table(**settings).load()
    assert dataset.private.group_ids.tolist()[::2] == [0, 1] and dataset.private.num_groups == 2
    assert dataset.weights is None and any(
        "who belongs with whom is taken as public" in line for line in dataset.notes
    )
    assert set(dataset.owners) == {"group"} and dataset.owners["group"] >= {b"q1", b"d3"}
    square = [
        f"q{i},2025-01-02,20,F,d{j},1,1" for i in range(8) for j in range(8) if (i - j) % 8 < 2
    ]
    counted = Table(**write(private=square, test=test) | {"group": ["patient", "note"]}).load()
    assert counted.weights is not None and counted.private.num_groups == 16
    owners = "one value of the column patient, or one of the column note, with all its rows"
    for either in (dataset, counted):
        unit = PrivacyUnit(f"{owners} (who belongs with whom is public)", ("patient", "note"))
        assert either.privacy_unit == unit
    # each patient and each doctor has two rows
    np.testing.assert_allclose(counted.weights, 0.5, rtol=1e-5)
    with refused("data.group", "note"):
        Table(**write() | {"group": ["patient", "note"]}).load()


PEOPLE = ["A-1001,20,F,0", "A-1002,30,M,1", "A-1003,40,F,1", "A-1004,25,M,0"]


def of_patients(
    folder: Path, *, head: str = "mrn,age,sex,flu", rows: Mapping[str, list[str]] | None = None
) -> Any:
    """Three files of patients, who have a number, and their settings without a group."""
    settings: dict[str, Any] = {"labels": ["flu"]}
    for place, split in enumerate(("private", "public", "test")):
        lines = (rows or {}).get(split) or [row.replace("A-1", f"A-{place}") for row in PEOPLE]
        settings[split] = str(folder / f"{split}.csv")
        Path(settings[split]).write_text("\n".join([head, *lines, ""]))
    return settings


GROUP_FIRST = (
    "data.group=mrn if it says whose a row is, else 'data.drop=[mrn]' "
    "leaves it out, and each row by itself is"
)


def test_what_may_be_a_person_is_offered_as_the_group_before_it_is_left_out(tmp_path: Path) -> None:
    """By a schema that does not list it, as a column of words, and where one file alone has it."""
    settings = of_patients(tmp_path)
    Table(public=settings["public"], labels=("flu",), group="mrn").public_schema().write(
        tmp_path / "s.yaml"
    )
    line = f"data.schema={tmp_path}/s.yaml: expected no other column in data.public than it lists, and there is mrn; "
    with pytest.raises(InvalidValue, match=rf"^{re.escape(line + GROUP_FIRST)} protected$"):
        Table(**settings, schema=str(tmp_path / "s.yaml")).load()
    many = [f"B-{number:04},{number % 60},F,{number % 2}" for number in range(120)]
    with pytest.raises(
        InvalidValue, match=rf"^data\.public\.mrn: expected numbers.*; {re.escape(GROUP_FIRST)}"
    ):
        Table(**of_patients(tmp_path, rows={"public": many})).load()
    (tmp_path / "public.csv").write_text("age,sex,flu\n20,F,0\n30,M,1\n")
    with pytest.raises(
        InvalidValue, match=rf"^data\.private\.mrn: .*public lacks it; {re.escape(GROUP_FIRST)}"
    ):
        Table(**settings).load()
    with refused("data.group", "mrn", "each person there"):
        Table(**settings, group="mrn").load()
    with refused("data.private.mrn", rule="where data.group=sex says whose a row is"):
        Table(**settings | {"group": "sex"}).load()


def test_the_number_of_a_person_in_each_row_is_told_group_first(tmp_path: Path) -> None:
    rows = {"public": [f"{7000 + number},{number % 9},F,{number % 2}" for number in range(40)]}
    settings = of_patients(tmp_path, rows=rows)
    line, _ = Table(public=settings["public"], labels=("flu",)).public_remarks()
    told = (
        "mrn: another number in each row; data.group=mrn if it is that of a "
        "person; if it is the number of a record, "
    )
    assert line == f"{told}data.id=mrn or 'data.drop=[mrn]' takes it from the features"


def test_columns_whose_names_are_numbers_are_named_by_numbers(tmp_path: Path) -> None:
    """Hydra makes whole numbers of 0, 2019 and -9; labels, group, columns that are dropped and missing cells alike."""
    rows = {
        split: [f"{place}{row},{row},-9,0" for row in range(4)]
        for place, split in enumerate(("private", "public"))
    }
    settings = of_patients(tmp_path, head="2019,0,7,1", rows=rows | {"test": ["90,1,3,1"]})
    named = settings | {"labels": [1], "group": 2019, "drop": [7]}
    dataset = Table(**named).load()
    assert dataset.label_names == ("1",)
    assert dataset.preprocessing.names == ("0",)  # type: ignore[union-attr]
    assert dataset.private.num_groups == 4
    with refused("data.public.7", rule="a value in"):
        Table(**named | {"drop": [], "missing": [-9]}).load()
    for label in (1.0, None, True):
        with refused("data.labels", ANY, "a list of"):
            Table(**named | {"labels": [label]})


def test_names_are_compared_a_few_times_for_each_column(tmp_path: Path) -> None:
    """A table of thousands of columns is read in a time that grows as their number does."""
    compared = 0

    class Counted(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Counted(f"gene{number}") for number in range(2000)]
    require_columns("data", names, [str(name) for name in names])
    assert compared < 10 * len(names)
    file = TableFile(Path(of_patients(tmp_path)["public"]), "data")
    assert file.names is file.names  # is read once, not for each column


def schema_of(folder: Path, settings: dict[str, Any], **said: Any) -> str:
    """Writes a schema's file with settings, of the public file of others."""
    table = Table(public=settings["public"], labels=("flu",), group="mrn", drop=("sex",))
    table.public_schema().write(folder / "schema.yaml", TableSettings(**said))
    return str(folder / "schema.yaml")


def test_settings_that_a_schema_holds_need_not_be_said_again(tmp_path: Path) -> None:
    settings = of_patients(tmp_path)
    said = {"labels": ("flu",), "group": "mrn", "drop": ("sex",), "encoding": "cp1252"}
    path = schema_of(tmp_path, settings, **said)
    files = {split: settings[split] for split in ("private", "public", "test")}
    dataset = Table(**files, schema=path).load()
    wanted = Table(**files, labels=("flu",), group="mrn", drop=("sex",), schema=path).load()
    assert dataset.digest() == wanted.digest()
    people = frozenset(
        f"{letter}-0{number:03}".encode() for number in range(1, 5) for letter in "Aa"
    )
    assert dataset.owners == wanted.owners == {"group": people}
    assert dataset.preprocessing.names == ("age",)  # type: ignore[union-attr]
    assert "settings" not in dataset.preprocessing.plain()  # type: ignore[union-attr]
    Table(**files, schema=path).require_settings()
    assert load_settings(path) == TableSettings(**said)
    (tmp_path / "private.csv").write_bytes("mrn,age,sex,flu\nJosé,30,F,1\n".encode("cp1252"))
    assert Table(**files, schema=path).load().owners == {
        "group": frozenset({"José".encode(), "josé".encode()})
    }
    assert Table(private=files["private"], schema=path).private_records().label_names == ("flu",)


def test_settings_that_are_said_come_before_those_of_a_schema(tmp_path: Path) -> None:
    settings = of_patients(
        tmp_path, head="mrn,age,sex,flu", rows={"private": ["A-9,30,F,1", "A-9,31,M,0"]}
    )
    path = schema_of(tmp_path, settings, labels=("flu",), group="mrn", drop=("sex",))
    files = {split: settings[split] for split in ("private", "public", "test")}
    assert Table(**files, schema=path).load().private.num_groups == 1
    other = "and there is mrn; 'data.drop=[mrn]' leaves it out, where data.group=age says whose a row is"
    with pytest.raises(InvalidValue, match=re.escape(other)):
        Table(**files, schema=path, group="age").load()
    with refused("data.drop", "mrn"):
        Table(**files, schema=path, drop=("mrn",)).load()


def test_a_schema_without_settings_or_with_strange_ones(tmp_path: Path) -> None:
    settings = of_patients(tmp_path)
    path = schema_of(tmp_path, settings)
    files = {split: settings[split] for split in ("private", "public", "test")}
    assert "settings" not in Path(path).read_text().replace("`settings`", "")
    with refused("data.labels", "[]", "columns that"):
        Table(**files, schema=path).load()
    text = Path(path).read_text()
    Path(path).write_text(text.replace("columns:", "settings: {groups: mrn}\ncolumns:"))
    with pytest.raises(
        InvalidValue,
        match=r"^data\.schema=\S+\.settings\.groups=mrn: expected settings of pate-schema",
    ):
        Table(**files, schema=path).load()
    Path(path).write_text(text.replace("columns:", "settings: {labels: flu}\ncolumns:"))
    with refused("data.labels", "flu"):
        Table(**files, schema=path).load()
