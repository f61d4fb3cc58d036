"""Encodings of files of text: the one that a file is read in, by its own bytes first and by a setting after these."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from pate.validation import InvalidValue

UTF_8 = "utf-8"
# Bytes of cp1252 that no word has: signs between two letters, and Š, Œ, Ž or Ÿ before or behind a small letter that
# follows a letter. The apostrophe, dashes and three dots are none of these signs.
_OF_ANOTHER_PAGE = re.compile(
    rb"[A-Za-z][\x80\x82-\x84\x86-\x89\x8b\x93-\x95\x98\x99\x9b][A-Za-z]|[A-Za-z][\x8a\x8c\x8e\x9f][a-z]|[a-z][\x8a\x8c\x8e\x9f]"
)
_BLOCK_BYTES = 2**20
_BYTE_ORDER_MARKS = (  # those of UTF-32 before those of UTF-16, which they begin with
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Of text that is called latin-1 the bytes 0x80 to 0x9f are those of Windows, such as the euro sign or Š, as browsers
# read it, too: in latin-1 itself they are controls, which nobody sees, so that two names would differ.
_READ_AS = {"iso8859-1": "cp1252"}


@dataclass(frozen=True)
class MixedLines:
    """The lines of a file with bytes beyond ASCII, counted by whether they are UTF-8."""

    utf_8: int  # lines
    others: int  # lines
    first_other: int  # its number, from 1; 0 where there is none

    @property
    def mostly_utf_8(self) -> bool:
        """True where at least as many lines are UTF-8 as are of another encoding."""
        return self.utf_8 > 0 and self.utf_8 >= self.others


def require_encoding(name: str, encoding: object) -> None:
    """Raises unless Python knows an encoding of text by that name."""
    try:
        "a".encode(cast(str, encoding))  # refuses what encodes no text, such as base64, too
    except (LookupError, TypeError, ValueError) as error:
        rule = "the name of an encoding, such as utf-8, cp1252, latin-1 or utf-16"
        raise InvalidValue(name, encoding, rule=rule) from error


def encoding_of(path: Path, named: str) -> str:
    """Returns the encoding that a file is read in, a name that Python knows.

    A byte-order mark says it. Text that is UTF-8 and not ASCII alone is UTF-8, whatever is named: other text is valid
    UTF-8 by accident only. All other text is in the encoding that is named.
    """
    with opened(path) as file:
        head = file.read(4)
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    codec = codecs.lookup(named).name
    if codec == UTF_8:
        return UTF_8
    if _is_utf_8(path, also_ascii=codec.startswith(("utf-16", "utf-32"))):
        return UTF_8
    return _READ_AS.get(codec, named)


def mixed_lines(path: Path, encoding: str) -> MixedLines:
    """Counts the lines of a file with bytes beyond ASCII, those that are UTF-8 and those that are not.

    None is counted of an encoding whose lines end otherwise than those of ASCII, such as UTF-16.
    """
    try:
        ends_as_ascii = b"\n".decode(encoding) == "\n"
    except UnicodeDecodeError:
        ends_as_ascii = False
    if not ends_as_ascii:
        return MixedLines(0, 0, 0)
    utf_8 = 0
    num_other_lines = 0
    first_other = 0
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line.isascii():
                continue
            try:
                line.decode(UTF_8)
                utf_8 += 1
            except UnicodeDecodeError:
                num_other_lines += 1
                first_other = first_other or number
    return MixedLines(utf_8, num_other_lines, first_other)


def lines_of_another_page(path: Path, encoding: str) -> int:
    """Counts the lines of a file in cp1252 that look as if they were in another encoding; 0 of any other encoding.

    There, letters with accents of mac-roman and cp850 are signs and capital letters within words, as in KšŠln.
    """
    if codecs.lookup(encoding).name != "cp1252":
        return 0
    with opened(path) as file:
        return sum(_OF_ANOTHER_PAGE.search(line) is not None for line in file)


def likely_utf_16(head: bytes) -> str | None:
    """Returns which UTF-16 the beginning of a text is in that has no mark, None where it is in neither.

    >>> likely_utf_16("age,ill".encode("utf-16-le"))
    'utf-16-le'
    """
    low_zeros = head[::2].count(0)
    high_zeros = head[1::2].count(0)
    if 2 * max(low_zeros, high_zeros) < len(head) // 2 or not head:
        return None
    return "utf-16-be" if low_zeros > high_zeros else "utf-16-le"


def opened(path: Path) -> BinaryIO:
    """Opens a file for its bytes, unpacked where it ends in .gz."""
    return cast(BinaryIO, gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb"))


def _is_utf_8(path: Path, *, also_ascii: bool) -> bool:
    """Says whether the bytes of a file are UTF-8 without zero bytes, which UTF-16 has; of ASCII alone `also_ascii`."""
    decoder = codecs.getincrementaldecoder(UTF_8)()
    is_ascii = True
    try:
        for block in _blocks(path):
            if b"\0" in block:
                return False
            is_ascii &= block.isascii()
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return also_ascii or not is_ascii


def _blocks(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block
