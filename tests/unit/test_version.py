"""The version stands in three places."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pate

ROOT = Path(__file__).parents[2]


def test_all_places_say_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert project["version"] == pate.__version__ == cited[1]
