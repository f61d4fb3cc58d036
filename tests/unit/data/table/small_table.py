"""Three small CSV files of patients' visits, as other programs write them, and the reader of these files."""

from __future__ import annotations

from pathlib import Path

from pate.data import Table

HEAD = "patient,seen,age,sex,note,flu,cough"
PUBLIC_ROWS = [
    "p1,2025-01-01,20,F,a,0,1",
    "p1,2025-01-03,,M,a,1,0",
    "p2,2025-01-05,40,F,b,0,0",
    "p3,2025-01-07,60,,b,true,False",
]
PRIVATE_ROWS = [
    "q1,2025-01-02,1000,F,a,1,1",
    "q1,2025-01-03,NA,D\u00fc,c,0,1",
    "q2,2024-01-01,40,M,b,1.0,0.0",
]
TEST_ROWS = ["t1,2025-01-04,30,F,a,1,0"]

FileContent = list[str] | bytes
"""The rows of a file below its head, or the whole content of the file."""


def write_lines(path: Path, head: str, lines: list[str]) -> str:
    """Writes a head and the lines below it into a file; returns the file's path."""
    path.write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    return str(path)


def write_table(
    folder: Path,
    *,
    private: FileContent = PRIVATE_ROWS,
    public: FileContent = PUBLIC_ROWS,
    test: FileContent = TEST_ROWS,
) -> Table:
    """Writes the three files, and returns their reader, with two labels and the column `patient` as the group.

    Args:
        folder: the folder of the files private.csv, public.csv and test.csv.
        private: the private rows, or the whole content of the private file.
        public: the public rows, or the whole content of the public file.
        test: the rows of the test set, or the whole content of its file.
    """
    return Table(
        private=_write_content(path=folder / "private.csv", rows_or_bytes=private),
        public=_write_content(path=folder / "public.csv", rows_or_bytes=public),
        test=_write_content(path=folder / "test.csv", rows_or_bytes=test),
        labels=("flu", "cough"),
        group="patient",
    )


def _write_content(path: Path, rows_or_bytes: FileContent) -> str:
    """Writes rows below the usual head, or the whole content, into a file; returns the file's path."""
    if isinstance(rows_or_bytes, bytes):
        path.write_bytes(rows_or_bytes)
        return str(path)
    return write_lines(path=path, head=HEAD, lines=rows_or_bytes)
