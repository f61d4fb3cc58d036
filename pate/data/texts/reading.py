"""Normalization of a text into words: without markup, with composed letters, in lower case.

Vectors that are based on words normalize texts in this way; encoders get texts without markup (`without_markup`). A
text is first cut to 100,000 characters, and each step takes time at most proportional to the length, so that a hostile
text cannot block the computation.
"""

import hashlib
import html
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar
from unicodedata import category, normalize

import numpy as np

T = TypeVar("T")

LONGEST_TEXT = 100_000
"""The number of characters that are read of a text."""

MAX_FITTED_TEXTS = 10_000
"""The largest number of public texts to which vectors are fitted. More texts change the vectors little."""

# A tag of HTML; the tag before scripts or styles; the tag behind them.
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_CODE_BEGINS = re.compile(r"<(?:script|style)[^<>]*>", re.IGNORECASE)
_CODE_ENDS = re.compile(r"</(?:script|style)[^<>]*>", re.IGNORECASE)
# Runs of Chinese and Japanese letters, whose words are not separated by blanks.
_UNSPACED_LETTERS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{3,}")
# The largest number of marks on one letter. No script has as many, and the composition of more takes quadratic time.
_MAX_MARKS = 8


@cache  # looks up 65,000 letters, so only once and only where texts are read
def _marks() -> str:
    """Returns the Unicode marks that combine with the letter before them, as one text for a regular expression.

    Examples are the vowel signs of Indian scripts. Marks with code points from 2**16 on are left out.
    """
    return "".join(
        re.escape(chr(code))
        for code in range(0x300, 0x10000)
        if category(chr(code)) in ("Mn", "Mc")
    )


@cache  # a long text, which is needed for every text that is read
def word_pattern() -> str:
    """Returns the regular expression of a word: letters, digits, underscores and the marks that combine with them."""
    return rf"[\w{_marks()}]+"


@cache  # compiled once
def _too_many_marks() -> re.Pattern[str]:
    """Returns the regular expression that finds runs of more than 8 combining marks, which stand on one letter.

    The letter itself is not matched.
    """
    return re.compile(f"[{_marks()}]{{{_MAX_MARKS + 1},}}")


def without_markup(text: str) -> str:
    """Returns the first 100,000 characters of a text, normalized and without HTML markup.

    Tags become blanks, scripts and styles are removed with their content, and entities become their characters. A text
    with letters beyond ASCII is brought to Unicode's form NFKC, without runs of more than 8 combining marks.
    """
    text = text[:LONGEST_TEXT]
    if "<" in text:
        text_before_code, *codes_and_texts = _CODE_BEGINS.split(text)
        texts_after_codes = [
            _CODE_ENDS.split(code_and_text, maxsplit=1)[-1] for code_and_text in codes_and_texts
        ]
        text = _TAG.sub(" ", " ".join([text_before_code, *texts_after_codes]))
    if "&" in text:
        text = html.unescape(text)
    if text.isascii():
        return text
    return normalize("NFKC", _too_many_marks().sub("", text))


def plain_text(text: str) -> str:
    r"""Returns a text without HTML and normalized, as `without_markup` returns it, in lower case.

    A run of three or more Chinese or Japanese characters becomes overlapping pairs of characters.

    >>> plain_text("<p>Z\u00dcRICH &amp; Bern</p>").split()
    ['zürich', '&', 'bern']
    """
    text = without_markup(text).casefold()
    return text if text.isascii() else _UNSPACED_LETTERS.sub(_pair_neighboring_letters, text)


def _pair_neighboring_letters(match: re.Match[str]) -> str:
    return " ".join(first + second for first, second in pairwise(match[0]))


def as_strings(words: Any) -> list[str]:
    """Returns pyarrow words as a list of strings; a missing word becomes an empty string."""
    return [word or "" for word in words.to_pylist()]


def evenly_spaced(items: Sequence[T], max_items: int = MAX_FITTED_TEXTS) -> list[T]:
    """Returns at most `max_items` of the items, by default 10,000, in order and evenly spaced from first to last."""
    indices = np.linspace(0, len(items) - 1, min(max_items, len(items))).astype(np.int64)
    return [items[index] for index in indices.tolist()]


def texts_digest(texts: Sequence[str]) -> str:
    """Returns the SHA-256 digest of texts in their order, in hexadecimal."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()
