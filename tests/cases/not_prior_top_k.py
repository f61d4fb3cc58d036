"""Cases of NotPriorTopK."""

from pate.aggregators import NotPriorTopK
from tests.contract.case import SESSION, Case

CONTRACT = (
    Case(
        "not_prior",
        NotPriorTopK(
            prior_scale=2.0, selection_scale=2.0, table_order=3.0, table_budget=4.0, **SESSION
        ),
        halts=True,
    ),
)
WITHOUT_DISTRIBUTION = "a session over many queries; its calls in test_target_charging.py"
