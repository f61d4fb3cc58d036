"""Tables in files: three CSV files by hand, as other programs write them, and every way in which they can be wrong."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import Dataset, Table, TableSchema
from pate.data.table.column_names import require_columns
from pate.data.table.schema import load_settings
from pate.data.table.table_file import TableFile
from pate.data.table.table_settings import TableSettings
from pate.files.array_rows import FileRows, Spilled
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

Lines = list[str] | bytes
"""Rows below the head, or the whole content of a file."""

Write = Callable[..., Table]


@dataclass(frozen=True)
class Rows:
    """The rows of each of the three files; the usual ones where a test sets no others."""

    private: Lines = field(default_factory=lambda: PRIVATE)
    public: Lines = field(default_factory=lambda: PUBLIC)
    test: Lines = field(default_factory=lambda: TEST)


def write_lines(path: Path, head: str, lines: Lines) -> str:
    """Writes a head and lines, or bytes as they are, into a file; returns its path."""
    text = "\n".join([head, *lines, ""]) if isinstance(lines, list) else ""
    path.write_bytes(lines if isinstance(lines, bytes) else text.encode())
    return str(path)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Returns a function that writes the three files with some rows replaced, and returns their reader."""

    def write_files(private: Lines = PRIVATE, public: Lines = PUBLIC, test: Lines = TEST) -> Table:
        return Table(
            private=write_lines(path=tmp_path / "private.csv", head=HEAD, lines=private),
            public=write_lines(path=tmp_path / "public.csv", head=HEAD, lines=public),
            test=write_lines(path=tmp_path / "test.csv", head=HEAD, lines=test),
            labels=("flu", "cough"),
            group="patient",
        )

    return write_files


def reread(table: Table) -> Dataset:
    """Loads changed files with a new reader, because a reader caches the names of columns."""
    return replace(table).load()


def test_small_table_gives_hand_computed_features(write: Write) -> None:
    """Three small files give the features, labels, groups and units that are computed by hand."""
    dataset = write().load()
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
        words="one value of the column patient, with all its rows", columns=("patient",)
    )
    ungrouped = replace(write(), group=None, drop=("patient",)).load()
    assert ungrouped.privacy_unit == PrivacyUnit("one row")


SIZES = [1.0, *np.exp(np.arange(30) / 3).round(), 1e6]  # a long tail


@pytest.fixture
def scales(tmp_path: Path) -> Table:
    """Returns the reader of a public table with a rare flag, a column of four levels, and sizes with a long tail."""
    lines = [f"{int(row == 5)},{row % 4},{size:.0f}" for row, size in enumerate(SIZES)]
    return Table(
        public=write_lines(path=tmp_path / "public.csv", head="rare,level,bytes", lines=lines)
    )


def test_column_of_two_numbers_is_scaled_by_their_distance(scales: Table) -> None:
    """A rare flag is scaled so that 0 and 1 differ by 1, and larger numbers are cut. A remark says so."""
    schema = scales.public_schema()
    columns = schema.plain()["columns"]
    assert "unit" in columns["rare"]
    assert columns["level"].keys() == {"kind", "mean", "std", "min", "max", "missing"}
    inputs = schema.inputs({"rare": [0.0, 1.0, 9.0], "level": [0.0] * 3, "bytes": [1.0] * 3})
    assert np.allclose(np.diff(inputs[:, 0]), [1, 0], atol=1e-6)  # 9 is cut to 1
    line = "data: column rare: two numbers alone, such as 0 and 1, which are taken as they are"
    assert line in scales.public_remarks()


def test_power_of_a_long_tail_is_inverted(scales: Table) -> None:
    """Sizes with a long tail get a power below 1/2, a mean of 0 and a deviation of 1.

    `frame` returns the sizes again.
    """
    schema = scales.public_schema()
    assert 0 <= schema.plain()["columns"]["bytes"]["power"] < 0.5
    inputs = schema.inputs({"rare": [0.0] * 3, "level": [0.0] * 3, "bytes": [1.0, 400.0, 2e6]})
    assert np.allclose(schema.frame(inputs)["bytes"], [1, 400, 1e6], rtol=1e-3)
    public = schema.inputs({"rare": np.zeros(32), "level": np.zeros(32), "bytes": SIZES})[:, 2]
    assert np.allclose([public.mean(), public.std()], [0, 1], atol=1e-6)
    line = (
        "data: column bytes: a few numbers far larger than all others, which a power brings closer to "
        "them; the schema has it as power"
    )
    assert line in scales.public_remarks()


def test_schema_with_powers_survives_a_round_trip(scales: Table) -> None:
    """A schema with a power is equal after it was written and read."""
    schema = scales.public_schema()
    assert TableSchema.read(schema.plain(), name="x") == schema


