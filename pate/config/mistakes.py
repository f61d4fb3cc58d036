"""The words of a command line and a configuration's mistakes, each of them in one line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hydra.errors import OverrideParseException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pate.config.location import members
from pate.config.targets import GROUPS_OF_CLASSES
from pate.validation import InvalidValue, nearest

_LONGEST = 1000
_ENDING = 300
_OPTIONS = (
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
)  # fmt: skip
"""Of Hydra's, which takes any beginning of them."""
_TYPES = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}

_LEFT = set("'\"\\${}()=")  # a value that has one of these is already written for Hydra, or is told how to be
_PART = re.compile(r"[^\[\],]+")
_MARK = re.compile(r"[,;:'\"~#&!<>^`\s]")  # a mark alone is a value that means itself
_SHARES = re.compile(r"[\d.]+,[\d.]+")
_STRANGE = re.compile(r"[^\x00-\x7f]|[~&#!;<>^`]")


def quoted(word: str) -> str:
    """A setting with quotes around those values that Hydra could not read otherwise; any other word as it is.

    >>> quoted("data.private=öffentlich.csv"), quoted("data.labels=[Größe,age]"), quoted("seed=3")
    ('data.private="öffentlich.csv"', 'data.labels=["Größe",age]', 'seed=3')
    """
    key, equals, value = word.partition("=")
    if _MARK.fullmatch(value) or (key == "split" and _SHARES.fullmatch(value)):
        mark = '"' if value == "'" else "'"
        return f"{key}={mark}{value}{mark}"
    if not equals or word.startswith("-") or _LEFT & set(value):
        return word
    return f"{key}={_PART.sub(lambda part: _quoted(part[0]), value)}"


def _quoted(part: str) -> str:
    return f'"{part.strip()}"' if _STRANGE.search(part) else part


def explain(error: Exception) -> str:
    """One line that names the key or group, the rule and the value."""
    if isinstance(error, OverrideParseException):
        key, equals, value = error.override.partition("=")
        if not equals:
            return f"{error.override}: expected NAME=VALUE, no blank around the =; --help lists the names"
        if value.count("[") > value.count("]"):
            rule = f"a list without blanks, or in quotes: '{key}=[NAME, NAME]'"
            return f"{error.override}: expected {rule}"
        rule = "in quotes within quotes where it has any of ~ ( ) [ ] { } , = '"
        return f"{error.override}: expected a value that Hydra can read, {rule}: '{key}=\"{value}\"'"
    text = "\n".join(str(part) for part in (error, error.__cause__) if part is not None)
    text = text.partition("Config search path:")[0]  # which names the folders of an installation
    missing = re.search(r"Could not find '([^']+)'|In '[^']*': Could not find '([^']+)'", text)
    if missing:
        group, _, name = (missing.group(1) or missing.group(2)).rpartition("/")
        known = tuple(sorted(getattr(error, "options", None) or members(group)))  # those of --config-dir, too
        if group and known:
            hint = "; submitit's come with pip install 'pate-multilabel[slurm]'" if name.startswith("submitit") else ""
            if group == "data" and "." in name:
                hint = "; files of a table are data=table data.private=FILE data.public=FILE data.test=FILE"
            elif group == "teacher":
                hint = "; teacher=sklearn takes any classifier of scikit-learn (pate-train teacher=sklearn --help)"
            return f"{group}={name}: expected one of {', '.join(known)}{nearest(name, known)}{hint}"
    repeated = re.search(r"Multiple values for (\w+)|Error resolving interpolation '\$\{schema_for:(\w+),", text)
    if repeated:
        group = repeated.group(1) or repeated.group(2)
        return f"{group}: expected one member, and no + before the name: {group}=NAME; -m {group}=A,B runs several"
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return f"{unknown.group(1)}: expected a key of the configuration{_key_hint(error, unknown.group(1))}"
    several = re.search(r"Ambiguous value for argument '([^=]+)=(.*?)'\n", text)
    if several:
        key, value = several.groups()
        return f"{key}={value}: expected one value, a list as '{key}=[{value}]', or -m before it, which runs each"
    mandatory = re.search(r"Missing mandatory value: (\S+)", text)
    if mandatory:
        return f"{mandatory.group(1)}: expected a value, none is assumed: {mandatory.group(1)}=…"
    return _about_a_key(text)


