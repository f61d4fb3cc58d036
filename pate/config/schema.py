"""The YAML of settings: where it lies, in an installed package or beside it; its groups; and by what schema it is read.

A command's keys are the parts that its file in `conf/` chooses and its settings in `pate.settings`, which have types
and defaults. Those of a group's member come from the class that its YAML names by `_target_`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from textwrap import wrap
from typing import Any, get_args, get_type_hints

import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import MISSING

from pate.config.classes import GROUPS_OF_CLASSES, installed_parts, kind_of_group, trusted_class
from pate.package_commands import package_commands, package_folders
from pate.settings import names_with, settings_classes, settings_of

_PLAIN: tuple[Any, ...] = (str, int, float, bool, str | None, int | None, float | None, bool | None)
_PATHS_OF_PARTS = (
    "aggregator.table",
    "data.cache",
    "data.path",
    "data.private",
    "data.public",
    "data.root",
    "data.schema",
    "data.table",
    "data.test",
    "features.cache",
    "features.weights",
    "student.weights",
    "teacher.weights",
)
PATHS = names_with("is_path") | {*_PATHS_OF_PARTS, "hydra.run.dir", "hydra.sweep.dir"}
"""Settings that name a file or folder; `votes` may be a list or a pattern."""

_SET_ELSEWHERE = {"aggregator": ("adjacency", "span", "weights"), "method": ("name", "adjacency")}

Field = tuple[str, Any, Any]
_COLUMN = 16  # of the texts on a page of help, behind its indent
_SENTENCE = re.compile(r".*?\.(?=\s|$)")
_PACKAGE = Path(__file__).resolve().parents[1]
CONFIG_FOLDER: Path = next(
    folder
    for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf")
    if (folder / "train.yaml").is_file()
)
"""The folder with train.yaml, account.yaml and the groups."""

# of commands whose `data=` is a file, and no group
FILE_COMMANDS: Path = CONFIG_FOLDER / "file_commands"


def folder_of(command: str) -> Path:
    """Returns the folder with a command's YAML, which an installed package may bring."""
    if command in package_commands():
        return package_commands()[command].folder
    return FILE_COMMANDS if (FILE_COMMANDS / f"{command}.yaml").is_file() else CONFIG_FOLDER


def shipped_folders() -> tuple[Path, ...]:
    """Returns the folders of YAML that are ours or an installed package's; names of files there may be published."""
    return (CONFIG_FOLDER, *package_folders())


def folders() -> tuple[Path, ...]:
    """Returns the folders with a group's files: the shipped ones, and those that `--config-dir` named."""
    hydra = GlobalHydra.instance()
    if not hydra.is_initialized():
        return shipped_folders()
    entries = hydra.config_loader().get_search_path().get_path()
    return tuple(
        Path(entry.path.removeprefix("file://"))
        for entry in entries
        if entry.path.startswith(("file:", "/"))
    )


def members(group: str) -> tuple[str, ...]:
    """The names that a group can be set to."""
    files = {path.stem for folder in folders() for path in (folder / group).glob("*.yaml")}
    return tuple(sorted(files | installed_parts(group).keys()))


def file_of(group: str, name: str) -> Path | None:
    """The file of a member, the first that is found; None where there is none."""
    return next(
        (path for folder in folders() if (path := folder / group / f"{name}.yaml").is_file()), None
    )


def choices(*groups: str) -> str:
    """The members of groups, a paragraph each: names with the first sentence of the file's comment, or the class."""
    paragraphs = []
    for group in groups:
        names = members(group)
        lines = [f"  {group}"]
        width = max(map(len, names)) + 2
        for name in names:
            if (file := file_of(group, name)) is None:
                about = installed_parts(group)[name]
            else:
                comment = takewhile(
                    lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines()
                )
                about = " ".join(
                    line.lstrip("# ") for line in comment if not line.startswith("# @package")
                )
                about = found[0].rstrip(".") if (found := _SENTENCE.match(about)) else about
            lines += wrap(
                about,
                116,
                break_on_hyphens=False,
                initial_indent=f"    {name:<{width}}",
                subsequent_indent=" " * (width + 4),
            ) or [f"    {name}"]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def settings_page(command: str) -> str:
    """Lists the settings of a command with their help, as a page of help does: short names beside their text."""
    lines = []
    for item in settings_of(command):
        text = item.metadata["help"]
        if len(item.name) + 2 <= _COLUMN:
            lines.append(f"  {item.name:<{_COLUMN}}{text}")
        else:
            lines += [f"  {item.name}", " " * (2 + _COLUMN) + text]
    return "\n".join(lines).lstrip()


