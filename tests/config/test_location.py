"""What `--help` says about each member of each group."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pate.config import location
from pate.config.location import choices, members

GROUPS = ("data", "teacher", "engine", "aggregator", "accountant", "student", "experiment", "features", "way")


@pytest.mark.parametrize("group", GROUPS)
def test_every_member_is_explained_within_the_width_of_the_page(group: str) -> None:
    shown = choices(group)
    assert re.findall(r"^    (\w+) +\S", shown, re.MULTILINE) == list(members(group))
    assert max(map(len, shown.splitlines())) <= 120


def test_groups_are_paragraphs() -> None:
    assert [text.splitlines()[0] for text in choices("engine", "student").split("\n\n")] == [
        "  engine",
        "  student",
    ]


def test_the_first_sentence_of_the_comment_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kind").mkdir()
    texts = {
        "one": "# @package _global_\n# Two lines, data.root=FOLDER, 0.5\n# of it. And more.\nx: 1 # not me.\n",
        "two": "# No stop\n",
        "xyz": "x: 1\n",
    }
    for name, text in texts.items():
        (tmp_path / "kind" / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(location, "folders", lambda: (tmp_path,))
    assert choices("kind") == ("  kind\n    one  Two lines, data.root=FOLDER, 0.5 of it\n    two  No stop\n    xyz")
