"""The plan of a run with labels of public rows, from which the student starts: the labels, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pate.aggregators import Aggregator, CenteredVotes, GNMax
from pate.data import Dataset, Split
from pate.models import KernelTeacher, LinearTeacher, LowRankStudent, SequentialEngine
from pate.progress import Monitor
from pate.run.plan import Plan
from pate.votes.labeled_rows import LabeledRows
from pate.votes.shape import VoteShape
from tests.refusals import refused_parameter

ROUNDS = CenteredVotes(noise_multiplier=5.0, rounds=2)


def random_split(num_rows: int, first_id: int, *, labeled: bool = True, known: Any = None) -> Split:
    """Returns random records with two labels.

    Args:
        num_rows: the number of records.
        first_id: the id of the first record, which seeds the draw.
        labeled: whether records have labels; if not, every label is False.
        known: the mask of the labels that are known, `[num_rows, 2]`, beside which `labeled` is not read; None where
            all labels are known.
    """
    rng = np.random.default_rng(first_id)
    labels = rng.random((num_rows, 2)) < 0.5
    numbers = np.arange(num_rows) + first_id
    return Split(
        inputs=rng.normal(size=(num_rows, 3)).astype(np.float32),
        labels=labels & labeled if known is None else labels & known,
        record_ids=numbers,
        group_ids=numbers,
        known=known,
    )


def dataset_of_pool(public: Split | None = None) -> Dataset:
    """Returns a data set of 300 private records and the records `public`, by default 20 random ones."""
    return Dataset(
        name="made up",
        real=False,
        kind="features",
        label_names=("a", "b"),
        private=random_split(num_rows=300, first_id=0),
        public=random_split(num_rows=20, first_id=1000) if public is None else public,
        test=random_split(num_rows=10, first_id=2000),
    )


def plan_with(public_labels_setting: Any, aggregator: Aggregator = ROUNDS) -> Plan:
    """Returns a plan of centered votes of all private groups.

    Args:
        public_labels_setting: the number of public rows from whose labels the student starts; True for all, None for
            none.
        aggregator: the aggregator, by default centered votes in two rounds.
    """
    return Plan(
        load_dataset=dataset_of_pool,
        teacher=KernelTeacher(),
        num_teachers=None,
        engine=SequentialEngine(),
        student=LowRankStudent(),
        aggregator=aggregator,
        target_epsilon=1.0,
        target_delta=1e-6,
        num_queries=20,
        num_public_labels=public_labels_setting,
    )


def start_labels(public_labels_setting: Any, public: Split | None = None) -> Any:
    """Returns the labels from which the student of a plan starts; None if it starts without labels."""
    planned = plan_with(public_labels_setting=public_labels_setting).for_dataset(
        dataset_of_pool(public=public), monitor=Monitor()
    )
    assert isinstance(planned.aggregator, CenteredVotes)
    start = planned.aggregator.start
    assert start is None or isinstance(start, LabeledRows)
    return None if start is None else start.labels


@pytest.mark.parametrize(
    ("public_labels_setting", "num_labeled"), [(True, 20), (20, 20), (7, 7), (1, 1)]
)
def test_the_student_begins_at_the_labels_of_the_first_rows(
    public_labels_setting: Any, num_labeled: int
) -> None:
    """With `true`, the student starts from the labels of all public rows, and with a number from the first ones."""
    np.testing.assert_array_equal(
        start_labels(public_labels_setting=public_labels_setting),
        dataset_of_pool().public.labels[:num_labeled],
    )


@pytest.mark.parametrize("public_labels_setting", [None, False])
def test_without_the_setting_the_student_has_no_public_start(public_labels_setting: Any) -> None:
    """null and false leave the aggregator without a start."""
    assert start_labels(public_labels_setting=public_labels_setting) is None


def test_unknown_labels_of_public_rows_stay_unknown() -> None:
    """A label that is not known of a public row is -1, whatever the array of labels has there."""
    known = np.ones((20, 2), np.bool_)
    known[3, 1] = False
    labels = start_labels(
        public_labels_setting=True, public=random_split(num_rows=20, first_id=1000, known=known)
    )
    assert labels.dtype == np.int8
    assert labels[3, 1] == -1
    assert np.count_nonzero(labels == -1) == 1


@pytest.mark.parametrize("public_labels_setting", [0, 21, -1, 2.5, "all"])
def test_impossible_number_of_labeled_rows_is_refused(public_labels_setting: Any) -> None:
    """For a pool of 20 rows, the settings 0, 21, -1, 2.5 and "all" are refused.

    A number must be whole, from 1 to 20.
    """
    with refused_parameter(
        "data.public_labels", value=public_labels_setting, rule_words="from 1 to 20"
    ):
        plan_with(public_labels_setting=public_labels_setting).for_dataset(
            dataset_of_pool(), monitor=Monitor()
        )


def test_a_pool_without_labels_is_refused() -> None:
    """Public labels are refused as a start if the pool has none."""
    unlabeled = dataset_of_pool(public=random_split(num_rows=20, first_id=1000, labeled=False))
    with refused_parameter(
        "data.public_labels", value=True, rule_words="a public pool with labels"
    ):
        plan_with(public_labels_setting=True).for_dataset(unlabeled, monitor=Monitor())


@pytest.mark.parametrize(
    "aggregator",
    [
        replace(ROUNDS, rounds=1),
        replace(ROUNDS, clip=1.0),
        replace(ROUNDS, rounds=None, recipe={"fewest_teachers_in_rounds": 301}),
    ],
)
def test_votes_that_are_cast_once_are_refused(aggregator: CenteredVotes) -> None:
    """Public labels are refused for centered votes that are cast at once, which have no student to start from them."""
    with refused_parameter("data.public_labels", value=5, rule_words="centered votes in rounds"):
        plan_with(public_labels_setting=5, aggregator=aggregator).for_dataset(
            dataset_of_pool(), monitor=Monitor()
        )


def test_other_aggregators_are_refused() -> None:
    """Public labels are refused for an aggregator without rounds, which has no student that could start from them."""
    teacher = LinearTeacher()
    counted = replace(
        plan_with(public_labels_setting=5),
        aggregator=GNMax(noise_std=40.0),
        teacher=teacher,
        num_teachers=300,
    )
    with refused_parameter("data.public_labels", value=5, rule_words="centered votes in rounds"):
        counted.for_dataset(dataset_of_pool(), monitor=Monitor())


def test_other_public_labels_are_another_release() -> None:
    """The identity of a release depends on the labels from which its student starts."""
    shape = VoteShape(num_queries=20, num_labels=2, num_teachers=300)
    plans = [
        plan_with(public_labels_setting=public_labels_setting).for_dataset(
            dataset_of_pool(), monitor=Monitor()
        )
        for public_labels_setting in (None, 5, 6)
    ]
    assert len({planned.aggregator.identity(shape) for planned in plans}) == 3
