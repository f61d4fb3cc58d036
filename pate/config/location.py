"""Where the YAML lies: inside an installed package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]

CONFIG_FOLDER: Path = next(
    folder for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if (folder / "shared.yaml").is_file()
)
"""The folder with train.yaml, account.yaml and the groups."""


def members(group: str) -> tuple[str, ...]:
    """The names that a group can be set to."""
    return tuple(sorted(path.stem for path in (CONFIG_FOLDER / group).glob("*.yaml")))
