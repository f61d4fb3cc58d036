"""Parsing of cells that list all labels of a record: words between separators, or a list as JSON, pandas or numpy."""

import json
import re
from ast import literal_eval
from collections.abc import Iterable
from typing import Any

from pate.data.table.spelling import canonical_word

# A list inside a call, as Python and numpy write it, such as array([...], dtype=object) or set(...).
_CALL = re.compile(
    r"(?:array|set|frozenset|list|tuple)\((?P<inner>.*?)(?:,\s*dtype=[\w<>.']+)?\)", re.DOTALL
)
# A word in single or double quotes, in which a backslash escapes the next character.
_QUOTED_WORD = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# An item of a list: a quoted word, a number or a missing value.
_ITEM = rf"(?:{_QUOTED_WORD}|[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|None|null|nan|NaN|<NA>)"
# The items of a list, with commas between them, or with blanks as numpy writes them.
_ITEMS = re.compile(rf"{_ITEM}(?:(?:\s*,\s*|\s+){_ITEM})*\s*,?")
# The beginnings of a cell that is a list of quoted words, even if its end is missing.
_OPENINGS_OF_WORDS = ("['", '["', "('", '("', "{'", '{"')
# The items that stand for missing values.
_MISSING_ITEMS = ("None", "null", "nan", "NaN", "<NA>")
# The closing bracket of each opening bracket.
_CLOSING = {"[": "]", "(": ")", "{": "}"}
# The lists without items, as JSON, Python and numpy write them.
_EMPTY_LISTS = ("[]", "()", "{}", "set()", "frozenset()", "list()", "tuple()")


class NoNames(ValueError):
    """An error: a cell looks like a list, but its items are no names of labels.

    The cell is a list of lists or of truth values, an object, a list of words without quotation marks, or a list of
    quoted words without its end.
    """


def names_in(cell: str, separator: str) -> list[str]:
    """Returns the labels that a cell names, as canonical words, without empty ones.

    A cell in the form of a list is parsed as a list. The labels in such a list may contain the separator, and its
    missing items, such as None without quotes, are left out.

    Args:
        cell: the text of the cell.
        separator: the mark between two labels of a cell that is not a list.

    Raises:
        NoNames: the cell looks like a list, but is not a list of names.

    >>> names_in("flu; cough;", separator=";")
    ['flu', 'cough']
    >>> names_in("['flu', 'pain; chest']", separator=";")
    ['flu', 'pain; chest']
    """
    words = _items_of_list(cell.strip())
    if words is None:
        words = cell.split(separator)
    names = map(canonical_word, words)
    return [name for name in names if name]


def is_list(cell: str) -> bool:
    """Returns True if the text of a cell is a list of names or numbers, such as ['flu'] or []; a lone word is none."""
    try:
        return _items_of_list(cell.strip()) is not None
    except NoNames:
        return False


def are_lists_of_bits(cells: Iterable[str]) -> bool:
    """Returns True if all lists in a column have only the items 0 and 1, as if each item were the bit of a label.

    Cells that are no lists are ignored. Without any list that has items, the result is False.
    """
    items_of_all_lists: set[str] = set()
    for cell in cells:
        if is_list(cell):
            items = _items_of_list(cell.strip()) or []
            items_of_all_lists.update(map(canonical_word, items))
    return bool(items_of_all_lists) and items_of_all_lists <= {"0", "1"}


def _items_of_list(cell: str) -> list[str] | None:
    """Returns the items of a cell that is a list in the form of JSON, Python, pandas or numpy; None for another cell.

    Missing items such as None are left out.

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
    literal = cell if call is None else call["inner"].strip()
    if literal in _EMPTY_LISTS:
        return []
    is_bracketed = len(literal) > 1 and _CLOSING.get(literal[0]) == literal[-1]
    content = literal[1:-1].strip()
    if is_bracketed and _ITEMS.fullmatch(content):
        items = re.findall(_ITEM, content)
        has_quotes = any(item[0] in "'\"" for item in items)
        # Without quotes, only square brackets make a list: (1) is a word, as in "(1) left side".
        if literal.startswith("[") or has_quotes:
            return [_without_quotes(item) for item in items if item not in _MISSING_ITEMS]
    # Some lists have no quotes, such as {flu,cough} of PostgreSQL. It is not known where their words end.
    has_brackets_of_list = is_bracketed and literal[0] in "[{"
    if has_brackets_of_list or literal.startswith(_OPENINGS_OF_WORDS):
        raise NoNames
    return None


def _names_of_json(value: Any) -> list[str]:
    """Returns the items of a JSON list as texts, without null and NaN.

    Raises:
        NoNames: the value is not a list, or has items that are not names.
    """
    if not isinstance(value, list):
        raise NoNames
    names = []
    for item_of_cell in value:
        if isinstance(item_of_cell, (bool, list, dict)):
            raise NoNames
        is_nan = item_of_cell != item_of_cell
        if item_of_cell is not None and not is_nan:
            names.append(str(item_of_cell))
    return names


def _without_quotes(item_of_cell: str) -> str:
    """Returns an item of a list as text: a quoted word without its quotes and escapes, or a number as it is."""
    return str(literal_eval(item_of_cell)) if item_of_cell[0] in "'\"" else item_of_cell
