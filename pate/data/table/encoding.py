"""Encodings of files of text.

The bytes of a file determine the encoding if they begin with a byte-order mark or are valid UTF-8. Otherwise a setting
names the encoding.
"""

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
# Bytes of cp1252 in an order that no word has: a sign between two letters; Š, Œ, Ž or Ÿ between a letter and a small
# letter; or one of these behind a small letter. The apostrophe, dashes and the ellipsis do not count as signs.
_SIGN_IN_WORD = re.compile(
    rb"[A-Za-z][\x80\x82-\x84\x86-\x89\x8b\x93-\x95\x98\x99\x9b][A-Za-z]|[A-Za-z][\x8a\x8c\x8e\x9f][a-z]|[a-z][\x8a\x8c\x8e\x9f]"
)
# The number of bytes that are read at once.
_BLOCK_BYTES = 2**20
# The marks of UTF-32 come first, because one of them begins with a mark of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The number of bytes of the longest mark.
_MAX_MARK_BYTES = 4
# Text that is called latin-1 is read as cp1252, as browsers do. The bytes 0x80 to 0x9f are then signs such as the euro
# or Š. In latin-1 itself they are invisible control characters, by which two names would differ.
_READ_AS = {"iso8859-1": "cp1252"}


@dataclass(frozen=True)
class MixedLines:
    """Counts of the lines of a file that have bytes beyond ASCII.

    Attributes:
        num_utf_8: the number of these lines that are valid UTF-8.
        num_other: the number of these lines that are not valid UTF-8.
        first_other_line: the number of the first line that is not valid UTF-8, from 1; 0 if there is none.
    """

    num_utf_8: int
    num_other: int
    first_other_line: int

    @property
    def mostly_utf_8(self) -> bool:
        """Whether at least half of the lines with bytes beyond ASCII are valid UTF-8; False without such lines."""
        return self.num_utf_8 > 0 and self.num_utf_8 >= self.num_other


def require_encoding(name: str, encoding: object) -> None:
    """Raises `InvalidValue` if Python knows no text encoding of that name.

    Args:
        name: the name of the setting, for messages.
        encoding: the value of the setting.
    """
    try:
        "a".encode(cast(str, encoding))  # also fails for codecs that encode no text, such as base64
    except (LookupError, TypeError, ValueError) as error:
        rule = "the name of an encoding, such as utf-8, cp1252, latin-1 or utf-16"
        raise InvalidValue(name, encoding, rule=rule) from error


def encoding_of(path: Path, named_encoding: str) -> str:
    """Returns the encoding in which a file is read.

    A byte-order mark decides. Otherwise a text without zero bytes that is valid UTF-8 and has bytes beyond ASCII is
    read as UTF-8, because a text in another encoding is rarely valid UTF-8 by accident. Any other text is read in the
    encoding that is named, with two exceptions. Latin-1 is read as cp1252. A text of ASCII alone without zero bytes is
    not read as UTF-16 or UTF-32 but as UTF-8.

    Args:
        path: the file.
        named_encoding: the encoding that a setting names.
    """
    with open_decompressed(path) as file:
        head = file.read(_MAX_MARK_BYTES)
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    codec = codecs.lookup(named_encoding).name
    if codec == UTF_8:
        return UTF_8
    # A text of ASCII bytes is in neither of these two encodings.
    is_wide = codec.startswith(("utf-16", "utf-32"))
    if _is_utf_8(path, result_for_ascii=is_wide):
        return UTF_8
    return _READ_AS.get(codec, named_encoding)


def count_lines_by_encoding(path: Path, encoding: str) -> MixedLines:
    """Counts the lines of a file with bytes beyond ASCII, separately for lines that are valid UTF-8 and others.

    All counts are 0 for an encoding in which lines do not end as in ASCII, such as UTF-16.
    """
    try:
        ends_as_ascii = b"\n".decode(encoding) == "\n"
    except UnicodeDecodeError:
        ends_as_ascii = False
    if not ends_as_ascii:
        return MixedLines(num_utf_8=0, num_other=0, first_other_line=0)
    num_utf_8 = 0
    num_other = 0
    first_other_line = 0
    with open_decompressed(path) as file:
        for number, line in enumerate(file, start=1):
            if line.isascii():
                continue
            try:
                line.decode(UTF_8)  # only to see whether it fails
                num_utf_8 += 1
            except UnicodeDecodeError:
                num_other += 1
                first_other_line = first_other_line or number
    return MixedLines(num_utf_8=num_utf_8, num_other=num_other, first_other_line=first_other_line)


def count_lines_of_other_page(path: Path, encoding: str) -> int:
    """Returns the number of lines that are probably in another encoding than cp1252, in which the file is read.

    The result is 0 for a file that is read in another `encoding`.

    Accented letters of mac-roman and cp850, if read as cp1252, become signs and capital letters within words, as in
    KšŠln.
    """
    if codecs.lookup(encoding).name != "cp1252":
        return 0
    with open_decompressed(path) as file:
        return sum(_SIGN_IN_WORD.search(line) is not None for line in file)


def likely_utf_16(first_bytes: bytes) -> str | None:
    """Returns "utf-16-le" or "utf-16-be" if bytes look like the beginning of a UTF-16 text; None otherwise.

    The text has no byte-order mark. In UTF-16, every second byte of Latin letters is zero: the odd ones (le) or the
    even ones (be). Half of the odd or of the even bytes suffices.

    >>> likely_utf_16("age,ill".encode("utf-16-le"))
    'utf-16-le'
    """
    num_even_zeros = first_bytes[::2].count(0)
    num_odd_zeros = first_bytes[1::2].count(0)
    if not first_bytes or 2 * max(num_even_zeros, num_odd_zeros) < len(first_bytes) // 2:
        return None
    return "utf-16-be" if num_even_zeros > num_odd_zeros else "utf-16-le"


def open_decompressed(path: Path) -> BinaryIO:
    """Opens a file for reading bytes, decompressed if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb"))


def _is_utf_8(path: Path, *, result_for_ascii: bool) -> bool:
    """Returns True if a file is valid UTF-8 and has no zero byte, because a zero byte suggests UTF-16.

    Args:
        path: the file.
        result_for_ascii: the result for a file that has only ASCII bytes.
    """
    file_decoder = codecs.getincrementaldecoder(UTF_8)()
    is_ascii = True
    try:
        for block in _blocks(path):
            if b"\0" in block:
                return False
            is_ascii = is_ascii and block.isascii()
            file_decoder.decode(block)  # only to see whether it fails
        file_decoder.decode(b"", final=True)  # fails if the last letter is cut
    except UnicodeDecodeError:
        return False
    return result_for_ascii or not is_ascii


def _blocks(path: Path) -> Iterator[bytes]:
    with open_decompressed(path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block
