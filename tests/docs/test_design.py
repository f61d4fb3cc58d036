"""The files that docs/design.md names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design.md"
PLACEHOLDERS = ("NAME", "COMMAND")


def test_every_file_that_the_page_names_is_there() -> None:
    """Each path of a file in docs/design.md exists below the root or below `pate`."""
    names = set(re.findall(r"`([\w./]+/[\w.]+\.(?:py|md|yaml))", PAGE.read_text(encoding="utf-8")))
    names = {name for name in names if not any(word in name for word in PLACEHOLDERS)}
    assert len(names) > 20
    missing = [
        name for name in names if not any((base / name).exists() for base in (ROOT, ROOT / "pate"))
    ]
    assert missing == []
