"""Cells that call a label uncertain, such as -1; a setting reads them as yes, as no or as unknown."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pate.data.table.column_names import as_name
from pate.data.table.spelling import canonical_word
from pate.validation import InvalidValue, require

NO = 0
YES = 1
UNKNOWN = -1
"""The codes of a cell of a label: the label does not hold, it holds, or the cell does not tell."""

UNCERTAIN_READINGS = MappingProxyType({"missing": UNKNOWN, "positive": YES, "negative": NO})
"""The values of `data.uncertain`, and the code that uncertain cells get."""

# The words that are uncertain in every column.
_USUAL_WORDS = ("-1", "?", "uncertain")
# Words that a user cannot name as uncertain.
_CERTAIN_WORDS = ("0", "1", "false", "no", "true", "yes")


def label_word(word: str) -> str:
    """Returns the form in which words of a label's column are compared: 1 for 1.0, and yes for Yes.

    The result is the `canonical_word` with case folded.
    """
    return canonical_word(word).casefold()


@dataclass(frozen=True)
class UncertainLabels:
    """The words that call a label uncertain, and the reading of cells with such words.

    Attributes:
        reading: `missing`, `positive` or `negative`; None if such cells are errors.
        words: words that mean uncertain, in addition to -1, ? and uncertain.
    """

    reading: str | None = None
    words: tuple[str, ...] = ()

    def require(self, separator: str | None = None) -> None:
        """Raises `InvalidValue` if a field has an impossible value, or if `reading` is set beside a separator.

        Args:
            separator: the mark between the labels in one cell; None if each label has a column.
        """
        readings_in_words = ", ".join(UNCERTAIN_READINGS)
        is_reading = isinstance(self.reading, str) and self.reading in UNCERTAIN_READINGS
        if self.reading is not None and not is_reading:
            rule = f"one of {readings_in_words}: a label holds, does not hold or is unknown, and never by half"
            raise InvalidValue("data.uncertain", self.reading, rule=rule)
        if self.reading is not None and separator is not None:
            rule = "nothing beside data.label_separator; data.missing=[WORD] names cells that tell no label"
            raise InvalidValue("data.uncertain", self.reading, rule=rule)
        self._require_words(readings_in_words)

    def _require_words(self, readings_in_words: str) -> None:
        """Raises `InvalidValue` if `words` is no list of uncertain words, or `reading` is not set beside them.

        Args:
            readings_in_words: the possible values of `reading`, for the message.
        """
        name = "data.uncertain_words"
        are_words = isinstance(self.words, tuple) and all(
            isinstance(word, str) and word for word in self.words
        )
        require(are_words, name, self.words, f"a list of words: '{name}=[maybe]'")
        certain_words = [word for word in self.words if label_word(word) in _CERTAIN_WORDS]
        if certain_words:
            raise InvalidValue(name, certain_words[0], rule="words that do not mean yes or no")
        if self.words and self.reading is None:
            rule = f"none without data.uncertain, which is one of {readings_in_words}"
            raise InvalidValue(name, f"[{','.join(self.words)}]", rule=rule)

    @cached_property
    def codes_of_numbers(self) -> Mapping[float, int]:
        """The code `YES`, `NO` or `UNKNOWN` of each number that means uncertain; empty if `reading` is None."""
        code_of_number = {}
        for uncertain_word, code in self.codes_of_words.items():
            with suppress(ValueError):
                code_of_number[float(uncertain_word)] = code
        return code_of_number

    @cached_property
    def codes_of_words(self) -> Mapping[str, int]:
        """The code `YES`, `NO` or `UNKNOWN` of each word that means uncertain; empty if `reading` is None.

        The words are in the form of `label_word`.
        """
        if self.reading is None:
            return {}
        return {
            label_word(word): UNCERTAIN_READINGS[self.reading]
            for word in (*_USUAL_WORDS, *self.words)
        }


def as_words(words: Any) -> Any:
    """Returns a list of words in a setting as a tuple, with whole numbers as texts; another value unchanged."""
    return tuple(map(as_name, words)) if isinstance(words, (list, tuple)) else words
