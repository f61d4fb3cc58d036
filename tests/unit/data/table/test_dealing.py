"""One file is divided into three splits: by whole groups, by a seed, and without overwriting a file."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from pate.config.quoting import quote_argument
from pate.data import Dataset, Table
from pate.data.table.dealing import Dealing
from pate.data.table.table_file import TableFile
from tests.e2e.commands import call
from tests.refusals import refused_parameter

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
PEOPLE = 50
VISITS = 4


@pytest.fixture
def undivided_file(tmp_path: Path) -> Path:
    """Returns a file with decimal commas of visits of 50 people, whose names are numbers in two notations."""
    rows = range(PEOPLE * VISITS)
    who = [str(row % PEOPLE) if row < PEOPLE else f"{row % PEOPLE}.0" for row in rows]
    price = [f"1.0{row % 90 + 10},5" for row in rows]
    frame = pd.DataFrame(
        {"who": who, "price": price, "note": ["a", "NA"] * (len(rows) // 2), "ill": [0, 1] * 100}
    )
    frame.to_csv(tmp_path / "all.csv", index=False, sep=";")
    return tmp_path / "all.csv"


def make_dealing(path: Path, *, group: str | None = "who", seed: int = 0) -> Dealing:
    """Returns a division with a fifth of the groups in the public split, and a tenth in the test split."""
    file = TableFile(path, setting="data")
    return Dealing(table_file=file, group=group, public_share=0.2, test_share=0.1, seed=seed)


def written_splits(dealing: Dealing, folder: Path) -> dict[str, str]:
    """Writes the splits into a new folder, and returns the text of each file."""
    folder.mkdir()
    return {split: path.read_text() for split, path in dealing.write(folder).items()}


def persons_of(csv_text: str) -> set[str]:
    """Returns the names of the persons in the text of a split's file."""
    return {line.split(";")[0].removesuffix(".0") for line in csv_text.splitlines()[1:]}


def test_groups_stay_whole_and_shares_count_groups(undivided_file: Path, tmp_path: Path) -> None:
    """Of 50 people, 10 are in the public, 5 in the test and 35 in the private split, and nobody is in two."""
    parts = written_splits(dealing=make_dealing(path=undivided_file), folder=tmp_path / "parts")
    persons = {split: persons_of(csv_text=part) for split, part in parts.items()}
    num_persons = {split: len(names) for split, names in persons.items()}
    assert num_persons == {"private": 35, "public": 10, "test": 5}
    all_persons = persons["private"] | persons["public"] | persons["test"]
    assert len(all_persons) == PEOPLE


def test_each_row_is_in_exactly_one_split(undivided_file: Path, tmp_path: Path) -> None:
    """The rows of the three files together are the rows of the source; the cell NA becomes an empty cell."""
    parts = written_splits(dealing=make_dealing(path=undivided_file), folder=tmp_path / "parts")
    lines = [line for part in parts.values() for line in part.splitlines()[1:]]
    rows = undivided_file.read_text().splitlines()[1:]
    assert sorted(lines) == sorted(row.replace("NA", "") for row in rows)


def test_same_seed_gives_the_same_division(undivided_file: Path, tmp_path: Path) -> None:
    """The same seed gives the same files, and another seed gives other files."""
    parts = written_splits(dealing=make_dealing(path=undivided_file, seed=3), folder=tmp_path / "a")
    assert (
        written_splits(dealing=make_dealing(path=undivided_file, seed=3), folder=tmp_path / "b")
        == parts
    )
    assert (
        written_splits(dealing=make_dealing(path=undivided_file, seed=4), folder=tmp_path / "c")
        != parts
    )