def test_older_schema_without_powers_is_standardized(scales: Table) -> None:
    """A schema of an earlier version, without powers, divides a flag by its standard deviation."""
    columns = scales.public_schema().plain()["columns"]
    for column in columns.values():
        for key in ("power", "unit", "center"):
            column.pop(key, None)
    schema = TableSchema.read({"columns": columns}, name="x")
    rare = schema.inputs({"rare": [0.0, 1.0], "level": [0.0, 0.0], "bytes": [1.0, 1.0]})[:, 0]
    spread = np.sqrt(1 / 32 - 1 / 32**2)  # of one 1 among 32 flags
    assert np.allclose(np.diff(rare), 1 / spread, rtol=1e-5)


def test_power_outside_0_to_2_is_refused(scales: Table) -> None:
    """A schema with a power of 3 is refused under the column's name."""
    columns = scales.public_schema().plain()["columns"]
    columns["bytes"] |= {"power": 3, "unit": 1.0, "center": 0.0}
    with refused("x.columns.bytes", value=(3.0, 0.0, 1.0)):
        TableSchema.read({"columns": columns}, name="x")


@pytest.mark.slow
def test_public_rows_are_shuffled_with_their_ids(write: Write) -> None:
    """Public rows are in another order than in the file, together with their published ids.

    With `id`, the ids are those of the file.
    """
    rows = [f"p{i},2025-01-01,{i},F,a,0,1" for i in range(40)]
    dataset = write(public=rows).load()
    order = dataset.published_ids
    assert order.tolist() != sorted(order.tolist())
    assert np.array_equal(np.argsort(dataset.public.inputs[:, 1]), np.argsort(order))
    dataset = replace(write(private=PRIVATE[1:], public=PUBLIC[1:]), id="patient").load()
    assert sorted(dataset.published_ids.tolist()) == ["p1", "p2", "p3"]


@pytest.mark.slow
def test_schema_and_private_groups_are_independent(
    write: Write,
) -> None:
    """Other private and test rows give the same schema. Other public names give the same private groups."""
    changed = ["r1,1999-01-01,1,X,z,0,0", "r2,1999-01-02,2,Y,,0,0"]
    usual = write().load()
    with_other_rows = write(private=changed, test=["s" + changed[1]]).load()
    assert usual.preprocessing == with_other_rows.preprocessing
    renamed = write(public=["a" + row for row in PUBLIC]).load()
    assert usual.private.group_ids.tolist() == renamed.private.group_ids.tolist()


@pytest.mark.slow
def test_private_digest_depends_on_private_cells_alone(write: Write) -> None:
    """The private digest stays for other labels, features, public rows and orders of rows.

    It changes with one private cell.

    A ledger recognizes records by their cells, not by the features that the public file makes of them.
    """
    digest = write().load().private_digest()
    fewer_labels = replace(write(), labels=("flu",), drop=("cough",))
    fewer_features = replace(write(), drop=("seen", "note"))
    assert fewer_labels.load().private_digest() == digest
    assert fewer_features.load().private_digest() == digest
    assert write(public=[*PUBLIC, "p4,2025-01-07,99,X,z,1,1"]).load().private_digest() == digest
    assert write(private=PRIVATE[::-1]).load().private_digest() == digest
    older = [PRIVATE[0].replace("1000", "999"), *PRIVATE[1:]]
    assert write(private=older).load().private_digest() != digest
    assert write(private=PRIVATE[:2]).load().private_digest() != digest


@pytest.mark.slow
def test_the_private_digest_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    """One file with all splits, in two orders of rows, has one private digest."""
    parts = {"private": PRIVATE, "public": PUBLIC, "test": TEST}
    lines = [f"{row},{split}" for split, rows in parts.items() for row in rows]
    path = tmp_path / "whole.csv"
    digests = set()
    for ordered in (lines, lines[::-1]):
        table = Table(
            path=write_lines(path=path, head=f"{HEAD},which", lines=ordered),
            split="which",
            labels=("flu", "cough"),
            group="patient",
        )
        digests.add(table.load().private_digest())
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "csv.gz"])
def test_all_file_formats_give_the_same_data_set(write: Write, tmp_path: Path, ending: str) -> None:
    """Parquet, Feather, Arrow streams and packed CSV give the inputs and labels of CSV files."""
    from pyarrow import csv, feather, ipc, parquet

    def stream(table: Any, path: Path) -> None:
        with ipc.new_stream(path, table.schema) as file:
            file.write_table(table)

    table = write()
    expected = table.load()
    writers = {"parquet": parquet.write_table, "feather": feather.write_feather}
    words = dict.fromkeys(("flu", "cough"), pa.string())
    options = csv.ConvertOptions(
        column_types=words, null_values=["", "NA"], strings_can_be_null=True
    )
    for split in ("private", "public", "test"):
        source = tmp_path / f"{split}.csv"
        path = tmp_path / f"{split}.{ending}"
        if ending == "csv.gz":
            path.write_bytes(gzip.compress(source.read_bytes()))
        else:
            cells = csv.read_csv(source, convert_options=options)
            writers.get(ending, stream)(cells, path)
    dataset = replace(
        table,
        private=str(tmp_path / f"private.{ending}"),
        public=str(tmp_path / f"public.{ending}"),
        test=str(tmp_path / f"test.{ending}"),
    ).load()
    for split in ("private", "public", "test"):
        assert np.allclose(getattr(dataset, split).inputs, getattr(expected, split).inputs)
        assert np.array_equal(getattr(dataset, split).labels, getattr(expected, split).labels)


