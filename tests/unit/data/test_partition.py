import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pate.data import Partition, Split
from tests.refusals import Refusal, refused_parameter


def split(group_ids: list[int], record_ids: list[int] | None = None) -> Split:
    """Returns a split of zeros with the given groups; record ids are 100, 101 and so on unless they are given."""
    if record_ids is None:
        record_ids = list(range(100, 100 + len(group_ids)))
    return Split(
        inputs=np.zeros((len(group_ids), 1), np.float32),
        labels=np.zeros((len(group_ids), 1), np.bool_),
        record_ids=np.array(record_ids, dtype=np.int64),
        group_ids=np.array(group_ids, dtype=np.int64),
    )


def partition(teacher_of: list[int], num_teachers: int) -> Partition:
    """Returns the partition in which each record has the given teacher."""
    return Partition(teacher_of=np.array(teacher_of, dtype=np.int64), num_teachers=num_teachers)


def test_draw_keeps_groups_whole_and_balances_group_counts() -> None:
    """A random partition of 50 groups among 7 teachers divides no group; teachers differ by at most one group."""
    groups = np.repeat(np.arange(50, dtype=np.int64) * 3, np.arange(50) % 4 + 1)
    drawn_partition = Partition.draw(groups, num_teachers=7, rng=np.random.default_rng(0))
    drawn_partition.verify(split(group_ids=groups.tolist()))
    group_counts_of_teachers = [
        len(set(groups[drawn_partition.indices(teacher)].tolist())) for teacher in range(7)
    ]
    assert sum(group_counts_of_teachers) == 50
    assert max(group_counts_of_teachers) - min(group_counts_of_teachers) == 1


def test_draw_does_not_depend_on_group_sizes() -> None:
    """If a group is replaced by a group of another size, all other groups keep their teachers."""
    small = Partition.draw(
        np.array([0, 1, 2, 3, 4, 5]), num_teachers=3, rng=np.random.default_rng(5)
    )
    grown = Partition.draw(
        np.array([0, 1, 2, 2, 2, 2, 3, 4, 5]), num_teachers=3, rng=np.random.default_rng(5)
    )
    assert small.teacher_of.tolist() == grown.teacher_of[[0, 1, 2, 6, 7, 8]].tolist()


def test_draw_is_uniform_over_teachers() -> None:
    """Over 3,000 draws of 6 groups among the teachers 0, 1 and 2, each group's mean teacher is 1 within 0.075."""
    rng = np.random.default_rng(2)
    mean_teacher = (
        sum(Partition.draw(np.arange(6), num_teachers=3, rng=rng).teacher_of for _ in range(3000))
        / 3000
    )
    # each mean of 3000 draws of a uniform teacher in {0, 1, 2} has standard deviation 0.015
    assert np.abs(mean_teacher - 1.0).max() < 0.075


def test_more_teachers_than_groups_are_refused() -> None:
    """Three groups can have three teachers, but not four, and not zero."""
    groups = np.array([4, 4, 9, 2])
    rng = np.random.default_rng(0)
    assert Partition.draw(groups, num_teachers=3, rng=rng).sizes().min() == 1
    with refused_parameter(
        "num_teachers", value=4, rule_words="at most 3, the number of private groups"
    ):
        Partition.draw(groups, num_teachers=4, rng=rng)
    with refused_parameter("num_teachers", value=0, rule_words="a whole number >= 1"):
        Partition.draw(groups, num_teachers=0, rng=rng)


def test_indices_and_sizes_match_hand_computed_values() -> None:
    """The indices and sizes of four records with the teachers 1, 0, 1 and 2 are as computed by hand.

    Teacher 3 is refused.
    """
    partition_of_four_records = partition(teacher_of=[1, 0, 1, 2], num_teachers=3)
    assert partition_of_four_records.indices(teacher=1).tolist() == [0, 2]
    assert partition_of_four_records.sizes().tolist() == [1, 2, 1]
    with refused_parameter("teacher", value=3, rule_words="at most 2"):
        partition_of_four_records.indices(teacher=3)


def test_impossible_assignments_are_refused() -> None:
    """Teachers out of range, of another type, or in an array of another shape are refused."""
    teacher_beyond_last = np.array([0, 3])
    with refused_parameter("teacher_of", value=3):
        Partition(teacher_of=teacher_beyond_last, num_teachers=2)
    negative_teacher = np.array([-1, 0])
    with refused_parameter("teacher_of", value=-1):
        Partition(teacher_of=negative_teacher, num_teachers=2)
    fractional_teachers: Any = np.array([0.0, 1.0])
    with refused_parameter("teacher_of.dtype", value="float64"):
        Partition(teacher_of=fractional_teachers, num_teachers=2)
    teachers_in_a_matrix = np.zeros((2, 2), np.int64)
    with refused_parameter("teacher_of.shape", value=(2, 2)):
        Partition(teacher_of=teachers_in_a_matrix, num_teachers=2)
    no_teachers = np.zeros(0, np.int64)
    with refused_parameter("teacher_of.shape", value=(0,)):
        Partition(teacher_of=no_teachers, num_teachers=2)


