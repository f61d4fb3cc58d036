"""One file dealt to three: whole groups, the same way for the same seed, and nothing overwritten."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from pate.config.quoting import quoted
from pate.data import Table
from pate.data.table.dealing import Dealing
from pate.data.table.table_file import TableFile
from tests.e2e.commands import call
from tests.refusals import refused

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
PEOPLE = 50
VISITS = 4


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Visits of 50 people, whose numbers are spelled in two ways; German numbers."""
    rows = range(PEOPLE * VISITS)
    who = [str(row % PEOPLE) if row < PEOPLE else f"{row % PEOPLE}.0" for row in rows]
    price = [f"1.0{row % 90 + 10},5" for row in rows]
    frame = pd.DataFrame(
        {"who": who, "price": price, "note": ["a", "NA"] * (len(rows) // 2), "ill": [0, 1] * 100}
    )
    frame.to_csv(tmp_path / "all.csv", index=False, sep=";")
    return tmp_path / "all.csv"


def dealt(whole: Path, folder: str, **settings: Any) -> dict[str, Any]:
    (whole.parent / folder).mkdir()
    dealing = Dealing(
        TableFile(whole, "data"),
        **{"group": "who", "public_share": 0.2, "test_share": 0.1} | settings,
    )
    return {
        split: path.read_bytes() for split, path in dealing.write(whole.parent / folder).items()
    }


def people(part: bytes) -> set[str]:
    return {line.split(";")[0].removesuffix(".0") for line in part.decode().splitlines()[1:]}


def test_groups_are_whole_and_shares_are_theirs(whole: Path) -> None:
    parts = dealt(whole, "a")
    found = {split: people(part) for split, part in parts.items()}
    assert {split: len(who) for split, who in found.items()} == {
        "private": 35,
        "public": 10,
        "test": 5,
    }
    assert len(set.union(*found.values())) == PEOPLE
    lines = sorted(line for part in parts.values() for line in part.decode().splitlines()[1:])
    assert lines == sorted(line.replace("NA", "") for line in whole.read_text().splitlines()[1:])


def test_a_seed_deals_the_same_way(whole: Path) -> None:
    assert dealt(whole, "a", seed=3) == dealt(whole, "b", seed=3) != dealt(whole, "c", seed=4)
    assert len(people(dealt(whole, "d", group=None)["public"])) > 10


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv.gz"])
def test_parts_are_files_of_the_same_kind(whole: Path, ending: str) -> None:
    frame = pd.read_csv(whole, sep=";", dtype={"who": str})
    path = whole.with_name(f"all.{ending}")
    {"parquet": frame.to_parquet, "feather": frame.to_feather, "csv.gz": frame.to_csv}[ending](path)
    (whole.parent / "parts").mkdir()
    if ending == "csv.gz":
        frame.to_csv(path, index=False)
    paths = Dealing(TableFile(path, "data"), "who", 0.2, 0.1).write(whole.parent / "parts")
    assert {each.name for each in paths.values()} == {f"{split}.{ending}" for split in paths}
    tables = [TableFile(each, "data").read() for each in paths.values()]
    assert sum(table.num_rows for table in tables) == PEOPLE * VISITS


def test_the_command_deals_and_its_files_make_a_data_set(whole: Path) -> None:
    words = [
        f"data={whole}",
        f"output={whole.parent / 'schema.yaml'}",
        "labels=[ill]",
        "thousands=.",
    ]
    ended = call("schema", *words, "group=who", "split=.2,.1")
    assert ended.returncode == 0, ended.stderr
    files = {split: str(whole.parent / f"{split}.csv") for split in ("private", "public", "test")}
    dataset = Table(
        **files, labels=("ill",), group="who", schema=str(whole.parent / "schema.yaml")
    ).load()
    assert (dataset.private.num_groups, dataset.public.num_groups, dataset.test.num_groups) == (
        35,
        10,
        5,
    )
    again = call(
        "schema",
        *words[:1],
        f"output={whole.parent / 'other.yaml'}",
        *words[2:],
        "group=who",
        "split=.2,.1",
    )
    assert again.returncode == 2
    assert again.stderr.startswith(
        f"output={files['private']}: expected a folder without such a file"
    )
    assert not (whole.parent / "other.yaml").exists()


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("split=.5,.5", "split=0.5,0.5: expected two shares above 0"),
        ("split=[.1,.1,.1]", "split=0.1,0.1,0.1: expected a column, or two shares"),
        ("group=whom", "group=whom: expected a column of data (did you mean who?)"),
        ("category=[none]", "category=none: expected a column of data that is a feature"),
    ],
)
def test_what_cannot_be_dealt_leaves_no_file(whole: Path, word: str, line: str) -> None:
    words = [
        f"data={whole}",
        f"output={whole.parent / 'schema.yaml'}",
        "labels=[ill]",
        "thousands=.",
    ]
    ended = call("schema", *words, "group=who", "split=.2,.1", word)
    assert ended.returncode == 2
    assert ended.stderr.startswith(line), ended.stderr
    assert sorted(path.name for path in whole.parent.iterdir()) == ["all.csv"]


