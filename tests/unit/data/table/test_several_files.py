"""Tables in folders, or named by patterns of files, are read as one file that has all rows."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Dataset, Table
from pate.data.table.fingerprints import cell_digest
from pate.data.table.table_file import TableFile
from tests.refusals import ANY, refused_parameter

pa = pytest.importorskip("pyarrow")

MakeReader = Callable[[Path | str], Table]
"""A function from the path of private files to the reader of these files beside the usual public and test file."""

NUM_ROWS = 20_000
ENDINGS = ("parquet", "csv", "csv.gz", "jsonl", "feather")


def records(num_rows: int, *, first: int = 0, millions: int = 0) -> Any:
    """Returns a pyarrow table of persons with some records each, an id, numbers, words and a label.

    Args:
        num_rows: the number of rows.
        first: the number of the first record.
        millions: the millions that are added to the numbers of records and persons, so that splits share none.
    """
    row = first + np.arange(num_rows)
    return pa.table(
        {
            "record": row + 10**6 * millions,
            "person": row * 7919 % (num_rows // 2) + 10**6 * millions,
            # Some of the first 40 of each 9,000 numbers are fractions, and all other numbers are whole.
            "dose": np.where(row % 9000 < 40, row / 8, row % 50),
            "age": pa.array(row % 83, mask=row % 31 == 0),
            "sex": np.array(["f", "m", "x"])[row % 3],
            "flu": (row % 5 == 0).astype(np.int8),
        }
    )


PUBLIC = records(num_rows=600, millions=1)
TEST = records(num_rows=90, millions=2)


def write_table(path: Path, table: Any) -> None:
    """Writes a table as a file of the kind that the path's ending says."""
    from pyarrow import csv, feather, parquet

    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=3000)
    elif path.suffix == ".feather":
        feather.write_feather(table, path)
    elif path.suffix == ".jsonl":
        lines = table.to_pandas().to_json(orient="records", lines=True, double_precision=15)
        path.write_text(lines)
    else:
        with pa.output_stream(str(path), compression="detect") as out:
            csv.write_csv(table, out)


def write_parts(folder: Path, table: Any, part_ends: list[int], ending: str = "parquet") -> Path:
    """Writes the rows of a table into several files of a new folder, and returns the folder.

    Args:
        folder: the new folder.
        table: the table.
        part_ends: the row numbers at which one file ends and the next one begins.
        ending: the ending of the files' names.
    """
    folder.mkdir()
    bounds = [0, *part_ends, table.num_rows]
    for part, (start, end) in enumerate(pairwise(bounds)):
        write_table(path=folder / f"part-{part}.{ending}", table=table.slice(start, end - start))
    return folder


@pytest.fixture
def reader_of(tmp_path: Path) -> MakeReader:
    """Writes the public and the test file, and returns a function that makes the reader for private files."""
    write_table(path=tmp_path / "public.parquet", table=PUBLIC)
    write_table(path=tmp_path / "test.parquet", table=TEST)

    def make_reader(private: Path | str) -> Table:
        return Table(
            private=str(private),
            public=str(tmp_path / "public.parquet"),
            test=str(tmp_path / "test.parquet"),
            labels=("flu",),
            group="person",
            id="record",
        )

    return make_reader


def replace_column(table: Any, name: str, cells: Any) -> Any:
    """Returns a pyarrow table in which a column has other cells, at the same place among the columns."""
    return table.set_column(table.column_names.index(name), name, cells)


