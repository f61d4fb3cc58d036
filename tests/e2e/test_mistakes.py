"""What the commands say of a configuration's mistakes, where they run with it."""

from __future__ import annotations

import logging
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
    said = run("account", word)
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
