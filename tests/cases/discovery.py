"""Finds the cases of every shipped aggregator, each in a file of this folder, without a list of the files.

A file has `CONTRACT`, the cases for the tests that every aggregator passes (`tests.contract.case.Case`), and
`DISTRIBUTIONS`, the cases for the verifier (`tests.privacy.case.Case`). An aggregator without an exact distribution of
one histogram has `WITHOUT_DISTRIBUTION` in its place: the reason, and the test that looks at its draws.
"""

import runpy
from dataclasses import dataclass
from pathlib import Path

from tests.contract.case import Case
from tests.privacy.case import Case as LawCase


@dataclass(frozen=True)
class CaseFile:
    """The cases of one file.

    Attributes:
        name: the name of the file, without its ending.
        contract_cases: the cases for the contract suite, at least one; all of one class.
        distributions: the cases for the verifier.
        reason_for_no_distribution: the reason why there are no distributions; empty if there are some.
    """

    name: str
    contract_cases: tuple[Case, ...]
    distributions: tuple[LawCase, ...]
    reason_for_no_distribution: str

    @property
    def kind(self) -> type:
        """Returns the class of the aggregators in the file."""
        return type(self.contract_cases[0].aggregator)


def read_case_files(folder: Path) -> tuple[CaseFile, ...]:
    """Returns the files of cases in a folder, sorted by name."""
    return tuple(
        _read_case_file(path) for path in sorted(folder.glob("*.py")) if path != Path(__file__)
    )


def _read_case_file(path: Path) -> CaseFile:
    """Reads the cases of one file.

    Fails unless all are of one class, and there are distributions or a reason why there are none.
    """
    module_contents = runpy.run_path(str(path))
    distributions = tuple(module_contents.get("DISTRIBUTIONS", ()))
    reason_for_no_distribution = module_contents.get("WITHOUT_DISTRIBUTION", "")
    assert len({type(case.aggregator) for case in module_contents["CONTRACT"]}) == 1, (
        f"{path.name}: cases of one class in a file"
    )
    assert bool(distributions) != bool(reason_for_no_distribution), (
        f"{path.name}: either DISTRIBUTIONS, or WITHOUT_DISTRIBUTION and why"
    )
    return CaseFile(
        name=path.stem,
        contract_cases=tuple(module_contents["CONTRACT"]),
        distributions=distributions,
        reason_for_no_distribution=reason_for_no_distribution,
    )


CASE_FILES = read_case_files(Path(__file__).parent)
