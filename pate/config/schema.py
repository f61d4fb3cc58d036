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

from pate.config.classes import (
    GROUPS_OF_CLASSES,
    classes_allowed_in_group,
    installed_parts,
    trusted_class,
)
from pate.package_commands import package_commands, package_folders
from pate.settings import names_with, settings_classes, settings_of

# The types of parts' fields that OmegaConf checks; a part's field of another type accepts any value.
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
_PATH_SETTINGS_OF_PARTS = (
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
PATH_SETTINGS = names_with("is_path") | {
    *_PATH_SETTINGS_OF_PARTS,
    "hydra.run.dir",
    "hydra.sweep.dir",
}
"""Settings that name a file or folder; `votes` may be a list or a pattern."""

# The fields of classes that no key of their group sets, by group.
_FIELDS_WITHOUT_KEY = {
    "aggregator": ("adjacency", "span", "weights", "start"),
    "method": ("name", "adjacency"),
}

NUM_PUBLIC_LABELS_KEY = "public_labels"
"""A key of the data that is a setting of the run, and no field of the reader."""

Field = tuple[str, Any, Any]
"""A field of a schema: name, type and default, as `make_dataclass` takes them."""

# The width to which descriptions of members are wrapped, in columns, before a page of help is folded.
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

    These are the shipped folders, or, while Hydra composes a configuration, all folders of its search path. That path
    has the user's folder in the option `--config-dir`, too.
    """
    global_hydra = GlobalHydra.instance()
    if not global_hydra.is_initialized():
        return shipped_folders()
    search_path_entries = global_hydra.config_loader().get_search_path().get_path()
    return tuple(
        Path(search_path_entry.path.removeprefix("file://"))
        for search_path_entry in search_path_entries
        if search_path_entry.path.startswith(("file:", "/"))
    )


def names_in_config_group(group: str) -> tuple[str, ...]:
    """Returns the names that can be chosen in a configuration group, as in `GROUP=NAME`.

    A name stands for a YAML file, or for a part of an installed package.
    """
    file_stems = {
        yaml_file.stem
        for config_folder in folders()
        for yaml_file in (config_folder / group).glob("*.yaml")
    }
    return tuple(sorted(file_stems | installed_parts(group).keys()))


def file_of(group: str, member_name: str) -> Path | None:
    """Returns the YAML file of a group's member in the first of `folders()` that has one; None if none has.

    Args:
        group: the configuration group, such as `teacher`.
        member_name: the name of the member.
    """
    yaml_files = (folder / group / f"{member_name}.yaml" for folder in folders())
    return next((yaml_file for yaml_file in yaml_files if yaml_file.is_file()), None)


def describe_members(*groups: str) -> str:
    """Returns the members of configuration groups for a help page, one paragraph for each group.

    The description of a member is the first sentence of its file's comment, or the name of its class.
    """
    paragraphs = []
    for group in groups:
        member_names = names_in_config_group(group)
        paragraph_lines = [f"  {group}"]
        name_width = max(map(len, member_names)) + 2
        for member_name in member_names:
            yaml_file = file_of(group, member_name)
            description = (
                installed_parts(group)[member_name]
                if yaml_file is None
                else _description(yaml_file)
            )
            paragraph_lines += wrap(
                description,
                width=_PAGE_COLUMNS,
                break_on_hyphens=False,
                initial_indent=f"    {member_name:<{name_width}}",
                subsequent_indent=" " * (name_width + 4),
            ) or [f"    {member_name}"]
        paragraphs.append("\n".join(paragraph_lines))
    return "\n\n".join(paragraphs)


def _description(yaml_file: Path) -> str:
    """Returns the first sentence of the comment at the beginning of a file."""
    comment_lines = []
    for comment_line in yaml_file.read_text(encoding="utf-8").splitlines():
        if not comment_line.startswith("#"):
            break
        if not comment_line.startswith("# @package"):
            comment_lines.append(comment_line.lstrip("# "))
    comment_text = " ".join(comment_lines)
    sentence = _SENTENCE.match(comment_text)
    return comment_text if sentence is None else sentence[0].rstrip(".")


def settings_page(command: str) -> str:
    """Returns the settings of a command with their descriptions, for a help page."""
    page_lines = []
    for dataclass_field in settings_of(command):
        description = dataclass_field.metadata["help"]
        setting_name = dataclass_field.name
        if len(setting_name) + 2 <= _TEXT_COLUMN:
            page_lines.append(f"  {setting_name:<{_TEXT_COLUMN}}{description}")
        else:
            page_lines += [f"  {setting_name}", " " * (2 + _TEXT_COLUMN) + description]
    return "\n".join(page_lines).lstrip()


@cache
def command_schema(command: str) -> type:
    """Returns the dataclass that describes a command's configuration: the command's parts, then its own settings."""
    command_yaml = yaml.load((folder_of(command) / f"{command}.yaml").read_bytes(), yaml.SafeLoader)
    schema_fields: list[Field] = []
    # An entry of the list of defaults is a file, or a mapping from a group to the chosen member.
    for defaults_entry in command_yaml["defaults"]:
        choices_of_groups = defaults_entry if isinstance(defaults_entry, dict) else {}
        for group, chosen_member in choices_of_groups.items():
            if group in GROUPS_OF_CLASSES:
                schema_fields.append((group, Any, None if chosen_member is None else MISSING))
    type_by_setting = get_type_hints(settings_classes()[command])
    for dataclass_field in settings_of(command):
        setting_type = type_by_setting[dataclass_field.name]
        # Python takes a `Path` for some settings. On a command line, a path is text.
        schema_type = str | None if Path in get_args(setting_type) else setting_type
        schema_fields.append(
            (dataclass_field.name, schema_type, _default_of(dataclass_field=dataclass_field))
        )
    return dataclasses.make_dataclass(f"{command.title().replace('_', '')}Config", schema_fields)


def _nested_default(cls: type) -> Any:
    """Returns a default for `make_dataclass`: an object with the fields of a dataclass, each of which is null.

    null stands for the default of the nested field. So a later version may add a nested field or change its default,
    and still continue a run that an earlier version began.
    """
    optional_types: dict[Any, Any] = {int: int | None, float: float | None}
    type_by_field = get_type_hints(cls)
    schema_fields: list[Field] = []
    for dataclass_field in dataclasses.fields(cls):
        field_name = dataclass_field.name
        schema_fields.append((field_name, optional_types.get(type_by_field[field_name], Any), None))
    return dataclasses.field(
        default_factory=dataclasses.make_dataclass(f"{cls.__name__}Config", schema_fields)
    )


def _default_of(dataclass_field: dataclasses.Field[Any]) -> Any:
    """Returns the default of a dataclass's field in the form in which `make_dataclass` takes it.

    For a field without a default this is OmegaConf's `MISSING`.
    """
    if dataclass_field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=dataclass_field.default_factory)
    return MISSING if dataclass_field.default is dataclasses.MISSING else dataclass_field.default


def member_schema(group: str, member_name: str, trusted_prefixes: tuple[str, ...]) -> Any:
    """Returns the schema of a group's member: a dataclass with the fields of the member's class.

    Teachers also have `num_teachers`, and data have `public_labels`. Fields that no key sets, such as the `adjacency`
    of an aggregator, are left out.
    If the class cannot be loaded or is no dataclass, the schema is empty and accepts all keys. The error is then
    reported when the class is built.

    Args:
        group: the configuration group.
        member_name: the name of the member.
        trusted_prefixes: prefixes of the modules whose classes may be loaded.
    """
    cls: object = None
    with suppress(Exception):
        cls = trusted_class(
            class_path=target_of(group, member_name),
            allowed_classes=classes_allowed_in_group(group=group),
            trusted_prefixes=trusted_prefixes,
        )
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return {}
    extra_fields: tuple[Field, ...] = ()
    if group == "teacher":
        from pate.models import KernelTeacher

        # None stands for one kernel teacher for each private group.
        number_type, default_number = (int | None, None) if cls is KernelTeacher else (int, 400)
        extra_fields = (("num_teachers", number_type, default_number),)
    if group == "data":
        extra_fields = ((NUM_PUBLIC_LABELS_KEY, Any, None),)
    return schema_of(
        cls, excluded_fields=_FIELDS_WITHOUT_KEY.get(group, ()), extra_fields=extra_fields
    )


def target_of(group: str, member_name: str) -> str | None:
    """Returns the `_target_` of a group's member, or of the member from which it inherits.

    Returns None if there is none, or if a YAML file is damaged.

    Args:
        group: the configuration group.
        member_name: the name of the member.
    """
    yaml_file = file_of(group, member_name)
    if yaml_file is None:
        return installed_parts(group).get(member_name)
    try:
        member_yaml = yaml.load(yaml_file.read_bytes(), yaml.SafeLoader)
        class_path = member_yaml.get("_target_")
        if class_path is not None:
            return str(class_path)
        base_members = [
            defaults_entry
            for defaults_entry in member_yaml.get("defaults", ())
            if isinstance(defaults_entry, str) and defaults_entry != member_name
        ]
    except Exception:  # a damaged file is refused when it is composed
        return None
    class_paths = (target_of(group, member_name=base_member) for base_member in base_members)
    return next((class_path for class_path in class_paths if class_path), None)


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
        type_by_field = get_type_hints(cls)
    except NameError:  # names that only a type checker imports
        type_by_field = {}
    schema_fields: list[Field] = [
        ("_target_", str, f"{cls.__module__}.{cls.__qualname__}"),
        *extra_fields,
    ]
    for dataclass_field in dataclasses.fields(cls):
        field_name = dataclass_field.name
        field_default = dataclass_field.default
        if not dataclass_field.init or field_name in excluded_fields:
            continue
        if dataclasses.is_dataclass(field_default) and not isinstance(field_default, type):
            schema_fields.append((field_name, Any, _nested_default(type(field_default))))
            continue
        field_type = type_by_field.get(field_name)
        schema_type = field_type if field_type in _CHECKED_TYPES else Any
        schema_fields.append(
            (field_name, schema_type, _default_of(dataclass_field=dataclass_field))
        )
    return dataclasses.make_dataclass(f"{cls.__name__}Config", schema_fields)
