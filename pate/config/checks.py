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


def require_words(arguments: Sequence[str], *, setting_names: tuple[str, ...]) -> None:
    """Refuses arguments of a command line that Hydra must not receive.

    Args:
        arguments: the arguments of the command line.
        setting_names: the names of the command's settings.

    Raises:
        InvalidValue: an argument is not UTF-8 or has a zero byte, begins with = or @, is a setting with leading dashes,
            or is the option that executes a pickled configuration.
    """
    for word in arguments:
        name = word.partition("=")[0]
        # Hydra's grammar takes a word that begins with "=" or "@" for an empty name, and stops with a parser's error.
        if _NO_TEXT.search(word) or word.startswith(("=", "@")):
            raise InvalidValue(ascii(word)[1:-1], rule="NAME=VALUE, text in UTF-8")
        # argparse takes the beginning of an option's name for the option
        if word.startswith("--e") and "--experimental-rerun".startswith(name):
            raise InvalidValue(word, rule="another option: a pickled configuration is code")
        if name.startswith("--") and not any(option.startswith(name) for option in OPTIONS):
            near = nearest(
                name.lstrip("-").replace("-", "_").partition(".")[0], choices=setting_names
            )
            raise InvalidValue(word, rule=f"NAME=VALUE, without dashes{near}")


def require_choices(arguments: Iterable[str]) -> None:
    """Raises `InvalidValue` if an argument GROUP=VALUE names no member of a configuration group, such as null.

    Args:
        arguments: the arguments of the command line.
    """
    for word in arguments:
        group, _, value = word.partition("=")
        names = names_in_config_group(group)
        if names and value not in names:
            raise InvalidValue(group, value, rule=f"one of {', '.join(names)}")


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
    fields = {field.name: field for field in dataclasses.fields(schema)}
    names = tuple(fields)
    for key in map(str, config):
        if key not in fields:
            near = papers_words.hint(word=key, known_settings=names, part_name="") or nearest(
                key, choices=names
            )
            rule = f"a key of the configuration, + or not: one of {', '.join(names)}{near}"
            raise InvalidValue(key, rule=rule)
    for name, field in fields.items():
        if OmegaConf.is_missing(config, name):
            continue
        if name not in config:
            rule = f"a value, found none; a file for --config-name begins with defaults: [{command}, _self_]"
            raise InvalidValue(name, rule=rule)
        is_part = name in GROUPS_OF_CLASSES and field.default == MISSING and field.type is Any
        if is_part and not isinstance(config[name], DictConfig):
            rule = f"a _target_ and its settings, or {name}=NAME"
            raise InvalidValue(name, config[name], rule=rule)
    for text in _texts_in(OmegaConf.to_container(config, resolve=False)):
        if _NO_TEXT.search(text):
            raise InvalidValue(f"{text!a}", rule="text in UTF-8 without a zero byte")


def _texts_in(node: Any) -> Iterator[str]:
    """Yields all texts among the values of a configuration, which consists of mappings, lists and plain values."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _texts_in(value)
    elif isinstance(node, list):
        for item in node:
            yield from _texts_in(item)
