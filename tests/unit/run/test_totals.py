"""The total prices of several runs: one for each unit of privacy, and at most what their ledger counts."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    GaussianEvent,
    PrivacyUnit,
    PureDpEvent,
    RdpAccountant,
)
from pate.run.totals import LedgerTotal, PaidRelease, totals_of

PATIENT = PrivacyUnit.of_column("mrn")
VISIT = PrivacyUnit("one row")
RELEASE = PaidRelease(
    charge_key="a" * 32 + ":release",
    run_key="a" * 32,
    data_digest="b" * 64,
    event=GaussianEvent(noise_multiplier=4.0),
    adjacency=Adjacency.REPLACE_ONE,
    target_delta=1e-6,
    unit=PATIENT,
    seed_name="",
    shares_noise_in_ledger=False,
    make_accountant=RdpAccountant,
)


def test_each_unit_of_privacy_has_its_own_total() -> None:
    """Each unit of privacy has a total of its own, here patients for two releases and visits for one.

    A release that names no unit is in no total.
    """
    releases = [RELEASE, RELEASE, replace(RELEASE, unit=VISIT), replace(RELEASE, unit=None)]
    price_of_two = (
        RdpAccountant()
        .compose(GaussianEvent(noise_multiplier=4.0), count=2)
        .get_epsilon(target_delta=1e-6)
    )
    single_price = (
        RdpAccountant().compose(GaussianEvent(noise_multiplier=4.0)).get_epsilon(target_delta=1e-6)
    )
    totals = {total.unit: (total.num_releases, total.epsilon) for total in totals_of(releases)}
    assert totals == {PATIENT: (2, price_of_two), VISIT: (1, single_price)}


def test_the_total_under_add_remove_protects_a_teacher_of_each_release() -> None:
    """The words of a total under add_remove name one teacher of each release."""
    (total,) = totals_of([replace(RELEASE, adjacency=Adjacency.ADD_REMOVE)] * 2)
    assert total.words.startswith(
        "add_remove, for one teacher of each release, with all its records; to replace "
    )


@pytest.mark.parametrize(
    ("num_in_ledger", "counted_with_others"), [(2, None), (3, 1.5)], ids=["alone", "with others"]
)
def test_a_total_is_at_most_that_of_the_ledger(
    num_in_ledger: int, counted_with_others: float | None
) -> None:
    """The total of two releases is at most the total of their ledger, here 1.5, if this is less than their composition.

    The ledger's total is named beside it only if the ledger counts a third release.
    """
    ledger_total = LedgerTotal(Path("ledger.db"), num_releases=num_in_ledger, epsilon=1.5)
    (total,) = totals_of([replace(RELEASE, ledger_total=ledger_total)] * 2)
    event_of_two = GaussianEvent(noise_multiplier=4.0 / math.sqrt(2))
    assert RdpAccountant().compose(event_of_two).get_epsilon(target_delta=1e-6) > 1.5
    assert (total.epsilon, total.delta) == (1.5, 1e-6)
    assert (total.in_ledger and total.in_ledger.epsilon) == counted_with_others


def test_releases_in_two_ledgers_have_a_total_of_their_own() -> None:
    """The total of two releases in two ledgers is that of their composition, and not that of a ledger."""
    ledgers = [LedgerTotal(Path(name), num_releases=1, epsilon=0.1) for name in ("a.db", "b.db")]
    (total,) = totals_of([replace(RELEASE, ledger_total=ledger) for ledger in ledgers])
    price_of_two = RdpAccountant().compose(RELEASE.event, count=2).get_epsilon(target_delta=1e-6)
    assert (total.epsilon, total.in_ledger) == (price_of_two, None)


def test_failures_beyond_delta_are_counted_at_the_sum_of_the_deltas() -> None:
    """Two prices of pure epsilon 1 with failure probability 0.8e-6 have a total of 2 at the sum of their deltas, 2e-6.

    At one delta of 1e-6 they would have no price.
    """
    event = ApproximateEvent(PureDpEvent(epsilon=1.0), failure_prob=0.8e-6)
    (total,) = totals_of([replace(RELEASE, event=event)] * 2)
    assert total.delta == 2e-6
    assert total.epsilon == pytest.approx(2.0, rel=1e-6)


def test_releases_whose_deltas_sum_to_one_have_no_epsilon() -> None:
    """Two releases at delta 0.5 have a total delta of 1 and an infinite epsilon."""
    event = ApproximateEvent(PureDpEvent(epsilon=1.0), failure_prob=0.45)
    (total,) = totals_of([replace(RELEASE, event=event, target_delta=0.5)] * 2)
    # The failure probabilities sum to 0.9, more than the largest delta. So the sum of the deltas counts, which is 1.
    assert (total.delta, total.epsilon) == (1.0, math.inf)
