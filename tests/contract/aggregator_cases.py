"""Lists the aggregators on which the contract suite runs: the cases of all files in `tests/cases`."""

from tests.cases.discovery import CASE_FILES
from tests.contract.case import (
    CLEAR_COUNTS,
    NUM_LABELS,
    NUM_TEACHERS,
    TIED_COUNTS,
    UNSURE_COUNTS,
    Case,
    repeat_query,
)

__all__ = [
    "CASES",
    "CLEAR_COUNTS",
    "NUM_LABELS",
    "NUM_TEACHERS",
    "TIED_COUNTS",
    "UNSURE_COUNTS",
    "Case",
    "repeat_query",
]

CASES: tuple[Case, ...] = tuple(case for file in CASE_FILES for case in file.contract_cases)
