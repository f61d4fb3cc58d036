"""Mistakes on a command line or in a file of settings: each becomes one line that names the key, rule and value.

Some mistakes are refused before Hydra receives the arguments. Others are found by Hydra or OmegaConf; the patterns in
`said.yaml` turn their errors into our own lines.
"""

import dataclasses
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from traceback import walk_tb
from typing import Any

import yaml
from hydra.errors import HydraException, OverrideParseException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pate.config import papers_words
from pate.config.application import OPTIONS
from pate.config.classes import GROUPS_OF_CLASSES
from pate.config.quoting import NAME_SETTINGS
from pate.config.schema import members
from pate.extras import how_to_install
from pate.files.plain_yaml import read_yaml
from pate.validation import InvalidValue, as_setting, nearest

_PATTERNS = Path(__file__).with_name("said.yaml")
_BETWEEN_COMMAS = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")
_NUMERAL = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
# a zero byte, or half of a character, as Python reads bytes that are no UTF-8
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
# the errors of Hydra and OmegaConf where a file holds no mapping, or a name is missing
_STUMBLES = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
_HINTS = {
    "data": "; files of a table are data=table data.private=FILE data.public=FILE data.test=FILE",
    "hydra/launcher": f"; submitit's come with {how_to_install('slurm')}",
    "teacher": "; teacher=sklearn takes any classifier of scikit-learn (pate-train teacher=sklearn --help)",
}

# What `PATEClassifier` and `pate-schema` call settings of a run.
_WORDS_OF_OTHER_DOORS = {
    "classes": "data.labels",
    "estimator": "teacher",
    "group": "data.group",
    "groups": "data.group",
    "labels": "data.labels",
    "n_queries": "num_queries",
    "n_teachers": "teacher.num_teachers",
    "random_state": "seed",
}


def require_words(arguments: Sequence[str], setting_names: tuple[str, ...]) -> None:
    """Checks arguments of a command line that Hydra must not receive.

    Args:
        arguments: the arguments of the command line.
        setting_names: the names of the command's settings.

    Raises:
        InvalidValue: an argument is not UTF-8, is a setting with leading dashes, or is the option that executes a
            pickled configuration.
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
    """Raises `InvalidValue` if the value of a configuration group is no name of a member, such as null or a number.

    Args:
        arguments: the arguments of the command line.
    """
    for word in arguments:
        group, _, value = word.partition("=")
        names = members(group)
        if names and value not in names:
            raise InvalidValue(group, value, rule=f"one of {', '.join(names)}")


def require_sound(config: DictConfig, schema: type, command: str) -> None:
    """Checks the keys and texts of a composed configuration.

    Args:
        config: the composed configuration.
        schema: the dataclass that describes the configuration of the command.
        command: the name of the command.

    Raises:
        InvalidValue: the command has no such key, a setting has no value, a part has no `_target_`, or a text is not
            UTF-8.
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
    waiting: list[Any] = [OmegaConf.to_container(config, resolve=False)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, dict):
            waiting[:0] = node.values()
        elif isinstance(node, list):
            waiting[:0] = node
        elif isinstance(node, str) and _NO_TEXT.search(node):
            raise InvalidValue(f"{node!a}", rule="text in UTF-8 without a zero byte")


def mistake_of(error: Exception, arguments: Iterable[str]) -> InvalidValue | None:
    """Returns the user's mistake that a general Python error in Hydra or OmegaConf stands for; None if it is none.

    The errors of Hydra's and OmegaConf's own types, which `explain` words, also give None.

    Both libraries raise general Python errors if a file holds no mapping or a name is missing. Such an error counts as
    a user's mistake unless it was raised in our own code.

    Args:
        error: the error.
        arguments: the arguments of the command line.
    """
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        if mark is None:
            return InvalidValue("settings", rule=f"settings in YAML ({reason})")
        rule = f"settings in YAML (line {mark.line + 1}: {reason})"
        return InvalidValue("file", mark.name, rule=rule)
    if isinstance(error, RecursionError):
        rule = "files that do not include themselves, nor values too deep"
        return InvalidValue("defaults", rule=rule)
    is_explained = isinstance(error, (InvalidValue, HydraException, OmegaConfBaseException))
    if is_explained or not isinstance(error, _STUMBLES):
        return None
    *_, (frame, _) = walk_tb(error.__traceback__)
    if str(frame.f_globals.get("__name__")).startswith("pate."):
        return None
    if str(error).startswith("Config group override"):
        try:
            require_choices(arguments)
        except InvalidValue as refusal:
            return refusal
    rule = f"what Hydra can compose ({type(error).__name__}: {error})"
    return InvalidValue("settings", rule=rule)


