"""Documented commands are not refused, and the documentation's examples of a user's own parts run as they stand."""

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import succeeded

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRICED = {"aggregator", "num_teachers", "target_epsilon", "num_queries", "accountant", "adjacency"}
EXPERIMENTS = {"centered_votes": 61_629, "centered_votes_400": 400}


def single_runs(line: str) -> Iterator[list[str]]:
    """Yields the settings that change the price, for each run of a `pate-train` line; a sweep is several runs.

    Nothing is yielded for other lines, or if the line has no setting, sets data, teacher or features, has an option or
    a `$(...)`, or names an experiment outside of `EXPERIMENTS`.
    """
    words = shlex.split(line, comments=True)
    if words[:1] != ["pate-train"] or "=" not in line:
        return
    if "$(" in line:  # settings in a file that the page has written before
        return
    settings = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    if {"data", "teacher", "features"} & set(settings) or any(
        word.startswith("--") for word in words
    ):
        return
    experiment = settings.pop("experiment", None)
    if experiment not in {None, *EXPERIMENTS}:
        return
    priced_release = {key: value for key, value in settings.items() if key.split(".")[0] in PRICED}
    if experiment is not None:
        priced_release |= {
            "aggregator": "centered_votes",
            "num_teachers": str(EXPERIMENTS[experiment]),
        }
    if "teacher.num_teachers" in settings:
        priced_release["num_teachers"] = settings["teacher.num_teachers"]
    choices = [
        [f"{key}={value}" for value in values.split(",")] for key, values in priced_release.items()
    ]
    yield from map(list, itertools.product(*choices))


def documented() -> list[tuple[str, ...]]:
    """Returns the settings of the runs that README and documentation show and `single_runs` yields."""
    texts = (block for page in PAGES for block in FENCED.findall(page.read_text(encoding="utf-8")))
    lines = (line for text in texts for line in text.replace("\\\n", " ").splitlines())
    return sorted({tuple(run) for line in lines for run in single_runs(line)})


@pytest.mark.slow
@pytest.mark.parametrize("settings", documented(), ids=" ".join)
def test_a_documented_run_is_not_refused(settings: tuple[str, ...]) -> None:
    """`pate-account` prices the settings of a run that a page shows."""
    succeeded("account", arguments=settings)


PAGE = (ROOT / "docs" / "how-to" / "your-own-data.md").read_text(encoding="utf-8")
_FILE = re.compile(r"`([\w/]+\.(?:py|yaml))`[^\n]*:\n\n```\w+\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"```sh\nPYTHONPATH=\. pate-train (.*?)\n```")
SECTIONS = {
    text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:] if _COMMAND.search(text)
}


@pytest.mark.slow
@pytest.mark.parametrize("part", ["A data set", "A teacher", "A student", "An aggregator"])
def test_a_section_works_as_it_stands(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the files of a section of your-own-data.md are written and its command is run, the student learns.

    The accuracy of the student is above 0.5.
    """
    files = dict(_FILE.findall(SECTIONS[part]))
    assert len(files) == 2
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    (command,) = _COMMAND.findall(SECTIONS[part])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    succeeded("train", arguments=[*shlex.split(command), "output_dir=run", "all_records=false"])
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["student"]["accuracy"] > 0.5
