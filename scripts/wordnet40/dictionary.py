"""WordNet's noun dictionary, the file `data.noun`, read into synsets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pate.validation import InvalidValue

_EXAMPLE = re.compile(r'"[^"]*"?')
_NOT_WORD = re.compile(r"\W+")
_IS_A = ("@", "@i")  # hypernym, and the class of which the synset is an instance


@dataclass(frozen=True)
class Synset:
    """One meaning: a set of synonyms with its place in the hierarchy and its explanation.

    Attributes:
        offset: the synset's byte offset in its file, which WordNet uses as its identifier.
        lemma: its first word, blanks written as underscores.
        hypernyms: offsets of the synsets right above it; several are possible, the root has none.
        definition: the gloss without its quoted examples.
    """

    offset: int
    lemma: str
    hypernyms: tuple[int, ...]
    definition: str

    @property
    def normalized(self) -> str:
        """The definition in lower case with each run of punctuation and blanks made one blank."""
        return _NOT_WORD.sub(" ", self.definition.lower()).strip()


def parse_dictionary(lines: Iterable[str]) -> tuple[Synset, ...]:
    """Reads the lines of `data.noun`; the license at its top (indented lines) is passed over.

    Raises:
        InvalidValue: a line that is no synset, no synset at all, or a hypernym that is not in the file.

    Source: the manual page wndb(5WN), "Data File Format".
    """
    numbered = enumerate(lines, start=1)
    synsets = tuple(_parse(number, line) for number, line in numbered if not line.startswith(" "))
    if not synsets:
        raise InvalidValue("dictionary=empty: expected the lines of WordNet's data.noun")
    known = {synset.offset for synset in synsets}
    for synset in synsets:
        for hypernym in synset.hypernyms:
            if hypernym not in known:
                raise InvalidValue(f"hypernym={hypernym:08d}: expected a synset of the same dictionary")
    return synsets


def ancestors(synsets: Iterable[Synset]) -> dict[int, frozenset[int]]:
    """Returns, for each offset, the offsets of everything that the synset is: itself and all above it."""
    above = {synset.offset: synset.hypernyms for synset in synsets}
    return {offset: _reachable(offset, above) for offset in above}


def _reachable(offset: int, above: dict[int, tuple[int, ...]]) -> frozenset[int]:
    found: set[int] = set()
    ahead = [offset]
    while ahead:
        current = ahead.pop()
        if current not in found:
            found.add(current)
            ahead.extend(above[current])
    return frozenset(found)


def _parse(number: int, line: str) -> Synset:
    try:
        data, gloss = line.split("|", 1)
        fields = data.split()
        pointers_at = 4 + 2 * int(fields[3], 16)  # offset, file, type, word count, then (word, lexical id) pairs
        pointers = fields[pointers_at + 1 : pointers_at + 1 + 4 * int(fields[pointers_at])]
        symbols, targets, kinds = pointers[0::4], pointers[1::4], pointers[2::4]
        hypernyms = tuple(
            int(target)
            for symbol, target, kind in zip(symbols, targets, kinds, strict=True)
            if symbol in _IS_A and kind == "n"
        )
        return Synset(int(fields[0]), fields[4], hypernyms, _EXAMPLE.sub("", gloss).strip(" ;\n"))
    except (ValueError, IndexError) as error:
        raise InvalidValue(f"dictionary line {number}={line[:40]!r}: expected a synset of data.noun") from error