def identity_of(dataset: Dataset) -> tuple[Any, ...]:
    """Returns the digests, notes and owners of a data set."""
    return (
        dataset.digest(),
        dataset.private_digest(),
        dataset.private.digest(),
        dataset.notes,
        {kind: frozenset(names) for kind, names in dataset.owners.items()},
    )


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_gives_the_data_set_of_one_joined_file(
    reader_of: MakeReader, tmp_path: Path, ending: str
) -> None:
    """Three files give the digests, notes and owners of one joined file, also for groups with rows in several files."""
    table = records(num_rows=NUM_ROWS)
    write_table(path=tmp_path / f"whole.{ending}", table=table)
    folder = write_parts(
        folder=tmp_path / "many", table=table, part_ends=[5001, 12_345], ending=ending
    )
    dataset_of_joined_file = reader_of(tmp_path / f"whole.{ending}").load()
    for path_or_pattern in (
        folder,
        folder / f"part-*.{ending}",
        f"{tmp_path}/m*/part-[0-2].{ending}",
    ):
        assert identity_of(dataset=reader_of(path_or_pattern).load()) == identity_of(
            dataset=dataset_of_joined_file
        )
    assert dataset_of_joined_file.private.num_groups == NUM_ROWS // 2
    groups = dataset_of_joined_file.private.group_ids
    assert len(np.intersect1d(groups[:5001], groups[12_345:])) > 1000


def test_files_are_read_in_the_order_of_their_names(reader_of: MakeReader, tmp_path: Path) -> None:
    """Row numbers continue from one file to the next, in the order of the files' names."""
    table = records(num_rows=30)
    (tmp_path / "many").mkdir()
    for name, start in (("c", 20), ("a", 0), ("b", 10)):
        write_table(path=tmp_path / "many" / f"{name}.csv", table=table.slice(start, 10))
    write_table(path=tmp_path / "whole.csv", table=table)
    from_folder = replace(reader_of(tmp_path / "many"), group=None, id=None).load().private
    from_one_file = replace(reader_of(tmp_path / "whole.csv"), group=None, id=None).load().private
    assert from_folder.record_ids.tolist() == list(range(30))
    assert np.array_equal(from_folder.inputs, from_one_file.inputs)


@pytest.mark.parametrize("split", ["public", "test"])
def test_public_and_test_rows_may_lie_in_folders(
    reader_of: MakeReader, tmp_path: Path, split: str
) -> None:
    """A folder of public or test files gives the data set of one file, so all public files determine the schema."""
    write_table(path=tmp_path / "private.parquet", table=records(num_rows=60))
    table = {"public": PUBLIC, "test": TEST}[split]
    folder = write_parts(folder=tmp_path / "many", table=table, part_ends=[20, 50])
    usual_reader = reader_of(tmp_path / "private.parquet")
    if split == "public":
        parts_reader = replace(usual_reader, public=str(folder))
    else:
        parts_reader = replace(usual_reader, test=str(folder))
    assert identity_of(dataset=parts_reader.load()) == identity_of(dataset=usual_reader.load())


@pytest.mark.slow
def test_one_folder_may_hold_all_splits(tmp_path: Path) -> None:
    """A folder as `path`, with a column of splits, gives the data set of one file."""
    splits = {
        "private": records(num_rows=40),
        "public": records(num_rows=50, millions=1),
        "test": records(num_rows=30, millions=2),
    }
    tables = [
        table.append_column("which", pa.array([split] * len(table)))
        for split, table in splits.items()
    ]
    mixed_order = np.argsort(np.arange(120) * 37 % 120)
    table = pa.concat_tables(tables).take(mixed_order)
    write_table(path=tmp_path / "whole.csv", table=table)
    folder = write_parts(folder=tmp_path / "many", table=table, part_ends=[11, 60], ending="csv")
    whole = Table(
        path=str(tmp_path / "whole.csv"),
        split="which",
        labels=("flu",),
        group="person",
        id="record",
    )
    parts = replace(whole, path=str(folder))
    assert identity_of(dataset=parts.load()) == identity_of(dataset=whole.load())


