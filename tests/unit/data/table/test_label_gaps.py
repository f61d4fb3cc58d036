"""Missing and uncertain labels of tables: which cells are unknown labels, in several kinds of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Dataset, Table
from pate.data.table.labels import Labels
from pate.data.table.spelling import CellSpelling
from pate.data.table.table_settings import TableSettings
from pate.data.table.uncertain import UncertainLabels
from tests.refusals import ANY, Refusal, refused_parameter
from tests.unit.data.table.frames import NUM_ROWS, people_frames, write_frames
from tests.unit.data.table.test_labels import DIAGNOSES, write_diagnoses

pa = pytest.importorskip("pyarrow")

UNKNOWN = None
GAPS_OF_TEXT = ["", " ", "NA", "null", "NaN", "<NA>", "None"]


def frames_with_flu(cells: list[Any]) -> dict[str, Any]:
    """Returns frames whose first private rows have these cells of the label flu."""
    frames = people_frames()
    column = frames["private"]["flu"].astype(object)
    column[: len(cells)] = cells
    frames["private"]["flu"] = column
    return frames


def first_labels(dataset: Dataset, num_rows: int) -> list[bool | None]:
    """Returns the first private values of the label flu; None where they are unknown."""
    known = dataset.private.known
    assert known is not None
    values = zip(known[:num_rows, 0], dataset.private.labels[:num_rows, 0], strict=True)
    return [bool(value) if is_known else UNKNOWN for is_known, value in values]


@pytest.mark.parametrize("cell", GAPS_OF_TEXT)
def test_missing_cells_of_csv_are_unknown_labels(tmp_path: Path, cell: str) -> None:
    """A missing cell in a CSV file is an unknown label, and all other labels are known."""
    dataset = write_frames(folder=tmp_path, frames=frames_with_flu(cells=[cell, 1, "no"])).load()
    assert first_labels(dataset=dataset, num_rows=3) == [UNKNOWN, True, False]
    assert dataset.private.known is not None
    assert np.count_nonzero(~dataset.private.known) == 1
    assert dataset.test.known is None
    assert dataset.public.known is None


def test_words_of_the_setting_missing_are_unknown_labels(tmp_path: Path) -> None:
    """A word and a number in cells of labels are refused, unless `data.missing` makes them unknown labels."""
    table = write_frames(folder=tmp_path, frames=frames_with_flu(cells=["asked not", "-9.0", 1]))
    with refused_parameter("data.private.flu"):
        table.load()
    dataset = replace(table, missing=("asked not", "-9")).load()
    assert first_labels(dataset=dataset, num_rows=3) == [UNKNOWN, UNKNOWN, True]


@pytest.mark.parametrize("cell", ["-1", "-1.0", "\u22121", "?", "Uncertain", " maybe "])
@pytest.mark.parametrize(
    ("uncertain", "value"), [("missing", UNKNOWN), ("positive", True), ("negative", False)]
)
def test_uncertain_cells_follow_the_setting(
    tmp_path: Path, cell: str, uncertain: str, value: bool | None
) -> None:
    """An uncertain label is refused without `data.uncertain`, and otherwise read as this setting says."""
    table = write_frames(folder=tmp_path, frames=frames_with_flu(cells=[cell, 1, 0]))
    with refused_parameter(
        "data.private.flu", rule_words="data.uncertain=missing (or positive, negative) says"
    ):
        table.load()
    dataset = replace(table, uncertain=uncertain, uncertain_words=("Maybe",)).load()
    assert first_labels(dataset=dataset, num_rows=3) == [value, True, False]


@pytest.mark.parametrize("setting", ["positive", "negative"])
def test_uncertain_and_empty_cells_differ(tmp_path: Path, setting: str) -> None:
    """With `data.uncertain=positive` or `negative`, an uncertain label has this value, and an empty one is unknown."""
    table = write_frames(folder=tmp_path, frames=frames_with_flu(cells=["-1", "", 1]))
    dataset = replace(table, uncertain=setting).load()
    assert first_labels(dataset=dataset, num_rows=3) == [setting == "positive", UNKNOWN, True]


def test_uncertain_word_is_no_word_for_no(tmp_path: Path) -> None:
    """In a label with the words ja and nein, the cell -1 is refused; with `data.uncertain=missing` it is unknown."""
    frames = people_frames()
    for frame in frames.values():
        frame["flu"] = np.where(frame["flu"] == 1, "ja", "nein")
    frames["private"].loc[0, "flu"] = "-1"
    frames["private"].loc[1, "flu"] = ""
    table = replace(write_frames(folder=tmp_path, frames=frames), true="ja")
    with refused_parameter("data.true", value="ja", rule_words="one other word"):
        table.load()
    dataset = replace(table, uncertain="missing").load()
    assert first_labels(dataset=dataset, num_rows=4) == [UNKNOWN, UNKNOWN, False, True]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("type_name", "no", "yes", "uncertain_cell"),
    [
        ("int8", 0, 1, -1),
        ("int64", 0, 1, -1),
        ("float64", 0.0, 1.0, -1.0),
        ("bool", False, True, None),
        ("string", "no", "yes", "?"),
    ],
)
def test_typed_cells_may_be_missing_or_uncertain(
    tmp_path: Path, ending: str, type_name: str, no: Any, yes: Any, uncertain_cell: Any
) -> None:
    """Of a null, an uncertain cell, a yes and a no in a typed file, only a null is an unknown label.

    The uncertain cell is True by `data.uncertain=positive`. A column of truth values has no uncertain cell, but two
    nulls.
    """
    cells = [None, uncertain_cell, yes, no] * (NUM_ROWS // 4)
    table = write_frames(folder=tmp_path, frames=people_frames(), endings={"private": ending})
    private = pa.Table.from_pandas(people_frames()["private"], preserve_index=False)
    typed_cells = pa.array(cells, pa.type_for_alias(type_name))
    private = private.drop_columns(["flu"]).append_column("flu", typed_cells)
    if ending == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(private, str(table.private))
    else:
        pytest.importorskip("pyarrow.feather").write_feather(private, str(table.private))
    dataset = replace(table, uncertain="positive").load()
    label_of_uncertain_cell = UNKNOWN if uncertain_cell is None else True
    assert first_labels(dataset=dataset, num_rows=4) == [
        UNKNOWN,
        label_of_uncertain_cell,
        True,
        False,
    ]


def test_not_a_number_in_parquet_is_an_unknown_label(tmp_path: Path) -> None:
    """NaN in a Parquet column of floats, which is not null, is an unknown label."""
    table = write_frames(folder=tmp_path, frames=people_frames(), endings={"private": "parquet"})
    private = pa.Table.from_pandas(people_frames()["private"], preserve_index=False)
    flu = private["flu"].to_numpy().astype(float)
    flu[0] = np.nan
    cells = pa.array(flu, from_pandas=False)
    assert cells.null_count == 0
    private = private.drop_columns(["flu"]).append_column("flu", cells)
    pytest.importorskip("pyarrow.parquet").write_table(private, str(table.private))
    assert first_labels(dataset=table.load(), num_rows=2) == [UNKNOWN, True]


def test_null_and_absent_fields_of_json_are_unknown_labels(tmp_path: Path) -> None:
    """A label that is null or absent in JSON lines is unknown."""
    table = write_frames(folder=tmp_path, frames=people_frames())
    rows = people_frames()["private"].to_dict("records")
    rows[0]["flu"] = None
    del rows[1]["flu"]
    path = tmp_path / "private.jsonl"
    path.write_text("\n".join(json.dumps(row, default=int) for row in rows))
    dataset = replace(table, private=str(path)).load()
    assert first_labels(dataset=dataset, num_rows=4) == [UNKNOWN, UNKNOWN, False, True]


@pytest.mark.slow
def test_many_files_and_batches_have_one_mask(tmp_path: Path) -> None:
    """The only unknown labels of two files are the 100 that are empty, in the last 100 rows of the second file.

    Each file has 9,000 rows. The other label is known in all rows.
    """
    table = write_frames(folder=tmp_path, frames=people_frames())
    frame = people_frames(rows_per_split=18_000)["private"]
    frame["person"] += 10_000
    flu = frame["flu"].astype(object)
    flu[17_900:] = ""
    frame["flu"] = flu
    folder = tmp_path / "parts"
    folder.mkdir()
    frame[:9000].to_csv(folder / "a.csv", index=False)
    frame[9000:].to_csv(folder / "b.csv", index=False)
    private = replace(table, private=str(folder)).load().private
    assert private.known is not None
    assert private.known.shape == (18_000, 2)
    assert np.flatnonzero(~private.known[:, 0]).tolist() == list(range(17_900, 18_000))
    assert private.known[:, 1].all()


def test_table_without_gaps_has_no_mask_unless_a_setting_says_so(tmp_path: Path) -> None:
    """A table whose labels are all known has a mask only with `data.uncertain`; labels and digests stay the same."""
    table = write_frames(folder=tmp_path, frames=people_frames())
    plain = table.load()
    declared = replace(table, uncertain="missing").load()
    assert plain.private.known is None
    assert declared.private.known is not None
    assert declared.private.known.all()
    assert np.array_equal(plain.private.labels, declared.private.labels)
    assert plain.digest() == declared.digest()
    assert plain.private_digest() == declared.private_digest()
    assert not any("unknown" in note for note in declared.notes)


def test_digest_of_private_rows_depends_on_gaps_and_not_on_their_reading(tmp_path: Path) -> None:
    """The private digest does not depend on what -1 means, but changes if one empty label is filled in."""
    table = write_frames(folder=tmp_path, frames=frames_with_flu(cells=["-1", "", 0]))
    readings = ("missing", "positive", "negative")
    digests = {replace(table, uncertain=reading).load().private_digest() for reading in readings}
    assert len(digests) == 1
    (tmp_path / "other").mkdir()
    other = write_frames(folder=tmp_path / "other", frames=frames_with_flu(cells=["-1", 0, 0]))
    assert replace(other, uncertain="missing").load().private_digest() not in digests


def test_notes_count_unknown_labels_of_each_split(tmp_path: Path) -> None:
    """A note for each split with gaps states the share of its unknown labels, and of known labels in each column.

    In the label flu, 30 of 60 private and 15 of 60 test cells are empty; in cough, none is.
    """
    frames = people_frames()
    for split, num_gaps in (("private", 30), ("test", 15)):
        flu = frames[split]["flu"].astype(object)
        flu[:num_gaps] = ""
        frames[split]["flu"] = flu
    notes = write_frames(folder=tmp_path, frames=frames).load().notes
    assert (
        "data.private: 25.0% of the labels are unknown and left out; 100.0% of the records tell cough, 50.0% flu; "
        "which ones is protected, that there are some is public"
    ) in notes
    assert (
        "data.test: 12.5% of the labels are unknown and left out; 100.0% of the records tell cough, 75.0% flu"
    ) in notes


@pytest.mark.parametrize("split", ["private", "test"])
def test_split_that_tells_no_label_is_refused(tmp_path: Path, split: str) -> None:
    """A private or a test split is refused if all of its labels are empty."""
    frames = people_frames()
    frames[split][["flu", "cough"]] = ""
    with refused_parameter(f"data.{split}.flu", rule_words="a label in some row"):
        write_frames(folder=tmp_path, frames=frames).load()


@pytest.mark.parametrize("cell", ["", "-1"])
def test_public_split_with_some_labels_has_a_mask(tmp_path: Path, cell: str) -> None:
    """If one public label is missing or uncertain, the public split is labeled, and only this label is unknown."""
    frames = people_frames()
    frames["public"]["flu"] = frames["public"]["flu"].astype(object)
    frames["public"].loc[0, "flu"] = cell
    dataset = replace(write_frames(folder=tmp_path, frames=frames), uncertain="missing").load()
    assert dataset.public_labeled
    assert dataset.public.known is not None
    assert np.count_nonzero(~dataset.public.known) == 1


@pytest.mark.parametrize("cell", ["", "-1"])
def test_public_split_without_any_label_counts_as_unlabeled(tmp_path: Path, cell: str) -> None:
    """If all public labels are missing or uncertain, the public split is unlabeled, and has no mask."""
    frames = people_frames()
    frames["public"][["flu", "cough"]] = cell
    dataset = replace(write_frames(folder=tmp_path, frames=frames), uncertain="missing").load()
    assert not dataset.public_labeled
    assert dataset.public.known is None


def test_records_of_a_holder_have_the_mask(tmp_path: Path) -> None:
    """If a data holder reads only a private file with one empty label, the records have a mask with this gap."""
    table = write_frames(folder=tmp_path, frames=frames_with_flu(cells=["", 1]))
    schema_path = tmp_path / "schema.yaml"
    table.public_schema().write(schema_path, TableSettings())
    private_records = replace(table, schema=str(schema_path)).private_records()
    assert private_records.records.known is not None
    assert np.count_nonzero(~private_records.records.known) == 1
    assert any("unknown" in note for note in private_records.notes)


def test_missing_word_in_a_column_of_label_lists_makes_all_labels_unknown(tmp_path: Path) -> None:
    """In a column that lists labels, an empty cell means no label, and a word of `data.missing` unknown labels."""
    cells_by_split = DIAGNOSES | {"private": ["flu;cough", "-", None, "cough"]}
    table = write_diagnoses(folder=tmp_path, cells_by_split=cells_by_split)
    private = replace(table, missing=("-",)).load().private
    assert private.known is not None
    assert private.known[:4].tolist() == [[True] * 2, [False] * 2, [True] * 2, [True] * 2]
    assert private.labels[1:3].tolist() == [[False] * 2] * 2
    assert write_diagnoses(folder=tmp_path).load().private.known is None


def test_schema_file_says_what_uncertain_labels_mean(tmp_path: Path) -> None:
    """A run takes `uncertain` and `uncertain_words` from the schema file; its own `uncertain` takes precedence."""
    table = write_frames(folder=tmp_path, frames=frames_with_flu(cells=["maybe", "-1", 0]))
    schema_path = tmp_path / "schema.yaml"
    table_settings = TableSettings(uncertain="positive", uncertain_words=("maybe",))
    table.public_schema().write(schema_path, table_settings)
    dataset = replace(table, schema=str(schema_path)).load()
    assert first_labels(dataset=dataset, num_rows=3) == [True, True, False]
    dataset = replace(table, schema=str(schema_path), uncertain="missing").load()
    assert first_labels(dataset=dataset, num_rows=3) == [UNKNOWN, UNKNOWN, False]


@pytest.mark.parametrize(
    ("with_wrong_setting", "refusal"),
    [
        pytest.param(
            partial(replace, uncertain="0.5"),
            refused_parameter("data.uncertain", value=ANY, rule_words="never by half"),
            id="a share as text",
        ),
        pytest.param(
            partial(replace, uncertain=0.5),
            refused_parameter(
                "data.uncertain", value=ANY, rule_words="one of missing, positive, negative"
            ),
            id="a share as a number",
        ),
        pytest.param(
            partial(replace, uncertain=["missing"]),
            refused_parameter("data.uncertain", value=ANY, rule_words="one of missing"),
            id="a list of meanings",
        ),
        pytest.param(
            partial(replace, uncertain_words=("maybe",)),
            refused_parameter(
                "data.uncertain_words", value=ANY, rule_words="none without data.uncertain"
            ),
            id="words without a meaning",
        ),
        pytest.param(
            partial(replace, uncertain="missing", uncertain_words=("no",)),
            refused_parameter("data.uncertain_words", value=ANY, rule_words="do not mean"),
            id="a word for no",
        ),
        pytest.param(
            partial(replace, uncertain="missing", uncertain_words=("1.0",)),
            refused_parameter("data.uncertain_words", value=ANY, rule_words="do not mean"),
            id="a number that means yes",
        ),
        pytest.param(
            partial(replace, uncertain="missing", uncertain_words="maybe"),
            refused_parameter("data.uncertain_words", value=ANY, rule_words="a list of"),
            id="one word that is no list",
        ),
        pytest.param(
            partial(replace, uncertain="missing", uncertain_words=("",)),
            refused_parameter("data.uncertain_words", value=ANY, rule_words="a list of"),
            id="an empty word",
        ),
        pytest.param(
            partial(replace, uncertain="missing", label_separator=";"),
            refused_parameter("data.uncertain", value=ANY, rule_words="nothing beside"),
            id="a column that lists labels",
        ),
    ],
)
def test_wrong_settings_of_gaps_are_refused_before_a_file_is_opened(
    with_wrong_setting: Callable[[Table], Table], refusal: Refusal
) -> None:
    """An impossible setting of uncertain labels is refused before a file is opened."""
    table = Table(private="none.csv", public="none.csv", test="none.csv")
    with refusal:
        with_wrong_setting(table)


def test_codes_of_a_decimal_comma_are_read_as_numbers() -> None:
    """With a decimal comma, the cell -1,000 is the code -1 of an uncertain label."""
    labels = Labels(("flu",), reading_of_uncertain_cells=UncertainLabels("positive"))
    cells = pa.table({"flu": ["-1,000", "0,0", "1", None]})
    label_bits = labels.read(cells, CellSpelling(decimal="comma"))
    assert label_bits.bits[:, 0].tolist() == [True, False, True, False]
    assert label_bits.known[:, 0].tolist() == [True, True, True, False]
    assert not label_bits.wrong.any()
