"""Where the YAML lies, in an installed package or beside it in a checkout; its groups, and how `--help` lists them."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from itertools import takewhile
from pathlib import Path
from textwrap import wrap

from hydra.core.global_hydra import GlobalHydra

_PACKAGE = Path(__file__).resolve().parents[1]
_ENTRY_POINTS = {
    "aggregator": "pate.aggregators",
    "data": "pate.data",
    "student": "pate.students",
    "teacher": "pate.teachers",
}
_SENTENCE = re.compile(r".*?\.(?=\s|$)")
_WIDTH = 116

CONFIG_FOLDER: Path = next(
    folder for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if (folder / "shared.yaml").is_file()
)
"""The folder with train.yaml, account.yaml and the groups."""

FILE_COMMANDS: Path = CONFIG_FOLDER / "file_commands"
"""The folder of commands whose `data=` is a file, where elsewhere it is a group."""


def folder_of(command: str) -> Path:
    """Where the settings of a command lie."""
    return FILE_COMMANDS if (FILE_COMMANDS / f"{command}.yaml").is_file() else CONFIG_FOLDER


def folders() -> tuple[Path, ...]:
    """Where a group's files may lie: ours, and those that a command was given by `--config-dir`."""
    hydra = GlobalHydra.instance()
    if not hydra.is_initialized():
        return (CONFIG_FOLDER,)
    entries = hydra.config_loader().get_search_path().get_path()
    return tuple(Path(entry.path.removeprefix("file://")) for entry in entries if entry.path.startswith(("file:", "/")))


@cache
def parts_of_others(group: str) -> Mapping[str, str]:
    """The `_target_` of each part that an installed package has for a group, by its name; nothing of it is loaded."""
    found = entry_points(group=_ENTRY_POINTS[group]) if group in _ENTRY_POINTS else ()
    return {point.name: f"{point.module}.{point.attr}" for point in found if point.attr}


def is_part_of_others(target: str) -> bool:
    """Whether an installed package says that this class is a part: who installed it trusts it by that."""
    return any(target in parts_of_others(group).values() for group in _ENTRY_POINTS)


def members(group: str) -> tuple[str, ...]:
    """The names that a group can be set to."""
    files = {path.stem for folder in folders() for path in (folder / group).glob("*.yaml")}
    return tuple(sorted(files | parts_of_others(group).keys()))


def file_of(group: str, name: str, where: Sequence[Path] | None = None) -> Path | None:
    """The file of a member, the first that is found in some folders; None where there is none."""
    searched = folders() if where is None else where
    return next((path for folder in searched if (path := folder / group / f"{name}.yaml").is_file()), None)


def choices(*groups: str) -> str:
    """The members of groups, a paragraph each: names with the first sentence of the file's comment, or the class."""
    paragraphs = []
    for group in groups:
        names, lines = members(group), [f"  {group}"]
        width = max(map(len, names)) + 4
        for name in names:
            if (file := file_of(group, name)) is None:
                about = parts_of_others(group)[name]
            else:  # the first sentence of the comment at its head
                comment = takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
                about = " ".join(
                    line.removeprefix("#").strip() for line in comment if not line.startswith("# @package")
                )
                about = found[0].rstrip(".") if (found := _SENTENCE.match(about)) else about
            text = wrap(about, _WIDTH - width - 2, break_on_hyphens=False) or [""]
            lines.append(f"    {name:<{width - 2}}{text[0]}".rstrip())
            lines.extend(" " * (width + 2) + more for more in text[1:])
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)
