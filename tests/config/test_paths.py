"""Paths are read as they were typed, whatever signs they have, and a leading `~` is the home folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

import pate
from pate.accounting import Ledger
from pate.config.command_line import expand_home, is_sweep
from pate.config.mistakes import explain
from pate.config.quoting import quote_argument
from pate.config.schema import PATH_SETTINGS, command_schema
from pate.data import Arrays, HuggingFace, ImageFolder, Table
from pate.run.folder import RunFolder
from pate.validation import InvalidValue, as_setting
from tests.config.conftest import with_files
from tests.config.test_mistakes import parse_error_line, parsed_value

MARKS = [
    *" .,;:'\"\\${}[]()#=~&!<>^`|*?%@+-/_",
    *"ab1é日",
    "${",
    "\\",
    "null",
    "1e5",
    "true",
    '\\"',
    "\\${",
]
NAMES = (
    st.lists(st.sampled_from(MARKS), min_size=1, max_size=8)
    .map("".join)
    .filter(lambda name: name.strip() not in ("", "???"))
)


def resolved_by_omegaconf(value: Any) -> str:
    """Returns what a command receives from OmegaConf for a text."""
    return str(OmegaConf.create({"value": str(value)}).value)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(name=NAMES, setting=st.sampled_from(["data.private", "data.group", "output_dir"]))
def test_suggested_setting_is_parsed_as_meant(name: str, setting: str) -> None:
    """Shell and Hydra read a random value back from the text that `as_setting` writes for it, alone and in a list."""
    (assignment,) = shlex.split(as_setting(setting, value=name))
    assert resolved_by_omegaconf(parsed_value(quote_argument(assignment))) == name
    (assignment,) = shlex.split(as_setting(name="data.drop", value=[name, "b"]))
    assert [resolved_by_omegaconf(part) for part in parsed_value(quote_argument(assignment))] == [
        name,
        "b",
    ]  # type: ignore[attr-defined]


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(name=NAMES, setting=st.sampled_from(sorted(PATH_SETTINGS)))
def test_path_is_taken_literally(name: str, setting: str) -> None:
    """In an argument NAME=PATH, a random path is read unchanged, for every setting that is a path.

    Names with interpolations, backslashes, a quote at the beginning or blanks at an end are left out, and so are lists
    and `null`.
    """
    if "${" in name or "\\" in name or name == "null" or name[0] in "'\"" or name.strip() != name:
        return  # means something to Hydra
    if (setting == "votes" and name.startswith("[")) or (setting == "data" and "," in name):
        return
    assert resolved_by_omegaconf(parsed_value(quote_argument(f"{setting}={name}"))) == name


@pytest.mark.parametrize(
    "name", ["[x]/f.csv", "[x]", "a,b/f.csv", "x=y.csv", "{x}/f", "it's", "2019", "1e5", "true"]
)
def test_paths_with_special_characters_are_quoted(name: str) -> None:
    """Paths with brackets, commas or quotes, and paths that look like numbers, are read unchanged."""
    assert parsed_value(quote_argument(f"data.private={name}")) == name
    assert parsed_value(quote_argument(f"+output_dir={name}")) == name


def test_non_literal_paths_are_unchanged() -> None:
    """Arguments that mean null, a list, an interpolation, a quoted text or a sweep are not changed.

    `is_sweep` is true for the options that ask for several runs.
    """
    words = (
        "output_dir=null votes=[a.npz,b.npz] ledger=${oc.env:HOME}/l "
        "data.private='\"a,b\"' data.private='a' seed=1,2"
    )
    assert all(quote_argument(word) == word for word in words.split())
    assert quote_argument("data=arrays,table") == "data=arrays,table"  # for which Hydra wants -m
    assert quote_argument("data.private=a.csv,b.csv", in_sweep=True) == "data.private=a.csv,b.csv"
    assert not is_sweep(["-x", "seed=1", "--cfg", "job"])
    assert all(is_sweep([word]) for word in ("-m", "--multirun", "--m", "hydra.mode=MULTIRUN"))


def test_refusal_of_a_value_suggests_quotes() -> None:
    """The line about a value that Hydra cannot read suggests an argument that shell and Hydra read as the value."""
    for value in ("[x]/f", "a b(c)", "[a,b"):
        line = parse_error_line(quote_argument(f"data.name={value}"))
        (suggested_argument,) = shlex.split(line[line.index("'data.name=") :])
        expected: Any = ["a", "b"] if value == "[a,b" else value
        assert parsed_value(suggested_argument) == expected


def test_refusal_of_a_list_suggests_a_parsable_list() -> None:
    """The line about a list without brackets suggests an argument that Hydra reads as the list."""
    message = "Ambiguous value for argument 'data.labels=flu,\"chest pain\",2019'\n"
    line = explain(HydraException(message))
    assert line is not None
    (suggested_argument,) = shlex.split(line[line.index("'data.labels=") : line.index(", or -m")])
    assert OverridesParser.create().parse_override(suggested_argument).value() == [
        "flu",
        "chest pain",
        "2019",
    ]


def test_home_is_expanded_in_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` becomes the home folder in settings that are paths, also in lists, but not in a name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    config = OmegaConf.create(
        dict.fromkeys(("ledger", "output", "data"), "~/a") | {"votes": ["~/v", "w"], "name": "~/x"}
    )
    expand_home(config)
    assert config == {
        **dict.fromkeys(("ledger", "output", "data"), f"{tmp_path}/a"),
        "votes": [f"{tmp_path}/v", "w"],
        "name": "~/x",
    }


@pytest.mark.slow
def test_commands_compose_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In paths of pate-train a leading `~` becomes the home folder; in the name of the data it stays."""
    monkeypatch.setenv("HOME", str(tmp_path))
    from hydra import compose

    with with_files(tmp_path, texts={}):
        words = [
            "data=table",
            "data.private=~/a.csv",
            "ledger=~/l.db",
            "output_dir=~",
            "data.name=~/x",
        ]
        config = compose("train", [quote_argument(word) for word in words])
    expand_home(config)
    assert config.data.private == f"{tmp_path}/a.csv"
    assert config.ledger == f"{tmp_path}/l.db"
    assert config.output_dir == str(tmp_path)
    assert config.data.name == "~/x"


