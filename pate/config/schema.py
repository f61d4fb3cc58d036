"""The files of settings: their folders, the configuration groups and their members, and the schemas of all of these.

The keys of a command are the parts that its file in `conf/` chooses, and its settings in `pate.settings`, with types
and defaults. The keys of a group's member come from the class that its YAML file names by `_target_`.
"""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from textwrap import wrap
from typing import Any, get_args, get_type_hints

import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import MISSING

from pate.config.classes import GROUPS_OF_CLASSES, installed_parts, kind_of_group, trusted_class
from pate.package_commands import package_commands, package_folders
from pate.settings import names_with, settings_classes, settings_of

# The types of fields that OmegaConf checks; a field of another type accepts any value.
_CHECKED_TYPES: tuple[Any, ...] = (
    str,
    int,
    float,
    bool,
    str | None,
    int | None,
    float | None,
    bool | None,
)
# The settings of parts that name a file or folder.
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

# The fields of classes that no key of their group sets, by group.
_FIELDS_WITHOUT_KEY = {
    "aggregator": ("adjacency", "span", "weights", "start"),
    "method": ("name", "adjacency"),
}

PUBLIC_LABELS = "public_labels"
"""A key of the data that is a setting of the run, and no field of the reader."""

Field = tuple[str, Any, Any]
"""A field of a schema: name, type and default, as `make_dataclass` takes them."""

# The width of the longest lines on a page of help, in columns.
_PAGE_COLUMNS = 116
# The column, behind the indent, in which texts begin on a page of help.
_TEXT_COLUMN = 16
_SENTENCE = re.compile(r".*?\.(?=\s|$)")
_PACKAGE = Path(__file__).resolve().parents[1]
CONFIG_FOLDER: Path = next(
    folder
    for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf")
    if (folder / "train.yaml").is_file()
)
"""The folder with train.yaml, account.yaml and the groups."""

FILE_COMMANDS: Path = CONFIG_FOLDER / "file_commands"
"""The folder of the commands whose `data=` is a file, and no group."""


def folder_of(command: str) -> Path:
    """Returns the folder with a command's YAML file. The folder may belong to another installed package."""
    if command in package_commands():
        return package_commands()[command].folder
    return FILE_COMMANDS if (FILE_COMMANDS / f"{command}.yaml").is_file() else CONFIG_FOLDER


def shipped_folders() -> tuple[Path, ...]:
    """Returns the folders of YAML files that pate and installed packages ship.

    The names of these files may be published.
    """
    return (CONFIG_FOLDER, *package_folders())


def folders() -> tuple[Path, ...]:
    """Returns all folders with files of configuration groups.

    These are the shipped folders, and the user's folders in the option `--config-dir`.
    """
    hydra = GlobalHydra.instance()
    if not hydra.is_initialized():
        return shipped_folders()
    entries = hydra.config_loader().get_search_path().get_path()
    return tuple(
        Path(entry.path.removeprefix("file://"))
        for entry in entries
        if entry.path.startswith(("file:", "/"))
    )


def names_in_config_group(group: str) -> tuple[str, ...]:
    """Returns the names that can be chosen in a configuration group, as in `GROUP=NAME`.

    A name stands for a YAML file, or for a part of an installed package.
    """
    files = {path.stem for folder in folders() for path in (folder / group).glob("*.yaml")}
    return tuple(sorted(files | installed_parts(group).keys()))


def file_of(group: str, name: str) -> Path | None:
    """Returns the YAML file of a group's member in the first of `folders()` that has one; None if none has.

    Args:
        group: the configuration group, such as `teacher`.
        name: the name of the member.
    """
    paths = (folder / group / f"{name}.yaml" for folder in folders())
    return next((path for path in paths if path.is_file()), None)


def choices(*groups: str) -> str:
    """Returns the members of configuration groups for a help page, one paragraph for each group.

    The description of a member is the first sentence of its file's comment, or the name of its class.
    """
    paragraphs = []
    for group in groups:
        names = names_in_config_group(group)
        lines = [f"  {group}"]
        width = max(map(len, names)) + 2
        for name in names:
            yaml_file = file_of(group, name)
            description = (
                installed_parts(group)[name] if yaml_file is None else _description(yaml_file)
            )
            lines += wrap(
                description,
                width=_PAGE_COLUMNS,
                break_on_hyphens=False,
                initial_indent=f"    {name:<{width}}",
                subsequent_indent=" " * (width + 4),
            ) or [f"    {name}"]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def _description(yaml_file: Path) -> str:
    """Returns the first sentence of the comment at the beginning of a file."""
    comment = []
    for line in yaml_file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            comment.append(line.lstrip("# "))
    text = " ".join(comment)
    sentence = _SENTENCE.match(text)
    return text if sentence is None else sentence[0].rstrip(".")


def settings_page(command: str) -> str:
    """Returns the settings of a command with their descriptions, for a help page."""
    lines = []
    for dataclass_field in settings_of(command):
        text = dataclass_field.metadata["help"]
        name = dataclass_field.name
        if len(name) + 2 <= _TEXT_COLUMN:
            lines.append(f"  {name:<{_TEXT_COLUMN}}{text}")
        else:
            lines += [f"  {name}", " " * (2 + _TEXT_COLUMN) + text]
    return "\n".join(lines).lstrip()


