"""Words of the papers, such as `sigma_1`, and the settings that they mean here."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pate.files.plain_yaml import read_yaml

# The file with the words of the papers and their settings.
_FILE = Path(__file__).with_suffix(".yaml")
# The page that explains the words.
_PAGE = "docs/papers-words.md"
# Names of characters that papers use in symbols.
_CHARACTER_NAMES = {
    "\N{GREEK SMALL LETTER SIGMA}": "sigma",
    "\N{GREEK SMALL LETTER DELTA}": "delta",
    "\N{GREEK SMALL LETTER EPSILON}": "epsilon",
    "\N{GREEK SMALL LETTER TAU}": "tau",
    "\N{GREEK SMALL LETTER ALPHA}": "alpha",
    "*": "star",
}


@cache
def settings_by_word() -> Mapping[str, Mapping[str, str | None]]:
    """Returns, for each word of the papers, the settings that it can mean.

    The value of a setting is the name of an aggregator that has the setting; None if no aggregator has it.
    """
    settings_by_papers_word: Mapping[str, Mapping[str, str | None]] = read_yaml(
        _FILE.read_text(encoding="utf-8"), name=_FILE.name, rule="YAML"
    )
    return settings_by_papers_word


def hint(word: str, known_settings: tuple[str, ...], *, part_name: str = "aggregator") -> str:
    """Returns advice on the settings that a word of the papers means here; an empty text if no paper uses the word.

    Args:
        word: an unknown key.
        known_settings: the settings that exist in the key's place. If the word can mean some of them, only these are
            named, because a word has different meanings for different aggregators.
        part_name: the part of the configuration in which the key stands; "" for none. In a part other than the
            aggregator, such as `student`, only settings of that part are named.

    >>> hint("sigma_1", ("selection_scale", "test_std"))
    "; the papers' sigma_1 is aggregator.selection_scale (docs/papers-words.md)"
    >>> hint("delta_t", ("noise_std",))
    "; the papers' delta_t is aggregator.failure_prob of stable_top_k (docs/papers-words.md)"
    >>> hint("threshold", ("num_directions",), part_name="student")
    ''
    """
    aggregator_by_setting = settings_by_word().get(_spelled_plainly(word), {})
    if part_name not in ("", "aggregator"):
        aggregator_by_setting = {
            setting_name: aggregator_with_setting
            for setting_name, aggregator_with_setting in aggregator_by_setting.items()
            if setting_name.startswith(f"{part_name}.")
        }
    settings_here = [
        setting_name
        for setting_name in aggregator_by_setting
        if setting_name.rpartition(".")[2] in known_settings
    ]
    settings_below = [
        setting_name
        for setting_name, aggregator_with_setting in aggregator_by_setting.items()
        if aggregator_with_setting is None and setting_name.partition(".")[0] in known_settings
    ]
    settings_elsewhere = [
        setting_name
        if aggregator_with_setting is None
        else f"{setting_name} of {aggregator_with_setting}"
        for setting_name, aggregator_with_setting in aggregator_by_setting.items()
    ]
    meant_settings = settings_here or settings_below or settings_elsewhere
    return (
        f"; the papers' {word} is {', or '.join(meant_settings)} ({_PAGE})"
        if meant_settings
        else ""
    )


def _spelled_plainly(word: str) -> str:
    """Returns a word in lower case, letters and digits alone, with the characters of `_CHARACTER_NAMES` spelled out."""
    for character, spelled_name in _CHARACTER_NAMES.items():
        word = word.replace(character, spelled_name)
    return re.sub(r"[\W_]", "", word.lower())