def test_one_file_with_a_split_column_is_read(write: Write, tmp_path: Path) -> None:
    """One file with a column of splits, in any order of rows, gives the schema and inputs of three files."""
    expected = write().load()
    rows = [
        f"{split},{row}"
        for split, rows in (("public", PUBLIC), ("test", TEST), ("private", PRIVATE))
        for row in rows
    ]
    path = tmp_path / "all.csv"
    path.write_text("\n".join([f"part,{HEAD}", *rows]))
    table = Table(path=str(path), split="part", labels=("flu", "cough"), group="patient")
    dataset = table.load()
    assert dataset.preprocessing == expected.preprocessing
    assert np.array_equal(dataset.private.inputs, expected.private.inputs)
    assert sorted(dataset.published_ids.tolist()) == [0, 1, 2, 3]


REMARKS = [f"p{i},2025-01-01,1,F,remark {i},0,1" for i in range(300)]


def with_private(row: str) -> Rows:
    """Returns the usual rows and one more private row."""
    return Rows(private=[*PRIVATE, row])


@pytest.mark.parametrize(
    ("rows", "change", "refusal"),
    [
        (
            with_private(row="q3,2025-01-01,Secret,F,a,0,1"),
            partial(replace),
            refused("data.private.age", rule="1 of 4 rows"),
        ),
        (
            with_private(row="q3,Secret,1,F,a,0,1"),
            partial(replace),
            refused("data.private.seen", rule="dates such"),
        ),
        (
            with_private(row="q3,2025-01-01,1,F,a,2,1"),
            partial(replace),
            refused("data.private.flu", rule="0 or 1 in a label's column, 1 of 4"),
        ),
        (
            Rows(test=["t1,2025-01-01,1,F,a,-1,1"]),
            partial(replace),
            refused("data.test.flu", rule="data.uncertain=missing (or positive, negative) says"),
        ),
        (
            with_private(row=",2025-01-01,1,F,a,0,1"),
            partial(replace),
            refused("data.private.patient", rule="1 of 4 rows"),
        ),
        (
            with_private(row="p3,2025-01-01,1,F,a,0,1"),
            partial(replace),
            refused("data.group", value="patient", rule="split, 1 are in private and public"),
        ),
        (
            with_private(row="Secret,2025-01-01,1,F"),
            partial(replace),
            refused("data.private", value=ANY, rule="1 of 4"),
        ),
        (
            Rows(private=b""),
            partial(replace),
            refused("data.private", value=ANY, rule="empty"),
        ),
        (
            Rows(private=HEAD.encode() + b"\n"),
            partial(replace),
            refused("data.private", rule="row, the table"),
        ),
        (
            Rows(private=b"a,b,a\n1,2,3\n"),
            partial(replace),
            refused("data.private.columns", value="a"),
        ),
        (
            Rows(private=b",age\n0,3\n"),
            partial(replace),
            refused("data.private.columns", value="''"),
        ),
        (
            Rows(),
            partial(replace, private="book.xlsx"),
            refused("data.private", value=ANY, rule="a spreadsheet is"),
        ),
        (
            Rows(private=(HEAD + ",more\n").encode()),
            partial(replace),
            refused("data.private.more", rule="'data.drop="),
        ),
        (
            Rows(private=HEAD.replace("age", "years").encode() + b"\n"),
            partial(replace),
            refused("data.private.years", rule="lacks it"),
        ),
        (
            Rows(),
            partial(replace, labels=["flue"]),
            refused("data.labels", value="flue", rule="did you mean flu"),
        ),
        (
            Rows(),
            partial(replace, labels=[]),
            refused("data.labels", value="[]", rule="columns that"),
        ),
        (
            Rows(),
            partial(replace, labels="flu"),
            refused("data.labels", value="flu"),
        ),
        (
            Rows(),
            partial(replace, labels=["flu", "patient"]),
            refused("data.group", value="patient", rule="another column"),
        ),
        (
            Rows(),
            partial(replace, drop=["agee"]),
            refused("data.drop", value="agee", rule="did you mean age"),
        ),
        (
            Rows(),
            partial(replace, group="person"),
            refused("data.group", value="person", rule="column of data.private"),
        ),
        (
            Rows(),
            partial(replace, private="nowhere.csv"),
            refused("data.private", value=ANY, rule="there"),
        ),
        (
            Rows(),
            partial(replace, private=None),
            refused("data.private", value=None),
        ),
        (
            Rows(),
            partial(replace, private=__file__),
            refused("data.private", value=ANY, rule="there and"),
        ),
        (
            Rows(),
            partial(replace, encoding="klingon"),
            refused("data.encoding", value="klingon"),
        ),
        (
            Rows(),
            partial(replace, id="sex"),
            refused("data.public.sex", rule="value in each"),
        ),
        (
            Rows(),
            partial(replace, id="age", group=None, drop=["patient"]),
            refused("data.private.age", rule="1 of 3 rows"),
        ),
        (
            Rows(),
            partial(replace, id="patient", group=None),
            refused("data.id", value="patient"),
        ),
        (
            Rows(),
            partial(replace, schema="nowhere.yaml"),
            refused("data.schema=nowhere.yaml", rule="pate-schema wrote"),
        ),
        (
            Rows(),
            partial(replace, path="x.csv"),
            refused("data.path", value="x.csv"),
        ),
        (
            Rows(public=REMARKS),
            partial(replace),
            refused("data.public.note", rule="'data.drop=["),
        ),
        (
            Rows(public=["p1,2025-01-01,,F,a,0,1"]),
            partial(replace),
            refused("data.public.age", rule="value in some"),
        ),
        (
            Rows(public=[",2025-01-01,3,F,a,0,1"]),
            partial(replace, group=None),
            refused("data.public.patient", rule="value in some"),
        ),
        (
            Rows(private=[row[:-3] + "," for row in PRIVATE[:2]]),
            partial(replace),
            refused("data.private.flu", rule="a label in some row"),
        ),
    ],
)
def test_refusal_is_one_line_without_a_cell(
    write: Write, rows: Rows, change: Callable[[Table], Table], refusal: Refusal
) -> None:
    """One cell, row or setting of a small table is wrong. The refusal names the column, and never shows the cell."""
    with refusal as caught:
        change(write(private=rows.private, public=rows.public, test=rows.test)).load()
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
def test_invalid_schema_is_refused_in_one_line(
    write: Write, tmp_path: Path, text: str, line: str
) -> None:
    """A schema file with invalid YAML, columns or numbers is refused with this line."""
    (tmp_path / "schema.yaml").write_text(text)
    with pytest.raises(InvalidValue, match=rf"^data\.schema=\S+?{line}$"):
        replace(write(), schema=str(tmp_path / "schema.yaml")).load()


