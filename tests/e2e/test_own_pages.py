"""The pages on parts of one's own, followed literally: the files that a page shows, and its command."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.commands import call

PAGES = sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("own-*.md"))
_FILE = re.compile(r"`([\w/]+\.(?:py|yaml))` [^\n]*:\n\n```\w+\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"```sh\nPYTHONPATH=\. pate-train (.*?)\n```")


def test_there_is_a_page_of_at_most_40_lines_for_each_part() -> None:
    assert [page.stem for page in PAGES] == ["own-aggregator", "own-data-set", "own-student", "own-teacher"]
    assert max(len(page.read_text(encoding="utf-8").splitlines()) for page in PAGES) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_works_as_it_stands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    files = dict(_FILE.findall(text))
    assert len(files) == 2
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    (command,) = _COMMAND.findall(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = call("train", *shlex.split(command), "output_dir=run", "all_records=false")
    assert ended.returncode == 0, ended.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["student"]["accuracy"] > 0.5
