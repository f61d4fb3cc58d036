"""A file that holds a table: its kind and encoding, and errors that name the file."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TextIO

from pate.data.table.encoding import (
    UTF_8,
    count_lines_by_encoding,
    count_lines_of_other_page,
    encoding_of,
    likely_utf_16,
    open_decompressed,
)
from pate.validation import InvalidValue

Kind = Literal["csv", "parquet", "arrow", "json"]
_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
}
BATCH_ROWS = 8192
"""The number of rows of a table that are read at once."""

MISSING_WORDS = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA", "#N/A N/A",
)  # fmt: skip
"""The cells of files of text that are missing values, as in pandas, which exports no such list.

pandas also reads 1.#IND and 1.#QNAN, with or without a minus sign, as missing.
"""

# The number of bytes from which the encoding UTF-16 is recognized.
_HEAD_BYTES = 2**20


@dataclass(frozen=True)
class SourceFile:
    """A file that holds a table.

    Attributes:
        path: the path, whose ending determines the kind: .csv, .csv.gz, .tsv, .parquet, .feather, .arrow, .jsonl, ...
        setting: the name of the setting that names the file, for messages.
        encoding: the encoding that a setting names for a file of text that is not UTF-8, see `read_in`.
    """

    path: Path
    setting: str
    encoding: str = UTF_8

    @property
    def ending(self) -> str:
        """The ending of the file's name as it is written, such as `.csv` or `.CSV.gz`."""
        num_endings = 2 if self.path.suffix == ".gz" else 1
        return "".join(self.path.suffixes[-num_endings:])

    @property
    def kind(self) -> Kind:
        """The kind of the file by its ending, such as csv, json or parquet.

        Raises:
            InvalidValue: the file does not exist, or its ending is unknown.
        """
        kind = _KINDS.get(self.ending.lower().removesuffix(".gz"))
        if kind is None or not self.path.is_file():
            raise self.refusal(
                f"a file that is there and ends in {', '.join(_KINDS)} or .csv.gz; a spreadsheet is "
                "saved as .csv first"
            )
        return kind

    @property
    def is_text(self) -> bool:
        """Whether the file holds cells as text (CSV, JSON), and not typed values."""
        return self.kind in ("csv", "json")

    @cached_property
    def read_in(self) -> str:
        """The encoding in which a file of text is read.

        See `encoding_of`. Raises `InvalidValue` if the result is not UTF-8, and yet at least half of the lines with
        bytes beyond ASCII are UTF-8.
        """
        encoding = encoding_of(self.path, named_encoding=self.encoding)
        if encoding != UTF_8 and count_lines_by_encoding(self.path, encoding=encoding).mostly_utf_8:
            raise self.encoding_refusal()
        return encoding

    def open_text(self, newline: str | None = None) -> TextIO:
        """Opens the file as text in the encoding `read_in`, decompressed. `newline` is that of Python's `open`."""
        # In plain utf-8 a byte-order mark would become a character of the text.
        encoding = "utf-8-sig" if self.read_in == UTF_8 else self.read_in
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding=encoding, newline=newline)
        return self.path.open("rt", encoding=encoding, newline=newline)

    def encoding_remark(self) -> str | None:
        """Returns a remark for the owner if the file is not read in UTF-8, or not in the named encoding; else None."""
        if not self.is_text:
            return None
        if self.read_in == UTF_8:
            return (
                None if self.encoding == UTF_8 else f"{self.setting}: read in UTF-8, which it is in"
            )
        remark = f"{self.setting}: read in {self.read_in}, as it is not in UTF-8"
        lines = count_lines_by_encoding(self.path, encoding=self.read_in)
        if lines.num_utf_8:
            remark += f"; {lines.num_utf_8} of its lines beyond ASCII could be UTF-8, too"
        if num_odd := count_lines_of_other_page(self.path, encoding=self.read_in):
            remark += (
                f"; {num_odd} of its lines have signs within words, as text in mac-roman or cp850 has "
                "when it is read so; see how names look, and name its encoding"
            )
        return remark

    def refusal(self, rule: str, *, hint: str = "") -> InvalidValue:
        """Returns an error that states that the file violates a rule.

        Args:
            rule: the description of a valid file.
            hint: the advice at the end of the message.
        """
        return InvalidValue(self.setting, self.path, rule=rule, hint=hint)

    def encoding_refusal(self) -> InvalidValue:
        """Returns the error for a text that is not in the expected encoding, with advice.

        The error names mixed encodings, UTF-16 without a byte-order mark, or settings to try, as the bytes suggest.
        """
        lines = count_lines_by_encoding(self.path, encoding=self.encoding)
        if lines.mostly_utf_8:
            num_lines = lines.num_utf_8 + lines.num_other
            return self.refusal(
                f"text in one encoding, {lines.num_utf_8} of {num_lines} lines beyond ASCII are UTF-8 and "
                f"line {lines.first_other_line} is the first that is not: mend these lines in the file"
            )
        encoding = self._likely_utf_16
        setting = self.setting_name("encoding")
        if encoding is not None and encoding != self.encoding:
            return self.refusal(
                f"text in {self.encoding}, and it looks like UTF-16 without a byte-order mark: "
                f"{setting}={encoding}"
            )
        return self.refusal(
            rule=f"text in {self.encoding}",
            hint=(
                f"name its encoding: {setting}=latin-1 or utf-16, say, of old programs mac-roman or "
                "cp850; files in UTF-8 beside it are read as such"
            ),
        )

    def nul_refusal(self) -> InvalidValue:
        """Returns the error for a text with NUL bytes, which is probably UTF-16 that was read in another encoding."""
        encoding = self._likely_utf_16 or "utf-16-le"
        setting = self.setting_name("encoding")
        return self.refusal(
            f"text in UTF-16 with {setting}={encoding}, or else text without NUL bytes"
        )

    @property
    def _likely_utf_16(self) -> str | None:
        with open_decompressed(self.path) as file:
            return likely_utf_16(first_bytes=file.read(_HEAD_BYTES))

    def setting_name(self, name: str) -> str:
        """Returns the full name of a setting of this file: `data.NAME` if a setting of data names it, `NAME` if not."""
        return setting_beside(file_setting=self.setting, name=name)


def setting_beside(file_setting: str, name: str) -> str:
    """Returns the full name of a setting of a file: `data.NAME` beside `data.private`, and `NAME` beside `data`.

    Args:
        file_setting: the name of the setting that names the file, such as `data.private` in pate-train, or `data` in
            pate-schema.
        name: the name of the setting, such as `encoding`.
    """
    return f"data.{name}" if "." in file_setting else name