@pytest.mark.parametrize(
    ("made", "pool", "refusal"),
    [
        (
            partition(teacher_of=[0, 1, 1], num_teachers=2),
            split(group_ids=[1, 2, 3], record_ids=[7, 8, 7]),
            refused_parameter("record_ids", rule_words="found two"),
        ),
        (
            partition(teacher_of=[0, 1, 1], num_teachers=2),
            split(group_ids=[5, 6, 5]),
            refused_parameter("group_ids", rule_words="found two, in rows 0 and 2"),
        ),
        (
            partition(teacher_of=[0, 1], num_teachers=2),
            split(group_ids=[1, 2, 3]),
            refused_parameter("len(teacher_of)", value=2),
        ),
        (
            partition(teacher_of=[0, 2, 2], num_teachers=3),
            split(group_ids=[1, 2, 3]),
            refused_parameter("teacher", value=1),
        ),
    ],
)
def test_verify_refuses_an_invalid_partition(
    made: Partition, pool: Split, refusal: Refusal
) -> None:
    """A partition that divides a group or record, leaves a teacher without records or has too few rows is refused.

    It is refused when it is verified, and when it is written.
    """
    with refusal:
        made.verify(split=pool)
    with refusal:
        made.to_json(split=pool)


def test_manifest_does_not_depend_on_the_order_of_records() -> None:
    """A partition that was written for records can be read for the same records in another order.

    Each record keeps its teacher.
    """
    text = partition(teacher_of=[0, 0, 1, 2], num_teachers=3).to_json(
        split(group_ids=[5, 5, 6, 7], record_ids=[10, 11, 12, 13])
    )
    back = Partition.from_json(
        text, split=split(group_ids=[7, 5, 6, 5], record_ids=[13, 11, 12, 10])
    )
    assert back.teacher_of.tolist() == [2, 0, 1, 0]


def set_item(name: str, row: int, value: Any) -> Callable[[dict[str, Any]], None]:
    """Returns a function that replaces the entry of a row in one list of a manifest."""

    def replace_entry(manifest: dict[str, Any]) -> None:
        manifest[name][row] = value

    return replace_entry


def claim_four_teachers(manifest: dict[str, Any]) -> None:
    """Sets the number of teachers in a manifest to four."""
    manifest["num_teachers"] = 4


def drop_group_ids(manifest: dict[str, Any]) -> None:
    """Removes the list of group ids from a manifest."""
    del manifest["group_ids"]


def drop_last_teacher(manifest: dict[str, Any]) -> None:
    """Removes the teacher of the last row from a manifest."""
    manifest["teachers"].pop()


@pytest.mark.parametrize(
    ("tamper", "refusal"),
    [
        (
            set_item(name="teachers", row=0, value=2),
            refused_parameter("manifest.sha256", value="another"),
        ),
        (
            claim_four_teachers,
            refused_parameter("manifest.sha256", value="another"),
        ),
        (
            set_item(name="record_ids", row=0, value=101),
            refused_parameter("manifest.sha256", value="another"),
        ),
        (
            set_item(name="teachers", row=0, value=0.5),
            refused_parameter("manifest", value="TypeError"),
        ),
        (
            set_item(name="teachers", row=0, value=2**70),
            refused_parameter("manifest", value="OverflowError"),
        ),
        (
            drop_group_ids,
            refused_parameter("manifest", value="KeyError"),
        ),
        (drop_last_teacher, refused_parameter("manifest.sha256", value="another")),
    ],
)
def test_a_tampered_manifest_is_refused(
    tamper: Callable[[dict[str, Any]], None], refusal: Refusal
) -> None:
    """A written partition with one changed or removed entry is refused when it is read."""
    private_split = split(group_ids=[5, 5, 6, 7])
    manifest = json.loads(partition(teacher_of=[0, 0, 1, 2], num_teachers=3).to_json(private_split))
    tamper(manifest)
    with refusal:
        Partition.from_json(json.dumps(manifest), split=private_split)


def test_a_manifest_of_other_records_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A written partition is refused if it is cut off, or read for other, fewer or more records.

    A partition with a teacher without records is refused too.
    """
    text = partition(teacher_of=[0, 1], num_teachers=2).to_json(split(group_ids=[5, 6]))
    with refused_parameter("manifest", value="JSONDecodeError"):
        Partition.from_json(text[:-5], split=split(group_ids=[5, 6]))
    for other_split in (
        split(group_ids=[5, 9]),
        split(group_ids=[5]),
        split(group_ids=[5, 6, 7]),
        split(group_ids=[5, 6], record_ids=[3, 4]),
    ):
        with refused_parameter("manifest", value="others"):
            Partition.from_json(text, other_split)
    private_split = split(group_ids=[5, 6, 7])
    with monkeypatch.context() as unchecked:
        unchecked.setattr(Partition, "verify", lambda self, split: None)
        text = partition(teacher_of=[0, 0, 2], num_teachers=3).to_json(private_split)
    with refused_parameter("teacher", value=1):
        Partition.from_json(text, split=private_split)