def test_rows_without_a_group_column_are_divided_individually(
    undivided_file: Path, tmp_path: Path
) -> None:
    """Without a group, rows are divided one by one, so that the public split has rows of more than 10 people."""
    parts = written_splits(
        dealing=make_dealing(path=undivided_file, group=None), folder=tmp_path / "parts"
    )
    assert len(persons_of(csv_text=parts["public"])) > 10


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv.gz"])
def test_split_files_keep_the_kind_of_the_source(undivided_file: Path, ending: str) -> None:
    """The splits of a Parquet, Feather or compressed CSV file are files of the same kind, with all rows."""
    frame = pd.read_csv(undivided_file, sep=";", dtype={"who": str})
    path = undivided_file.with_name(f"all.{ending}")
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "feather":
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False)
    folder = undivided_file.with_name("parts")
    folder.mkdir()
    paths = make_dealing(path=path).write(folder)
    assert paths == {split: folder / f"{split}.{ending}" for split in paths}
    tables = [TableFile(part, setting="data").read() for part in paths.values()]
    assert sum(table.num_rows for table in tables) == PEOPLE * VISITS


def call_schema(
    undivided_file: Path, output: Path, word: str = "split=.2,.1"
) -> subprocess.CompletedProcess[str]:
    """Divides a file by the command pate-schema, and returns the ended process.

    Args:
        undivided_file: the file.
        output: the path of the schema; the split files are written beside it.
        word: the last argument of the command.
    """
    return call(
        "schema",
        arguments=[
            f"data={undivided_file}",
            f"output='{output}'",
            "labels=[ill]",
            "thousands=.",
            "group=who",
            "split=.2,.1",
            word,
        ],
    )


def num_groups(dataset: Dataset) -> tuple[int, int, int]:
    """Returns the numbers of private, public and test groups."""
    return dataset.private.num_groups, dataset.public.num_groups, dataset.test.num_groups


@pytest.mark.slow
def test_split_files_of_the_command_load_as_a_data_set(undivided_file: Path) -> None:
    """`pate-schema split=.2,.1` writes three files and a schema, which load with 35, 10 and 5 groups."""
    output = undivided_file.with_name("schema.yaml")
    ended = call_schema(undivided_file=undivided_file, output=output)
    assert ended.returncode == 0, ended.stderr
    table = Table(
        private=str(undivided_file.with_name("private.csv")),
        public=str(undivided_file.with_name("public.csv")),
        test=str(undivided_file.with_name("test.csv")),
        labels=("ill",),
        group="who",
        schema=str(output),
    )
    assert num_groups(dataset=table.load()) == (35, 10, 5)


