"""Cells that name all labels of a record: words between separators, or a list as JSON, pandas or numpy write it."""

import json
import re
from ast import literal_eval
from collections.abc import Iterable
from typing import Any

from pate.data.table.spelling import canonical_word

# The forms of a list that Python writes: [...], (...), {...}, set(), array([...], dtype=object).
_AROUND = re.compile(
    r"(?:array|set|frozenset|list|tuple)\((?P<inner>.*?)(?:,\s*dtype=[\w<>.']+)?\)", re.DOTALL
)
_WORD = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ITEM = rf"(?:{_WORD}|[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|None|null|nan|NaN|<NA>)"
_ITEMS = re.compile(rf"{_ITEM}(?:(?:\s*,\s*|\s+){_ITEM})*\s*,?")  # numpy puts blanks between them
_LIST_MARKS = ("['", '["', "('", '("', "{'", '{"')
_GONE = ("None", "null", "nan", "NaN", "<NA>")
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_EMPTY = ("[]", "()", "{}", "set()", "frozenset()", "list()", "tuple()")


class NoNames(ValueError):
    """A cell that is no list of names: a list of lists or truths, an object, or a list without quotes."""


def names_in(cell: str, separator: str) -> list[str]:
    """Returns the labels that a cell names, each in one spelling; missing ones and blanks in a list name none.

    A list is read as one whatever the separator is, so that labels may contain it. Raises `NoNames` for a cell that
    looks like a list and is none of names.

    >>> names_in("flu; cough;", ";"), names_in("['flu', 'pain; chest']", ";")
    (['flu', 'cough'], ['flu', 'pain; chest'])
    """
    listed = _listed(cell.strip())
    words = cell.split(separator) if listed is None else listed
    return [word for part in words if (word := canonical_word(part))]


def is_list(cell: str) -> bool:
    """Tells whether a cell is a list of names."""
    try:
        return _listed(cell.strip()) is not None
    except NoNames:
        return False


def are_bits(cells: Iterable[str]) -> bool:
    """Tells whether all lists among cells hold 0 and 1 alone, as if there were one for each label."""
    lists = [listed for cell in cells if is_list(cell) and (listed := _listed(cell.strip()))]
    return bool(lists) and all(
        {"0", "1"}.issuperset(map(canonical_word, listed)) for listed in lists
    )


def _listed(cell: str) -> list[str] | None:
    """Returns the items of a list, or None for a cell that is none; raises `NoNames`."""
    if cell in _EMPTY:
        return []
    if cell.startswith("["):
        try:
            return _names_of_json(json.loads(cell))
        except (json.JSONDecodeError, RecursionError):
            pass  # a list as Python writes it, or none
    brackets = _AROUND.fullmatch(cell)
    inner = cell if brackets is None else brackets["inner"].strip()
    if brackets is not None and inner in _EMPTY:
        return []
    is_bracketed = len(inner) > 1 and _BRACKETS.get(inner[0]) == inner[-1]
    if is_bracketed and _ITEMS.fullmatch(items := inner[1:-1].strip()):
        words = re.findall(_ITEM, items)
        has_quotes = any(word[0] in "'\"" for word in words)
        if inner.startswith("[") or has_quotes:  # (1) is a word
            return [_plain(word) for word in words if word not in _GONE]
    # {flu,cough} is a list of PostgreSQL
    looks_like_one = (inner.startswith(("[", "{")) and is_bracketed) or inner.startswith(
        _LIST_MARKS
    )
    if looks_like_one:
        raise NoNames
    return None


def _names_of_json(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise NoNames
    names = []
    for item in value:
        if isinstance(item, (bool, list, dict)):
            raise NoNames
        if item is not None and item == item:  # NaN is not itself
            names.append(str(item))
    return names


def _plain(word: str) -> str:
    return str(literal_eval(word)) if word[0] in "'\"" else word
