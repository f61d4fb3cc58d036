"""A user's mistakes in a configuration, each in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hydra.errors import OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pate.config.location import members
from pate.validation import InvalidValue, nearest

_LONGEST = 1000
_ENDING = 300


def explain(error: Exception) -> str:
    """One line that names the key or group, the rule and the value."""
    if isinstance(error, OverrideParseException):
        key, equals, value = error.override.partition("=")
        if not equals:
            return f"{error.override}: expected NAME=VALUE; --help lists the names"
        rule = "in quotes within quotes where it has any of ~ ( ) [ ] { } , = '"
        return f"{error.override}: expected a value that Hydra can read, {rule}: '{key}=\"{value}\"'"
    text = "\n".join(str(part) for part in (error, error.__cause__) if part is not None)
    missing = re.search(r"Could not find '([^']+)'|In '[^']*': Could not find '([^']+)'", text)
    if missing:
        group, _, name = (missing.group(1) or missing.group(2)).rpartition("/")
        known = tuple(sorted(getattr(error, "options", None) or members(group)))  # those of --config-dir, too
        if group and known:
            hint = "; submitit's come with pip install 'pate[slurm]'" if name.startswith("submitit") else ""
            return f"{group}={name}: expected one of {', '.join(known)}{nearest(name, known)}{hint}"
    repeated = re.search(r"Multiple values for (\w+)|Error resolving interpolation '\$\{one:\$\{(\w+)\}\}'", text)
    if repeated:
        group = repeated.group(1) or repeated.group(2)
        return f"{group}: expected one member, and no + before the name: {group}=NAME; -m {group}=A,B runs several"
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return f"{unknown.group(1)}: expected a key of the configuration{_key_hint(error, unknown.group(1))}"
    mandatory = re.search(r"Missing mandatory value: (\S+)", text)
    if mandatory:
        return f"{mandatory.group(1)}: expected a value, none is assumed: {mandatory.group(1)}=…"
    return _about_a_key(text)


def shortened(line: str) -> str:
    """A line that people read: of a very long one its beginning and its end."""
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - _ENDING]} … {line[-_ENDING:]}"


def require_no_pickle(words: Sequence[str]) -> None:
    """Refuses Hydra's option to run a configuration that was pickled: a pickle is code."""
    for word in words:
        if word.startswith("--e") and "--experimental-rerun".startswith(word.partition("=")[0]):
            raise InvalidValue(f"{word}: expected another option: a pickled configuration is code")


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


def _about_a_key(text: str) -> str:
    """Hydra's or OmegaConf's words on a key, behind its name; the words alone where they name none."""
    said, marked, key = text.partition("full_key: ")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if lines and re.match(r"Error (merging override|in call to target|locating target)", lines[0]) and len(lines) > 1:
        lines = lines[1:]
    return f"{key.split()[0]}: {' '.join(lines)}" if marked and lines and key.split() else text


def _key_hint(error: Exception, key: str) -> str:
    """The keys that there are beside the unknown one, and which of them is near."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(cause.parent_node, DictConfig):
        return "; --help lists them"
    known = tuple(str(key) for key in cause.parent_node if key not in ("_target_", "hydra"))
    if not known:
        return f"; with + before it, it becomes one: +{key}=…"
    return f": one of {', '.join(known)}{nearest(str(cause.key), known)}"
