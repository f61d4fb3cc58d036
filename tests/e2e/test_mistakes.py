"""What the commands say of a configuration's mistakes, where they run with it."""

import logging
import os
import re
from pathlib import Path

import pytest

from tests.e2e.commands import call, run


def test_members_of_a_folder_of_ones_own_are_known(tmp_path: Path) -> None:
    """To the hint, the lists of --help and whoever else asks, as long as Hydra runs with the folder."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\n# My own: with a folder. More.\n")
    mistyped, helped = (call("train", "--config-dir", str(tmp_path), said) for said in ("experiment=mien", "--help"))
    assert mistyped.returncode == 2
    assert mistyped.stderr.endswith(" (did you mean mine?)\n")
    assert re.search(r"^    mine +My own: with a folder$", helped.stdout, re.MULTILINE)


@pytest.mark.parametrize("word", ["aggregator=null", "++num_query=5"])
def test_commands_say_both_in_a_line(word: str) -> None:
    said = call("account", word)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert said.stderr.startswith(word.strip("+").partition("=")[0])


def test_a_called_command_closes_no_handler_of_the_process_that_calls_it() -> None:
    """One that is closed may close its stream, such as the file by which pytest captures."""
    closed: list[str] = []

    class Kept(logging.NullHandler):
        def close(self) -> None:
            closed.append("closed")

    kept = Kept()
    assert call("account", "num_teachers=0").returncode == 2
    assert closed == []
    assert kept in [reference() for reference in logging._handlerList]


COMMANDS = ("train", "compare", "account", "audit", "predict", "schema", "vote", "release", "student", "attack")
NO_SETTINGS: dict[str, bytes] = {
    "not YAML": b"defaults: [train\n  - x",
    "a list": b"- a\n- b\n",
    "defaults are a number": b"defaults: 3\n",
    "defaults of numbers": b"defaults: [1, 2]\n",
    "defaults without a name": b"defaults: [{}]\n",
    "a member is a mapping": b"defaults: [{teacher: {a: b}}]\n",
    "a file that is not there": b"defaults: [no_file]\n",
    "itself": b"defaults: [mine]\n",
    "an unknown key": b"defaults: [train, _self_]\nno_such_key: 3\n",
    "not UTF-8": b"a: \xff\xfe\n",
    "a zero byte": b"a: \x00\n",
    "a broken interpolation": b"a: ${x\n",
    "a key twice": b"a: 1\na: 2\n",
    "a tag that is code": b"a: !!python/object/apply:os.system ['true']\n",
    "a header without a value": b"# @package\na: 1\n",
    "a number of 5000 digits": b"a: " + b"9" * 5000 + b"\n",
    "too deep": b"a: " + b"[" * 3000 + b"]" * 3000 + b"\n",
    "a part is a word": b"defaults: [train, _self_]\naccountant: hello\n",
    "a path with a zero byte": b'defaults: [train, _self_]\noutput_dir: "a\\0b"\n',
}


@pytest.mark.parametrize("name", NO_SETTINGS)
def test_a_file_that_is_no_settings_is_said_in_a_line(name: str, tmp_path: Path) -> None:
    """Whether it stands for the whole configuration or for a member of a group."""
    for place, word in (("mine.yaml", "--config-name=mine"), ("experiment/mine.yaml", "experiment=mine")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(NO_SETTINGS[name])
        said = call(
            "train", "--config-dir", str(tmp_path), word, f"+output_dir={tmp_path / 'run'}", "ledger=/dev/null/x"
        )
        assert (said.returncode, said.stderr.count("\n")) == (2, 1), said.stderr
        assert "Traceback" not in said.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_falls_over_such_a_file(name: str, tmp_path: Path) -> None:
    for content in (b"defaults: [train\n  - x", b"a: \xff\n"):
        (tmp_path / "mine.yaml").write_bytes(content)
        said = call(name, "--config-dir", str(tmp_path), "--config-name", "mine")
        assert (said.returncode, said.stderr.count("\n")) == (2, 1), said.stderr


def test_a_file_without_settings_says_how_one_begins(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"")
    said = run("train", "--config-dir", str(tmp_path), "--config-name", "mine", cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.startswith("data: expected a value") and "defaults: [train, _self_]" in said.stderr


def test_the_file_and_its_line_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a: 1\nb: [\nc: 2\n")
    said = call("account", "--config-dir", str(tmp_path), "--config-name", "mine")
    assert said.stderr.startswith(f"file={tmp_path / 'mine.yaml'}: expected settings in YAML (line 4: ")


def test_words_that_are_no_utf_8_are_refused(tmp_path: Path) -> None:
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    for word in (f"output_dir={strange}", f"ledger={strange}", f"data.private={strange}", f"--config-dir={strange}"):
        said = call("train", word)
        assert (said.returncode, said.stderr.count("\n")) == (2, 1)
        assert re.search(r"/\\udcff\"?: expected text in UTF-8\n$", said.stderr)
    assert not any(tmp_path.iterdir())


def test_what_is_refused_in_a_sweep_is_said_at_once_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("account", "-m", "num_queries=10", "num_labels=3,-1,???,2", "aggregator=gaussian_votes")
    lines = said.stderr.splitlines()
    assert said.returncode == 2
    assert [line.partition(":")[0] for line in lines] == ["[2] num_labels=-1", "[3] num_labels", "num_labels=-1"]
    assert said.stdout.count("epsilon <= ") == 2