def test_files_of_programs_beside_the_data_are_left_out(tmp_path: Path) -> None:
    """Files whose names begin with a point or an underscore, as Spark writes them, are not read as data."""
    folder = write_parts(folder=tmp_path / "many", table=records(num_rows=30), part_ends=[10])
    for name in ("_SUCCESS", ".part-0.parquet.crc"):
        (folder / name).write_text("other")
    (folder / "_log").mkdir()
    files = TableFile(folder, setting="data.private").source_files
    assert [file.path.name for file in files] == ["part-0.parquet", "part-1.parquet"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("part-2.csv", "files of one kind, and part-0.parquet is parquet"),
        ("read.me", "a file that is there and ends in"),
        ("inner/", "a file that is there and ends in"),
    ],
)
def test_other_files_in_a_folder_are_refused(tmp_path: Path, name: str, rule: str) -> None:
    """A folder is refused, with the path, if it has a file of another or unknown kind, or a subfolder.

    A pattern of file names leaves such a file out.
    """
    folder = write_parts(folder=tmp_path / "many", table=records(num_rows=30), part_ends=[10])
    if name.endswith("/"):
        (folder / name).mkdir()
    else:
        (folder / name).write_text("a,b\n1,2\n")
    table = TableFile(folder, setting="data.private")
    with refused_parameter("data.private", value=folder / name, rule_words=rule):
        list(table.rows())
    pattern = TableFile(folder / "*.parquet", setting="data.private")
    assert sum(len(numbers) for numbers, _ in pattern.rows()) == 30


@pytest.mark.parametrize("place", ["empty", "empty/*.csv", "gone/part-*.csv"])
def test_a_path_without_files_is_refused(reader_of: MakeReader, tmp_path: Path, place: str) -> None:
    """An empty folder, and patterns that nothing matches, are refused with the setting."""
    (tmp_path / "empty").mkdir()
    with refused_parameter(
        "data.private", value=tmp_path / place, rule_words="a folder with a file in it"
    ):
        reader_of(tmp_path / place).load()


def test_a_file_may_be_named_like_a_pattern(reader_of: MakeReader, tmp_path: Path) -> None:
    """A file whose name has brackets is read, and not taken for a pattern."""
    write_table(path=tmp_path / "a[1].csv", table=records(num_rows=30))
    write_table(path=tmp_path / "a1.csv", table=records(num_rows=40))
    assert len(reader_of(tmp_path / "a[1].csv").load().private) == 30


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize(
    ("second_table", "difference"),
    [
        (records(num_rows=20).drop_columns(["age"]), "it lacks age"),
        (records(num_rows=20).append_column("more", pa.array(range(20))), "it also has more"),
    ],
    ids=["one column fewer", "one column more"],
)
def test_files_with_other_columns_are_refused(
    tmp_path: Path, ending: str, second_table: Any, difference: str
) -> None:
    """A second file that lacks a column, or has one more, is refused with its path and the column."""
    table = records(num_rows=20)
    folder = write_parts(folder=tmp_path / "many", table=table, part_ends=[], ending=ending)
    second_file_path = folder / f"part-1.{ending}"
    write_table(path=second_file_path, table=second_table)
    rule = f"the columns of part-0.{ending} and no others, {difference}"
    with refused_parameter("data", value=second_file_path, rule_words=rule):
        list(TableFile(folder, setting="data").rows())


def test_columns_may_be_in_another_order(tmp_path: Path) -> None:
    """Columns are found by their names if a second file has them in reverse order."""
    table = records(num_rows=20)
    folder = write_parts(folder=tmp_path / "many", table=table.slice(0, 10), part_ends=[])
    with_reversed_columns = table.slice(10).select(table.column_names[::-1])
    write_table(path=folder / "part-1.parquet", table=with_reversed_columns)
    assert TableFile(folder, setting="data").read().to_pydict() == table.to_pydict()


def test_types_that_hold_each_other_are_joined(tmp_path: Path) -> None:
    """A column of whole numbers in one file, and of floats or missing cells in others, becomes one of floats.

    Pandas writes the parts of a table in this way.
    """
    folder = tmp_path / "many"
    folder.mkdir()
    cells = [pa.array([1, 2]), pa.array([0.5, None]), pa.nulls(1), pa.array([3], pa.int8())]
    for part, ages in enumerate(cells):
        write_table(path=folder / f"{part}.parquet", table=pa.table({"age": ages}))
    joined = TableFile(folder, setting="data").read()
    assert joined.to_pydict() == {"age": [1.0, 2.0, 0.5, None, None, 3.0]}
    assert joined.schema.field("age").type == pa.float64()


