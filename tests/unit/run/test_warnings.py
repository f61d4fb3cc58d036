"""What is allowed and hardly meant: said where it holds, and nowhere else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pate.aggregators import Aggregator, BoundaryMax, ConfidentGNMax, FixedTopK, GaussianVotes, GNMax, PowersetGNMax
from pate.run.warnings import plan_warnings
from pate.teachers import KernelTeacher, LinearTeacher
from tests.e2e.small_run import small_dataset

PLAIN, LINEAR = GaussianVotes(noise_std=1.0), LinearTeacher(device="cpu")


def test_few_records_a_teacher() -> None:
    """960 private records: ten each are nothing to speak of, 9.9 are."""
    data = small_dataset()
    assert not list(plan_warnings(data, PLAIN, LINEAR, num_teachers=96))
    (line,) = plan_warnings(data, PLAIN, LINEAR, num_teachers=97)
    assert line.startswith(
        "teacher.num_teachers=97: 9.9 private records per teacher teach it little; fewer teachers, or "
    )
    assert not list(plan_warnings(data, PLAIN, KernelTeacher(), num_teachers=960)), "made for one record each"


@pytest.mark.parametrize(
    "aggregator",
    [
        GNMax(noise_std=1.0),
        ConfidentGNMax(screening_std=1.0, noise_std=1.0, threshold_share=0.5),
        BoundaryMax(selection_scale=1.0),
    ],
    ids=lambda aggregator: type(aggregator).__name__,
)
def test_one_label_a_query_for_samples_with_more(aggregator: Aggregator) -> None:
    many = small_dataset()
    (line,) = plan_warnings(many, aggregator, LINEAR, num_teachers=24)
    assert line.startswith(f"aggregator={type(aggregator).__name__}: names one label per query; any others")
    labels = np.arange(len(many.private))[:, None] % 5 == np.arange(5)
    one = dataclasses.replace(many, private=dataclasses.replace(many.private, labels=labels))
    assert not list(plan_warnings(one, aggregator, LINEAR, num_teachers=24))


def test_aggregators_for_many_labels_are_not_doubted() -> None:
    for aggregator in (PowersetGNMax(noise_std=1.0), FixedTopK(k=1, epsilon=1.0), PLAIN):
        assert not list(plan_warnings(small_dataset(), aggregator, LINEAR, num_teachers=24))
