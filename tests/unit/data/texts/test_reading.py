"""The words that are read from a text are those that a person sees."""

import re

import pytest

from pate.data.texts.reading import plain_text, word_pattern


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p class='x'>Caf\u00c9</p>", ["caf\u00e9"]),
        ("cafe\u0301 &amp; &lt;b&gt;", ["caf\u00e9", "b"]),
        ("\uff21\uff22", ["ab"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 x", ["\u0939\u093f\u0928\u094d\u0926\u0940", "x"]),
        ("a < b", ["a", "b"]),
        (
            "a<STYLE type='x'>p {b: c}</style> d<script>if (x < 2) e()</script>f <style>g",
            ["a", "d", "f", "g"],
        ),
        (
            "\u4f60\u597d\u4e16\u754c, \u4e2d\u6587 ok",
            ["\u4f60\u597d", "\u597d\u4e16", "\u4e16\u754c", "\u4e2d\u6587", "ok"],
        ),
    ],
)
def test_plain_text_splits_into_visible_words(text: str, words: list[str]) -> None:
    """A text with markup, entities or scripts gives the words that a reader sees, in lower case.

    Four Chinese letters in a row give the three pairs of neighbors.
    """
    assert re.findall(word_pattern(), plain_text(text)) == words
