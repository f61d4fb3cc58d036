"""The page on parts of one's own, followed literally: the files that a section shows, and its command."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.commands import succeeded

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "your-own-data.md").read_text(encoding="utf-8")
_FILE = re.compile(r"`([\w/]+\.(?:py|yaml))`[^\n]*:\n\n```\w+\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"```sh\nPYTHONPATH=\. pate-train (.*?)\n```")
SECTIONS = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:] if _COMMAND.search(text)}


def test_there_is_a_section_for_each_part() -> None:
    assert list(SECTIONS) == ["A data set", "A teacher", "A student", "An aggregator"]


@pytest.mark.slow
@pytest.mark.parametrize("part", SECTIONS)
def test_a_section_works_as_it_stands(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = dict(_FILE.findall(SECTIONS[part]))
    assert len(files) == 2
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    (command,) = _COMMAND.findall(SECTIONS[part])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    succeeded("train", *shlex.split(command), "output_dir=run", "all_records=false")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["student"]["accuracy"] > 0.5
