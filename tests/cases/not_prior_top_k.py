"""Cases of NotPriorTopK."""

from pate.aggregators import NotPriorTopK
from tests.contract.case import SESSION_DELTA, TARGET_HITS, Case

CONTRACT = (
    Case(
        name="not_prior",
        aggregator=NotPriorTopK(
            prior_scale=2.0,
            selection_scale=2.0,
            table_order=3.0,
            table_budget=4.0,
            target_hits=TARGET_HITS,
            session_delta=SESSION_DELTA,
        ),
        halts=True,
    ),
)
WITHOUT_DISTRIBUTION = "a session over many queries; its calls in test_target_charging.py"