def test_a_person_with_a_fifth_of_all_rows_is_told(whole: Path) -> None:
    frame = pd.read_csv(whole, sep=";", dtype=str)
    pd.concat([frame, frame[frame["who"] == "7"].sample(80, replace=True)]).to_csv(
        whole, index=False, sep=";"
    )
    said = Dealing(TableFile(whole, "data"), "who", 0.2, 0.1).largest_remark()
    assert said == "group=who: one has 84 of 280 rows, all of which are in one part"


def test_every_person_needs_a_name_and_a_part(whole: Path) -> None:
    with refused("group", "who", "a value in each row, 1"):
        (whole.parent / "few.csv").write_text("who,x\n1,2\n,3\n")
        Dealing(TableFile(whole.parent / "few.csv", "data"), "who", 0.2, 0.1).part_of_row()
    with refused("split", "0.2,0.1", "more than 2"):
        (whole.parent / "few.csv").write_text("who,x\n1,2\n2,3\n")
        Dealing(TableFile(whole.parent / "few.csv", "data"), "who", 0.2, 0.1).part_of_row()


def test_the_line_that_the_command_prints_names_the_files_and_nothing_twice(whole: Path) -> None:
    """Pasted into a shell it is a run of the same labels and group; here its words are read as Hydra reads them."""
    folder = whole.parent / "d x"
    folder.mkdir()
    words = [
        f"data={whole}",
        f"output='{folder / 'schema.yaml'}'",
        "labels=[ill]",
        "thousands=.",
        "drop=[note]",
    ]
    ended = call("schema", *words, "group=who", "split=.2,.1")
    assert ended.returncode == 0, ended.stderr
    program, *settings = shlex.split(ended.stdout.splitlines()[-1])
    parsed = [OverridesParser.create().parse_override(quoted(word)) for word in settings]
    given = {each.key_or_group.removeprefix("data."): each.value() for each in parsed}
    assert (program, given.pop("data")) == ("pate-train", "table")
    assert given == {
        name: str(folder / f"{name}.csv") for name in ("private", "public", "test")
    } | {"schema": str(folder / "schema.yaml")}
    dataset = Table(**given).load()
    assert dataset.label_names == ("ill",)
    assert (dataset.private.num_groups, dataset.public.num_groups, dataset.test.num_groups) == (
        35,
        10,
        5,
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "pate-train data=table data.schema=s.yaml data.private=private.csv data.public=all.csv data.test=test.csv "
             "'data.labels=[NAME,NAME]'"),
        (("labels=[ill]", "split=part"), "pate-train data=table data.schema=s.yaml data.path=all.csv data.split=part"),
    ],
)  # fmt: skip
def test_the_line_of_one_file(
    whole: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], line: str
) -> None:
    frame = pd.read_csv(whole, sep=";").assign(part=["public", "private"] * 100)
    frame.to_csv(whole, index=False)
    monkeypatch.chdir(whole.parent)
    ended = call("schema", "data=all.csv", "output=s.yaml", "thousands=.", "drop=[who]", *words)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == line


def test_lists_of_labels_are_dealt_as_lists(tmp_path: Path) -> None:
    """Joined by ; they would be split at every ; that a label has."""
    import json

    lists = [["pain; chest"], ["pain; chest", "flu"], []]
    rows = [{"who": str(row), "age": row, "dx": lists[row % 3]} for row in range(60)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Dealing(TableFile(tmp_path / "all.jsonl", "data"), "who", 0.3, 0.3).write(tmp_path)
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("private", "public", "test")}
    dataset = Table(**files, labels=("dx",), label_separator=";", group="who").load()
    assert dataset.label_names == ("flu", "pain; chest")
    splits = (dataset.private, dataset.public, dataset.test)
    assert sum(split.labels.sum(axis=0) for split in splits).tolist() == [20, 40]
