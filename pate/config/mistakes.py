"""A user's mistakes in a configuration, each in one line."""

from __future__ import annotations

import re

from hydra.errors import OverrideParseException

from pate.config.location import members
from pate.validation import nearest


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
            return f"{group}={name}: expected one of {', '.join(known)}{nearest(name, known)}"
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return f"{unknown.group(1)}: expected a key of the configuration{_key_hint(text)}; --help lists them"
    mandatory = re.search(r"Missing mandatory value: (\S+)", text)
    if mandatory:
        return f"{mandatory.group(1)}: expected a value, none is assumed: {mandatory.group(1)}=…"
    typed = re.search(r"(?:Error merging override .*\n)?(.*)\n\s*full_key: (\S+)", text)
    return f"{typed.group(2)}: {typed.group(1)}" if typed else text


def _key_hint(text: str) -> str:
    match = re.search(r"Key '([^']+)' is not in struct|Key '([^']+)' not in '([^']+)'", text)
    return f" ({match.group(0)})" if match else ""
