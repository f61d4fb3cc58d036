"""The cases of every aggregator that ships, one file each in this folder; a new file is found, and nothing lists it.

A file says `CONTRACT`, the cases of the common suite (`tests.contract.case.Case`), and `DISTRIBUTIONS`, those of the
verifier (`tests.privacy.case.Case`), or `WITHOUT_DISTRIBUTION`: why there is no exact distribution of one histogram,
and where it is looked at instead.
"""

import runpy
from dataclasses import dataclass
from pathlib import Path

from tests.contract.case import Case
from tests.privacy.case import Case as LawCase


@dataclass(frozen=True)
class CaseFile:
    """What one file brings."""

    name: str  # of the file
    contract: tuple[Case, ...]  # for the common suite, at least one; all of one class
    distributions: tuple[LawCase, ...]  # for the verifier
    without_distribution: str  # why there are none of these; empty where there are

    @property
    def kind(self) -> type:
        """The class that the file is about."""
        return type(self.contract[0].aggregator)


def case_files(folder: Path) -> tuple[CaseFile, ...]:
    """The files of cases in a folder."""
    return tuple(_read(path) for path in sorted(folder.glob("*.py")) if path != Path(__file__))


def _read(path: Path) -> CaseFile:
    names = runpy.run_path(str(path))
    distributions = tuple(names.get("DISTRIBUTIONS", ()))
    without = names.get("WITHOUT_DISTRIBUTION", "")
    assert len({type(case.aggregator) for case in names["CONTRACT"]}) == 1, (
        f"{path.name}: cases of one class in a file"
    )
    assert bool(distributions) != bool(without), (
        f"{path.name}: either DISTRIBUTIONS, or WITHOUT_DISTRIBUTION and why"
    )
    return CaseFile(path.stem, tuple(names["CONTRACT"]), distributions, without)


CASE_FILES = case_files(Path(__file__).parent)
