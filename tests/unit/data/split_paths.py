"""The paths of a data set's three files, one for each split, and the readers of these files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.data import Arrays, Table


@dataclass(frozen=True)
class SplitPaths:
    """The path of each split's file.

    Attributes:
        private: the file of the private records.
        public: the file of the public records.
        test: the file of the test set.
    """

    private: str
    public: str
    test: str

    @classmethod
    def in_folder(cls, folder: Path, ending: str) -> Self:
        """Returns the paths of the files private, public and test in a folder.

        Args:
            folder: the folder.
            ending: the ending of the files' names, such as `.csv`.
        """
        return cls(
            private=str(folder / f"private{ending}"),
            public=str(folder / f"public{ending}"),
            test=str(folder / f"test{ending}"),
        )

    def arrays(self) -> Arrays:
        """Returns the reader of three .npz files."""
        return Arrays(private=self.private, public=self.public, test=self.test)

    def table_with_labels(self, *label_columns: str) -> Table:
        """Returns the reader of three tables with these columns of labels."""
        return Table(private=self.private, public=self.public, test=self.test, labels=label_columns)