def shortened(line: str) -> str:
    """A line that people read: of a very long one its beginning and its end."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - _ENDING]} … {line[-_ENDING:]}"


def require_utf8(words: Sequence[str]) -> None:
    """Refuses words that were typed in another encoding: no file of settings could name them."""
    for word in words:
        if not _is_utf8(word):
            raise InvalidValue(f"{ascii(word)[1:-1]}: expected text in UTF-8")


def require_no_pickle(words: Sequence[str]) -> None:
    """Refuses Hydra's option to run a configuration that was pickled: a pickle is code."""
    for word in words:
        if word.startswith("--e") and "--experimental-rerun".startswith(word.partition("=")[0]):
            raise InvalidValue(f"{word}: expected another option: a pickled configuration is code")


def require_no_dashes(words: Sequence[str], known: tuple[str, ...]) -> None:
    """Refuses settings that are written like options, which argparse would answer with a page.

    Args:
        words: of the command line.
        known: the command's settings and groups.
    """
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        setting = name.lstrip("-").replace("-", "_")
        if name.startswith("--") and setting.partition(".")[0] in known:
            following = words[place + 1] if place + 1 < len(words) else "-"
            given = value if equals else "VALUE" if following.startswith("-") or "=" in following else following
            raise InvalidValue(f"{word}: expected it without dashes: {setting}={given}")
        if name.startswith("--") and not any(option.startswith(name) for option in _OPTIONS):
            raise InvalidValue(f"{word}: expected NAME=VALUE, without dashes{nearest(setting, known)}")


def explain_choice(words: list[str]) -> str | None:
    """What is wrong with a group that was given no name but null, a number or a truth value, or with a value alone."""
    for word in words:
        group, _, value = word.partition("=")
        if word.startswith("="):
            return f"{word}: expected NAME=VALUE"
        if value in ("null", "true", "false") or value.replace(".", "", 1).isdigit():
            known = members(group)
            if known:
                return f"{word}: expected one of {', '.join(known)}"
            if word.startswith("@"):
                return f"{word}: expected NAME=VALUE"
    return None


def require_known_keys(config: DictConfig, known: tuple[str, ...]) -> None:
    """Refuses settings that + added to a command and that nothing reads."""
    for key in map(str, config):
        if key not in known:
            rule = f"a key of the configuration, + or not: one of {', '.join(known)}{nearest(key, known)}"
            raise InvalidValue(f"{key}: expected {rule}")


def require_parts(config: DictConfig, command: type, file: str) -> None:
    """Refuses a configuration in which a key of the command is not there, or something else stands for a part.

    Args:
        config: composed, perhaps from a file of one's own.
        command: its schema.
        file: of the command's own settings.
    """
    for field in dataclasses.fields(command):
        name = field.name
        if name not in config and not OmegaConf.is_missing(config, name):
            rule = f"expected a value, found none; a file for --config-name begins with defaults: [{file}, _self_]"
            raise InvalidValue(f"{name}: {rule}")
        is_part = name in GROUPS_OF_CLASSES and field.default == MISSING and field.type == "Any"
        if is_part and not OmegaConf.is_missing(config, name) and not isinstance(config[name], DictConfig):
            raise InvalidValue(f"{name}={config[name]}: expected a _target_ and its settings, or {name}=NAME")
    for key, text in _texts(OmegaConf.to_container(config, resolve=False)):
        if "\0" in text or not _is_utf8(text):
            raise InvalidValue(f"{key}={text!r}: expected text in UTF-8 without a zero byte")


def _is_utf8(text: str) -> bool:
    """Whether a text can be written: what came from bytes that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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


def _about_a_key(text: str) -> str:
    """Hydra's or OmegaConf's words on a key, behind its name; the words alone where they name none."""
    said, marked, key = text.partition("full_key: ")
    if marked and key.split() and (plain := _in_words(key.split()[0], said)) is not None:
        return plain
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if lines and re.match(r"Error (merging override|in call to target|locating target)", lines[0]) and len(lines) > 1:
        lines = lines[1:]
    return f"{key.split()[0]}: {' '.join(lines)}" if marked and lines and key.split() else text


def _in_words(key: str, said: str) -> str | None:
    """What OmegaConf says of a value of another type, in the words of all other messages; None of anything else."""
    if found := re.search(r"Value '(.*)' of type '[^']*' could not be converted to (\w+)", said, re.DOTALL):
        return f"{key}={found[1]}: expected {_TYPES.get(found[2], 'another kind of value')}"
    if found := re.search(r"Value '(.*)' is not a valid bool", said, re.DOTALL):
        return f"{key}={found[1]}: expected true or false"
    if found := re.search(r"Cannot convert '\w+' to string: '(.*)'", said, re.DOTALL):
        below = f", {key}=VALUE, and no setting below it" if found[1].startswith("{") else ""
        return f"{key}: expected text{below}" if below else f"{key}={found[1]}: expected text"
    if "is not a ListConfig, list or tuple" in said:
        return f"{key}: expected a list: {key}=[VALUE,VALUE]"
    return None


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
