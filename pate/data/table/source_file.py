"""A file of a table on the disk: its kind by its ending, its encoding, and errors that name the file."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TextIO

from pate.data.table.encoding import (
    UTF_8,
    encoding_of,
    likely_utf_16,
    lines_of_another_page,
    mixed_lines,
    opened,
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
BATCH_ROWS = 8192  # rows of a table that is read at once
MISSING_WORDS = (
    # cells of files of text that are missing values, as pandas reads them; pandas exports no such list
    "", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA", "#N/A N/A",
)  # fmt: skip
_LOOK_BYTES = 2**20  # of a file that shows whether it is UTF-16


@dataclass(frozen=True)
class SourceFile:
    """A file of a table.

    Attributes:
        path: its ending tells its kind: .csv, .csv.gz, .tsv, .parquet, .feather, .arrow, .jsonl, ...
        name: of the setting that names it, for messages.
        encoding: of a file of text that is not UTF-8, see `read_in`.
    """

    path: Path
    name: str
    encoding: str = UTF_8

    @property
    def ending(self) -> str:
        """The file's ending with its point, such as `.csv` or `.csv.gz`."""
        num_endings = 2 if self.path.suffix == ".gz" else 1
        return "".join(self.path.suffixes[-num_endings:])

    @property
    def kind(self) -> Kind:
        """The kind of the file; raises `InvalidValue` where there is no such file, or its ending names no kind."""
        kind = _KINDS.get(self.ending.lower().removesuffix(".gz"))
        if kind is None or not self.path.is_file():
            raise self.refusal(
                f"a file that is there and ends in {', '.join(_KINDS)} or .csv.gz; a spreadsheet is "
                "saved as .csv first"
            )
        return kind

    @property
    def is_text(self) -> bool:
        """True where the file holds cells as text (CSV, JSON), rather than typed values."""
        return self.kind in ("csv", "json")

    @cached_property
    def read_in(self) -> str:
        """The encoding that a file of text is read in: `encoding`, unless the file's own bytes are UTF-8 or UTF-16."""
        encoding = encoding_of(self.path, self.encoding)
        if encoding != UTF_8 and mixed_lines(self.path, encoding).mostly_utf_8:
            raise self.encoding_refusal()
        return encoding

    def open_text(self, newline: str | None = None) -> TextIO:
        """Opens the file as text, unpacked; `newline` is that of Python's `open`."""
        # plain utf-8 would make a character of a byte-order mark
        encoding = "utf-8-sig" if self.read_in == UTF_8 else self.read_in
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding=encoding, newline=newline)
        return self.path.open("rt", encoding=encoding, newline=newline)

    def encoding_remark(self) -> str | None:
        """Returns a line for the owner where the file is not read in UTF-8, or not in the encoding that is named."""
        if not self.is_text:
            return None
        if self.read_in == UTF_8:
            return None if self.encoding == UTF_8 else f"{self.name}: read in UTF-8, which it is in"
        remark = f"{self.name}: read in {self.read_in}, as it is not in UTF-8"
        lines = mixed_lines(self.path, self.read_in)
        if lines.utf_8:
            remark += f"; {lines.utf_8} of its lines beyond ASCII could be UTF-8, too"
        if num_odd := lines_of_another_page(self.path, self.read_in):
            remark += (
                f"; {num_odd} of its lines have signs within words, as text in mac-roman or cp850 has "
                "when it is read so; see how names look, and name its encoding"
            )
        return remark

    def refusal(self, rule: str, *, hint: str = "") -> InvalidValue:
        """Returns the error that the file is not what a rule expects."""
        return InvalidValue(self.name, self.path, rule=rule, hint=hint)

    def encoding_refusal(self) -> InvalidValue:
        """Returns the error that text is not in the encoding that was expected, with the way out."""
        lines = mixed_lines(self.path, self.encoding)
        if lines.mostly_utf_8:
            num_lines = lines.utf_8 + lines.other
            return self.refusal(
                f"text in one encoding, {lines.utf_8} of {num_lines} lines beyond ASCII are UTF-8 and "
                f"line {lines.first_other} is the first that is not: mend these lines in the file"
            )
        encoding = self._likely_utf_16
        setting = self.setting_name("encoding")
        if encoding is not None and encoding != self.encoding:
            return self.refusal(
                f"text in {self.encoding}, and it looks like UTF-16 without a byte-order mark: "
                f"{setting}={encoding}"
            )
        return self.refusal(
            f"text in {self.encoding}",
            hint=(
                f"name its encoding: {setting}=latin-1 or utf-16, say, of old programs mac-roman or "
                "cp850; files in UTF-8 beside it are read as such"
            ),
        )

    def nul_refusal(self) -> InvalidValue:
        """Returns the error that text has NUL bytes, as UTF-16 has when it is read as bytes."""
        encoding = self._likely_utf_16 or "utf-16-le"
        setting = self.setting_name("encoding")
        return self.refusal(
            f"text in UTF-16 with {setting}={encoding}, or else text without NUL bytes"
        )

    @property
    def _likely_utf_16(self) -> str | None:
        with opened(self.path) as file:
            return likely_utf_16(file.read(_LOOK_BYTES))

    def setting_name(self, name: str) -> str:
        """Returns the name of a setting of the file: pate-train has it below `data`, other commands do not."""
        return f"data.{name}" if "." in self.name else name
