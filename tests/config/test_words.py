"""Words of the command line that Hydra's grammar would refuse."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from pate.config.words import quoted


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("data=\u00f6ffentlich.csv", "\u00f6ffentlich.csv"),
        ("data=~/my \u00fc/a&b #1.csv", "~/my \u00fc/a&b #1.csv"),
        ("labels=[Gr\u00f6\u00dfe, age,\u20ac]", ["Gr\u00f6\u00dfe", "age", "\u20ac"]),
        ("+data.name=\u6771\u4eac", "\u6771\u4eac"),
        ("data.label_separator=;", ";"),
        ("data.thousands=,", ","),
        ("data.thousands='", "'"),
        ("data.thousands= ", " "),
        ("data.missing=[?,-,<60,.]", ["?", "-", "<60", "."]),
        ("split=.1,.1", ".1,.1"),
    ],
)
def test_letters_of_all_languages_are_read(word: str, value: object) -> None:
    (override,) = OverridesParser.create().parse_overrides([quoted(word)])
    assert override.value() == value


@pytest.mark.parametrize(
    "word",
    [
        "seed=3",
        "labels=[a,b]",
        "data='\u00f6.csv'",
        'labels=["\u00f6",b]',
        "--config-dir=\u00f6",
        "-m",
        "a=${b:\u00f6}",
        "~data",
    ],
)
def test_other_words_stay_as_they_are(word: str) -> None:
    assert quoted(word) == word
