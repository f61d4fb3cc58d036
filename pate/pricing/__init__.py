"""Prices without data: what a release costs, what a budget buys, what somebody else's release really cost."""

from pate.files.lazy_names import lazy_names
from pate.pricing.expected_release import Expectation, expectation, expected_release
from pate.pricing.remedies import Remedies, group_votes_tell_more, remedies

with lazy_names(globals()):
    from pate.pricing.account_left import AccountLeft, accounts_left
    from pate.pricing.audit import AuditFinding, VoteAudit, audit_votes
    from pate.pricing.budget import Budget
    from pate.pricing.certified_test import certify_stability_test
    from pate.pricing.guard import require_useful
    from pate.pricing.hit_plan import HitPlan, plan_hits
    from pate.pricing.lower_bound import lower_bound_of
    from pate.pricing.priced_release import PricedRelease, plan_release
    from pate.pricing.query_count import largest_num_queries
    from pate.pricing.quote import AccountantPrice, Quote, cheapest_accountant, quote_release
    from pate.pricing.release_parameters import ReleaseParameters
    from pate.pricing.setting_names import SettingNames
    from pate.pricing.shape import ReleaseShape
    from pate.pricing.suggestion import Suggestion, suggest

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
