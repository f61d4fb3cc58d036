"""Cases of BoundaryTopK."""

from typing import Any

from pate.aggregators import BoundaryTopK
from tests.contract.case import SESSION_DELTA, TARGET_HITS, Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_set

CONTRACT = (
    Case(
        name="boundary",
        aggregator=BoundaryTopK(
            selection_scale=2.0,
            test_std=0.3,
            failure_prob=1e-11,
            target_hits=TARGET_HITS,
            session_delta=SESSION_DELTA,
        ),
        halts=True,
    ),
)


def _rename(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns an outcome as labels instead of ranks; an outcome that is a word is not changed."""
    return outcome if isinstance(outcome, str) else rename_set(outcome, label_of_rank)


DISTRIBUTIONS = (
    LawCase(
        name="BoundaryTopK",
        mechanism_for=lambda small_instance: BoundaryTopK(
            selection_scale=2.0,
            test_std=2.0,
            failure_prob=0.01,
            target_hits=1,
            session_delta=0.05,
            adjacency=small_instance.adjacency,
        ),
        tightness=0.3,
        min_labels=3,
        relabel_outcome=_rename,
    ),
)
