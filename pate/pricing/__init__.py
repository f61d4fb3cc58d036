"""Prices without private data: the cost of a release, and the noise or the queries that a budget buys."""

from typing import TYPE_CHECKING

from pate.aggregators.expectation import expected_release
from pate.extras import lazily
from pate.pricing.affordable_queries import largest_num_queries
from pate.pricing.budgets import QueryBudget, budget_from_settings
from pate.pricing.expectations import expectation
from pate.pricing.guard import require_useful
from pate.pricing.person_budgets import BudgetClass, PersonBudgets, budgets_of, named_budgets
from pate.pricing.priced_release import PricedRelease, certify_stability_test, plan_release
from pate.pricing.suggestion import suggest
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.pricing.accountant_prices import cheapest_accountant
    from pate.pricing.hit_plan import plan_hits
    from pate.pricing.ledger_accounts import accounts_left
    from pate.pricing.quote import Quote, QuoteExtras, quote_release

__all__ = [
    "BudgetClass",
    "PersonBudgets",
    "PricedRelease",
    "QueryBudget",
    "Quote",
    "QuoteExtras",
    "accounts_left",
    "budget_from_settings",
    "budgets_of",
    "certify_stability_test",
    "cheapest_accountant",
    "expectation",
    "expected_release",
    "largest_num_queries",
    "named_budgets",
    "plan_hits",
    "plan_release",
    "quote_release",
    "require_useful",
    "suggest",
]

# Names that scripts have from before there was one shape and one budget.
ReleaseShape = VoteShape
Budget = budget_from_settings

_LATER = {
    "accountant_prices": "cheapest_accountant",
    "hit_plan": "plan_hits",
    "ledger_accounts": "accounts_left",
    "quote": "Quote QuoteExtras quote_release",
}
__getattr__ = lazily(__name__, names_of_module=_LATER)
