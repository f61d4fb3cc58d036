"""The private records and the public samples of a fit, and the choice of public rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, Float32Array, IntArray
from pate.classifier.fit_warnings import PublicGroups
from pate.data.table.people import person_name, smallest_of_group
from pate.data.table.source_file import MISSING_WORDS
from pate.data.table.spelling import canonical_word
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_entries,
    require_probability,
)

_LARGEST_EXACT = 2**53  # from which on a float does not hold each whole number
_MISSING_TYPES = ("NAType", "NaTType")  # of pandas
_GROUP_RULE = "a group for each record, none missing"
_AT_LEAST_TWO = "at least 2, of which one is public"


@dataclass(frozen=True, eq=False)
class Pools:
    """The private records and the public samples of a fit."""

    inputs: Float32Array  # private, float32 `[n, d]`, or a sparse matrix, or a DataFrame
    targets: BoolArray  # private, `[n, L]`
    groups: IntArray  # `[n]`: records of one group stay with one teacher
    public: Float32Array  # the public samples, float32 `[P, d]`, or a sparse matrix, or a DataFrame
    public_groups: IntArray  # `[P]`, public: how many samples a group has on average
    known: BoolArray | None = (
        None  # private, `[n, L]`, which labels are known; None if y has no gaps
    )

    @property
    def num_groups(self) -> int:
        """The number of groups of private records; without groups, the number of private records."""
        return len(np.unique(self.groups))

    @classmethod
    def cut(
        cls,
        inputs: Float32Array,
        targets: BoolArray,
        groups: Any,
        public: Float32Array | None,
        fraction: float | None,
        *,
        public_groups: Any = None,
        known: BoolArray | None = None,
    ) -> Pools:
        """Divides inputs into private records and public samples.

        Groups are ordered by their first rows. Without groups, each row is a group. The choice of public groups, and
        the number of public rows, depend only on the number and the order of the groups. So neither changes if a
        private person has fewer or more rows.

        Args:
            inputs: all inputs, `[num_rows, num_features]`.
            targets: their label bits, `[num_rows, num_labels]`.
            groups: the group of each row, `[num_rows]`; None for no groups.
            public: public samples `[num_public, num_features]`, beside which all `inputs` are private; None if a share
                of the inputs is public.
            fraction: the share of the groups that is public, taken from the end; None if `public` is passed.
            public_groups: the group of each public sample, `[num_public]`; None if each is a group of its own, or if
                `groups` tells it.
            known: which label bits are known, `[num_rows, num_labels]`; None for all.

        Raises:
            InvalidValue: a group is missing, or `groups` has a wrong length. Both `public` and `fraction` are passed,
                or neither. A group is both private and public.
        """
        num_rows = inputs.shape[0]
        group_ids = np.arange(num_rows)  # without groups every record is one
        if groups is not None:
            group_ids = _numbered_groups(_group_names("groups", groups, num_rows=num_rows))
        rule = "public samples, or public_fraction, which declares the last groups of X public; not both"
        value = None if public is None else "given"
        require((public is None) != (fraction is None), "X_public", value, rule)
        if public is not None:
            public_ids = np.arange(public.shape[0])
            if public_groups is not None:
                rule = "None without groups, as then each row by itself is protected"
                require(groups is not None, "groups_public", "given", rule)
                public_ids = numbered_apart(
                    "groups_public",
                    public_groups,
                    num_rows=public.shape[0],
                    others={"groups": groups},
                )
            return cls(
                inputs=inputs,
                targets=targets,
                groups=group_ids,
                public=public,
                public_groups=public_ids,
                known=known,
            )
        rule = "None beside public_fraction, as groups has the groups of public rows"
        require(public_groups is None, "groups_public", "given", rule)
        share = require_probability("public_fraction", cast(float, fraction))
        if groups is None:
            require(num_rows > 1, "n_samples", num_rows, _AT_LEAST_TWO)
            first_public = num_rows - max(int(share * num_rows), 1)
            return cls(
                inputs=inputs[:first_public],
                targets=targets[:first_public],
                groups=group_ids[:first_public],
                public=inputs[first_public:],
                public_groups=group_ids[first_public:],
                known=None if known is None else known[:first_public],
            )
        is_public = _rows_of_last_groups(group_ids, share)
        rows = getattr(inputs, "iloc", inputs)
        private_rows = np.flatnonzero(~is_public)
        public_rows = np.flatnonzero(is_public)
        return cls(
            inputs=rows[private_rows],
            targets=targets[private_rows],
            groups=group_ids[private_rows],
            public=rows[public_rows],
            public_groups=group_ids[public_rows],
            known=None if known is None else known[private_rows],
        )


def _group_names(name: str, groups: Any, *, num_rows: int) -> NDArray[Any]:
    """Returns groups as an array `[num_rows]`; raises `InvalidValue` if the length is another.

    Args:
        name: the name of the parameter that holds the groups.
        groups: the group of each row.
        num_rows: the number of rows.
    """
    group_names = require_array(name, groups, dtype_kinds=None)
    if group_names.dtype.kind == "f" and bool((np.abs(group_names) >= _LARGEST_EXACT).any()):
        if not isinstance(groups, list):
            rule = "ids below 2**53 as floats: larger ids are rounded, and persons would become one; integers or words"
            raise InvalidValue(f"{name}.dtype", group_names.dtype, rule=rule)
        group_names = np.array(
            groups, dtype=object
        )  # read element by element, as floats would round ids
    rule = f"({num_rows},), one group for each record"
    require(group_names.shape == (num_rows,), f"{name}.shape", group_names.shape, rule)
    return group_names


def numbered_apart(name: str, groups: Any, *, num_rows: int, others: Mapping[str, Any]) -> IntArray:
    """Returns the numbers of groups that share none with other parts of the data, `[num_rows]`.

    Args:
        name: the name of the parameter that holds the groups.
        groups: the group of each row.
        num_rows: the number of rows.
        others: the groups of the other parts, by the names of their parameters.

    Raises:
        InvalidValue: a group is also in another part.
    """
    group_names = _group_names(name, groups, num_rows=num_rows)
    numbers = _numbered_groups(group_names, name=name)
    for other_name, other_groups in others.items():
        other_names = _group_names(other_name, other_groups, num_rows=len(other_groups))
        try:
            names = np.concatenate([other_names, group_names])
        except TypeError as error:  # numbers and dates have no common type
            rule = f"{other_names.dtype}, as {other_name} has"
            raise InvalidValue(f"{name}.dtype", group_names.dtype, rule=rule) from error
        common_ids = _numbered_groups(names)
        num_others = len(other_names)
        num_shared = len(np.intersect1d(common_ids[:num_others], common_ids[num_others:]))
        if num_shared:
            rule = f"no group of {other_name}, {num_shared} are in both"
            raise InvalidValue(name, rule=rule)
    return numbers


def _numbered_groups(group_names: NDArray[Any], name: str = "groups") -> IntArray:
    """Returns the number of each row's group, `[num_rows]`, with groups numbered in ascending order.

    Names that differ only in capital letters are one group.

    Args:
        group_names: the name of each row's group, `[num_rows]`.
        name: the name of the parameter that holds the groups.

    Raises:
        InvalidValue: a group is missing (None, NaN, NaT or pandas.NA), or its name has no visible character.
    """
    missing = np.zeros(len(group_names), np.bool_)
    if group_names.dtype.kind == "O":
        missing = np.array(
            [
                name is None or type(name).__name__ in _MISSING_TYPES or name != name
                for name in group_names.tolist()
            ]
        )
        group_names = group_names.astype(np.str_)
    elif group_names.dtype.kind == "S":
        group_names = np.char.decode(group_names, "utf-8", "replace")
    elif group_names.dtype.kind in "fc":
        missing = np.isnan(group_names)
    elif group_names.dtype.kind in "mM":
        missing = np.isnat(group_names)
    if group_names.dtype.kind != "U":
        require_entries(name, ~missing, _GROUP_RULE)
        return _numbered(group_names)
    words, word_of_row = np.unique(group_names, return_inverse=True)
    spelled = np.array([canonical_word(word) for word in words.tolist()], np.str_)
    missing |= np.isin(spelled, MISSING_WORDS)[word_of_row]
    require_entries(name, ~missing, _GROUP_RULE)
    persons = np.array([person_name(word).casefold() for word in spelled.tolist()], np.str_)
    group_of_word = smallest_of_group(_numbered(persons), number_of_row=_numbered(spelled))
    return _numbered(group_of_word[word_of_row])


def _numbered(values: NDArray[Any]) -> IntArray:
    """Returns the rank of each value among the distinct values in ascending order, `[num_values]`, from 0."""
    _, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64)


def _rows_of_last_groups(group_ids: IntArray, share: float) -> BoolArray:
    """Returns True for each row of the last groups, bool `[num_rows]`; groups are ordered by their first rows.

    A warning is given if such a group has no row within the last share of the rows. A user who counts rows would take
    that group for private.

    Args:
        group_ids: the number of each row's group, `[num_rows]`.
        share: the share of the groups that is marked.
    """
    _, first_rows = np.unique(group_ids, return_index=True)  # ids are 0, 1, …
    num_groups = len(first_rows)
    require(num_groups > 1, "groups", num_groups, _AT_LEAST_TWO)
    num_public = max(int(share * num_groups), 1)
    last_groups = np.argsort(first_rows)[-num_public:]
    is_public = np.isin(group_ids, last_groups)
    num_last_rows = max(int(share * len(group_ids)), 1)
    unexpected = np.setdiff1d(last_groups, group_ids[-num_last_rows:])
    if len(unexpected):
        line = f"public_fraction={share}: it counts groups, and {num_public} of {num_groups} groups are public"
        where = f"{len(unexpected)} of them have no row in the last {share:.0%} of the rows"
        warnings.warn(f"{line}; {where}", PublicGroups, stacklevel=7)  # the caller of `fit`
    return is_public
