"""Privacy filters: caps that hold even if prices are chosen after seeing earlier releases."""

from pate.accounting.filters.defaults import FilterMaker, default_filter, filter_from_json
from pate.accounting.filters.gaussian import GaussianFilter, GaussianOrRenyi
from pate.accounting.filters.privacy_filter import FilterRule, PrivacyFilter, Spent
from pate.accounting.filters.renyi import RenyiFilter
from pate.accounting.filters.zcdp import ZCdpFilter

__all__ = [
    "FilterMaker",
    "FilterRule",
    "GaussianFilter",
    "GaussianOrRenyi",
    "PrivacyFilter",
    "RenyiFilter",
    "Spent",
    "ZCdpFilter",
    "default_filter",
    "filter_from_json",
]
