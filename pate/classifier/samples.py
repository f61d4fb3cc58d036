"""The private records and the public samples of a fit, and the choice of public rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, IntArray
from pate.classifier.fit_warnings import PublicGroups
from pate.data.table.people import person_name, smallest_of_group
from pate.data.table.source_file import MISSING_WORDS
from pate.data.table.spelling import canonical_word
from pate.errors import users_stack_level
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_entries,
    require_probability,
)

# Whole numbers from here on may be rounded if they are stored as floats.
_FIRST_ROUNDED = 2**53
# The types of missing values of pandas.
_MISSING_TYPES = ("NAType", "NaTType")
_GROUP_RULE = "a group for each record, none missing"
_AT_LEAST_TWO = "at least 2, of which one is public"


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class Pools:
    """The private records and the public samples of a fit.

    Attributes:
        private_inputs: the private inputs: float32 `[num_private, num_features]`, or a sparse matrix, or a DataFrame.
        private_targets: the label bits of the private records, `[num_private, num_labels]`.
        private_group_ids: the id of each private record's group, `[num_private]`. Records of one group stay with one
            teacher.
        public_inputs: the public inputs: float32 `[num_public, num_features]`, or a sparse matrix, or a DataFrame.
        public_group_ids: the id of each public sample's group, `[num_public]`, public. Without estimators, votes are
            clipped to a length that is usual for groups as large as these.
        known_label_mask: which labels of the private records are known, `[num_private, num_labels]`, private; None if
            the labels have no gaps.
    """

    private_inputs: Any
    private_targets: BoolArray
    private_group_ids: IntArray
    public_inputs: Any
    public_group_ids: IntArray
    known_label_mask: BoolArray | None = None

    @property
    def num_groups(self) -> int:
        """The number of groups of private records; if each record is a group, the number of private records."""
        return len(np.unique(self.private_group_ids))

    @classmethod
    def cut(
        cls,
        inputs: Any,
        targets: BoolArray,
        *,
        groups: Any,
        public_inputs: Any,
        public_fraction: float | None,
        public_groups: Any = None,
        known_label_mask: BoolArray | None = None,
    ) -> Pools:
        """Divides inputs into private records and public samples.

        With `public_fraction`, the last groups are public, and groups are ordered by their first rows. Without groups,
        each row is a group. Which groups are public depends only on the number and the order of the groups. So neither
        that choice nor the number of public rows changes if a private person has fewer or more rows.

        Args:
            inputs: all inputs, `[num_rows, num_features]`.
            targets: their label bits, `[num_rows, num_labels]`.
            groups: the group of each row, `[num_rows]`; None for no groups.
            public_inputs: public samples `[num_public, num_features]`, beside which all `inputs` are private; None if
                a share of the inputs is public.
            public_fraction: the share of the groups that is public, taken from the end; None if `public_inputs` is
                passed.
            public_groups: the group of each public sample, `[num_public]`; None if each is a group of its own, or
                beside `public_fraction`, as `groups` then has the groups of public rows, too.
            known_label_mask: which label bits are known, `[num_rows, num_labels]`; None for all.

        Raises:
            InvalidValue: a group is missing, or `groups` has a wrong length. Both `public_inputs` and `public_fraction`
                are passed, or neither. A group is both private and public. With `public_fraction`, there are fewer than
                two groups.
        """
        num_rows = inputs.shape[0]
        group_ids = np.arange(num_rows)  # without groups, each row is a group
        if groups is not None:
            group_ids = _numbered_groups(_group_names("groups", groups, num_rows=num_rows))
        if (public_inputs is None) == (public_fraction is None):
            rule = "public samples, or public_fraction, which declares the last groups of X public; not both"
            raise InvalidValue("X_public", None if public_inputs is None else "given", rule=rule)
        if public_inputs is not None:
            return cls(
                private_inputs=inputs,
                private_targets=targets,
                private_group_ids=group_ids,
                public_inputs=public_inputs,
                public_group_ids=_public_group_ids(
                    public_inputs, public_groups=public_groups, private_groups=groups
                ),
                known_label_mask=known_label_mask,
            )
        if public_groups is not None:
            rule = "None beside public_fraction, as groups has the groups of public rows"
            raise InvalidValue("groups_public", "given", rule=rule)
        share_of_groups = require_probability("public_fraction", cast(float, public_fraction))
        private_rows: slice | IntArray
        public_rows: slice | IntArray
        if groups is None:
            first_public_row = _first_public_row(num_rows, public_share=share_of_groups)
            private_rows = slice(None, first_public_row)
            public_rows = slice(first_public_row, None)
        else:
            is_public = _rows_of_last_groups(group_ids, share_of_groups)
            private_rows = np.flatnonzero(~is_public)
            public_rows = np.flatnonzero(is_public)
        input_rows = getattr(inputs, "iloc", inputs)
        return cls(
            private_inputs=input_rows[private_rows],
            private_targets=targets[private_rows],
            private_group_ids=group_ids[private_rows],
            public_inputs=input_rows[public_rows],
            public_group_ids=group_ids[public_rows],
            known_label_mask=None if known_label_mask is None else known_label_mask[private_rows],
        )


def _public_group_ids(public_inputs: Any, *, public_groups: Any, private_groups: Any) -> IntArray:
    """Returns the id of each public sample's group, whole numbers from 0, `[num_public]`.

    Args:
        public_inputs: the public samples.
        public_groups: the group of each public sample; None if each is a group of its own.
        private_groups: the group of each private record; None for no groups.

    Raises:
        InvalidValue: public samples have groups, and private records have none; or a group has public samples and
            private records.
    """
    num_public = public_inputs.shape[0]
    if public_groups is None:
        return np.arange(num_public)
    if private_groups is None:
        rule = "None without groups, as then each row by itself is protected"
        raise InvalidValue("groups_public", "given", rule=rule)
    return disjoint_group_ids(
        "groups_public",
        public_groups,
        num_rows=num_public,
        other_groups_by_argument={"groups": private_groups},
    )


def _group_names(name: str, groups: Any, *, num_rows: int) -> NDArray[Any]:
    """Returns groups as an array of names or numbers, `[num_rows]`.

    Raises `InvalidValue` for another number of entries than `num_rows`, or for floats that may have been rounded.

    Args:
        name: the name of the parameter that holds the groups.
        groups: the group of each row.
        num_rows: the expected number of rows.
    """
    group_names = require_array(name, groups, dtype_kinds=None)
    if group_names.dtype.kind == "f" and bool((np.abs(group_names) >= _FIRST_ROUNDED).any()):
        if not isinstance(groups, list):
            rule = "integers or words, or floats below 2**53: larger ids are rounded, so that persons would become one"
            raise InvalidValue(f"{name}.dtype", group_names.dtype, rule=rule)
        # A list may hold integers, which numpy rounds if the list also holds a float.
        group_names = np.array(groups, dtype=object)
    if group_names.shape != (num_rows,):
        rule = f"({num_rows},), one group for each record"
        raise InvalidValue(f"{name}.shape", group_names.shape, rule=rule)
    return group_names


def disjoint_group_ids(
    name: str, groups: Any, *, num_rows: int, other_groups_by_argument: Mapping[str, Any]
) -> IntArray:
    """Returns the id of each row's group, whole numbers from 0, `[num_rows]`; refuses groups that other data have.

    Args:
        name: the name of the parameter that holds the groups.
        groups: the group of each row.
        num_rows: the number of rows.
        other_groups_by_argument: the groups of other parts of the data, such as the private records, by the names of
            their parameters.

    Raises:
        InvalidValue: a group is also in another part of the data, or a group cannot be read; see `_numbered_groups`.
    """
    group_names = _group_names(name, groups, num_rows=num_rows)
    group_ids = _numbered_groups(group_names, name=name)
    for other_argument, other_groups in other_groups_by_argument.items():
        other_group_names = _group_names(other_argument, other_groups, num_rows=len(other_groups))
        try:
            all_group_names = np.concatenate([other_group_names, group_names])
        except TypeError as error:  # numbers and dates have no common type
            rule = f"{other_group_names.dtype}, as {other_argument} has"
            raise InvalidValue(f"{name}.dtype", group_names.dtype, rule=rule) from error
        all_group_ids = _numbered_groups(all_group_names)
        num_others = len(other_group_names)
        num_shared = len(np.intersect1d(all_group_ids[:num_others], all_group_ids[num_others:]))
        if num_shared:
            rule = f"no group of {other_argument}, {num_shared} are in both"
            raise InvalidValue(name, rule=rule)
    return group_ids


def _numbered_groups(group_names: NDArray[Any], name: str = "groups") -> IntArray:
    """Returns the id of each row's group, whole numbers from 0, in ascending order of the groups' names, `[num_rows]`.

    Names that differ only in how they are spelled are one group: in capital letters, dashes or blanks, for example, or
    as 7 and 7.0 (`person_name`).

    Args:
        group_names: the name of each row's group, `[num_rows]`.
        name: the name of the parameter that holds the groups.

    Raises:
        InvalidValue: a group is missing (None, NaN, NaT or pandas.NA), or its name stands for a missing value (such as
            "NA" or "null") or has no visible character.
    """
    is_missing = np.zeros(len(group_names), np.bool_)
    if group_names.dtype.kind == "O":
        is_missing = np.array(
            [_is_missing_group(group) for group in group_names.tolist()], np.bool_
        )
        group_names = group_names.astype(np.str_)
    elif group_names.dtype.kind == "S":
        group_names = np.char.decode(group_names, "utf-8", "replace")
    elif group_names.dtype.kind in "fc":
        is_missing = np.isnan(group_names)
    elif group_names.dtype.kind in "mM":
        is_missing = np.isnat(group_names)
    if group_names.dtype.kind != "U":
        require_entries(name, ~is_missing, _GROUP_RULE)
        return _numbered(group_names)
    different_names, name_of_row = np.unique(group_names, return_inverse=True)
    canonical_words = np.array([canonical_word(word) for word in different_names.tolist()], np.str_)
    is_missing |= np.isin(canonical_words, MISSING_WORDS)[name_of_row]
    require_entries(name, ~is_missing, _GROUP_RULE)
    person_of_different_name = np.array(
        [person_name(word).casefold() for word in canonical_words.tolist()], np.str_
    )
    person_number_of_name = _numbered(person_of_different_name)
    word_number_of_name = _numbered(canonical_words)
    group_of_name = smallest_of_group(person_number_of_name, value_of_row=word_number_of_name)
    return _numbered(group_of_name[name_of_row])


def _is_missing_group(group: Any) -> bool:
    """Returns True for None, NaN, NaT and pandas.NA."""
    return group is None or type(group).__name__ in _MISSING_TYPES or bool(group != group)


def _numbered(values: NDArray[Any]) -> IntArray:
    """Returns the rank of each value among the distinct values in ascending order, `[num_values]`, from 0."""
    _, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64)


def _first_public_row(num_rows: int, public_share: float) -> int:
    """Returns the index of the first public row; it and all later rows are public.

    The number of public rows is `public_share` of all rows, rounded down, but at least one. With fewer than two rows,
    `InvalidValue` is raised.
    """
    require(num_rows > 1, "n_samples", num_rows, _AT_LEAST_TWO)
    return num_rows - max(int(public_share * num_rows), 1)


def _rows_of_last_groups(group_ids: IntArray, share_of_groups: float) -> BoolArray:
    """Returns True for each row of the last groups, bool `[num_rows]`; groups are ordered by their first rows.

    At least one group is among the last ones. If one of them has no row within the same share of the rows, counted
    from the end, a warning is given: a user who counts rows would take that group for private.

    Args:
        group_ids: the id of each row's group, 0, 1, …, `[num_rows]`.
        share_of_groups: the share of the groups that counts as last, rounded down.
    """
    _, first_row_of_group = np.unique(group_ids, return_index=True)  # ids are 0, 1, …
    num_groups = len(first_row_of_group)
    require(num_groups > 1, "groups", num_groups, _AT_LEAST_TWO)
    num_public = max(int(share_of_groups * num_groups), 1)
    last_group_ids = np.argsort(first_row_of_group)[-num_public:]
    is_public = np.isin(group_ids, last_group_ids)
    num_public_if_share_of_rows = max(int(share_of_groups * len(group_ids)), 1)
    unexpected_group_ids = np.setdiff1d(last_group_ids, group_ids[-num_public_if_share_of_rows:])
    if len(unexpected_group_ids):
        line = (
            f"public_fraction={share_of_groups}: it counts groups, and {num_public} of {num_groups} groups are public; "
            f"{len(unexpected_group_ids)} of them have no row in the last {share_of_groups:.0%} of the rows"
        )
        warnings.warn(line, PublicGroups, stacklevel=users_stack_level())
    return is_public