@pytest.mark.slow
def test_command_refuses_to_overwrite_a_split_file(undivided_file: Path) -> None:
    """If a file private.csv exists, `pate-schema` refuses to divide, and writes no file."""
    path = undivided_file.with_name("private.csv")
    path.write_text("mine")
    ended = call_schema(
        undivided_file=undivided_file, output=undivided_file.with_name("schema.yaml")
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"output={path}: expected a folder without such a file")
    assert path.read_text() == "mine"
    names = sorted(path.name for path in undivided_file.parent.iterdir())
    assert names == ["all.csv", "private.csv"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("split=.5,.5", "split=0.5,0.5: expected two shares above 0"),
        ("split=.1", "split=0.1: expected a column, or two shares"),
        ("split=[.1,.1,.1]", "split=0.1,0.1,0.1: expected a column, or two shares"),
        ("group=whom", "group=whom: expected a column of data (did you mean who?)"),
        ("category=[none]", "category=none: expected a column of data that is a feature"),
    ],
)
def test_refused_division_leaves_no_file(undivided_file: Path, word: str, line: str) -> None:
    """`pate-schema` with wrong shares or columns is refused, and leaves only the source."""
    ended = call_schema(
        undivided_file=undivided_file, output=undivided_file.with_name("schema.yaml"), word=word
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(line), ended.stderr
    assert sorted(path.name for path in undivided_file.parent.iterdir()) == ["all.csv"]


def test_person_with_a_fifth_of_all_rows_yields_a_remark(undivided_file: Path) -> None:
    """If one person has 49 of 245 rows, a fifth, a remark states that all of them are in one split.

    There is no remark if the person has 48 of 244 rows.
    """
    frame = pd.read_csv(undivided_file, sep=";", dtype=str)
    visit = frame[frame["who"] == "7"]
    remarks = []
    for num_further_visits in (44, 45):
        pd.concat([frame, *[visit] * num_further_visits]).to_csv(
            undivided_file, index=False, sep=";"
        )
        remarks.append(make_dealing(path=undivided_file).largest_remark())
    assert remarks == [None, "group=who: one has 49 of 245 rows, all of which are in one part"]


def test_missing_person_name_is_refused(tmp_path: Path) -> None:
    """A division is refused if one of two rows has no person."""
    path = tmp_path / "few.csv"
    path.write_text("who,x\n1,2\n,3\n")
    with refused_parameter("group", value="who", rule_words="a value in each row, 1"):
        make_dealing(path=path).part_of_row()


def test_too_few_persons_for_three_splits_are_refused(tmp_path: Path) -> None:
    """Two persons cannot be divided into three splits, and are refused."""
    path = tmp_path / "few.csv"
    path.write_text("who,x\n1,2\n2,3\n")
    with refused_parameter("split", value="0.2,0.1", rule_words="more than 2"):
        make_dealing(path=path).part_of_row()


@pytest.mark.slow
def test_printed_command_line_loads_the_split_files(undivided_file: Path) -> None:
    """`pate-schema` prints a command line of pate-train whose settings load the split files.

    The labels and the group are those of the schema.
    """
    folder = undivided_file.parent / "d x"
    folder.mkdir()
    ended = call_schema(
        undivided_file=undivided_file, output=folder / "schema.yaml", word="drop=[note]"
    )
    assert ended.returncode == 0, ended.stderr
    program, *words = shlex.split(ended.stdout.splitlines()[-1])
    overrides = [OverridesParser.create().parse_override(quote_argument(word)) for word in words]
    settings = {override.key_or_group: override.value() for override in overrides}
    assert program == "pate-train"
    assert settings == {
        "data": "table",
        "data.private": str(folder / "private.csv"),
        "data.public": str(folder / "public.csv"),
        "data.test": str(folder / "test.csv"),
        "data.schema": str(folder / "schema.yaml"),
    }
    table = Table(
        private=settings["data.private"],
        public=settings["data.public"],
        test=settings["data.test"],
        schema=settings["data.schema"],
    )
    dataset = table.load()
    assert dataset.label_names == ("ill",)
    assert num_groups(dataset=dataset) == (35, 10, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "pate-train data=table data.schema=s.yaml data.private=private.csv data.public=all.csv data.test=test.csv "
             "'data.labels=[NAME,NAME]'"),
        (("labels=[ill]", "split=part"), "pate-train data=table data.schema=s.yaml data.path=all.csv data.split=part"),
    ],
)  # fmt: skip
def test_printed_command_line_fits_an_undivided_file(
    undivided_file: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], line: str
) -> None:
    """For a file that is not divided, `pate-schema` prints a command line of pate-train that fits the arguments.

    Without labels the line has NAME in place of each label. With `split=part` it names the column of splits.
    """
    frame = pd.read_csv(undivided_file, sep=";").assign(part=["public", "private"] * 100)
    frame.to_csv(undivided_file, index=False)
    monkeypatch.chdir(undivided_file.parent)
    ended = call(
        "schema", arguments=["data=all.csv", "output=s.yaml", "thousands=.", "drop=[who]", *words]
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == line


def test_lists_of_labels_stay_lists_in_split_files(tmp_path: Path) -> None:
    """Lists of labels in a JSON file stay lists in the split files, so that a label may contain a semicolon."""
    lists = [["pain; chest"], ["pain; chest", "flu"], []]
    rows = [{"who": str(row), "age": row, "dx": lists[row % 3]} for row in range(60)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = TableFile(tmp_path / "all.jsonl", setting="data")
    Dealing(table_file=file, group="who", public_share=0.3, test_share=0.3).write(tmp_path)
    dataset = Table(
        private=str(tmp_path / "private.jsonl"),
        public=str(tmp_path / "public.jsonl"),
        test=str(tmp_path / "test.jsonl"),
        labels=("dx",),
        label_separator=";",
        group="who",
    ).load()
    assert dataset.label_names == ("flu", "pain; chest")
    splits = (dataset.private, dataset.public, dataset.test)
    assert sum(split.labels.sum(axis=0) for split in splits).tolist() == [20, 40]
