"""Parsing of cells that list all labels of a record: words between separators, or a list as JSON, pandas or numpy."""

import json
import re
from ast import literal_eval
from collections.abc import Iterable
from typing import Any

from pate.data.table.spelling import canonical_word

# array([...], dtype=object), set(...) and their like, as Python writes them
_CALL = re.compile(
    r"(?:array|set|frozenset|list|tuple)\((?P<inner>.*?)(?:,\s*dtype=[\w<>.']+)?\)", re.DOTALL
)
_WORD = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ITEM = rf"(?:{_WORD}|[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|None|null|nan|NaN|<NA>)"
_ITEMS = re.compile(rf"{_ITEM}(?:(?:\s*,\s*|\s+){_ITEM})*\s*,?")  # numpy puts blanks between items
_OPENINGS_OF_WORDS = ("['", '["', "('", '("', "{'", '{"')
_MISSING_ITEMS = ("None", "null", "nan", "NaN", "<NA>")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_EMPTY_LISTS = ("[]", "()", "{}", "set()", "frozenset()", "list()", "tuple()")


class NoNames(ValueError):
    """An error: a cell is no list of label names.

    The cell is a list of lists or of truth values, an object, or a list without quotation marks.
    """


def names_in(cell: str, separator: str) -> list[str]:
    """Returns the labels that a cell names, as canonical words. Empty items and missing items are skipped.

    A cell in the form of a list is parsed as a list whatever the separator is, so that labels may contain the
    separator.

    Args:
        cell: the text of the cell.
        separator: the mark between two labels.

    Raises:
        NoNames: the cell looks like a list, but is not a list of names.

    >>> names_in("flu; cough;", ";"), names_in("['flu', 'pain; chest']", ";")
    (['flu', 'cough'], ['flu', 'pain; chest'])
    """
    items = _items_of_list(cell.strip())
    words = cell.split(separator) if items is None else items
    return [name for word in words if (name := canonical_word(word))]


def is_list(cell: str) -> bool:
    """Returns True if a cell is a list of names."""
    try:
        return _items_of_list(cell.strip()) is not None
    except NoNames:
        return False


def are_bits(cells: Iterable[str]) -> bool:
    """Returns True if a cell is a list with items, and all lists have only 0 and 1, like a bit for each label."""
    lists = [_items_of_list(cell.strip()) for cell in cells if is_list(cell)]
    filled_lists = [items for items in lists if items]
    return bool(filled_lists) and all(
        set(map(canonical_word, items)) <= {"0", "1"} for items in filled_lists
    )


def _items_of_list(cell: str) -> list[str] | None:
    """Returns the items of a list; None if the cell is not a list.

    Raises:
        NoNames: the cell looks like a list, but is not a list of names.
    """
    if cell in _EMPTY_LISTS:
        return []
    if cell.startswith("["):
        try:
            return _names_of_json(json.loads(cell))
        except (json.JSONDecodeError, RecursionError):
            pass  # a list as Python writes it, or no list
    call = _CALL.fullmatch(cell)
    inner = cell if call is None else call["inner"].strip()
    if call is not None and inner in _EMPTY_LISTS:
        return []
    is_bracketed = len(inner) > 1 and _CLOSING.get(inner[0]) == inner[-1]
    content = inner[1:-1].strip()
    if is_bracketed and _ITEMS.fullmatch(content):
        items = re.findall(_ITEM, content)
        has_quotes = any(item[0] in "'\"" for item in items)
        if inner.startswith("[") or has_quotes:  # (1) is a word
            return [_without_quotes(item) for item in items if item not in _MISSING_ITEMS]
    # without quotes, {flu,cough} is a list of PostgreSQL
    is_list_of_another_form = inner.startswith(("[", "{")) and is_bracketed
    if is_list_of_another_form or inner.startswith(_OPENINGS_OF_WORDS):
        raise NoNames
    return None


def _names_of_json(value: Any) -> list[str]:
    """Returns the items of a JSON list without its missing items.

    Raises:
        NoNames: the value is not a list, or has items that are not names.
    """
    if not isinstance(value, list):
        raise NoNames
    names = []
    for item in value:
        if isinstance(item, (bool, list, dict)):
            raise NoNames
        is_nan = item != item
        if item is not None and not is_nan:
            names.append(str(item))
    return names


def _without_quotes(item: str) -> str:
    return str(literal_eval(item)) if item[0] in "'\"" else item