def test_schema_from_file_equals_the_learned_schema(write: Write, tmp_path: Path) -> None:
    """The public schema is written to a file and read. It is equal, and so is its published form."""
    table = write()
    path = tmp_path / "schema.yaml"
    table.public_schema().write(path)
    dataset = replace(table, schema=str(path)).load()
    assert dataset.preprocessing == table.load().preprocessing
    assert isinstance(dataset.preprocessing, TableSchema)
    assert TableSchema.read(dataset.preprocessing.plain(), name="x") == dataset.preprocessing


def test_column_kind_can_be_edited_in_the_schema_file(write: Write, tmp_path: Path) -> None:
    """A user changes the column `age` to a category in the schema file. The inputs have a feature for each category."""
    table = write()
    path = tmp_path / "schema.yaml"
    table.public_schema().write(path)
    text = path.read_text()
    before_age = text[: text.index("  age:")]
    behind_age = text[text.index("  sex:") :]
    age = "  age: {kind: category, categories: ['20', '40'], missing: false}\n"
    path.write_text(before_age + age + behind_age)
    dataset = replace(table, schema=str(path)).load()
    assert isinstance(dataset.preprocessing, TableSchema)
    names = dataset.preprocessing.feature_names
    columns = [names.index("age=20"), names.index("age=40"), names.index("age=other")]
    assert dataset.private.inputs[:, columns].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]


def test_frame_recovers_the_columns(write: Write) -> None:
    """`frame` turns inputs into a DataFrame of numbers and words. Its inputs are the same again."""
    pandas = pytest.importorskip("pandas")
    dataset = write().load()
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


PUBLIC_WITHOUT_LABELS = [row.rsplit(",", 2)[0] for row in PUBLIC]


def reader_without_public_labels(table: Table, path: Path) -> Table:
    """Writes a public file without the columns of labels, and returns the reader."""
    head = HEAD.rsplit(",", 2)[0]
    return replace(table, public=write_lines(path=path, head=head, lines=PUBLIC_WITHOUT_LABELS))


@pytest.mark.slow
@pytest.mark.parametrize("has_columns", [True, False])
def test_public_file_may_lack_labels(write: Write, tmp_path: Path, has_columns: bool) -> None:
    """The public file has empty labels, or no columns for them.

    Inputs and private labels stay; public labels are all false.
    """
    labeled = write().load()
    table = write(public=[f"{row},," for row in PUBLIC_WITHOUT_LABELS])
    if not has_columns:
        table = reader_without_public_labels(table=table, path=tmp_path / "bare.csv")
    dataset = table.load()
    assert labeled.public_labeled
    assert not dataset.public_labeled
    assert not dataset.public.labels.any()
    assert np.array_equal(dataset.public.inputs, labeled.public.inputs)
    assert np.array_equal(dataset.private.labels, labeled.private.labels)


def test_missing_words_work_without_public_labels(write: Write, tmp_path: Path) -> None:
    """A table without public labels is loaded with a word for missing cells."""
    table = reader_without_public_labels(table=write(), path=tmp_path / "bare.csv")
    dataset = replace(table, group=None, drop=("patient",), missing=("?",)).load()
    assert not dataset.public_labeled


