"""One value, however it is spelled: groups, ids, numbers, codes, missing cells, labels; files as people have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import ImageFolder, Table, TableSchema
from pate.data.table.category_column import CategoryColumn
from pate.data.table.cells import as_numbers, as_texts
from pate.data.table.number_column import NumberColumn
from pate.data.table.spelling import Spelling, canonical_word
from pate.data.table.table_file import TableFile
from pate.run.plan_warnings import uneven_records_warnings
from tests.refusals import ANY, Refusal, refused

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
ROWS = 60
NUMBERS = list(range(ROWS))


def frames(rows: int = ROWS) -> dict[str, Any]:
    """Three tables of people, each with one row."""
    made = {}
    rng = np.random.default_rng(0)
    for place, split in enumerate(("private", "public", "test")):
        columns = {"age": 20 + rng.integers(0, 9, rows), "ward": rng.choice(["a", "b"], rows)}
        labels = {"flu": np.arange(rows) % 2, "cough": np.arange(rows) % 3 % 2}
        made[split] = pd.DataFrame({**columns, "person": np.arange(rows) + 1000 * place, **labels})
    return made


def written(
    folder: Path, tables: dict[str, Any], endings: dict[str, str] | None = None, **settings: Any
) -> Table:
    """A reader of the tables, as CSV files unless another ending is given."""
    files = {}
    for split, frame in tables.items():
        path = folder / f"{split}.{(endings or {}).get(split, 'csv')}"
        {"csv": frame.to_csv, "parquet": frame.to_parquet, "feather": frame.to_feather}[
            path.suffix[1:]
        ](path, **({} if path.suffix == ".feather" else {"index": False}))
        files[split] = str(path)
    return Table(**files | {"labels": ("flu", "cough"), "group": "person"} | settings)


DAYS = pd.date_range("2020-01-01", periods=ROWS)
SAME = {
    "7.0": (NUMBERS, [f"{v}.0" for v in NUMBERS], {}),
    "7,0": (NUMBERS, [f"{v},0" for v in NUMBERS], {}),
    "2,5": ([f"{v}.5" for v in NUMBERS], [f"{v},50" for v in NUMBERS], {"decimal": "comma"}),
    "1.234": (
        [v + 1000 for v in NUMBERS],
        [f"{v + 1000:,}".replace(",", ".") for v in NUMBERS],
        {"thousands": "."},
    ),
    "exponent": ([f"{v}e+16" for v in NUMBERS], [v * 10**16 for v in NUMBERS], {}),
    "composed": ([f"Zo\u00e9 {v}" for v in NUMBERS], [f"Zoe\u0301 {v}" for v in NUMBERS], {}),
    "no-break": ([f"A {v}" for v in NUMBERS], [f"A\u00a0{v}" for v in NUMBERS], {}),
    "zero-width": ([f"A{v}" for v in NUMBERS], [f"A\u200b{v}\ufeff" for v in NUMBERS], {}),
    "midnight": (
        [str(day.date()) for day in DAYS],
        [f"{day.date()}T00:00:00.000" for day in DAYS],
        {},
    ),
    "zone": (
        [str(day.date()) for day in DAYS],
        [f"{day.date()} 01:00:00+01:00" for day in DAYS],
        {},
    ),
    "truth": ([True] * ROWS, ["TRUE"] * ROWS, {}),
}


@pytest.mark.parametrize("case", SAME)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_person_is_one_however_it_is_spelled(tmp_path: Path, case: str, ending: str) -> None:
    private, test, settings = SAME[case]
    tables = frames()
    tables["private"]["person"] = private
    tables["test"]["person"] = test
    tables["public"]["person"] = [f"p{number}" for number in NUMBERS]
    with refused("data.group", "person", "person in one split"):
        written(tmp_path, tables, {"private": ending}, **settings).load()
    with refused("data.id", "person"):
        written(
            tmp_path, tables, {"test": ending}, **settings | {"group": None, "id": "person"}
        ).load()


def test_two_spellings_in_one_file_are_one_group_and_codes_and_other_people_stay_apart(
    tmp_path: Path,
) -> None:
    tables = frames()
    codes = frames()
    again = tables["private"].assign(person=[f"{number}.0" for number in NUMBERS])
    tables["private"] = pd.concat([tables["private"], again])
    codes["private"]["person"] = [f"0{v}" for v in NUMBERS]
    codes["test"]["person"] = NUMBERS
    for each in (tables, codes):
        assert written(tmp_path, each).load().private.num_groups == ROWS


@pytest.mark.parametrize(
    "column", [pd.array(NUMBERS, "Int64"), np.array(NUMBERS, float), pd.Categorical(NUMBERS)]
)
def test_types_of_pandas_are_values(tmp_path: Path, column: Any) -> None:
    tables = frames()
    tables["private"]["person"] = column
    tables["test"]["person"] = [f"{number}.00" for number in NUMBERS]
    with refused("data.group", "person", "60 are in"):
        written(tmp_path, tables, {"private": "feather"}).load()


@pytest.mark.parametrize("nobody", ["", "\u200b", "\u00a0", "?"])
def test_a_person_that_nobody_sees_is_none(tmp_path: Path, nobody: str) -> None:
    tables = frames()
    tables["private"]["person"] = [nobody, *map(str, NUMBERS[1:])]
    with refused("data.private.person", rule="a value in each row, 1"):
        written(tmp_path, tables, missing=["?"]).load()


def test_a_spelling_of_a_spelling_is_itself() -> None:
    for word in (
        "7.0",
        "-0,00",
        "1.20E+05",
        "a\u00a0 b",
        "2025-01-31 05:00:00.1230Z",
        "007.0",
        "\uff17",
    ):
        assert canonical_word(canonical_word(word)) == canonical_word(word)


def test_pictures_of_a_person_are_compared_alike(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rows = [("a.png", "private", "7"), ("b.png", "public", "x"), ("c.png", "test", "7.0")]
    for name, _, _ in rows:
        image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "t.csv").write_text(
        "\n".join(["file,split,who,sun", *(f"{','.join(row)},1" for row in rows)])
    )
    with refused("data.group", "who", "each who in one split, 1"):
        ImageFolder(str(tmp_path), str(tmp_path / "t.csv"), labels=("sun",), group="who").load()


def numbers(folder: Path, cells: list[str], **settings: Any) -> tuple[float, ...]:
    """What the private cells of a column are read as; they are the public ones, too."""
    tables = {
        split: frame.assign(weight=(cells * ROWS)[:ROWS]) for split, frame in frames().items()
    }
    dataset = written(folder, tables, **settings).load()
    assert isinstance(dataset.preprocessing, TableSchema)
    column = dataset.preprocessing.frame(dataset.private.inputs[: len(cells)])["weight"]
    return tuple(column.round(3).tolist())


@pytest.mark.parametrize(
    ("cells", "settings", "wanted"),
    [
        (["950,5", "1.234,5"], {"decimal": "comma", "thousands": "."}, (950.5, 1234.5)),
        (["950", "1.234", "2.500"], {"thousands": "."}, (950, 1234, 2500)),
        (["950", "1,234.5", "1,234"], {"thousands": ","}, (950, 1234.5, 1234)),
        (["950", "1\u202f234"], {"thousands": " "}, (950, 1234)),
        (["950", "1\u2019234.5"], {"thousands": "'"}, (950, 1234.5)),
        (["2,5", "3.5"], {"decimal": "comma"}, (2.5, 3.5)),
    ],
)
def test_thousands(
    tmp_path: Path, cells: list[str], settings: dict[str, Any], wanted: tuple[float, ...]
) -> None:
    assert numbers(tmp_path, cells, **settings) == wanted


@pytest.mark.parametrize(
    ("cells", "settings", "refusal"),
    [
        (
            ["950", "1.234"],
            {"decimal": "comma"},
            refused("data.public.weight", rule="'data.thousands=\".\"' reads it as 1234"),
        ),
        (
            ["950,5", "1.234,5"],
            {"decimal": "comma"},
            refused("data.public.weight", rule="1.234,5: 'data.thousands=\".\"'"),
        ),
        (
            ["1,234"],
            {},
            refused("data.public.weight", rule="'data.thousands=\",\"' reads it as 1234"),
        ),
        (
            ["1,234.5"],
            {},
            refused("data.public.weight", rule="'data.thousands=\",\"' reads it as 1234.5"),
        ),
        (["1,5", "1,234"], {}, refused("data.public.weight", rule="there is 1,5")),
    ],
)
def test_numbers_in_another_spelling_are_refused_with_the_setting(
    tmp_path: Path, cells: list[str], settings: dict[str, Any], refusal: Refusal
) -> None:
    with refusal:
        numbers(tmp_path, cells, **settings)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"thousands": ";"}, refused("data.thousands", ";")),
        (
            {"thousands": ",", "decimal": "comma"},
            refused("data.thousands", ","),
        ),
        ({"missing": "?"}, refused("data.missing", "?")),
        (
            {"true": "ja", "label_separator": ";"},
            refused("data.true", "ja", "nothing beside"),
        ),
        ({"label_separator": ""}, refused("data.label_separator", "")),
        ({"private": ""}, refused("data.private", "")),
    ],
)
def test_settings_that_cannot_be(
    tmp_path: Path, settings: dict[str, Any], refusal: Refusal
) -> None:
    with refusal:
        written(tmp_path, frames(), **settings).load()


@pytest.mark.parametrize("mark", ["?", "-", ".", "missing", "inf", "<60", "70*"])
def test_one_odd_cell_among_numbers_is_said_and_mended(tmp_path: Path, mark: str) -> None:
    tables = frames(400)
    for frame in tables.values():
        frame["age"] = [mark, *frame["age"].astype(str)[1:]]
    (line,) = (note for note in written(tmp_path, tables).load().notes if note.startswith("age"))
    assert line.startswith(
        f"age: 399 of 400 cells are numbers, 1 is not ({mark}), so all are words; 'data.missing=["
    )
    mended = written(tmp_path, tables, missing=[mark]).load()
    assert mended.preprocessing.feature_names[:2] == ("age", "age=missing")  # type: ignore[union-attr]
    assert mended.notes == ()


def test_signs_beside_numbers_and_words_among_dates_are_said(tmp_path: Path) -> None:
    tables = frames()
    for frame in tables.values():
        frame["share"] = [f"{age}%" for age in frame["age"]]
        frame["day"] = ["2025-01-31"] * 59 + ["unknown"]
    share, day = written(tmp_path, tables).load().notes
    assert share.startswith("share: 60 of 60 cells are numbers with something beside them (2")
    assert day.startswith("day: 59 of 60 cells are dates, 1 is not (unknown)")


def test_numbers_of_missing_cells_are_missing_in_any_file(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        tables = {
            split: frame.assign(age=[-9.0, *frame["age"][1:]]) for split, frame in frames().items()
        }
        dataset = written(tmp_path, tables, dict.fromkeys(tables, ending), missing=["-9"]).load()
        assert dataset.private.inputs[:, 1].tolist() == [1.0] + [0.0] * 59


def test_a_schema_carries_how_cells_are_spelled(tmp_path: Path) -> None:
    tables = {
        split: frame.assign(weight=["1.234,5", "?"] * 30) for split, frame in frames().items()
    }
    table = written(tmp_path, tables, decimal="comma", thousands=".", missing=["?"])
    table.public_schema().write(tmp_path / "schema.yaml")
    bare = written(tmp_path, tables, schema=str(tmp_path / "schema.yaml"))
    assert np.array_equal(bare.load().private.inputs, table.load().private.inputs)
    assert np.array_equal(bare.private_records().records.inputs, table.load().private.inputs)
    schema = TableSchema.read(table.load().preprocessing.plain(), name="x")  # type: ignore[union-attr]
    given = {"age": [25], "ward": ["a"], "weight": ["1.234,5"]}
    assert np.array_equal(schema.inputs(given), schema.inputs({**given, "weight": [1234.5]}))
    said = TableFile(tmp_path / "private.csv", "data", decimal="point")
    assert said.spelling(schema.spelling) == Spelling("point", None, ("?",))


def test_no_setting_makes_private_records_new_ones(tmp_path: Path) -> None:
    """Nor an epsilon of their own."""
    tables = {split: frame.assign(weight=["1,5", "?"] * 30) for split, frame in frames().items()}
    read = [{"category": ["weight"]}, {"decimal": "comma"}, {"decimal": "comma", "missing": ["?"]}]
    assert (
        len({written(tmp_path, tables, **settings).load().private_digest() for settings in read})
        == 1
    )


YES = {"ja": "nein", "2": "1", "oui": "non", "ПРАВДА": "ложь"}


@pytest.mark.parametrize("yes", YES)
def test_labels_are_two_words_of_any_language(tmp_path: Path, yes: str) -> None:
    no = YES[yes]
    tables = frames()
    wanted = [tables[split]["flu"].astype(bool).tolist() for split in ("private", "test")]
    for frame in tables.values():
        frame["flu"] = np.where(frame["flu"] == 1, yes, no)
    with refused("data.private.flu", rule="data.true=WORD names another"):
        written(tmp_path, tables).load()
    dataset = written(tmp_path, tables, true=yes.capitalize()).load()
    assert [dataset.private.labels[:, 0].tolist(), dataset.test.labels[:, 0].tolist()] == wanted
    assert f"data.labels=flu: {yes.casefold()} is 1, {no} is 0" in dataset.notes
    tables["test"].loc[0, "flu"] = None
    with refused("data.test.flu", rule="empty cell is not: leave its row out"):
        written(tmp_path, tables, true=yes).load()
    tables["test"].loc[0, "flu"] = "?"
    for word, refusal in (
        (yes, refused("data.true", ANY, "other word")),
        ("yep", refused("data.true", "yep")),
    ):
        with refusal:
            written(tmp_path, tables, true=word).load()


# settings, cells for 1 and 0, refused ones
LABEL_CELLS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "point": (
        {},
        ["1", "01", "1e0", "1.0", "Yes", "0", "00", "0e0", "FALSE"],
        ["1,0", "1.5", "2", "x"],
    ),
    "comma": ({"decimal": "comma"}, ["1", "1,000", "0,0", "no"], ["1.000", "1,5", "10"]),
    "thousands": (
        {"decimal": "comma", "thousands": "."},
        ["1", "1,0", "0"],
        ["1.000", "1.0", ".0"],
    ),
}


@pytest.mark.parametrize("case", LABEL_CELLS)
def test_cells_of_labels_are_numbers_as_the_file_spells_them(tmp_path: Path, case: str) -> None:
    settings, good, wrong = LABEL_CELLS[case]
    tables = frames()
    tables["private"]["flu"] = (good * ROWS)[:ROWS]
    dataset = written(tmp_path, tables, **settings).load()
    says_yes = [each.lstrip("0")[:1] in ("1", "Y") for each in good]
    assert dataset.private.labels[: len(good), 0].tolist() == says_yes
    for cell in wrong:
        tables["private"].loc[3, "flu"] = cell
        with refused("data.private.flu", rule="row 4 is the first"):
            written(tmp_path, tables, **settings).load()


def with_sets(cells: dict[str, list[str | None]]) -> dict[str, Any]:
    tables = {split: frame.drop(columns=["flu", "cough"]) for split, frame in frames().items()}
    return {
        split: frame.assign(diagnoses=(cells[split] * ROWS)[:ROWS])
        for split, frame in tables.items()
    }


SETS: dict[str, list[str | None]] = {
    "private": ["flu;cough", "flu", None, "rare; cough"],
    "public": ["flu", " cough ; flu", None, "cough"],
    "test": ["cough;", "flu", None, "flu"],
}


@pytest.mark.parametrize("labels", [["diagnoses"], ["diagnoses", "cough", "flu"], ["cough", "flu"]])
def test_one_column_names_all_labels(tmp_path: Path, labels: list[str]) -> None:
    tables = with_sets(SETS)
    dataset = written(tmp_path, tables, labels=labels, label_separator=";").load()
    assert dataset.label_names == ("cough", "flu")
    assert dataset.private.labels[:4].tolist() == [
        [True, True],
        [False, True],
        [False, False],
        [True, False],
    ]
    assert dataset.test.labels[:2].tolist() == [[True, False], [False, True]]
    assert dataset.public_labeled
    assert any(
        "15 rows name a label that is none of cough, flu: it is left out" in note
        for note in dataset.notes
    )
    learned = "data.labels=diagnoses: the labels that the public file names: cough, flu"
    assert (learned in dataset.notes) == (labels == ["diagnoses"])


def test_names_of_labels_are_never_those_of_private_rows(tmp_path: Path) -> None:
    tables = with_sets({**SETS, "public": [None]})
    with refused("data.labels", "[diagnoses]", "the public file names none"):
        written(tmp_path, tables, labels=["diagnoses"], label_separator=";").load()
    tables["public"] = tables["public"].drop(columns="diagnoses")
    dataset = written(tmp_path, tables, labels=["diagnoses", "flu"], label_separator=";").load()
    assert dataset.label_names == ("flu",)
    assert not dataset.public_labeled
    with refused("data.labels", "[flu,cold]"):
        written(tmp_path, tables, labels=["flu", "cold"], label_separator=";").load()
    with refused("data.labels", "age"):
        written(tmp_path, tables, labels=["diagnoses", "age"], label_separator=";").load()


@pytest.mark.parametrize("people", ["numbers", "names"])
def test_a_forgotten_group_is_told(tmp_path: Path, people: str) -> None:
    tables = frames()
    for frame in tables.values():
        whose = frame["person"] // 3 * 113 + 34
        frame["student"] = whose if people == "numbers" else [f"S{number}" for number in whose]
    key, alone = written(tmp_path, tables, group=None, drop=["person"]).load().notes
    assert key.startswith(
        "student: 21 values in 60 rows, which become features and are published; data.group=student"
    )
    assert "each row by itself is protected" in alone
    assert written(tmp_path, tables, group="student", drop=["person"]).load().notes == ()
    assert len(written(tmp_path, tables, group=None, drop=["person", "student"]).load().notes) == 1


def test_labels_without_positives_and_a_person_with_a_fifth_of_all_records_are_told(
    tmp_path: Path,
) -> None:
    tables = frames()
    tables["private"] = tables["private"].assign(flu=0, person=[0] * 15 + NUMBERS[15:])
    tables["test"]["cough"] = 1
    lines = list(uneven_records_warnings(written(tmp_path, tables).load()))
    assert lines == [
        "data.labels: no private record has flu: there is no positive to learn it from",
        "data.labels: every test record has cough: there is nothing else to measure it by",
        "data.group: one has 15 of 60 private records; all are with one teacher, which has one vote like the others",
    ]
    assert list(uneven_records_warnings(written(tmp_path, frames()).load())) == []


Change = Callable[[bytes], bytes]
READ: dict[str, Change] = {
    "blank lines": lambda text: b"\n  \n" + text,
    "blank lines behind a mark": lambda text: b"\xef\xbb\xbf\n\n" + text,
    "sep=": lambda text: b"sep=;\r\n" + text.replace(b",", b";"),
    "sep= in quotes": lambda text: b'"sep=;"\n\n' + text.replace(b",", b";"),
    "separators at the end": lambda text: text.replace(b"\n", b",,\n"),
    "a line break": lambda text: text.replace(b"age,", b'"age\r\n(years)",', 1),
    "a line break and semicolons": lambda text: text.replace(
        b"age,", b'"a\n\nge, in years",', 1
    ).replace(b",", b";"),
    "a name with unseen letters": lambda text: text.replace(b"flu", "\u200bflu\u00a0".encode(), 1),
}


@pytest.mark.parametrize("case", READ)
def test_openings_of_files_are_read(tmp_path: Path, case: str) -> None:
    table = written(tmp_path, frames())
    wanted = table.load().private.inputs
    for path in tmp_path.glob("*.csv"):
        path.write_bytes(READ[case](path.read_bytes()))
    found = Table(
        **{name: getattr(table, name) for name in ("private", "public", "test", "labels", "group")}
    ).load()
    assert np.array_equal(found.private.inputs, wanted)
    assert not any("\n" in name for name in found.preprocessing.feature_names)  # type: ignore[union-attr]


REFUSED: dict[str, tuple[Change, str]] = {
    "a separator behind names": (
        lambda text: text.replace(b"\n", b",\n", 1),
        "cells in every row, as in",
    ),
    "NUL": (lambda text: text.replace(b"\n", b"\n\0", 3), "text without NUL bytes"),
    "NUL in a name": (lambda text: b"\0" + text, "text without NUL bytes"),
    "an open quote": (lambda text: b'"' + text, "a closing quote for each opening one"),
    "cells without a name": (
        lambda text: text.replace(b"\n", b",1\n").replace(b",1\n", b",\n", 1),
        "has cells and no",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_openings_that_cannot_be_read_are_said(tmp_path: Path, case: str) -> None:
    table = written(tmp_path, frames())
    change, line = REFUSED[case]
    path = tmp_path / "public.csv"
    path.write_bytes(change(path.read_bytes()))
    with refused("data.public", path, line):
        table.load()


def schema_of(**columns: Any) -> TableSchema:
    return TableSchema.fit(
        pa.table({name: pa.array(cells) for name, cells in columns.items()}), codes=("ward",)
    )


def test_a_code_is_one_category_however_it_is_written() -> None:
    schema = schema_of(ward=[3, 12, 3, 5])
    assert schema.feature_names == ("ward=12", "ward=3", "ward=5", "ward=other")
    wanted = np.eye(4, dtype=np.float32)[[1, 0, 1, 3]]
    words = [
        ["3", "12", "3", "x"],
        ["3.0", "12.00", "3.", "x"],
        [3, 12, 3, "x"],
        [3.0, 12, "3.0", "x"],
    ]
    for cells in (*words, np.array([3.0, 12.0, 3.0, np.nan]), np.array([3, 12, 3, -1])):
        assert np.array_equal(schema.inputs(pd.DataFrame({"ward": cells})), wanted), cells


def test_words_that_the_public_file_tells_apart_stay_apart_and_days_are_one_however_written() -> (
    None
):
    """As codes of illnesses do, and as in models that were published before."""
    schema = schema_of(icd=["250.0", "250.00", "V1", "1.1", "1.10"] * 3)
    names = [name.removeprefix("icd=") for name in schema.feature_names]
    assert names == ["1.1", "1.10", "250.0", "250.00", "V1", "other"]
    found = schema.inputs({"icd": ["250.00", "250.0", "1.10", "1.100", "x"]}).argmax(axis=1)
    assert [names[place] for place in found] == ["250.00", "250.0", "1.10", "1.1", "other"]
    days = ["2025-01-31", "2025-02-01"]
    schema = schema_of(ward=days)
    assert schema.feature_names == ("ward=2025-01-31", "ward=2025-02-01", "ward=other")
    moments = pa.array(days).cast(pa.timestamp("us"))
    for cells in (
        days,
        moments,
        moments.cast(pa.timestamp("ns")),
        [f"{day}T00:00:00.000" for day in days],
    ):
        assert schema.inputs({"ward": cells}).argmax(axis=1).tolist() == [0, 1]


def test_categories_that_people_wrote_are_read_in_the_same_way_and_words_keep_their_spelling() -> (
    None
):
    """In the digest of a budget and in published ids 1.0 and 1 are two names; numbers without end are no huge codes."""
    assert as_texts(pa.array([1.0, float("inf"), 2.0])).to_pylist()[1] == "inf"
    assert len(set(as_texts(pa.array([1e19, 2e19])).to_pylist())) == 2
    column = CategoryColumn("ward", False, ("3.0", "2.50", "007", "true"))
    block = column.encode(pa.array(["3", "2.5", "7", "TRUE", "007"])).features
    assert block.argmax(axis=1).tolist() == [0, 1, 4, 3, 2]
    assert column.encode(pa.array([True, False]))[0].argmax(axis=1).tolist() == [3, 4]
    assert as_texts(pa.array(["3.0", "true"])).to_pylist() == ["3.0", "true"]


def test_truth_is_0_and_1_and_durations_are_seconds_whatever_the_format() -> None:
    schema = schema_of(old=["True", "False", "True", None])
    assert isinstance(schema.columns[0], NumberColumn)
    frames = [[True, False, None], ["true", "FALSE", ""], [1, 0, None], ["1.0", "0", None]]
    found = [schema.inputs(pd.DataFrame({"old": cells})) for cells in frames]
    assert all(np.array_equal(found[0], other) for other in found)
    assert schema == schema_of(old=[True, False, True, None])
    for unit in ("s", "ms", "us", "ns"):
        cells = as_numbers(pa.array([90, None, 3600], pa.duration("s")).cast(pa.duration(unit)))
        np.testing.assert_array_equal(cells, [90.0, np.nan, 3600.0])


def test_a_column_that_tells_nothing_is_named(tmp_path: Path) -> None:
    """Other words, no cell, grams for kilograms or dates after all public ones; of private and of test records."""
    public = frames(120)["public"].assign(
        weight=np.linspace(40, 120, 120),
        day=[f"2024-01-{1 + v % 30:02}" for v in range(120)],
        one=1,
    )
    usual = {split: public.assign(person=frame["person"]) for split, frame in frames(120).items()}

    def named(rows: int = 120, **changes: Any) -> list[str]:
        tables = usual | {"test": usual["test"].assign(**changes)[:rows]}
        notes = written(tmp_path, tables, drop=["age"]).load().notes
        return [
            note.split(":")[0].removeprefix("data.test.")
            for note in notes
            if "every cell is missing, or no" in note
        ]

    assert named() == named(ward=["b"] + ["B"] * 119) == named(99, ward=None, weight=None) == []
    assert named(ward="B", weight=np.nan) == ["ward", "weight"]
    assert named(weight=usual["test"]["weight"] * 1000, day="2024-02-01") == ["weight", "day"]
    assert named(weight=usual["test"]["weight"] / 1000, one=2) == ["weight", "one"]
    assert named(weight=[40.0] * 60 + [120.0] * 60) == []


def files(folder: Path, head: str, rows: list[str]) -> dict[str, Any]:
    for name in ("private", "public", "test"):
        (folder / f"{name}.csv").write_text("\n".join([head, *rows, ""]))
    return {name: str(folder / f"{name}.csv") for name in ("private", "public", "test")} | {
        "labels": ["ill"]
    }


def test_a_setting_makes_numbers_and_dates_categories(tmp_path: Path) -> None:
    given = files(tmp_path, "ward,day,ill", ["3,2025-01-31,1", "12,2025-02-01,0"])
    names = Table(**given, category=["ward", "day"]).load().preprocessing.feature_names  # type: ignore[union-attr]
    assert names == (
        "ward=12",
        "ward=3",
        "ward=other",
        "day=2025-01-31",
        "day=2025-02-01",
        "day=other",
    )
    for wrong, line in (
        ("wart", "did you mean ward"),
        ("ill", "that is a feature"),
    ):
        with refused("data.category", wrong, line):
            Table(**given, category=[wrong]).load()
    Table(**given).public_schema().write(tmp_path / "schema.yaml")
    with refused("data.category", "['ward']"):
        Table(**given, category=["ward"], schema=str(tmp_path / "schema.yaml")).load()
    text = (tmp_path / "schema.yaml").read_text()
    (tmp_path / "schema.yaml").write_text(text.replace("kind: number", "kind: category"))
    with refused(f"data.schema={tmp_path}/schema.yaml.columns.ward", rule="for kind: cat"):
        Table(**given, schema=str(tmp_path / "schema.yaml")).load()


def test_a_group_that_a_file_lacks_is_not_to_be_dropped(tmp_path: Path) -> None:
    """Somebody who dropped it would have privacy for rows where it was meant for people."""
    given = files(tmp_path, "who,age,ill", ["x,3,1", "y,4,0"])
    Path(given["public"]).write_text("age,ill\n3,1\n4,0\n")
    with refused("data.group", "who"):
        Table(**given, group="who").load()


def test_zeros_in_front_are_said_to_be_codes_and_useless_columns_named_at_once(
    tmp_path: Path,
) -> None:
    words = [f"name {row},{row},note {row * 7},1" for row in range(200)]
    given = files(tmp_path, "name,age,note,ill", words)
    with refused("data.public.name", rule="'data.drop=[name,note]' leaves"):
        Table(**given).load()
    given = files(tmp_path, "zip,age,ill", ["01067,3,1", "53111,4,0"])
    zeros, *_ = Table(**given).public_remarks()
    assert zeros.startswith(
        "zip: numbers with a zero in front; if they are codes, 'data.category=[zip]' makes each"
    )
    assert len(Table(**given, category=["zip"]).public_remarks()) == 2  # on units, and on the group


def test_texts_of_every_type_are_read_with_a_pyarrow_that_knows_no_views(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("is_string_view", "is_binary_view"):  # neither is in pyarrow 15
        monkeypatch.delattr(pa.types, name, raising=False)
    types = [pa.string(), pa.large_string()]
    types += [pa.string_view()] if hasattr(pa, "string_view") else []
    for text in types:
        assert as_texts(pa.array(["flu", None], text)).to_pylist() == ["flu", None]
    assert as_texts(pa.nulls(2)).to_pylist() == [None, None]
    assert as_texts(pa.array(["flu", None]).dictionary_encode()).to_pylist() == ["flu", None]


NULLABLE = {
    "age": "Int64",
    "weight": "Float64",
    "smokes": "boolean",
    "ward": "string",
    "room": "category",
}


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_nullable_columns_with_gaps_are_those_with_nan(tmp_path: Path, ending: str) -> None:
    """In files, and in a frame for a model: Int64, Float64, boolean, string, category, and words beside pandas.NA."""
    gaps = np.arange(ROWS) % 7 == 0
    columns = {
        "age": np.where(gaps, None, np.arange(ROWS)),
        "weight": np.where(gaps, None, np.arange(ROWS) / 2),
        "smokes": np.where(gaps, None, np.arange(ROWS) % 2 == 0),
        "ward": np.where(gaps, None, np.array(["a", "b"])[np.arange(ROWS) % 2]),
        "room": np.where(gaps, None, np.array(["x", "y"])[np.arange(ROWS) % 2]),
    }
    plain = pd.DataFrame(columns).astype({"age": float, "weight": float})
    tables = {
        split: plain.assign(person=frame["person"], flu=frame["flu"])
        for split, frame in frames().items()
    }
    wanted = written(tmp_path, tables, labels=("flu",)).load()
    nullable = {
        split: frame.astype({**NULLABLE, "flu": "Int64"}) for split, frame in tables.items()
    }
    dataset = written(tmp_path, nullable, dict.fromkeys(tables, ending), labels=("flu",)).load()
    assert np.array_equal(dataset.private.inputs, wanted.private.inputs)
    assert np.array_equal(dataset.private.labels, wanted.private.labels)
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    assert np.array_equal(schema.inputs(nullable["private"]), wanted.private.inputs)
    mixed = plain.assign(
        ward=[
            pd.NA if gap else (7 if row == 1 else word)
            for row, (gap, word) in enumerate(zip(gaps, columns["ward"], strict=True))
        ]
    )
    assert schema.inputs(mixed)[gaps].tolist() == wanted.private.inputs[gaps].tolist()
