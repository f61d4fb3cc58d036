"""A configuration's mistakes, each of them in one line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from hydra.errors import OverrideParseException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pate.config.build import GROUPS_OF_CLASSES
from pate.config.command_line import is_utf8
from pate.config.location import members
from pate.validation import InvalidValue, as_setting, how_to_install, nearest

_TYPES = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}


def explain(error: Exception) -> str:
    """One line that names the key or group, the rule and the value."""
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    text = "\n".join(str(part) for part in (error, error.__cause__) if part is not None)
    text = text.partition("Config search path:")[0]  # which names the folders of an installation
    found = re.search(r"Could not find '([^']+)'|In '[^']*': Could not find '([^']+)'", text)
    if found and (line := _no_member(error, found[1] or found[2])) is not None:
        return line
    if found := re.search(r"Multiple values for (\w+)|Error resolving interpolation '\$\{schema_for:(\w+),", text):
        group = found[1] or found[2]
        return f"{group}: expected one member, and no + before the name: {group}=NAME; -m {group}=A,B runs several"
    if found := re.search(r"Could not override '([^']+)'", text):
        return f"{found[1]}: expected a key of the configuration{_key_hint(error, found[1])}"
    if found := re.search(r"Ambiguous value for argument '([^=]+)=(.*?)'\n", text):
        key, value = found.groups()
        if key == "data.split":
            return f"{key}={value}: expected a column; pate-schema split={value} deals one file to three"
        return f"{key}={value}: expected one value, a list as '{key}=[{value}]', or -m before it, which runs each"
    if found := re.search(r"Missing mandatory value: (\S+)", text):
        return f"{found[1]}: expected a value, none is assumed: {found[1]}=…"
    return _about_a_key(text)


def _unreadable(override: str) -> str:
    key, equals, value = override.partition("=")
    if not equals:
        return f"{override}: expected NAME=VALUE, no blank around the =; --help lists the names"
    if value.count("[") > value.count("]"):
        return f"{override}: expected a list without blanks, or in quotes: '{key}=[NAME, NAME]'"
    rule = "in quotes within quotes where it has any of ~ ( ) [ ] { } , = '"
    words = [word.strip(" '\"") for word in value.strip("[]").split(",")] if value[:1] + value[-1:] == "[]" else value
    return f"{override}: expected a value that Hydra can read, {rule}: {as_setting(key, words)}"


def _no_member(error: Exception, path: str) -> str | None:
    """A choice that no group has; None of a file that is no choice."""
    group, _, name = path.rpartition("/")
    known = tuple(sorted({*(getattr(error, "options", None) or ()), *members(group)}))  # those of --config-dir, too
    if not group or not known:
        return None
    hint = f"; submitit's come with {how_to_install('slurm')}" if name.startswith("submitit") else ""
    if group == "data" and "." in name:
        hint = "; files of a table are data=table data.private=FILE data.public=FILE data.test=FILE"
    elif group == "teacher":
        hint = "; teacher=sklearn takes any classifier of scikit-learn (pate-train teacher=sklearn --help)"
    return f"{group}={name}: expected one of {', '.join(known)}{nearest(name, known)}{hint}"


def _key_hint(error: Exception, key: str) -> str:
    """The keys that there are beside the unknown one, and which of them is near."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(cause.parent_node, DictConfig):
        return "; --help lists them"
    known = tuple(str(key) for key in cause.parent_node if key not in ("_target_", "hydra"))
    if not known and key.startswith("data."):
        return "; data=table and other data sets from files have more: data=table data.private=FILE …"
    if not known:
        return f"; with + before it, it becomes one: +{key}=…"
    return f": one of {', '.join(known)}{nearest(str(cause.key), known)}"


def _about_a_key(text: str) -> str:
    """Hydra's or OmegaConf's words on a key, behind its name; the words alone where they name none."""
    said, marked, key = text.partition("full_key: ")
    if not marked or not key.split():
        return text
    name = key.split()[0]
    if found := re.search(r"Value '(.*)' of type '[^']*' could not be converted to (\w+)", said, re.DOTALL):
        return f"{name}={found[1]}: expected {_TYPES.get(found[2], 'another kind of value')}"
    if found := re.search(r"Value '(.*)' is not a valid bool", said, re.DOTALL):
        return f"{name}={found[1]}: expected true or false"
    if found := re.search(r"Cannot convert '\w+' to string: '(.*)'", said, re.DOTALL):
        if found[1].startswith("{"):
            return f"{name}: expected text, {name}=VALUE, and no setting below it"
        return f"{name}={found[1]}: expected text"
    if "is not a ListConfig, list or tuple" in said:
        return f"{name}: expected a list: '{name}=[VALUE,VALUE]'"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if len(lines) > 1 and re.match(r"Error (merging override|in call to target|locating target)", lines[0]):
        lines = lines[1:]
    return f"{name}: {' '.join(lines)}" if lines else text


def require_sound(config: DictConfig, schema: type, command: str) -> None:
    """Refuses a composed configuration that is none of the command.

    That is one with settings that + added and that nothing reads, or, from a file of one's own, one in which a key is
    not there, something else stands for a part, or a text is none.
    """
    fields = dataclasses.fields(schema)
    known = tuple(field.name for field in fields)
    for key in map(str, config):
        if key not in known:
            rule = f"a key of the configuration, + or not: one of {', '.join(known)}{nearest(key, known)}"
            raise InvalidValue(f"{key}: expected {rule}")
    for field in fields:
        name = field.name
        if OmegaConf.is_missing(config, name):
            continue
        if name not in config:
            rule = f"expected a value, found none; a file for --config-name begins with defaults: [{command}, _self_]"
            raise InvalidValue(f"{name}: {rule}")
        is_part = name in GROUPS_OF_CLASSES and field.default == MISSING and field.type is Any
        if is_part and not isinstance(config[name], DictConfig):
            raise InvalidValue(f"{name}={config[name]}: expected a _target_ and its settings, or {name}=NAME")
    for key, text in _texts(OmegaConf.to_container(config, resolve=False)):
        if "\0" in text or not is_utf8(text):
            raise InvalidValue(f"{key}={text!r}: expected text in UTF-8 without a zero byte")


def _texts(node: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Each text in a tree of dictionaries and lists, by where it stands."""
    if isinstance(node, str):
        yield at, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(value, f"{at}.{key}" if at else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _texts(value, f"{at}[{index}]")
