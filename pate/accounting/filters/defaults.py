"""Which filter a cap is decided by where none is named, and filters as a ledger's first line has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pate.accounting.accountant import Accountant
from pate.accounting.filters.gaussian import GaussianFilter, GaussianOrRenyi
from pate.accounting.filters.privacy_filter import FilterRule
from pate.accounting.filters.renyi import RenyiFilter
from pate.accounting.filters.zcdp import ZCdpFilter
from pate.validation import InvalidValue, require_choice

FilterMaker = Callable[[float, float], FilterRule]
"""Makes a filter for (max_epsilon, target_delta): a class such as `RenyiFilter`, or a partial of one."""

FILTERS: dict[str, type[FilterRule]] = {
    made.name: made for made in (RenyiFilter, ZCdpFilter, GaussianFilter, GaussianOrRenyi)
}
_OF_ACCOUNTANT: dict[str, type[FilterRule]] = {
    "zcdp": ZCdpFilter,
    "exact": GaussianOrRenyi,
    "pld": GaussianOrRenyi,
    "auto": GaussianOrRenyi,
}


def default_filter(accountant: Accountant) -> FilterMaker:
    """The filter whose cap costs the least compared with an accountant's totals.

    Args:
        accountant: zCDP has its own filter; exact, PLD and auto have the Gaussian filter where the first
            event of a data set is Gaussian; whatever else counts by Renyi's.
    """
    return _OF_ACCOUNTANT.get(accountant.name, RenyiFilter)


def filter_from_json(data: Mapping[str, Any], *, max_epsilon: float, target_delta: float) -> FilterRule:
    """The filter that `FilterRule.to_json` wrote.

    Args:
        data: what it returned, or the same read from JSON.
        max_epsilon: the cap.
        target_delta: in (0, 1).

    Raises:
        InvalidValue: a name that does not exist, or parameters that make no filter.
    """
    values = dict(data)
    kind = FILTERS[require_choice("filter", str(values.pop("name", None)), tuple(FILTERS))]
    try:
        return kind(max_epsilon, target_delta, **values)
    except TypeError as error:
        raise InvalidValue(
            f"filter={kind.name}: expected parameters of this version, found {', '.join(values)}"
        ) from error
