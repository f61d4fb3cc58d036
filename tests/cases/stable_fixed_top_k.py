"""Cases of StableFixedTopK."""

from pate.aggregators import StableFixedTopK
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Shape, rename_set

TABLE = {"test": "table", "table_order": 3.0, "table_budget": 4.0}

CONTRACT = (
    Case("fixed", StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=6.0), refuses=False),
    Case("fixed_table", StableFixedTopK(k=3, selection_scale=2.0, peel_scale=6.0, penalty=1.0, **TABLE), refuses=False),
)


def _subject(shape: Shape) -> StableFixedTopK:
    settings = {"selection_scale": 2.0, "test_std": 1.0, "failure_prob": 0.05, "peel_scale": 2.0}
    return StableFixedTopK(k=min(2, shape.num_labels), adjacency=shape.adjacency, **settings)


DISTRIBUTIONS = (LawCase("StableFixedTopK", _subject, tightness=0.4, min_labels=2, rename=rename_set),)