def test_public_file_with_only_some_labels_is_refused(write: Write, tmp_path: Path) -> None:
    """The public file has one of two columns of labels. The other label is refused."""
    head = HEAD.rsplit(",", 1)[0]
    rows = [f"{row},1" for row in PUBLIC_WITHOUT_LABELS]
    table = replace(write(), public=write_lines(path=tmp_path / "flu.csv", head=head, lines=rows))
    with refused("data.labels", value="cough"):
        table.load()


FOREIGN_HEAD = "age;town;ill;well"
FOREIGN_ROWS = {
    "private": ["20.5;Aachen, Stadt;yes;No", "31;Bonn;no;YES", "40.25;Bonn;TRUE;false"],
    "public": ["20.5;Bonn;1;0", "50.5;Aachen, Stadt;0;1", "30;Bonn;0;1"],
    "test": ["25.5;Bonn;1;0"],
}


def write_foreign(
    folder: Path,
    *,
    has_comma: bool = False,
    encoding: str = "utf-8",
    private: list[str] = FOREIGN_ROWS["private"],
    public: list[str] = FOREIGN_ROWS["public"],
    test: list[str] = FOREIGN_ROWS["test"],
) -> Table:
    """Writes three files with semicolons as separators, and returns their reader."""
    paths = {}
    for split, lines in {"private": private, "public": public, "test": test}.items():
        text = "\n".join([FOREIGN_HEAD, *lines, ""])
        path = folder / f"{split}.csv"
        path.write_text(text.replace(".", ",") if has_comma else text, encoding=encoding)
        paths[split] = str(path)
    return Table(
        private=paths["private"],
        public=paths["public"],
        test=paths["test"],
        labels=("ill", "well"),
    )


def test_yes_and_no_are_read_as_labels(tmp_path: Path) -> None:
    """Labels as yes, no, TRUE or false are read as bits. The letter y is refused."""
    labels = write_foreign(folder=tmp_path).load().private.labels
    assert labels.tolist() == [[True, False], [False, True], [True, False]]
    with refused("data.test.ill", rule="yes and no"):
        write_foreign(folder=tmp_path, test=["25.5;Bonn;y;0"]).load()


def test_decimal_comma_is_read_by_its_setting(tmp_path: Path) -> None:
    """Files with decimal commas and `decimal=comma` give the inputs of files with points.

    Without the setting they are refused.
    """
    expected = write_foreign(folder=tmp_path).load()
    dataset = replace(write_foreign(folder=tmp_path, has_comma=True), decimal="comma").load()
    assert np.array_equal(dataset.private.inputs, expected.private.inputs)
    assert dataset.preprocessing == expected.preprocessing  # "Aachen, Stadt" is no number
    private = [row.replace(".", ",") for row in FOREIGN_ROWS["private"]]
    with refused("data.private.age", rule="numbers", hint="other numbers need data.decimal=comma,"):
        write_foreign(folder=tmp_path, private=private).load()


@pytest.mark.parametrize(
    ("file", "setting"), [("data.private", "data.decimal"), ("data", "decimal")]
)
def test_decimal_setting_takes_comma_or_point_as_words(
    tmp_path: Path, file: str, setting: str
) -> None:
    """`decimal=,` is refused under the name of the setting."""
    with refused(setting, value=","):
        TableFile(tmp_path / "test.csv", setting=file, decimal=",")


@pytest.mark.parametrize(
    ("encoding", "mark"), [("utf-16", ""), ("latin-1", ""), ("utf-8", "\ufeff")]
)
def test_encoding_setting_is_used(tmp_path: Path, encoding: str, mark: str) -> None:
    """Files in UTF-16, latin-1, or UTF-8 with a mark are read with this encoding."""
    public = [row.replace("Bonn", "K\u00f6ln") for row in FOREIGN_ROWS["public"]]
    table = write_foreign(folder=tmp_path, encoding=encoding, public=public)
    for split in FOREIGN_ROWS:
        path = tmp_path / f"{split}.csv"
        path.write_text(mark + path.read_text(encoding=encoding), encoding=encoding)
    dataset = replace(table, encoding=encoding).load()
    assert len(dataset.private) == len(FOREIGN_ROWS["private"])


def test_refusal_of_another_encoding_names_the_setting(tmp_path: Path) -> None:
    """Files in latin-1 without a setting are refused, with the encoding to name."""
    public = [row.replace("Bonn", "K\u00f6ln") for row in FOREIGN_ROWS["public"]]
    table = write_foreign(folder=tmp_path, encoding="latin-1", public=public)
    line = r"expected text in utf-8; name its encoding: (data\.)?encoding=latin-1 or utf-16, say"
    with pytest.raises(InvalidValue, match=line):
        table.load()
    with pytest.raises(InvalidValue, match=line):
        list(TableFile(tmp_path / "public.csv", setting="data").batches())


