"""Tables in files, such as three CSV files whose features are computed by hand."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import Table, TableSchema
from pate.files.array_rows import FileRows, Spilled
from tests.refusals import refused_parameter
from tests.unit.data.table.small_table import (
    HEAD,
    PRIVATE_ROWS,
    PUBLIC_ROWS,
    TEST_ROWS,
    write_lines,
    write_table,
)

pa = pytest.importorskip("pyarrow")


def test_small_table_gives_hand_computed_features(tmp_path: Path) -> None:
    """Three small files give the features, labels, groups and units of privacy that are worked out by hand."""
    dataset = write_table(folder=tmp_path).load()
    assert dataset.label_names == ("flu", "cough")
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    assert schema.feature_names == (
        "seen",
        "age",
        "age=missing",
        "sex=F",
        "sex=M",
        "sex=other",
        "sex=missing",
        "note=a",
        "note=b",
        "note=other",
    )
    # The public days are 0, 2, 4 and 6, and their mean is 3; the mean of the public ages is 40 years.
    std_of_days = np.sqrt(5.0)
    std_of_ages = np.std([20.0, 40.0, 60.0])
    expected_inputs = [
        # An age of 1000 years is cut to the largest public age, 60.
        [-2 / std_of_days, 20 / std_of_ages, 0, 1, 0, 0, 0, 1, 0, 0],
        # A missing age is the mean; a new category is `other`.
        [-1 / std_of_days, 0, 1, 0, 0, 1, 0, 0, 0, 1],
        # A date before all public dates is cut to the first public date.
        [-3 / std_of_days, 0, 0, 0, 1, 0, 0, 0, 1, 0],
    ]
    assert np.allclose(dataset.private.inputs, expected_inputs, atol=1e-6)
    assert dataset.private.labels.tolist() == [[True, True], [False, True], [True, False]]
    first_group, second_group, third_group = dataset.private.group_ids
    assert first_group == second_group != third_group
    assert sorted(dataset.published_ids.tolist()) == [0, 1, 2, 3]
    assert dataset.privacy_unit == PrivacyUnit(
        words="one value of the column patient, with all its rows", columns=("patient",)
    )
    ungrouped = replace(write_table(folder=tmp_path), group=None, drop=("patient",)).load()
    assert ungrouped.privacy_unit == PrivacyUnit(words="one row")


@pytest.mark.slow
def test_public_rows_are_shuffled_with_their_ids(tmp_path: Path) -> None:
    """Public rows are in another order than in the file, and each has the id of its row in the file."""
    rows = [f"p{number},2025-01-01,{number},F,a,0,1" for number in range(40)]
    dataset = write_table(folder=tmp_path, public=rows).load()
    ids = dataset.published_ids
    assert ids.tolist() != sorted(ids.tolist())
    ages = dataset.public.inputs[:, 1]
    assert np.array_equal(np.argsort(ages), np.argsort(ids))


@pytest.mark.slow
def test_column_of_ids_gives_the_published_ids(tmp_path: Path) -> None:
    """With `id=patient`, the published ids are the patients of the public file."""
    table = write_table(folder=tmp_path, private=PRIVATE_ROWS[1:], public=PUBLIC_ROWS[1:])
    dataset = replace(table, id="patient").load()
    assert sorted(dataset.published_ids.tolist()) == ["p1", "p2", "p3"]


@pytest.mark.slow
def test_schema_does_not_depend_on_private_and_test_rows(tmp_path: Path) -> None:
    """The schema does not depend on the private and test rows."""
    usual = write_table(folder=tmp_path).load()
    with_other_rows = write_table(
        folder=tmp_path,
        private=["r1,1999-01-01,1,X,z,0,0", "r2,1999-01-02,2,Y,,0,0"],
        test=["sr2,1999-01-02,2,Y,,0,0"],
    ).load()
    assert usual.preprocessing == with_other_rows.preprocessing


@pytest.mark.slow
def test_private_groups_do_not_depend_on_public_names(tmp_path: Path) -> None:
    """The private groups do not depend on the names of public patients."""
    usual = write_table(folder=tmp_path).load()
    rows_of_renamed_patients = [f"a{row}" for row in PUBLIC_ROWS]
    renamed = write_table(folder=tmp_path, public=rows_of_renamed_patients).load()
    assert usual.private.group_ids.tolist() == renamed.private.group_ids.tolist()


@pytest.mark.slow
def test_private_digest_depends_on_private_cells_alone(tmp_path: Path) -> None:
    """The private digest depends on private cells and not on chosen labels or features, public rows, or the row order.

    It changes with one private cell, and with the number of private rows. A ledger recognizes records by their cells,
    not by the features that the public file makes of them.
    """
    digest = write_table(folder=tmp_path).load().private_digest()
    fewer_labels = replace(write_table(folder=tmp_path), labels=("flu",), drop=("cough",))
    fewer_features = replace(write_table(folder=tmp_path), drop=("seen", "note"))
    assert fewer_labels.load().private_digest() == digest
    assert fewer_features.load().private_digest() == digest
    more_public_rows = [*PUBLIC_ROWS, "p4,2025-01-07,99,X,z,1,1"]
    assert write_table(folder=tmp_path, public=more_public_rows).load().private_digest() == digest
    reversed_rows = PRIVATE_ROWS[::-1]
    assert write_table(folder=tmp_path, private=reversed_rows).load().private_digest() == digest
    rows_with_another_age = [PRIVATE_ROWS[0].replace("1000", "999"), *PRIVATE_ROWS[1:]]
    assert (
        write_table(folder=tmp_path, private=rows_with_another_age).load().private_digest()
        != digest
    )
    fewer_rows = PRIVATE_ROWS[:2]
    assert write_table(folder=tmp_path, private=fewer_rows).load().private_digest() != digest


@pytest.mark.slow
def test_the_private_digest_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    """The private digest of one file with all splits does not depend on the order of its rows."""
    lines = [
        *(f"{row},private" for row in PRIVATE_ROWS),
        *(f"{row},public" for row in PUBLIC_ROWS),
        *(f"{row},test" for row in TEST_ROWS),
    ]
    path = tmp_path / "whole.csv"
    digests = set()
    for ordered_lines in (lines, lines[::-1]):
        table = Table(
            path=write_lines(path=path, head=f"{HEAD},which", lines=ordered_lines),
            split="which",
            labels=("flu", "cough"),
            group="patient",
        )
        digests.add(table.load().private_digest())
    assert len(digests) == 1


def convert_csv(csv_path: Path, ending: str) -> None:
    """Writes a CSV file of the small table in another format, into a file beside it.

    Args:
        csv_path: the path of the CSV file.
        ending: the ending of the new file, which tells its format: parquet, feather, arrow or csv.gz.
    """
    from pyarrow import csv, feather, ipc, parquet

    path = csv_path.with_suffix(f".{ending}")
    if ending == "csv.gz":
        path.write_bytes(gzip.compress(csv_path.read_bytes()))
        return
    options = csv.ConvertOptions(
        column_types={"flu": pa.string(), "cough": pa.string()},
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    cells = csv.read_csv(csv_path, convert_options=options)
    if ending == "parquet":
        parquet.write_table(cells, path)
    elif ending == "feather":
        feather.write_feather(cells, path)
    else:
        with ipc.new_stream(path, cells.schema) as stream:
            stream.write_table(cells)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "csv.gz"])
def test_all_file_formats_give_the_same_data_set(tmp_path: Path, ending: str) -> None:
    """Parquet, Feather, Arrow streams and compressed CSV give the inputs and labels of CSV files."""
    table = write_table(folder=tmp_path)
    expected = table.load()
    for split in ("private", "public", "test"):
        convert_csv(csv_path=tmp_path / f"{split}.csv", ending=ending)
    dataset = replace(
        table,
        private=str(tmp_path / f"private.{ending}"),
        public=str(tmp_path / f"public.{ending}"),
        test=str(tmp_path / f"test.{ending}"),
    ).load()
    for split in ("private", "public", "test"):
        assert np.allclose(getattr(dataset, split).inputs, getattr(expected, split).inputs)
        assert np.array_equal(getattr(dataset, split).labels, getattr(expected, split).labels)


def test_one_file_with_a_split_column_is_read(tmp_path: Path) -> None:
    """One file with a column of splits, whose private rows come last, gives the schema and inputs of three files."""
    expected = write_table(folder=tmp_path).load()
    rows = [
        *(f"public,{row}" for row in PUBLIC_ROWS),
        *(f"test,{row}" for row in TEST_ROWS),
        *(f"private,{row}" for row in PRIVATE_ROWS),
    ]
    path = write_lines(path=tmp_path / "all.csv", head=f"part,{HEAD}", lines=rows)
    table = Table(path=path, split="part", labels=("flu", "cough"), group="patient")
    dataset = table.load()
    assert dataset.preprocessing == expected.preprocessing
    assert np.array_equal(dataset.private.inputs, expected.private.inputs)
    assert sorted(dataset.published_ids.tolist()) == [0, 1, 2, 3]


def test_frame_recovers_the_columns(tmp_path: Path) -> None:
    """`frame` turns inputs into a DataFrame of numbers and words.

    The frame gives the same inputs again if its dates are written as text.
    """
    pandas = pytest.importorskip("pandas")
    dataset = write_table(folder=tmp_path).load()
    assert isinstance(dataset.preprocessing, TableSchema)
    frame = dataset.preprocessing.frame(dataset.private.inputs)
    assert frame.columns.tolist() == ["seen", "age", "sex", "note"]
    assert frame["age"].tolist()[::2] == [60.0, 40.0]  # 1000 years are cut to the public range
    assert frame["age"].isna().tolist() == [False, True, False]
    assert frame["sex"].tolist() == ["F", "other", "M"]
    assert frame["note"].tolist() == ["a", "other", "b"]
    assert isinstance(frame["sex"].dtype, pandas.CategoricalDtype)
    with_dates_as_text = frame.assign(seen=["2025-01-02", "2025-01-03", "2025-01-01"])
    encoded_again = dataset.preprocessing.inputs(with_dates_as_text)
    assert np.allclose(encoded_again, dataset.private.inputs, atol=1e-6)


HEAD_WITHOUT_LABELS = HEAD.removesuffix(",flu,cough")
PUBLIC_WITHOUT_LABELS = [row.rsplit(",", 2)[0] for row in PUBLIC_ROWS]


def reader_without_public_labels(table: Table, public_path: Path) -> Table:
    """Writes a public file without the columns of labels, and returns the table's reader of this file."""
    write_lines(path=public_path, head=HEAD_WITHOUT_LABELS, lines=PUBLIC_WITHOUT_LABELS)
    return replace(table, public=str(public_path))


