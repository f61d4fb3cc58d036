"""Names of columns: their normalized form, checks that names are distinct, and lists of names in settings."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import category, normalize

import numpy as np

from pate.validation import InvalidValue, nearest, nearest_column, require

# Characters without a glyph that Unicode counts among letters, marks and symbols.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# The smallest similarity of a column that is suggested for a missing one. The similarity of `temp` and `note` is 0.5,
# that of `fever` and `fevr` is 0.9.
_MIN_SIMILARITY = 0.6


def without_invisible_characters(text: str) -> str:
    """Returns a text without invisible characters.

    Invisible are zero-width spaces, marks of writing direction, soft hyphens, control characters, and letters, marks
    and symbols without a glyph. Tabs, line breaks and spaces that have a width stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        for character in _INVISIBLE.sub("", text)
        if character.isspace() or category(character) not in ("Cf", "Cc")
    )


def column_name(written_name: str) -> str:
    r"""Returns the normalized name of a column, on one line and with composed letters.

    >>> column_name("age\n(years)")
    'age (years)'
    """
    visible_name = without_invisible_characters(written_name)
    # Plain spaces stay as they are written. With a line break, a tab or another blank, each run of blanks becomes one
    # space, and blanks at both ends are left out.
    has_other_blanks = re.search(r"[^\S ]", visible_name) is not None
    return normalize("NFC", " ".join(visible_name.split()) if has_other_blanks else visible_name)


def require_columns(
    setting_name: str, column_names: Sequence[str], required: Iterable[str] = ()
) -> None:
    """Raises `InvalidValue` if a column has no name, two have the same name, or a required column is missing.

    Args:
        setting_name: the name of the setting that names the table, for messages.
        column_names: the names of the table's columns.
        required: the names of the columns that must exist.
    """
    rule = (
        "a name for each column, once; an index that pandas wrote is left out by "
        "to_csv(FILE, index=False)"
    )
    occurrences = Counter(column_names)
    for name in column_names:
        is_named_once = bool(name.strip()) and occurrences[name] == 1
        require(is_named_once, f"{setting_name}.columns", name or "''", rule)
    for required_name in required:
        if required_name not in occurrences:
            similar = nearest(
                required_name, choices=tuple(column_names), least_similarity=_MIN_SIMILARITY
            )
            raise InvalidValue(setting_name, rule=f"also the column {required_name}{similar}")


def require_column(
    setting: str,
    column_name: str,
    column_names: Sequence[str],
    table_description: str,
    *,
    remedy: str = "",
) -> None:
    """Raises `InvalidValue` if a table lacks the column that a setting names.

    Args:
        setting: the name of the setting, such as `data.group`.
        column_name: the value of the setting.
        column_names: the names of the table's columns.
        table_description: the table in words, for the message.
        remedy: the advice at the end of the message.
    """
    if column_name not in column_names:
        raise InvalidValue(
            setting,
            column_name,
            rule=f"a column of {table_description}{nearest_column(column_name, names=column_names)}{remedy}",
        )


def as_column_names(setting: str, values: Any) -> tuple[str, ...]:
    """Returns the distinct column names that a setting lists, normalized by `column_name`.

    Whole numbers, such as 2019, are names as well.

    Args:
        setting: the name of the setting, for the error.
        values: the value of the setting.

    Raises:
        InvalidValue: the value is not a list of names, or two of them are the same name when normalized.
    """
    if isinstance(values, (list, tuple)):
        listed_names = [as_name(value) for value in values]
        if all(isinstance(name, str) for name in listed_names):
            normalized_names = tuple(map(column_name, listed_names))
            if len(set(normalized_names)) == len(normalized_names):
                return normalized_names
    rule = (
        f"a list of columns, each once: '{setting}=[NAME,NAME]'; other numbers that are names "
        'stand in quotes: "1e3"'
    )
    raise InvalidValue(setting, values, rule=rule)


def as_name(value: Any) -> Any:
    """Returns a column name as text if it was read as a whole number, such as 2019; any other value is unchanged."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return str(value) if is_whole else value
