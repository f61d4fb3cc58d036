"""Words of the command line as Hydra's grammar takes them: it knows no letters beyond ASCII, unless they are quoted."""

from __future__ import annotations

import re

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
