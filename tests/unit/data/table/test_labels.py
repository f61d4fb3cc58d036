"""Labels of tables: two words of any language, numbers in any notation, and one column that lists all labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table
from pate.run.plan_warnings import label_and_group_warnings
from tests.refusals import ANY, refused_parameter
from tests.unit.data.table.frames import NUM_ROWS, NUMBERS, people_frames, write_frames

pytest.importorskip("pyarrow")

# Words for yes in labels, each with its word for no.
NO_OF_YES = {"ja": "nein", "2": "1", "oui": "non", "ПРАВДА": "ложь"}


def frames_in_words(yes: str) -> dict[str, Any]:
    """Returns frames whose first label has two different words as values, `yes` for positive rows."""
    frames = people_frames()
    for frame in frames.values():
        frame["flu"] = np.where(frame["flu"] == 1, yes, NO_OF_YES[yes])
    return frames


@pytest.mark.parametrize("yes", NO_OF_YES)
def test_two_words_of_any_language_may_mean_yes_and_no(tmp_path: Path, yes: str) -> None:
    """A label with two words as values is refused without the setting `data.true`.

    With `data.true`, the word in this setting is 1 and the other word 0. A remark says so.
    """
    table = write_frames(folder=tmp_path, frames=frames_in_words(yes=yes))
    with refused_parameter("data.private.flu", rule_words="data.true=WORD names another"):
        table.load()
    dataset = replace(table, true=yes.capitalize()).load()
    frames = people_frames()
    assert np.array_equal(dataset.private.labels[:, 0], frames["private"]["flu"] == 1)
    assert np.array_equal(dataset.test.labels[:, 0], frames["test"]["flu"] == 1)
    assert f"data.labels=flu: {yes.casefold()} is 1, {NO_OF_YES[yes]} is 0" in dataset.notes


def test_label_with_the_word_for_yes_alone_has_a_remark_without_a_word_for_no(
    tmp_path: Path,
) -> None:
    """If all cells of a label are ja or empty, the remark says what ja means, and names no word for no."""
    frames = people_frames()
    for frame in frames.values():
        frame["flu"] = np.where(frame["flu"] == 1, "ja", "")
    dataset = replace(write_frames(folder=tmp_path, frames=frames), true="ja").load()
    assert "data.labels=flu: ja is 1" in dataset.notes


def test_empty_label_does_not_mean_no(tmp_path: Path) -> None:
    """An empty label beside the words ja and nein is unknown, and not read as 0."""
    frames = frames_in_words(yes="ja")
    frames["test"].loc[0, "flu"] = None
    dataset = replace(write_frames(folder=tmp_path, frames=frames), true="ja").load()
    assert dataset.test.known is not None
    assert dataset.test.known[:2].tolist() == [[False, True], [True, True]]


@pytest.fixture
def table_with_third_word(tmp_path: Path) -> Table:
    """Returns the reader of files whose label `flu` has the words ja and nein, and once a question mark."""
    frames = frames_in_words(yes="ja")
    frames["test"].loc[0, "flu"] = "?"
    return write_frames(folder=tmp_path, frames=frames)


def test_third_word_in_a_label_column_is_refused(table_with_third_word: Table) -> None:
    """A label with a third word beside ja and nein is refused."""
    with refused_parameter("data.true", value=ANY, rule_words="other word"):
        replace(table_with_third_word, true="ja").load()


def test_word_for_yes_that_no_label_has_is_refused(table_with_third_word: Table) -> None:
    """A word in `data.true` that the label does not have is refused."""
    with refused_parameter("data.true", value="yep"):
        replace(table_with_third_word, true="yep").load()


@dataclass(frozen=True)
class LabelCells:
    """Cells of a column of labels, in files with one notation of numbers.

    Attributes:
        positive: the cells that mean 1.
        negative: the cells that mean 0.
        wrong: the cells that are no label.
        decimal: the setting `data.decimal` of the files.
        thousands: the setting `data.thousands` of the files.
    """

    positive: list[str]
    negative: list[str]
    wrong: list[str]
    decimal: str | None = None
    thousands: str | None = None


LABEL_CELLS = {
    "point": LabelCells(
        positive=["1", "01", "1e0", "1.0", "Yes"],
        negative=["0", "00", "0e0", "FALSE"],
        wrong=["1,0", "1.5", "2", "x"],
    ),
    "comma": LabelCells(
        positive=["1", "1,000"],
        negative=["0,0", "no"],
        wrong=["1.000", "1,5", "10"],
        decimal="comma",
    ),
    "thousands": LabelCells(
        positive=["1", "1,0"],
        negative=["0"],
        wrong=["1.000", "1.0", ".0"],
        decimal="comma",
        thousands=".",
    ),
}


@pytest.mark.parametrize("case", LABEL_CELLS)
def test_label_cells_follow_the_notation_of_numbers(tmp_path: Path, case: str) -> None:
    """Cells that mean 1 or 0 in a notation of numbers are read as labels."""
    cells = LABEL_CELLS[case]
    frames = people_frames()
    frames["private"]["flu"] = ([*cells.positive, *cells.negative] * NUM_ROWS)[:NUM_ROWS]
    table = write_frames(folder=tmp_path, frames=frames)
    dataset = replace(table, decimal=cells.decimal, thousands=cells.thousands).load()
    bits = [True] * len(cells.positive) + [False] * len(cells.negative)
    assert dataset.private.labels[: len(bits), 0].tolist() == bits


WRONG_LABEL_CELLS = [
    (case, wrong_cell) for case, cells in LABEL_CELLS.items() for wrong_cell in cells.wrong
]


@pytest.mark.parametrize(("case", "wrong_cell"), WRONG_LABEL_CELLS)
def test_invalid_label_cells_are_refused(tmp_path: Path, case: str, wrong_cell: str) -> None:
    """A cell of a label that is no 0 or 1 in the notation of the file is refused with its row."""
    cells = LABEL_CELLS[case]
    frames = people_frames()
    frames["private"]["flu"] = (cells.positive * NUM_ROWS)[:NUM_ROWS]
    frames["private"].loc[3, "flu"] = wrong_cell
    table = write_frames(folder=tmp_path, frames=frames)
    with refused_parameter("data.private.flu", rule_words="row 4 is the first"):
        replace(table, decimal=cells.decimal, thousands=cells.thousands).load()


DIAGNOSES: dict[str, list[str | None]] = {
    "private": ["flu;cough", "flu", None, "rare; cough"],
    "public": ["flu", " cough ; flu", None, "cough"],
    "test": ["cough;", "flu", None, "flu"],
}


def frames_of_diagnoses(cells_by_split: Mapping[str, list[str | None]]) -> dict[str, Any]:
    """Returns frames in which one column lists all labels of a row."""
    frames = {}
    for split, frame in people_frames().items():
        diagnoses = (cells_by_split[split] * NUM_ROWS)[:NUM_ROWS]
        frames[split] = frame.drop(columns=["flu", "cough"]).assign(diagnoses=diagnoses)
    return frames


def write_diagnoses(
    folder: Path, cells_by_split: Mapping[str, list[str | None]] = DIAGNOSES
) -> Table:
    """Writes files whose column `diagnoses` lists the labels, and returns their reader."""
    table = write_frames(folder=folder, frames=frames_of_diagnoses(cells_by_split=cells_by_split))
    return replace(table, labels=("diagnoses",), label_separator=";")


@pytest.mark.parametrize(
    "labels", [("diagnoses",), ("diagnoses", "cough", "flu"), ("cough", "flu")]
)
def test_one_column_may_list_all_labels(tmp_path: Path, labels: tuple[str, ...]) -> None:
    """One column lists the labels of a row. The label names are those in the public file, or those in the settings.

    A remark counts the rows that list at least one label outside of these names.
    """
    dataset = replace(write_diagnoses(folder=tmp_path), labels=labels).load()
    assert dataset.label_names == ("cough", "flu")
    assert dataset.private.labels[:4].tolist() == [
        [True, True],
        [False, True],
        [False, False],
        [True, False],
    ]
    assert dataset.test.labels[:2].tolist() == [[True, False], [False, True]]
    assert dataset.public_labeled
    remark_on_unknown_labels = "15 rows name a label that is none of cough, flu: it is left out"
    assert any(remark_on_unknown_labels in note for note in dataset.notes)
    public_names = "data.labels=diagnoses: the labels that the public file names: cough, flu"
    are_names_from_public_file = labels == ("diagnoses",)
    assert (public_names in dataset.notes) == are_names_from_public_file


def test_label_names_do_not_come_from_private_rows(tmp_path: Path) -> None:
    """A column of label lists is refused if the public file lists no label, even if private rows list some."""
    with refused_parameter(
        "data.labels", value="[diagnoses]", rule_words="the public file names none"
    ):
        write_diagnoses(folder=tmp_path, cells_by_split=DIAGNOSES | {"public": [None]}).load()


@pytest.fixture
def table_without_public_diagnoses(tmp_path: Path) -> Table:
    """Returns the reader of three files, of which the public file lacks the column that lists the labels."""
    frames = frames_of_diagnoses(cells_by_split=DIAGNOSES)
    frames["public"] = frames["public"].drop(columns="diagnoses")
    return replace(write_frames(folder=tmp_path, frames=frames), label_separator=";")


def test_public_file_may_lack_the_column_that_lists_labels(
    table_without_public_diagnoses: Table,
) -> None:
    """If the public file lacks the column of labels, settings may name it with the labels.

    Public records then count as unlabeled.
    """
    dataset = replace(table_without_public_diagnoses, labels=("diagnoses", "flu")).load()
    assert dataset.label_names == ("flu",)
    assert not dataset.public_labeled


@pytest.mark.parametrize(
    ("labels", "text_of_refused_labels"),
    [(("flu", "cough"), "[flu,cough]"), (("diagnoses", "age"), "age")],
)
def test_labels_without_their_column_and_a_label_named_like_a_feature_are_refused(
    table_without_public_diagnoses: Table, labels: tuple[str, ...], text_of_refused_labels: str
) -> None:
    """Labels without the name of the column that lists them are refused if the public file lacks this column.

    The column could only be found by its public cells. A label that has the name of a feature, `age`, is refused too.
    """
    with refused_parameter("data.labels", value=text_of_refused_labels):
        replace(table_without_public_diagnoses, labels=labels).load()


def test_label_without_positives_or_negatives_yields_a_warning(tmp_path: Path) -> None:
    """A label that no private record has yields a warning, and so does one that every test record has."""
    frames = people_frames()
    frames["private"]["flu"] = 0
    frames["test"]["cough"] = 1
    dataset = write_frames(folder=tmp_path, frames=frames).load()
    assert list(label_and_group_warnings(dataset)) == [
        "data.labels: no private record has flu: there is no positive to learn it from",
        "data.labels: every test record has cough: there is nothing else to measure it by",
    ]


def test_person_with_many_records_yields_a_warning(tmp_path: Path) -> None:
    """If one person has 15 of 60 private records, a warning says so."""
    frames = people_frames()
    frames["private"]["person"] = [0] * 15 + NUMBERS[15:]
    dataset = write_frames(folder=tmp_path, frames=frames).load()
    assert list(label_and_group_warnings(dataset)) == [
        "data.group: one has 15 of 60 private records; all are with one teacher, which has one vote like the others"
    ]


def test_evenly_distributed_records_yield_no_warning(tmp_path: Path) -> None:
    """Records of persons with equal numbers of records and with both labels yield no warning."""
    dataset = write_frames(folder=tmp_path, frames=people_frames()).load()
    assert list(label_and_group_warnings(dataset)) == []
