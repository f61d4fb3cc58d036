"""Checks of a command line before Hydra receives it, and of the configuration that Hydra has composed."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf

from pate.config import papers_words
from pate.config.application import OPTIONS
from pate.config.classes import GROUPS_OF_CLASSES
from pate.config.schema import names_in_config_group
from pate.validation import InvalidValue, nearest

# a zero byte, or half of a character, as Python reads bytes that are no UTF-8
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def require_safe_arguments(arguments: Sequence[str], *, setting_names: tuple[str, ...]) -> None:
    """Refuses arguments of a command line that Hydra must not receive.

    Args:
        arguments: the arguments of the command line.
        setting_names: the names of the command's settings.

    Raises:
        InvalidValue: an argument is not UTF-8 or has a zero byte, begins with = or @, is a setting with leading dashes,
            or is the option that executes a pickled configuration.
    """
    for argument in arguments:
        argument_name = argument.partition("=")[0]
        # Hydra's grammar takes an argument that begins with "=" or "@" for an empty name, and stops with a parser's
        # error.
        if _NO_TEXT.search(argument) or argument.startswith(("=", "@")):
            raise InvalidValue(ascii(argument)[1:-1], rule="NAME=VALUE, text in UTF-8")
        # argparse takes the beginning of an option's name for the option
        if argument.startswith("--e") and "--experimental-rerun".startswith(argument_name):
            raise InvalidValue(argument, rule="another option: a pickled configuration is code")
        if argument_name.startswith("--") and not any(
            option.startswith(argument_name) for option in OPTIONS
        ):
            nearest_hint = nearest(
                argument_name.lstrip("-").replace("-", "_").partition(".")[0], choices=setting_names
            )
            raise InvalidValue(argument, rule=f"NAME=VALUE, without dashes{nearest_hint}")


def require_choices(arguments: Iterable[str]) -> None:
    """Raises `InvalidValue` if an argument GROUP=VALUE names no member of a configuration group, such as null.

    Args:
        arguments: the arguments of the command line.
    """
    for argument in arguments:
        group, _, member_name = argument.partition("=")
        member_names = names_in_config_group(group)
        if member_names and member_name not in member_names:
            raise InvalidValue(group, member_name, rule=f"one of {', '.join(member_names)}")


def require_sound(config: DictConfig, *, schema: type, command: str) -> None:
    """Checks the keys and texts of a composed configuration.

    Args:
        config: the composed configuration.
        schema: the dataclass that describes the configuration of the command.
        command: the name of the command.

    Raises:
        InvalidValue: the command has no such key; a key of the schema is not in the configuration; a part is no mapping
            of settings; or a text is not UTF-8 or has a zero byte.
    """
    field_by_name = {schema_field.name: schema_field for schema_field in dataclasses.fields(schema)}
    field_names = tuple(field_by_name)
    for config_key in map(str, config.keys()):
        if config_key not in field_by_name:
            nearest_hint = papers_words.hint(
                word=config_key, known_settings=field_names, part_name=""
            ) or nearest(config_key, choices=field_names)
            rule = f"a key of the configuration, + or not: one of {', '.join(field_names)}{nearest_hint}"
            raise InvalidValue(config_key, rule=rule)
    for field_name, schema_field in field_by_name.items():
        if OmegaConf.is_missing(config, field_name):
            continue
        if field_name not in config:
            rule = f"a value, found none; a file for --config-name begins with defaults: [{command}, _self_]"
            raise InvalidValue(field_name, rule=rule)
        is_part = (
            field_name in GROUPS_OF_CLASSES
            and schema_field.default == MISSING
            and schema_field.type is Any
        )
        if is_part and not isinstance(config[field_name], DictConfig):
            rule = f"a _target_ and its settings, or {field_name}=NAME"
            raise InvalidValue(field_name, config[field_name], rule=rule)
    for config_text in _texts_in(OmegaConf.to_container(config, resolve=False)):
        if _NO_TEXT.search(config_text):
            raise InvalidValue(f"{config_text!a}", rule="text in UTF-8 without a zero byte")


def _texts_in(nested_values: Any) -> Iterator[str]:
    """Yields all texts among the values of a configuration, which consists of mappings, lists and plain values."""
    if isinstance(nested_values, str):
        yield nested_values
    elif isinstance(nested_values, dict):
        for inner_value in nested_values.values():
            yield from _texts_in(inner_value)
    elif isinstance(nested_values, list):
        for inner_value in nested_values:
            yield from _texts_in(inner_value)
