"""The stability test of a release as a table that anybody can check."""

from __future__ import annotations

from pate.accounting import RdpAccountant
from pate.mechanisms import CertifiedTable
from pate.pricing.budget import Budget
from pate.pricing.priced_release import PricedRelease
from pate.validation import InvalidValue


def certify_stability_test(release: PricedRelease, budget: Budget) -> CertifiedTable:
    """The table, priced at the order that the test was made for, or else at the release's best one.

    Raises:
        InvalidValue: an aggregator without a stability test.
    """
    aggregator = release.aggregator
    test = aggregator.stability_test(num_teachers=release.shape.num_teachers)
    if test is None:
        raise InvalidValue(f"aggregator={type(aggregator).__name__}: expected one with a stability test")
    ready = getattr(aggregator, "table", None)
    order = ready.order if ready is not None else getattr(aggregator, "table_order", None)
    if order is None:
        order = RdpAccountant().compose(release.event).best_order(budget.target_delta)
    return CertifiedTable.of(test, order=order)
