"""Prices without data: what a release costs, what a budget buys, what somebody else's release really cost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.pricing.remedies import (
    Expectation,
    Remedies,
    SettingNames,
    expectation,
    expected_release,
    group_votes_tell_more,
    remedies,
)

if TYPE_CHECKING:
    from pate.pricing.account_left import AccountLeft, accounts_left
    from pate.pricing.audit import AuditFinding, VoteAudit, audit_votes
    from pate.pricing.guard import require_useful
    from pate.pricing.hit_plan import HitPlan, plan_hits
    from pate.pricing.lower_bound import lower_bound_of
    from pate.pricing.priced_release import (
        Budget,
        PricedRelease,
        ReleaseShape,
        certify_stability_test,
        largest_num_queries,
        plan_release,
    )
    from pate.pricing.quote import AccountantPrice, Quote, cheapest_accountant, quote_release
    from pate.pricing.release_parameters import ReleaseParameters
    from pate.pricing.suggestion import Suggestion, suggest

_MODULE_OF = {
    "AccountLeft": "pate.pricing.account_left",
    "AccountantPrice": "pate.pricing.quote",
    "AuditFinding": "pate.pricing.audit",
    "Budget": "pate.pricing.priced_release",
    "HitPlan": "pate.pricing.hit_plan",
    "PricedRelease": "pate.pricing.priced_release",
    "Quote": "pate.pricing.quote",
    "ReleaseParameters": "pate.pricing.release_parameters",
    "ReleaseShape": "pate.pricing.priced_release",
    "Suggestion": "pate.pricing.suggestion",
    "VoteAudit": "pate.pricing.audit",
    "accounts_left": "pate.pricing.account_left",
    "audit_votes": "pate.pricing.audit",
    "certify_stability_test": "pate.pricing.priced_release",
    "cheapest_accountant": "pate.pricing.quote",
    "largest_num_queries": "pate.pricing.priced_release",
    "lower_bound_of": "pate.pricing.lower_bound",
    "plan_hits": "pate.pricing.hit_plan",
    "plan_release": "pate.pricing.priced_release",
    "quote_release": "pate.pricing.quote",
    "require_useful": "pate.pricing.guard",
    "suggest": "pate.pricing.suggestion",
}

__all__ = [
    "AccountLeft",
    "AccountantPrice",
    "AuditFinding",
    "Budget",
    "Expectation",
    "HitPlan",
    "PricedRelease",
    "Quote",
    "ReleaseParameters",
    "ReleaseShape",
    "Remedies",
    "SettingNames",
    "Suggestion",
    "VoteAudit",
    "accounts_left",
    "audit_votes",
    "certify_stability_test",
    "cheapest_accountant",
    "expectation",
    "expected_release",
    "group_votes_tell_more",
    "largest_num_queries",
    "lower_bound_of",
    "plan_hits",
    "plan_release",
    "quote_release",
    "remedies",
    "require_useful",
    "suggest",
]


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
