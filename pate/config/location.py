"""Where the YAML lies: inside an installed package, or beside it in a checkout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.global_hydra import GlobalHydra

_PACKAGE = Path(__file__).resolve().parents[1]

CONFIG_FOLDER: Path = next(
    folder for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if (folder / "shared.yaml").is_file()
)
"""The folder with train.yaml, account.yaml and the groups."""

FILE_COMMANDS: Path = CONFIG_FOLDER / "file_commands"
"""The folder of commands whose `data=` is a file, where elsewhere it is a group."""


def folders() -> tuple[Path, ...]:
    """Where a group's files may lie: ours, and those that a command was given by `--config-dir`."""
    hydra = GlobalHydra.instance()
    if not hydra.is_initialized():
        return (CONFIG_FOLDER,)
    entries = hydra.config_loader().get_search_path().get_path()
    return tuple(Path(entry.path.removeprefix("file://")) for entry in entries if entry.path.startswith(("file:", "/")))


def members(group: str) -> tuple[str, ...]:
    """The names that a group can be set to."""
    return tuple(sorted({path.stem for folder in folders() for path in (folder / group).glob("*.yaml")}))


def file_of(group: str, name: str, where: Sequence[Path] | None = None) -> Path | None:
    """The file of a member, the first that is found in some folders; None where there is none."""
    searched = folders() if where is None else where
    return next((path for folder in searched if (path := folder / group / f"{name}.yaml").is_file()), None)
