"""The division of the records of a fit into private records and public samples, and the numbers of their groups."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pate.classifier.fit_warnings import PublicGroups
from pate.classifier.samples import Pools
from pate.validation import InvalidValue
from tests.refusals import Refusal, refused_parameter

# Ten records with one feature, the number of the record, and one label.
INPUTS = np.arange(10, dtype=np.float32)[:, None]
TARGETS = INPUTS > 4


@pytest.mark.parametrize(
    ("public_fraction", "num_public"), [(0.3, 3), (0.39, 3), (0.01, 1), (0.99, 9)]
)
def test_the_last_rows_are_declared_public(public_fraction: float, num_public: int) -> None:
    """`public_fraction` declares the last of ten rows public; their number is rounded down, but at least one."""
    num_private = 10 - num_public
    pools = Pools.cut(
        inputs=INPUTS,
        targets=TARGETS,
        groups=None,
        public_inputs=None,
        public_fraction=public_fraction,
    )
    np.testing.assert_array_equal(pools.private_inputs, INPUTS[:num_private])
    np.testing.assert_array_equal(pools.private_targets, TARGETS[:num_private])
    np.testing.assert_array_equal(pools.public_inputs, INPUTS[num_private:])


@pytest.mark.parametrize(
    ("groups", "group_numbers"),
    [
        (np.array([7, 7, "7", "b", "b", 1, 1, 1, "c", "c"], object), [1, 1, 1, 2, 2, 0, 0, 0]),
        (list("bbaabbccdd"), [1, 1, 0, 0, 1, 1, 2, 2]),
        (list("BbaAbBcCdd"), [1, 1, 0, 0, 1, 1, 2, 2]),
        (["{A@x}", "a@X", " a@x", "P\u20137", "P-7", "p-7", *"ccdd"], [1, 1, 1, 0, 0, 0, 2, 2]),
    ],
    ids=["numbers and texts", "letters", "letters of both cases", "blanks and dashes"],
)
def test_groups_of_any_type_are_numbered(groups: Any, group_numbers: list[int]) -> None:
    """Groups of any type are numbered in sorted order.

    Names that differ in case, blanks, braces or dashes are one group.
    """
    pools = Pools.cut(
        inputs=INPUTS, targets=TARGETS, groups=groups, public_inputs=None, public_fraction=0.2
    )
    assert pools.private_group_ids.tolist() == group_numbers


@pytest.mark.parametrize(
    ("groups", "public_fraction", "message"),
    [
        (None, None, "X_public=None: expected public samples, or public_fraction"),
        (None, 1.0, r"public_fraction=1.0: expected a number in \(0, 1\)"),
        (list("aaaaaaaaaa"), 0.3, r"groups=1: expected at least 2, of which one is public"),
        (
            [*"aabbccdd", None, None],
            0.3,
            r"groups\[\d\]: expected a group for each record, none missing",
        ),
        (
            [*"aabbccdd", np.nan, "e"],
            0.3,
            r"groups\[\d\]: expected a group for each record, none missing",
        ),
        ([*range(9), np.nan], 0.3, r"groups\[\d\]: expected a group for each record, none missing"),
        *(
            (
                [*"aabbccdd", missing, missing],
                0.3,
                r"groups\[8\]: expected a group for each record, none missing",
            )
            for missing in (
                pd.NA,
                pd.NaT,
                np.datetime64("NaT"),
                Decimal("NaN"),
                "",
                " ",
                "\u200b",
                "NaN",
                "NULL",
                "<NA>",
            )
        ),
        (
            pd.Series([*range(9), None], dtype="Int64"),
            0.3,
            r"groups\[9\]: expected a group for each record",
        ),
        (
            pd.Series([*"aaaaaaaaa", None], dtype="string"),
            0.3,
            r"groups\[9\]: expected a group for each record",
        ),
        (
            pd.Series([*"aaaaaaaaa", None], dtype="category"),
            0.3,
            r"groups\[9\]: expected a group for each record",
        ),
        (
            np.array(["2025-01-01"] * 9 + ["NaT"], "M8[D]"),
            0.3,
            r"groups\[9\]: expected a group for each record",
        ),
        (
            np.array([b"a"] * 9 + [b""]),
            0.3,
            r"groups\[9\]: expected a group for each record, none missing",
        ),
        (list("aabb"), 0.3, r"groups.shape=\(4,\): expected \(10,\), one group for each record"),
    ],
)
def test_pools_that_cannot_be_cut_are_refused(
    groups: Any, public_fraction: float | None, message: str
) -> None:
    """`Pools.cut` refuses to cut records into private and public ones in each case here, with a message of its own.

    There are neither public samples nor a public fraction, the fraction is 1, or there is one group alone. Or the list
    of groups lacks a group, or has four entries for ten records.
    """
    with pytest.raises(InvalidValue, match=message):
        Pools.cut(
            inputs=INPUTS,
            targets=TARGETS,
            groups=groups,
            public_inputs=None,
            public_fraction=public_fraction,
        )


def pools_with_private_person(num_rows_of_person: int) -> Pools:
    """Returns the private and public records of 100 people; person 8, who is private, has `num_rows_of_person` rows.

    Everybody else has 10 rows. The input of a row is the number of its person.
    """
    rows_of_person = np.full(100, 10)
    rows_of_person[8] = num_rows_of_person
    people = np.repeat(np.arange(100), repeats=rows_of_person)
    return Pools.cut(
        inputs=people[:, None].astype(np.float32),
        targets=people[:, None] > 50,
        groups=people,
        public_inputs=None,
        public_fraction=0.3,
    )


@pytest.mark.parametrize("num_rows_of_person", [1, 8, 10, 300])
def test_the_number_of_public_rows_does_not_depend_on_private_rows(num_rows_of_person: int) -> None:
    """The public rows are those of the last 30 of 100 people, whether a private person has 1 row or 300."""
    pools = pools_with_private_person(num_rows_of_person=num_rows_of_person)
    assert pools.public_inputs[:, 0].tolist() == np.repeat(np.arange(70, 100), repeats=10).tolist()
    assert len(pools.private_inputs) == 690 + num_rows_of_person


def test_all_rows_of_a_public_group_are_public() -> None:
    """All rows of the groups c and d, the last half of four groups, are public at whatever position they stand."""
    pools = Pools.cut(
        inputs=INPUTS,
        targets=TARGETS,
        groups=list("aabcbdcada"),
        public_inputs=None,
        public_fraction=0.5,
    )
    assert pools.private_inputs[:, 0].tolist() == [0, 1, 2, 4, 7, 9]
    assert pools.public_inputs[:, 0].tolist() == [3, 5, 6, 8]
    assert pools.private_group_ids.tolist() == [0, 0, 1, 1, 0, 0]


def test_public_groups_without_a_row_at_the_end_give_a_warning() -> None:
    """A warning counts the public groups that have no row in the last half of the rows.

    With `public_fraction`, the last half of the groups is public, in the order of their first rows.
    """
    message = (
        r"public_fraction=0\.5: it counts groups, and 2 of 4 groups are public; "
        r"1 of them have no row in the last 50%"
    )
    with pytest.warns(PublicGroups, match=message):
        Pools.cut(
            inputs=INPUTS,
            targets=TARGETS,
            groups=list("abcddddddd"),
            public_inputs=None,
            public_fraction=0.5,
        )


def test_a_single_row_cannot_be_divided() -> None:
    """One row cannot be cut into private and public samples, and is refused."""
    with refused_parameter("n_samples", value=1, rule_words="at least 2"):
        Pools.cut(
            inputs=INPUTS[:1],
            targets=TARGETS[:1],
            groups=None,
            public_inputs=None,
            public_fraction=0.5,
        )


def test_public_groups_are_numbered_apart_from_private_groups() -> None:
    """Private and public groups are numbered from 0 each, in the order of their names."""
    targets = np.zeros((4, 1), np.bool_)
    inputs = np.zeros((4, 1), np.float32)
    pools = Pools.cut(
        inputs=inputs,
        targets=targets,
        groups=["ann", "ann", "ben", "Ben"],
        public_inputs=inputs[:3],
        public_fraction=None,
        public_groups=["eve", "dan", "dan"],
    )
    assert pools.private_group_ids[0] == 1, "ann is behind Ben"
    assert pools.private_group_ids[2] == 0
    assert pools.num_groups == 2
    assert pools.public_group_ids.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("groups", "public_groups", "refusal"),
    [
        (["ann", "ben"], ["ANN", "eve"], refused_parameter("groups_public", rule_words="no group")),
        (
            ["ann", "ben"],
            ["eve", ""],
            refused_parameter("groups_public[1]", rule_words="a group for"),
        ),
        (["ann", "ben"], ["eve"], refused_parameter("groups_public.shape", value=(1,))),
        (None, ["eve", "dan"], refused_parameter("groups_public", value="given")),
        (
            np.array([1, 2]),
            np.array(["2020", "2021"], "M8[Y]"),
            refused_parameter("groups_public.dtype", value="datetime64[Y]"),
        ),
    ],
    ids=["private group", "missing group", "too few", "no private groups", "other type"],
)
def test_public_groups_that_cannot_be_used_are_refused(
    groups: Any, public_groups: Any, refusal: Refusal
) -> None:
    """Public groups that are private, missing, too few, of another type or without private groups are refused."""
    inputs = np.zeros((2, 1), np.float32)
    with refusal:
        Pools.cut(
            inputs=inputs,
            targets=np.zeros((2, 1), np.bool_),
            groups=groups,
            public_inputs=inputs,
            public_fraction=None,
            public_groups=public_groups,
        )