def test_one_file_for_two_splits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public and private split name the same file, in two spellings. It is refused."""
    monkeypatch.chdir(tmp_path)
    with refused("data.public", value="private.csv"):
        replace(write_foreign(folder=tmp_path), public="private.csv").load()


def test_label_in_other_letter_case_is_refused(tmp_path: Path) -> None:
    """`labels=[Ill]` is refused for a column `ill`."""
    with refused("data.labels", value="Ill"):
        replace(write_foreign(folder=tmp_path), labels=("Ill",)).public_schema()


def test_column_of_distinct_numbers_yields_a_remark(tmp_path: Path) -> None:
    """A public column has another number in each row. A remark proposes it as an id."""
    rows = [f"{7000 + row},{row % 9},{row / 2},{'ab'[row % 2]},{row % 2}" for row in range(40)]
    public = write_lines(
        path=tmp_path / "public.csv", head="contract,age,price,sex,ill", lines=rows
    )
    (line,) = Table(public=public, labels=("ill",), group="sex").public_remarks()
    assert line.startswith(
        "contract: another number in each row; if it is the number of a record, data.id=contract "
    )


def test_a_table_in_a_scratch_file_equals_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs that are written to disk are `FileRows`. The data set has the digest of one in memory."""
    table = write_foreign(folder=tmp_path)
    in_memory = table.load()
    monkeypatch.setattr("pate.data.table.rows.Spilled", partial(Spilled, 0))
    on_disk = table.load()
    assert isinstance(on_disk.private.inputs, FileRows)
    assert on_disk.digest() == in_memory.digest()


@pytest.mark.slow
def test_budget_must_be_the_same_within_a_group(write: Write) -> None:
    """A column of budgets has one value for each person: 1 and 1.0 are one class.

    Two classes of a person, and budgets with several owners, are refused.
    """
    lines = [f"{line},{word}" for line, word in zip(PRIVATE, ("1", "1.0", "4"), strict=True)]
    table = replace(write(), budget="agreed")
    private = Path(str(table.private))
    write_lines(path=private, head=f"{HEAD},agreed", lines=lines)
    dataset = table.load()
    assert dataset.budgets is not None and dataset.budgets.tolist() == ["1", "1", "4"]
    agreed = "one value of the column patient, with all its rows, within its budget class"
    assert dataset.privacy_unit == PrivacyUnit(agreed, columns=("patient",))
    several = [f"{line}{number}" for number, line in enumerate(lines)]
    write_lines(path=private, head=f"{HEAD},agreed", lines=several)
    with refused("data.budget", rule="class in all"):
        reread(table=table)
    with refused("data.budget", value="agreed"):
        replace(table, group=("patient", "note"))


@pytest.mark.slow
def test_budgets_are_part_of_the_digest_of_the_data(write: Write) -> None:
    """A column of budgets changes the digest of the data set."""
    table = write()
    digest = table.load().digest()
    write_lines(
        path=Path(str(table.private)), head=f"{HEAD},agreed", lines=[f"{row},1" for row in PRIVATE]
    )
    assert reread(table=replace(table, budget="agreed")).digest() != digest


@pytest.mark.slow
def test_rows_of_several_owners_are_grouped_or_weighted(write: Write) -> None:
    """Rows with a patient and a doctor each become groups of linked rows.

    If links would leave one group, rows are weighted. A column that a file lacks is refused.
    """
    rows = [
        "q1,2025-01-02,20,F,d1,1,1",
        "q1,2025-01-03,20,F,d2,0,1",
        "q2,2024-01-01,40,M,d3,1,0",
        "q3,,40,M,d3,1,0",
    ]
    test = ["t1,2025-01-04,30,F,t,1,0"]
    dataset = replace(write(private=rows, test=test), group=("patient", "note")).load()
    assert dataset.private.group_ids.tolist()[::2] == [0, 1] and dataset.private.num_groups == 2
    assert dataset.weights is None and any(
        "who belongs with whom is taken as public" in line for line in dataset.notes
    )
    assert set(dataset.owners) == {"group"} and dataset.owners["group"] >= {b"q1", b"d3"}
    square = [
        f"q{i},2025-01-02,20,F,d{j},1,1" for i in range(8) for j in range(8) if (i - j) % 8 < 2
    ]
    counted = replace(write(private=square, test=test), group=("patient", "note")).load()
    assert counted.weights is not None and counted.private.num_groups == 16
    owners = "one value of the column patient, or one of the column note, with all its rows"
    for either in (dataset, counted):
        unit = PrivacyUnit(
            f"{owners} (who belongs with whom is public)", columns=("patient", "note")
        )
        assert either.privacy_unit == unit
    # each patient and each doctor has two rows
    np.testing.assert_allclose(counted.weights, 0.5, rtol=1e-5)
    with refused("data.group", value="note"):
        replace(write(), group=("patient", "note")).load()


PEOPLE = ["A-1001,20,F,0", "A-1002,30,M,1", "A-1003,40,F,1", "A-1004,25,M,0"]