@pytest.mark.slow
@pytest.mark.parametrize("has_columns", [True, False])
def test_public_file_may_lack_labels(tmp_path: Path, has_columns: bool) -> None:
    """If the public file has empty labels, or no columns for them, all public labels are false.

    Inputs and private labels stay as they are.
    """
    labeled = write_table(folder=tmp_path).load()
    table = write_table(folder=tmp_path, public=[f"{row},," for row in PUBLIC_WITHOUT_LABELS])
    if not has_columns:
        table = reader_without_public_labels(table=table, public_path=tmp_path / "bare.csv")
    dataset = table.load()
    assert labeled.public_labeled
    assert not dataset.public_labeled
    assert not dataset.public.labels.any()
    assert np.array_equal(dataset.public.inputs, labeled.public.inputs)
    assert np.array_equal(dataset.private.labels, labeled.private.labels)


def test_missing_words_work_without_public_labels(tmp_path: Path) -> None:
    """A table without public labels can be read with a word for missing cells."""
    usual = write_table(folder=tmp_path)
    table = reader_without_public_labels(table=usual, public_path=tmp_path / "bare.csv")
    dataset = replace(table, group=None, drop=("patient",), missing=("?",)).load()
    assert not dataset.public_labeled


def test_public_file_with_only_some_labels_is_refused(tmp_path: Path) -> None:
    """If the public file has only one of two columns of labels, the other label is refused."""
    public_path = write_lines(
        path=tmp_path / "flu.csv",
        head=f"{HEAD_WITHOUT_LABELS},flu",
        lines=[f"{row},1" for row in PUBLIC_WITHOUT_LABELS],
    )
    table = replace(write_table(folder=tmp_path), public=public_path)
    with refused_parameter("data.labels", value="cough"):
        table.load()


def test_a_table_in_a_scratch_file_equals_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set whose inputs are written to disk (`FileRows`) has the digest of one in memory."""
    table = write_table(folder=tmp_path)
    in_memory = table.load()
    monkeypatch.setattr("pate.data.table.rows.Spilled", partial(Spilled, most_bytes=0))
    on_disk = table.load()
    assert isinstance(on_disk.private.inputs, FileRows)
    assert on_disk.digest() == in_memory.digest()