@pytest.mark.parametrize(
    "text", ["Clinic (Ward 3), Berlin", "2026-11-29", "a@b.example; 030 12", "null and"]
)
def test_free_text_is_taken_literally(text: str) -> None:
    """A publisher's name and address may have commas and brackets, and a date stays text."""
    assert parsed_value(quote_argument(f"publisher={text}")) == text


def test_every_setting_of_a_command_that_names_a_file_is_a_path() -> None:
    """A setting whose name ends in a word for files, such as `dir` or `ledger`, is in `PATH_SETTINGS`."""
    no_paths = {"name", "holder", "format", "seed"}
    for command in (
        "train",
        "release",
        "account",
        "predict",
        "table_schema",
        "audit",
        "dossier",
    ):
        fields = set(command_schema(command).__dataclass_fields__)
        files = {
            field
            for field in fields
            if field.split("_")[-1] in ("dir", "file", "ledger", "output", "queries")
        }
        assert files - no_paths <= PATH_SETTINGS | {"num_queries", "fewer_queries"}


def test_ledgers_expand_the_home_folder_in_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Ledger("~/...")` opens a file in the home folder, and makes no folder named `~`.

    `ImageFolder` accepts `~` too.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert Ledger("~/ledger.db", target_delta=1e-6).path == tmp_path / "ledger.db"
    assert not (tmp_path / "~").exists()
    ImageFolder(root="~", table="t.csv", labels=("hat",)).require_settings()


def test_readers_expand_the_home_folder_in_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of data, `RunFolder` and `pate.load` expand `~` in each path, but not in a name on the Hub."""
    monkeypatch.setenv("HOME", str(tmp_path))
    table = Table(
        private="~/private.csv",
        public="~/public.csv",
        test="~/test.csv",
        labels=("a",),
        schema="~/schema.yaml",
    )
    assert table.schema == f"{tmp_path}/schema.yaml"
    assert table.private == f"{tmp_path}/private.csv"
    arrays = Arrays(private="~/private.npz", public="~/public.npz", test="~/test.npz")
    assert arrays.test == f"{tmp_path}/test.npz"
    assert HuggingFace(path="~/saved").path == f"{tmp_path}/saved"
    assert HuggingFace(path="user/name").path == "user/name"
    assert ImageFolder(root="~/p", table="~/t.csv").table == f"{tmp_path}/t.csv"
    assert RunFolder(path=Path("~/run")).report == tmp_path / "run" / "report.json"
    with pytest.raises(InvalidValue, match=f"^release={tmp_path}/gone: "):
        pate.load("~/gone")