def test_types_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Words in one file beside floats in another are refused, and so are whole numbers that a float cannot hold.

    The error does not show these numbers.
    """
    folder = tmp_path / "many"
    folder.mkdir()
    write_table(path=folder / "0.parquet", table=pa.table({"age": [1.5]}))
    write_table(path=folder / "1.parquet", table=pa.table({"age": ["2"]}))
    rule = "one type in each file for the column age, it has string and 0.parquet double"
    with refused_parameter("data", value=folder / "1.parquet", rule_words=rule):
        TableFile(folder, setting="data").read()
    write_table(path=folder / "1.parquet", table=pa.table({"age": [2**53 + 1]}))
    with refused_parameter(
        "data", value=folder / "1.parquet", rule_words="whole numbers below 2**53"
    ) as caught:
        TableFile(folder, setting="data").read()
    assert str(2**53 + 1) not in str(caught.value)


@pytest.mark.parametrize("other", ["many/part-1.csv", "many", "many/*-1.csv", "link.csv"])
def test_one_file_in_two_splits_is_refused(
    reader_of: MakeReader, tmp_path: Path, other: str
) -> None:
    """A test split is refused if its path is the name of a private file, its folder, a pattern or a link."""
    folder = write_parts(
        folder=tmp_path / "many", table=records(num_rows=30), part_ends=[10, 20], ending="csv"
    )
    os.link(folder / "part-1.csv", tmp_path / "link.csv")
    with refused_parameter("data.test", value=ANY, rule_words="another file than data.private"):
        replace(reader_of(folder), test=str(tmp_path / other)).load()


def test_one_file_twice_in_a_folder_is_refused(reader_of: MakeReader, tmp_path: Path) -> None:
    """A link in the private folder to a file of this folder is refused, as its rows would count twice."""
    folder = write_parts(
        folder=tmp_path / "many", table=records(num_rows=30), part_ends=[10], ending="csv"
    )
    (folder / "part-2.csv").symlink_to("part-0.csv")
    with refused_parameter(
        "data.private", value=folder / "part-2.csv", rule_words="each file once"
    ):
        reader_of(folder).load()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_wrong_cell_is_named_with_its_file(
    reader_of: MakeReader, tmp_path: Path, ending: str
) -> None:
    """A wrong label in the fourth row of the second file is refused with row and file."""
    table = records(num_rows=30)
    labels = table.column("flu").to_pylist()
    labels[13] = 7
    table = replace_column(table, name="flu", cells=pa.array(labels))
    folder = write_parts(folder=tmp_path / "many", table=table, part_ends=[10, 20], ending=ending)
    rule = f"1 of 30 rows hold something else, row 4 of {folder}/part-1.{ending} is the first"
    with refused_parameter("data.private.flu", rule_words=rule):
        reader_of(folder).load()


def test_a_wrong_number_is_named_with_its_file(reader_of: MakeReader, tmp_path: Path) -> None:
    """A word in a column of numbers, in the last file, is refused with row and file."""
    table = records(num_rows=30)
    ages = table.column("age").cast(pa.string()).to_pylist()
    ages[29] = "old"
    table = replace_column(table, name="age", cells=pa.array(ages))
    folder = write_parts(folder=tmp_path / "many", table=table, part_ends=[10, 20], ending="csv")
    with refused_parameter(
        "data.private.age", rule_words=f"row 10 of {folder}/part-2.csv is the first"
    ):
        reader_of(folder).load()


def test_damage_is_named_with_its_file(reader_of: MakeReader, tmp_path: Path) -> None:
    """A row with too few cells in the second file is refused with the path and the row in this file."""
    folder = write_parts(
        folder=tmp_path / "many", table=records(num_rows=30), part_ends=[10, 20], ending="csv"
    )
    path = folder / "part-1.csv"
    path.write_text(path.read_text() + "1,2\n")
    with refused_parameter(
        "data.private",
        value=path,
        rule_words="1 of 11 rows have more or fewer, row 11 is the first",
    ):
        reader_of(folder).load()


def test_copies_in_several_files_are_remarked_on(reader_of: MakeReader, tmp_path: Path) -> None:
    """Public records that are copied into one of the private files are counted by a remark."""
    copies = PUBLIC.slice(0, 300)
    for column in ("record", "person"):
        other_numbers = pa.compute.add(copies.column(column), 10**7)
        copies = replace_column(copies, name=column, cells=other_numbers)
    folder = write_parts(folder=tmp_path / "many", table=records(num_rows=60), part_ends=[20])
    write_table(path=folder / "part-2.parquet", table=copies)
    notes = reader_of(folder).load().notes
    assert any(note.startswith("data.public: ") and "of private ones" in note for note in notes)


def test_an_id_in_two_files_is_refused(reader_of: MakeReader, tmp_path: Path) -> None:
    """Ids of ten rows that occur in two private files are refused in data without groups."""
    folder = write_parts(folder=tmp_path / "many", table=records(num_rows=30), part_ends=[20])
    write_table(path=folder / "part-2.parquet", table=records(num_rows=10))
    with refused_parameter(
        "data.id", value="record", rule_words="another id in each row, 10 of 40 rows of private"
    ):
        replace(reader_of(folder), group=None).load()


def test_ids_are_the_same_people_as_numbers_and_as_words(
    reader_of: MakeReader, tmp_path: Path
) -> None:
    """Ids and groups that are whole numbers in Parquet give the same data set as the same numbers as words."""
    table = records(num_rows=60)
    words = table
    for column in ("record", "person"):
        numbers_as_words = words.column(column).cast(pa.string())
        words = replace_column(words, name=column, cells=numbers_as_words)
    write_table(path=tmp_path / "numbers.parquet", table=table)
    write_table(path=tmp_path / "words.parquet", table=words)
    from_numbers = reader_of(tmp_path / "numbers.parquet").load()
    from_words = reader_of(tmp_path / "words.parquet").load()
    assert identity_of(dataset=from_numbers) == identity_of(dataset=from_words)
    assert from_numbers.owners["group"] == {b"%d" % person for person in range(30)}


def odd_float(row_number: int) -> float:
    """Returns NaN for multiples of 9, infinity for those of 10, minus zero for those of 7, else 1e17 times the number.

    The first of these rules that applies is taken.
    """
    if row_number % 9 == 0:
        return float("nan")
    if row_number % 10 == 0:
        return float("inf")
    if row_number % 7 == 0:
        return -0.0
    return row_number * 1e17


def test_digests_of_cells_are_those_in_ledgers() -> None:
    """The digest of cells of 17 columns of many types is that of version 1, by which ledgers recognize records.

    The table has a whole batch and a part of one, as texts of floats depend on the other floats of a batch. The
    expected digests were computed before the digest was made in one pass.
    """
    num_rows = 9000
    row_numbers = np.arange(num_rows)
    columns = {
        "id": pa.array(row_numbers * 7919 % 100003),
        "small": pa.array((row_numbers % 5).astype(np.int8), mask=row_numbers % 11 == 0),
        "unsigned": pa.array((row_numbers * 2**50).astype(np.uint64)),
        "whole at first": pa.array(
            np.where(row_numbers < 8192, row_numbers % 100, row_numbers / 8)
        ),
        "whole": pa.array((row_numbers % 90).astype(np.float64), mask=row_numbers % 13 == 0),
        "single": pa.array((row_numbers / 3).astype(np.float32)),
        "odd": pa.array(
            [odd_float(row_number) for row_number in range(num_rows)], from_pandas=False
        ),
        "flag": pa.array(row_numbers % 3 == 0, mask=row_numbers % 17 == 0),
        "word": pa.array(
            [
                ["", " a b ", "x", None, "\u00e9\u200b"][row_number % 5]
                for row_number in range(num_rows)
            ]
        ),
        "large": pa.array(
            [f"w{row_number % 3}" for row_number in range(num_rows)], pa.large_string()
        ),
        "code": pa.array(
            [f"c{row_number % 4}" for row_number in range(num_rows)]
        ).dictionary_encode(),
        "day": pa.array(
            [
                datetime.date(2000, 1, 1) + datetime.timedelta(days=row_number)
                for row_number in range(num_rows)
            ]
        ),
        "moment": pa.array(row_numbers.astype("datetime64[s]")),
        "price": pa.array(
            [Decimal(row_number) / 4 for row_number in range(num_rows)],
            pa.decimal128(precision=12, scale=3),
        ),
        "bytes": pa.array([bytes([row_number % 256, 65]) for row_number in range(num_rows)]),
        "list": pa.array([[row_number % 3, row_number] for row_number in range(num_rows)]),
        "none": pa.nulls(num_rows),
    }
    table = pa.table(columns)
    batches = [(row_numbers[first : first + 8192], table.slice(first, 8192)) for first in (0, 8192)]
    expected_digest = "b45dd0742785ef5917dfac9266fbec8b57ffdcdb9d63548404185fce0dcae0c4"
    assert cell_digest(batches) == expected_digest
    assert cell_digest(batches[:1]) != expected_digest
    table_of_words = pa.table(
        {
            "age": [
                ["3,5", "3.5", " 7 ", "NA", ""][row_number % 5] for row_number in range(num_rows)
            ],
            "word": [f"w{row_number % 17}" for row_number in range(num_rows)],
        }
    )
    expected_digest = "e7a4dfd96b62b591114310c527067115bf36741e7172c403a83638a34a4832fd"
    assert cell_digest([(row_numbers, table_of_words)], cells_are_text=True) == expected_digest
    expected_digest = "c02332f356ece811f5b91b7ebc26719e7eed763b0afc9f2c960ab97d13d4ed25"
    assert cell_digest([(row_numbers, table_of_words)]) == expected_digest


@pytest.mark.process
@pytest.mark.slow
def test_many_rows_of_a_folder_take_little_memory(tmp_path: Path) -> None:
    """A process that reads a folder of files grows by fewer bytes than its inputs have once they are encoded."""
    code = """