@cache
def command_schema(command: str) -> type:
    """Returns the dataclass that describes a command's configuration: the command's parts, then its own settings."""
    content = yaml.load((folder_of(command) / f"{command}.yaml").read_bytes(), yaml.SafeLoader)
    schema: list[Field] = []
    # An entry of the list of defaults is a file, or a mapping from a group to the chosen member.
    for entry in content["defaults"]:
        choices_of_groups = entry if isinstance(entry, dict) else {}
        for group, choice in choices_of_groups.items():
            if group in GROUPS_OF_CLASSES:
                schema.append((group, Any, None if choice is None else MISSING))
    hints = get_type_hints(settings_classes()[command])
    for dataclass_field in settings_of(command):
        hint = hints[dataclass_field.name]
        # Python takes a `Path` for some settings. On a command line, a path is text.
        kind = str | None if Path in get_args(hint) else hint
        schema.append((dataclass_field.name, kind, _default_of(field=dataclass_field)))
    return dataclasses.make_dataclass(f"{command.title().replace('_', '')}Config", schema)


def _nested_default(cls: type) -> Any:
    """Returns a default for `make_dataclass`: an object with the fields of a dataclass, each of which is null.

    null stands for the default of the nested field. So a later version may add a nested field or change its default,
    and still continue a run that an earlier version began.
    """
    optional_types: dict[Any, Any] = {int: int | None, float: float | None}
    hints = get_type_hints(cls)
    schema: list[Field] = []
    for dataclass_field in dataclasses.fields(cls):
        name = dataclass_field.name
        schema.append((name, optional_types.get(hints[name], Any), None))
    return dataclasses.field(
        default_factory=dataclasses.make_dataclass(f"{cls.__name__}Config", schema)
    )


def _default_of(field: dataclasses.Field[Any]) -> Any:
    """Returns the default of a dataclass's field in the form in which `make_dataclass` takes it.

    For a field without a default this is OmegaConf's `MISSING`.
    """
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory)
    return MISSING if field.default is dataclasses.MISSING else field.default


def member_schema(group: str, name: str, trusted_prefixes: tuple[str, ...]) -> Any:
    """Returns the schema of a group's member: a dataclass with the fields of the member's class.

    Teachers also have `num_teachers`, and data have `public_labels`. Fields that no key sets are left out.
    If the class cannot be loaded or is no dataclass, the schema is empty and accepts all keys. The error is then
    reported when the class is built.

    Args:
        group: the configuration group.
        name: the name of the member.
        trusted_prefixes: prefixes of the modules whose classes may be loaded.
    """
    cls: object = None
    with suppress(Exception):
        cls = trusted_class(
            class_path=target_of(group, name),
            kind=kind_of_group(group=group),
            trusted_prefixes=trusted_prefixes,
        )
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return {}
    extra: tuple[Field, ...] = ()
    if group == "teacher":
        from pate.models import KernelTeacher

        # None stands for one kernel teacher for each private group.
        kind, default = (int | None, None) if cls is KernelTeacher else (int, 400)
        extra = (("num_teachers", kind, default),)
    if group == "data":
        extra = ((PUBLIC_LABELS, Any, None),)
    return schema_of(cls, excluded_fields=_FIELDS_WITHOUT_KEY.get(group, ()), extra_fields=extra)


def target_of(group: str, name: str) -> str | None:
    """Returns the `_target_` of a group's member, or of the member from which it inherits.

    Returns None if there is none, or if a YAML file is damaged.

    Args:
        group: the configuration group.
        name: the name of the member.
    """
    file = file_of(group, name)
    if file is None:
        return installed_parts(group).get(name)
    try:
        content = yaml.load(file.read_bytes(), yaml.SafeLoader)
        target = content.get("_target_")
        if target is not None:
            return str(target)
        bases = [
            entry
            for entry in content.get("defaults", ())
            if isinstance(entry, str) and entry != name
        ]
    except Exception:  # a damaged file is refused when it is composed
        return None
    targets = (target_of(group, name=base) for base in bases)
    return next((target for target in targets if target), None)


@lru_cache  # a sweep, and a program with several commands, compose the same members again
def schema_of(
    cls: type, *, excluded_fields: tuple[str, ...] = (), extra_fields: tuple[Field, ...] = ()
) -> type:
    """Returns a schema for a dataclass: the key `_target_` and all fields, typed if OmegaConf supports the type.

    Args:
        cls: the dataclass.
        excluded_fields: the names of fields that are left out.
        extra_fields: further fields, each as (name, type, default).
    """
    try:
        hints = get_type_hints(cls)
    except NameError:  # names that only a type checker imports
        hints = {}
    fields: list[Field] = [("_target_", str, f"{cls.__module__}.{cls.__qualname__}"), *extra_fields]
    for dataclass_field in dataclasses.fields(cls):
        name = dataclass_field.name
        default = dataclass_field.default
        if not dataclass_field.init or name in excluded_fields:
            continue
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            fields.append((name, Any, _nested_default(type(default))))
            continue
        hint = hints.get(name)
        kind = hint if hint in _CHECKED_TYPES else Any
        fields.append((name, kind, _default_of(field=dataclass_field)))
    return dataclasses.make_dataclass(f"{cls.__name__}Config", fields)