def write_patients(
    folder: Path,
    *,
    head: str = "mrn,age,sex,flu",
    private: list[str] | None = None,
    public: list[str] | None = None,
    test: list[str] | None = None,
) -> Table:
    """Writes three files of patients with a number each, and returns their reader without a group."""
    paths = {}
    for place, (split, rows) in enumerate(
        {"private": private, "public": public, "test": test}.items()
    ):
        lines = rows or [row.replace("A-1", f"A-{place}") for row in PEOPLE]
        paths[split] = write_lines(path=folder / f"{split}.csv", head=head, lines=lines)
    return Table(
        private=paths["private"],
        public=paths["public"],
        test=paths["test"],
        labels=("flu",) if head.endswith("flu") else ("1",),
    )


GROUP_FIRST = (
    "data.group=mrn if it says whose a row is, else 'data.drop=[mrn]' "
    "leaves it out, and each row by itself is"
)


def test_refusal_of_a_column_unknown_to_the_schema_offers_group_first(tmp_path: Path) -> None:
    """A column of patients' numbers is not in the schema. The refusal proposes `data.group` before `data.drop`."""
    table = write_patients(folder=tmp_path)
    path = tmp_path / "s.yaml"
    Table(public=table.public, labels=("flu",), group="mrn").public_schema().write(path)
    line = f"data.schema={path}: expected no other column in data.public than it lists, and there is mrn; "
    with pytest.raises(InvalidValue, match=rf"^{re.escape(line + GROUP_FIRST)} protected$"):
        replace(table, schema=str(path)).load()


def test_refusal_of_a_column_of_words_offers_group_first(tmp_path: Path) -> None:
    """A public column has a different word in each row. The refusal proposes `data.group` before `data.drop`."""
    people = [f"B-{number:04},{number % 60},F,{number % 2}" for number in range(120)]
    line = rf"^data\.public\.mrn: expected numbers.*; {re.escape(GROUP_FIRST)}"
    with pytest.raises(InvalidValue, match=line):
        write_patients(folder=tmp_path, public=people).load()


def test_refusal_of_a_missing_column_offers_group_first(tmp_path: Path) -> None:
    """The public file lacks the patients' numbers.

    The refusal proposes `data.group` first, unless another group is set.
    """
    table = write_patients(folder=tmp_path)
    (tmp_path / "public.csv").write_text("age,sex,flu\n20,F,0\n30,M,1\n")
    line = rf"^data\.private\.mrn: .*public lacks it; {re.escape(GROUP_FIRST)}"
    with pytest.raises(InvalidValue, match=line):
        table.load()
    with refused("data.group", value="mrn", rule="each person there"):
        replace(table, group="mrn").load()
    with refused("data.private.mrn", rule="where data.group=sex says whose a row is"):
        replace(table, group="sex").load()


def test_remark_on_person_numbers_offers_group_first(tmp_path: Path) -> None:
    """A public column has another number in each row.

    The remark proposes `data.group` before `data.id` and `data.drop`.
    """
    public = [f"{7000 + number},{number % 9},F,{number % 2}" for number in range(40)]
    table = write_patients(folder=tmp_path, public=public)
    line, _ = Table(public=table.public, labels=("flu",)).public_remarks()
    assert line == (
        "mrn: another number in each row; data.group=mrn if it is that of a person; if it is the number of "
        "a record, data.id=mrn or 'data.drop=[mrn]' takes it from the features"
    )


@pytest.fixture
def numbered_columns(tmp_path: Path) -> Table:
    """Returns a reader whose settings name columns by the whole numbers 1, 2019 and 7, as Hydra parses them."""
    table = write_patients(
        folder=tmp_path,
        head="2019,0,7,1",
        private=[f"0{row},{row},-9,0" for row in range(4)],
        public=[f"1{row},{row},-9,0" for row in range(4)],
        test=["90,1,3,1"],
    )
    labels: Any = [1]
    group: Any = 2019
    drop: Any = [7]
    return replace(table, labels=labels, group=group, drop=drop)


def test_columns_may_be_named_by_whole_numbers(numbered_columns: Table) -> None:
    """Settings name columns by the numbers 1, 2019 and 7. The columns of these names are read."""
    dataset = numbered_columns.load()
    assert dataset.label_names == ("1",)
    assert isinstance(dataset.preprocessing, TableSchema)
    assert dataset.preprocessing.names == ("0",)
    assert dataset.private.num_groups == 4


def test_words_for_missing_cells_may_be_whole_numbers(numbered_columns: Table) -> None:
    """`missing=[-9]` as a number makes cells of -9 missing; here the public column is then refused as empty."""
    missing: Any = [-9]
    with refused("data.public.7", rule="a value in"):
        replace(numbered_columns, drop=(), missing=missing).load()


@pytest.mark.parametrize("label", [1.0, None, True])
def test_values_other_than_names_are_refused_as_columns(
    numbered_columns: Table, label: Any
) -> None:
    """A float, None or a truth value as the name of a label is refused."""
    with refused("data.labels", value=ANY, rule="a list of"):
        replace(numbered_columns, labels=(label,))


