"""A user's mistakes in a configuration, each in one line."""

from __future__ import annotations

import re

from hydra.errors import OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pate.config.location import members
from pate.validation import InvalidValue, nearest


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
    typed = re.search(r"(?:Error merging override .*\n)?(.*)\n\s*full_key: (\S+)", text)
    return f"{typed.group(2)}: {typed.group(1)}" if typed else text


def explain_choice(words: list[str]) -> str | None:
    """What is wrong with a group that was given no name but null, a number or a truth value, where one was."""
    for word in words:
        group, _, value = word.partition("=")
        if value in ("null", "true", "false") or value.replace(".", "", 1).isdigit():
            known = members(group)
            if known:
                return f"{word}: expected one of {', '.join(known)}"
    return None


def require_known_keys(config: DictConfig, known: tuple[str, ...]) -> None:
    """Refuses settings that + added to a command and that nothing reads."""
    for key in map(str, config):
        if key not in known:
            rule = f"a key of the configuration, + or not: one of {', '.join(known)}{nearest(key, known)}"
            raise InvalidValue(f"{key}: expected {rule}")


def _key_hint(error: Exception, key: str) -> str:
    """The keys that there are beside the unknown one, and which of them is near."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(cause.parent_node, DictConfig):
        return "; --help lists them"
    known = tuple(str(key) for key in cause.parent_node if key not in ("_target_", "hydra"))
    if not known:
        return f"; with + before it, it becomes one: +{key}=…"
    return f": one of {', '.join(known)}{nearest(str(cause.key), known)}"
