"""Prices before any data: what a release costs, what a budget buys, what somebody's release really cost."""

from pate.pricing.budget import Budget
from pate.pricing.priced_release import PricedRelease, plan_release
from pate.pricing.query_count import largest_num_queries
from pate.pricing.shape import ReleaseShape

__all__ = ["Budget", "PricedRelease", "ReleaseShape", "largest_num_queries", "plan_release"]
