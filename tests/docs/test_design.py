"""The files that docs/design.md names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design.md"
PLACEHOLDERS = ("NAME", "COMMAND")


def test_every_file_that_the_page_names_is_there() -> None:
    """Each path of a file in docs/design.md exists below the root or below `pate`."""
    named_paths = set(
        re.findall(r"`([\w./]+/[\w.]+\.(?:py|md|yaml))", PAGE.read_text(encoding="utf-8"))
    )
    named_paths = {path for path in named_paths if not any(word in path for word in PLACEHOLDERS)}
    assert len(named_paths) > 20
    missing = [
        path
        for path in named_paths
        if not any((base / path).exists() for base in (ROOT, ROOT / "pate"))
    ]
    assert missing == []
