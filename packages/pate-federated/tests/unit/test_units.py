"""The unit of privacy of a release of several holders' votes is the one they all have, or else a teacher."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pate.accounting import PrivacyUnit
from pate.data import Dataset, Split
from pate.data.shared_records import SharedRecords
from pate_federated.asked_data import AskedData
from pate_federated.cohorts import cohort_of_heads
from pate_federated.vote_file import VoteManifest
from tests.refusals import refused_parameter

PATIENT = PrivacyUnit.of_column("mrn")
VISIT = PrivacyUnit(words="one row")
PATIENT_AT_ONE_HOLDER = PrivacyUnit(
    words="one value of the column mrn, with all its rows, at one holder", columns=("mrn",)
)
TEACHER = PrivacyUnit(words="one teacher, with all its records")


@pytest.mark.parametrize(
    ("units", "expected_unit"),
    [
        ((PATIENT, PATIENT), PATIENT_AT_ONE_HOLDER),
        ((PATIENT, VISIT), TEACHER),
        ((PATIENT, None), TEACHER),  # a file of an earlier version
        ((None, None), TEACHER),
    ],
)
def test_unit_of_privacy_is_the_one_of_all_holders(
    units: tuple[PrivacyUnit | None, ...], expected_unit: PrivacyUnit
) -> None:
    """If two holders name the same column as their unit of privacy, the unit of the release is this one, at one holder.

    If they name different units, or one of them or both name none, it is one teacher.
    """
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
    cohort = cohort_of_heads(heads, record_ids=(), label_names=("flu",), votes_digest="a")
    assert cohort.unit == expected_unit


def small_dataset() -> Dataset:
    """Returns a data set with four private records, two of each patient."""
    ids = np.arange(6)
    owners = np.array([0, 0, 1, 1, 2, 3])
    inputs = np.zeros((6, 2), np.float32)
    splits = {
        name: Split(
            inputs=inputs[part],
            labels=np.ones((len(ids[part]), 1), np.bool_),
            record_ids=ids[part],
            group_ids=owners[part],
        )
        for name, part in (("private", slice(4)), ("public", slice(4, 5)), ("test", slice(5, 6)))
    }
    return Dataset(
        name="small",
        real=False,
        kind="features",
        label_names=("flu",),
        private=splits["private"],
        public=splits["public"],
        test=splits["test"],
        group_unit=PATIENT,
    )


def test_records_with_other_samples_keep_their_unit(tmp_path: Path) -> None:
    """Records that are loaded with queries from another file keep their unit of privacy.

    The reader loads a whole data set, as one of pictures does, or that of a holder with Flower.
    """
    queries_path = tmp_path / "queries.npz"
    np.savez(queries_path, inputs=np.ones((3, 2), np.float32))
    assert (
        AskedData(data_reader=SimpleNamespace(load=small_dataset), queries_path=queries_path)
        .load()
        .privacy_unit
        == PATIENT
    )


def test_weighted_records_are_refused_with_other_samples(tmp_path: Path) -> None:
    """Records of several owners, here a patient and a doctor, are refused with queries from another file.

    Such records are weighted, and `AskedData` does not keep the weights. Without weights a doctor would count once for
    each record, at the price of one.
    """
    queries_path = tmp_path / "queries.npz"
    np.savez(queries_path, inputs=np.ones((3, 2), np.float32))
    shared = SharedRecords(
        owner_kinds=("patient", "doctor"),
        weights=np.full(4, 0.25),
        num_linked_groups=1,
        largest_linked_group=4,
    )
    weighted_dataset = replace(small_dataset(), shared=shared)
    with refused_parameter("data.group", value="['patient', 'doctor']"):
        AskedData(
            data_reader=SimpleNamespace(load=lambda: weighted_dataset), queries_path=queries_path
        ).load()