@cache
def command_schema(command: str) -> type:
    """Returns the schema of a command: the parts that its file chooses, then its settings with their defaults."""
    content: dict[str, Any] = yaml.load(
        (folder_of(command) / f"{command}.yaml").read_bytes(), yaml.SafeLoader
    )
    schema: list[Field] = []
    for entry in content["defaults"]:
        for group, choice in entry.items() if isinstance(entry, dict) else ():
            if group in GROUPS_OF_CLASSES:
                schema.append((group, Any, None if choice is None else MISSING))
    hints = get_type_hints(settings_classes()[command])
    for item in settings_of(command):
        hint = hints[item.name]
        # a path is text on a command line, whatever Python may be given
        kind = str | None if Path in get_args(hint) else hint
        schema.append((item.name, kind, _default_of(item)))
    return dataclasses.make_dataclass(f"{command.title().replace('_', '')}Config", schema)


def _nested_default(cls: type) -> Any:
    """Returns the default of a field whose value is a dataclass: its fields by name, all null.

    A null field stands for its own default. So a version that adds such a field, or changes a default, still finds the
    settings of a run that an earlier one began.
    """
    hints = get_type_hints(cls)
    schema: list[Field] = []
    for item in dataclasses.fields(cls):
        hint = hints[item.name]
        kind = {int: int | None, float: float | None}.get(hint, Any)
        schema.append((item.name, kind, None))
    return dataclasses.field(
        default_factory=dataclasses.make_dataclass(f"{cls.__name__}Config", schema)
    )


def _default_of(item: dataclasses.Field[Any]) -> Any:
    """Returns the default of a dataclass's field as another dataclass takes it; OmegaConf's `MISSING` without one."""
    if item.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=item.default_factory)
    return MISSING if item.default is dataclasses.MISSING else item.default


def member_schema(group: str, name: str, trusted: tuple[str, ...]) -> Any:
    """The schema of a member: that of its class, or open to all where building it will say what is wrong."""
    cls: Any = None
    with suppress(Exception):
        cls = trusted_class(target_of(group, name), kind_of_group(group), trusted)
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return {}
    extra: list[Field] = []
    if group == "teacher":
        from pate.models import KernelTeacher  # by default one for each private group

        kind, number = (int | None, None) if cls is KernelTeacher else (int, 400)
        extra = [("num_teachers", kind, number)]
    return schema_of(cls, without=_SET_ELSEWHERE.get(group, ()), extra=extra)


def target_of(group: str, name: str) -> str | None:
    """The `_target_` of a member, or that of the member of the same group that it begins from; None without one."""
    file = file_of(group, name)
    if file is None:
        return installed_parts(group).get(name)
    try:
        content: Any = yaml.load(file.read_bytes(), yaml.SafeLoader)
        if (found := content.get("_target_")) is not None:
            return str(found)
        bases = [
            entry
            for entry in content.get("defaults", ())
            if isinstance(entry, str) and entry != name
        ]
    except Exception:  # what is wrong with a file is said where it is composed
        return None
    return next((target for base in bases if (target := target_of(group, base))), None)


def schema_of(cls: type, *, without: tuple[str, ...] = (), extra: Iterable[Field] = ()) -> type:
    """A dataclass with the same fields, typed where OmegaConf knows the type, and `_target_`."""
    try:
        hints = get_type_hints(cls)
    except NameError:  # names that only a type checker imports
        hints = {}
    fields: list[Field] = [("_target_", str, f"{cls.__module__}.{cls.__qualname__}"), *extra]
    for item in dataclasses.fields(cls):
        if item.init and item.name not in without:
            if dataclasses.is_dataclass(item.default) and not isinstance(item.default, type):
                fields.append((item.name, Any, _nested_default(type(item.default))))
                continue
            hint = hints.get(item.name)
            fields.append((item.name, hint if hint in _PLAIN else Any, _default_of(item)))
    return dataclasses.make_dataclass(f"{cls.__name__}Config", fields)