def test_time_to_compare_names_is_linear_in_columns(tmp_path: Path) -> None:
    """The names of 2,000 columns are compared with fewer than 10 comparisons for each name.

    Otherwise a table of thousands of columns would take too long.
    """
    compared = 0

    class Counted(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Counted(f"gene{number}") for number in range(2000)]
    require_columns("data", columns=names, required=[str(name) for name in names])
    assert compared < 10 * len(names)
    file = TableFile(Path(str(write_patients(folder=tmp_path).public)), setting="data")
    assert file.names is file.names  # is read once, not for each column


SETTINGS = TableSettings(labels=("flu",), group="mrn", drop=("sex",))


def reader_with_schema(table: Table, settings: TableSettings | None = None) -> Table:
    """Writes a schema's file with settings, and returns a reader that names this file and sets nothing else."""
    path = Path(str(table.public)).with_name("schema.yaml")
    fitted = Table(public=table.public, labels=("flu",), group="mrn", drop=("sex",))
    fitted.public_schema().write(path, settings)
    return replace(table, labels=(), schema=str(path))


def test_settings_in_a_schema_apply_to_a_run(tmp_path: Path) -> None:
    """A schema file has labels, group and dropped columns.

    A reader with the schema alone gives the data set of these settings.
    """
    table = write_patients(folder=tmp_path)
    completed = reader_with_schema(table=table, settings=SETTINGS)
    dataset = completed.load()
    expected = replace(completed, labels=("flu",), group="mrn", drop=("sex",)).load()
    assert dataset.digest() == expected.digest()
    people = frozenset(
        f"{letter}-0{number:03}".encode() for number in range(1, 5) for letter in "Aa"
    )
    assert dataset.owners == expected.owners == {"group": people}
    assert isinstance(dataset.preprocessing, TableSchema)
    assert dataset.preprocessing.names == ("age",)
    completed.require_settings()


def test_settings_of_a_schema_are_not_published(tmp_path: Path) -> None:
    """Settings in a schema file are read, but are no part of the published schema."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path), settings=SETTINGS)
    assert load_settings(str(completed.schema)) == SETTINGS
    published = completed.load().preprocessing
    assert isinstance(published, TableSchema)
    assert "settings" not in published.plain()


def test_schema_stores_the_encoding(tmp_path: Path) -> None:
    """A schema file names cp1252. A private file in this encoding is read."""
    completed = reader_with_schema(
        table=write_patients(folder=tmp_path), settings=replace(SETTINGS, encoding="cp1252")
    )
    (tmp_path / "private.csv").write_bytes("mrn,age,sex,flu\nJos\u00e9,30,F,1\n".encode("cp1252"))
    names = frozenset({"Jos\u00e9".encode(), "jos\u00e9".encode()})
    assert completed.load().owners == {"group": names}


def test_holder_reads_private_records_with_a_schema_alone(tmp_path: Path) -> None:
    """A reader of the private file and the schema has the labels of the schema's settings."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path), settings=SETTINGS)
    holder = Table(private=completed.private, schema=completed.schema)
    assert holder.private_records().label_names == ("flu",)


def test_settings_of_a_run_override_the_schema(tmp_path: Path) -> None:
    """Another group or other dropped columns than the schema's replace its settings; here both are then refused."""
    table = write_patients(folder=tmp_path, private=["A-9,30,F,1", "A-9,31,M,0"])
    completed = reader_with_schema(table=table, settings=SETTINGS)
    assert completed.load().private.num_groups == 1
    other = "and there is mrn; 'data.drop=[mrn]' leaves it out, where data.group=age says whose a row is"
    with pytest.raises(InvalidValue, match=re.escape(other)):
        replace(completed, group="age").load()
    with refused("data.drop", value="mrn"):
        replace(completed, drop=("mrn",)).load()


def test_schema_without_settings_gives_defaults(tmp_path: Path) -> None:
    """A schema without settings leaves labels empty, which is refused."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path))
    assert "settings" not in Path(str(completed.schema)).read_text().replace("`settings`", "")
    with refused("data.labels", value="[]", rule="columns that"):
        completed.load()


def test_an_unknown_setting_in_a_schema_is_refused(tmp_path: Path) -> None:
    """A schema file has a setting `groups`, which does not exist. It is refused under its place."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path))
    path = Path(str(completed.schema))
    path.write_text(path.read_text().replace("columns:", "settings: {groups: mrn}\ncolumns:"))
    line = r"^data\.schema=\S+\.settings\.groups=mrn: expected settings of pate-schema"
    with pytest.raises(InvalidValue, match=line):
        completed.load()


def test_labels_in_a_schema_must_be_a_list(tmp_path: Path) -> None:
    """A schema file names labels as one text. It is refused."""
    completed = reader_with_schema(table=write_patients(folder=tmp_path))
    path = Path(str(completed.schema))
    path.write_text(path.read_text().replace("columns:", "settings: {labels: flu}\ncolumns:"))
    with refused("data.labels", value="flu"):
        completed.load()
