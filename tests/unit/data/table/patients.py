"""Three small CSV files of patients, each with a record number, and the reader of these files."""

from __future__ import annotations

from pathlib import Path

from pate.data import Table
from tests.unit.data.table.small_table import write_lines

HEAD = "mrn,age,sex,flu"
"""The columns: the medical record number of a patient, two features and a label."""


def _four_patients(ward: str) -> list[str]:
    """Returns rows of four patients, whose record numbers begin with the ward."""
    return [f"{ward}001,20,F,0", f"{ward}002,30,M,1", f"{ward}003,40,F,1", f"{ward}004,25,M,0"]


def write_patients(
    folder: Path,
    *,
    head: str = HEAD,
    private: list[str] | None = None,
    public: list[str] | None = None,
    test: list[str] | None = None,
) -> Table:
    """Writes three files of patients, whose last column is the label, and returns their reader, which has no group.

    Args:
        folder: the folder of the files private.csv, public.csv and test.csv.
        head: the first line of each file, with the names of the columns.
        private: the private rows; None for four patients A-0001 to A-0004.
        public: the public rows; None for four patients A-1001 to A-1004.
        test: the rows of the test set; None for four patients A-2001 to A-2004.
    """
    return Table(
        private=write_lines(
            path=folder / "private.csv", head=head, lines=private or _four_patients(ward="A-0")
        ),
        public=write_lines(
            path=folder / "public.csv", head=head, lines=public or _four_patients(ward="A-1")
        ),
        test=write_lines(
            path=folder / "test.csv", head=head, lines=test or _four_patients(ward="A-2")
        ),
        labels=(head.rpartition(",")[-1],),
    )
