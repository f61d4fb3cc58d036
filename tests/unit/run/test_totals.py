"""Totals of several runs are for one unit of privacy each."""

from dataclasses import replace

from pate.accounting import Adjacency, GaussianEvent, PrivacyUnit, RdpAccountant
from pate.run.totals import PaidRelease, totals_of

PATIENT = PrivacyUnit.of_column("mrn")
VISIT = PrivacyUnit("one row")
RELEASE = PaidRelease(
    key="a" * 32 + ":release",
    run="a" * 32,
    data="b" * 64,
    event=GaussianEvent(noise_multiplier=4.0),
    adjacency=Adjacency.REPLACE_ONE,
    target_delta=1e-6,
    unit=PATIENT,
    noise="",
    shares_noise_in_ledger=False,
    accountant=RdpAccountant,
)


def test_each_unit_of_privacy_has_its_own_total() -> None:
    releases = [RELEASE, RELEASE, replace(RELEASE, unit=VISIT), replace(RELEASE, unit=None)]
    both = (
        RdpAccountant()
        .compose(GaussianEvent(noise_multiplier=4.0), count=2)
        .get_epsilon(target_delta=1e-6)
    )
    single_price = (
        RdpAccountant().compose(GaussianEvent(noise_multiplier=4.0)).get_epsilon(target_delta=1e-6)
    )
    totals = {total.unit: (total.count, total.epsilon) for total in totals_of(releases)}
    assert totals == {PATIENT: (2, both), VISIT: (1, single_price)}


def test_the_total_under_add_remove_protects_a_teacher_of_each_release() -> None:
    (total,) = totals_of([replace(RELEASE, adjacency=Adjacency.ADD_REMOVE)] * 2)
    assert total.words.startswith(
        "add_remove, for one teacher of each release, with all its records; to replace "
    )
