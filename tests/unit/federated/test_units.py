"""What a release of several holders' votes is priced for: what all of them vouch for, or else a teacher."""

import pytest

from pate.accounting import PrivacyUnit
from pate.run.stages.release import Cohort
from pate.votes.vote_file import VoteManifest

PATIENT, VISIT = PrivacyUnit.of_column("mrn"), PrivacyUnit("one row")
OF_ALL = PrivacyUnit("one value of the column mrn, with all its rows, at one holder", ("mrn",))
TEACHER = PrivacyUnit("one teacher, with all its records")


@pytest.mark.parametrize(
    ("units", "wanted"),
    [
        ((PATIENT, PATIENT), OF_ALL),
        ((PATIENT, VISIT), TEACHER),
        ((PATIENT, None), TEACHER),  # a file of an earlier version
        ((None, None), TEACHER),
    ],
)
def test_the_unit_is_what_all_holders_vouch_for(units: tuple[PrivacyUnit | None, ...], wanted: PrivacyUnit) -> None:
    heads = [
        VoteManifest(
            holder=f"hospital_{number}",
            queries="0" * 64,
            num_teachers=2,
            num_queries=3,
            num_labels=1,
            num_records=9,
            num_groups=5,
            unit=unit,
        )
        for number, unit in enumerate(units)
    ]
    heads = [VoteManifest.from_text(head.to_text()) for head in heads]
    cohort = Cohort.of_heads(heads, record_ids=(), label_names=("flu",), digest="a")
    assert cohort.unit == wanted