import re, sys
from functools import partial
from pathlib import Path
import numpy as np, pyarrow as pa
from pyarrow import parquet
from pate.data import Table
from pate.data.table import rows
from pate.files.array_rows import Spilled
from pate.threads import all_cores

folder = Path(sys.argv[1])
rows.Spilled = partial(Spilled, most_bytes=2**22)

def largest():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def write(name, num_files, rows_of_file, seed):
    (folder / name).mkdir()
    rng = np.random.default_rng(seed)
    for part in range(num_files):
        ids = np.arange(rows_of_file) + rows_of_file * part + 10**7 * seed
        numbers = {f"x{i}": rng.integers(0, 99, rows_of_file).astype(np.int8) for i in range(200)}
        table = pa.table({"id": ids, **numbers, "flu": (ids % 3 == 0).astype(np.int8)})
        parquet.write_table(table, folder / name / f"{part}.parquet")
    return str(folder / name)

@all_cores()
def load(private):
    return Table(private=private, public=public, test=test, labels=("flu",), id="id").load()

public, test = write("public", 1, 500, 1), write("test", 1, 500, 2)
load(write("few", 2, 9000, 3))  # what is imported, and threads
many = write("many", 8, 12_000, 4)
before = largest()
dataset = load(many)
print(dataset.private.inputs.nbytes / 2**20, largest() - before)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    mebibytes_of_inputs, mebibytes_of_growth = map(float, ended.stdout.split())
    assert mebibytes_of_inputs > 73
    assert mebibytes_of_growth < 60