def explain(error: Exception) -> str:
    """Returns an error of Hydra or OmegaConf as one line, which names the key or group, the rule and the value."""
    if isinstance(error, OverrideParseException):
        return _explain_grammar(error.override)
    messages = [str(part) for part in (error, error.__cause__) if part is not None]
    # the rest names the folders of an installation
    text = "\n".join(messages).partition("Config search path:")[0]
    match = re.search(r"Could not find '([^']+)'", text)
    if match is not None:
        group, _, name = match[1].rpartition("/")
        # members of the folder of `--config-dir` as well
        names = tuple(sorted({*(getattr(error, "options", None) or ()), *members(group)}))
        if group and names:
            hint = nearest(name, choices=names) + _HINTS.get(group, "")
            return f"{group}={name}: expected one of {', '.join(names)}{hint}"
    match = re.search(r"Could not override '([^']+)'", text)
    if match is not None:
        return f"{match[1]}: expected a key of the configuration{_key_hint(error, key=match[1])}"
    patterns = read_yaml(_PATTERNS.read_text(encoding="utf-8"), _PATTERNS.name, rule="YAML")
    for pattern, line in patterns.items():
        match = re.search(pattern, text, re.DOTALL)
        if match is not None:
            groups = match.groupdict()
            if {"name", "value"} <= groups.keys():
                groups["list"] = _as_list(groups["name"], items=_words_of(groups["value"]))
            return str(line.format(**groups))
    return _first_line(text)


def _explain_grammar(override: str) -> str:
    """Returns one line on an argument that Hydra's grammar does not accept."""
    key, equals, value = override.partition("=")
    if not equals:
        return f"{override}: expected NAME=VALUE, no blank around the =; --help lists the names"
    rule = "in quotes within quotes where it has a blank or any of ~ ( ) [ ] { } , = '"
    setting = as_setting(key, _intended_value(value))
    return f"{override}: expected a value that Hydra can read, {rule}: {setting}"


def _first_line(text: str) -> str:
    """Returns a message of OmegaConf as one line, which begins with the key if the message names one."""
    message, marker, key = text.partition("full_key: ")
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not marker or not key.split() or not lines:
        return text
    preamble = r"Error (merging override|in call to target|locating target)"
    if len(lines) > 1 and re.match(preamble, lines[0]):
        lines = lines[1:]
    return f"{key.split()[0]}: {' '.join(lines)}"


def _intended_value(value: str) -> str | list[str]:
    """Returns the text, or list of texts, that the user probably meant by a value that Hydra cannot parse."""
    is_list = value.startswith("[") and (value.endswith("]") or "]" not in value)
    return _words_of(value.removeprefix("[").removesuffix("]")) if is_list else value


def _as_list(name: str, items: list[str]) -> str:
    """Returns a setting with a list as its value, in a form to paste into a shell.

    Numbers are quoted if they are names, such as names of columns.
    """
    if NAME_SETTINGS.fullmatch(name) is None and all(map(_NUMERAL.fullmatch, items)):
        return shlex.quote(f"{name}=[{','.join(items)}]")
    return as_setting(name, value=items)


def _words_of(text: str) -> list[str]:
    """Returns the items between commas without surrounding blanks and quotes.

    A comma within quotes separates no items.
    """
    words = (word.strip(" '\"") for word in _BETWEEN_COMMAS.findall(text))
    return [word for word in words if word]


def _key_hint(error: Exception, key: str) -> str:
    """Returns advice on an unknown key: the keys that exist in its place, and the most similar one."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException):
        return "; --help lists them"
    if not isinstance(cause.parent_node, DictConfig):
        return "; --help lists them"
    names = tuple(str(name) for name in cause.parent_node if name not in ("_target_", "hydra"))
    if names:
        part = key.partition(".")[0] if "." in key else ""
        unknown = str(cause.key)
        near = (
            papers_words.hint(word=unknown, known_settings=names, part_name=part)
            or _other_place(unknown, settings=cause.parent_node)
            or nearest(unknown, choices=names)
        )
        return f": one of {', '.join(names)}{near}"
    if key.startswith("data."):
        return _HINTS["data"]
    return f"; with + before it, it becomes one: +{key}=…"


def _other_place(key: str, settings: DictConfig) -> str:
    """Returns advice on an unknown key that has its place in a part, or another name here; empty if it has neither.

    Args:
        key: the unknown key.
        settings: the known settings and parts, none of which is called `key`.
    """
    place = _WORDS_OF_OTHER_DOORS.get(key, "")
    if place.partition(".")[0] not in settings:
        parts = [name for name in map(str, settings) if _has_key(settings, part=name, key=key)]
        place = f"{parts[0]}.{key}" if parts else ""
    return f" (did you mean {place}?)" if place else ""


def _has_key(settings: DictConfig, part: str, key: str) -> bool:
    """Returns whether a setting is a part with settings of its own, of which one is called `key`."""
    if OmegaConf.is_missing(settings, part) or OmegaConf.is_interpolation(settings, part):
        return False
    node = settings[part]
    return isinstance(node, DictConfig) and key in node
