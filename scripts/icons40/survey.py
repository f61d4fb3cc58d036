"""Splits of the icons by families, and the labels, which depend on the public pool's names alone."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.array_types import BoolArray, IntArray
from pate.progress import StageOpener
from pate.validation import InvalidValue
from scripts.icons40.package import FETCH, IconPackage
from scripts.icons40.words import family_of, label_words

_SAFE_NAME = re.compile(r"[\w-]+", re.ASCII)


def number_of(unit: str, name: str) -> int:
    """Returns a fixed number of 62 bits for an icon or a family, by a hash of its name alone."""
    digest = hashlib.sha256(f"icons {unit} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def choose_labels(
    words: Sequence[frozenset[str]],
    families: IntArray,
    *,
    num_public: int,
    num_labels: int,
) -> list[str]:
    """Returns the most frequent words of the public pool, the most frequent first; ties by the alphabet.

    The pool grows family by family, in the order of their numbers, for as long as at most `num_public` of its icons
    have one of the labels that are chosen from it. No name beyond it counts, but for those of the family that is too
    many.

    Args:
        words: of each icon, those that may be labels.
        families: int64 `[n]`, the number of each icon's family.
        num_public: icons with a label that the pool may hold.
        num_labels: how many to choose.
    """
    counts = Counter[str]()
    pool = list[frozenset[str]]()
    labels = list[str]()
    num_labeled = 0
    order = np.argsort(families, kind="stable")
    for family in np.split(order, np.flatnonzero(np.diff(families[order])) + 1):
        joining = [words[row] for row in family.tolist()]
        counts.update(word for icon_words in joining for word in icon_words)
        pool += joining
        chosen = _most_frequent(counts, num_labels)
        counted = joining if set(chosen) == set(labels) else pool
        num_labeled = (num_labeled if counted is joining else 0) + sum(
            not icon_words.isdisjoint(chosen) for icon_words in counted
        )
        if num_labeled > num_public:
            break
        labels = chosen
    return labels


def deal_splits(families: IntArray, sizes: Sequence[int]) -> IntArray:
    """Assigns whole families to splits of exactly the given sizes where possible; the last split takes all others.

    Families come in the order of their numbers, and each goes to the first split into which it still fits.

    Args:
        families: int64 `[n]`, the number of each record's family.
        sizes: records wanted in each split but the last.

    Returns:
        int64 `[n]`, the split of each record, from 0 to `len(sizes)`.
    """
    numbers, family_indices, counts = np.unique(families, return_inverse=True, return_counts=True)
    room = [*sizes, len(families)]
    split_of_family = np.empty(len(numbers), np.int64)
    for place, count in enumerate(counts.tolist()):
        chosen = next(split for split, left in enumerate(room) if count <= left)
        room[chosen] -= count
        split_of_family[place] = chosen
    return split_of_family[family_indices]


def _most_frequent(counts: Counter[str], num_labels: int) -> list[str]:
    return heapq.nsmallest(num_labels, counts, key=lambda word: (-counts[word], word))


@dataclass(frozen=True, eq=False)
class Survey:
    """The icons that have a label, sorted by set and name."""

    # of each accepted set, its own description and its number of icons
    sets: dict[str, dict[str, Any]]
    left_out: dict[str, dict[str, Any]]  # of each other set, the same and the reason
    label_names: tuple[str, ...]  # the labels, the most frequent first
    names: tuple[str, ...]  # `set:name` of each icon with a label
    labels: BoolArray  # bool `[n, L]`
    record_ids: IntArray  # int64 `[n]`
    group_ids: IntArray  # int64 `[n]`, the numbers of families

    def rows_by_set(self) -> dict[str, range]:
        """Returns the rows of each set with icons; a set's icons stand together."""
        first = 0
        rows = dict[str, range]()
        for icon_set, count in Counter(name.partition(":")[0] for name in self.names).items():
            rows[icon_set] = range(first, first := first + count)
        return rows

    def counts(self) -> dict[str, int]:
        """Returns the number of icons in the package, and the number left out by each reason."""
        refused = Counter[str]()
        for description in self.left_out.values():
            refused[f"left out: {description['reason']}"] += description["icons"]
        num_icons = sum(description["icons"] for description in self.sets.values())
        totals = {"icons": num_icons + sum(refused.values()), **dict(sorted(refused.items()))}
        return {
            **totals,
            "left out: none of the labels": num_icons - len(self.names),
            "with a label": len(self.names),
        }


def survey_names(
    package: IconPackage, stage: StageOpener, *, num_public: int, num_labels: int, styles: bool
) -> Survey:
    """Reads the names of all sets and chooses the labels, see `choose_labels`.

    Raises:
        InvalidValue: no set that may be taken, or names with fewer words than labels are wanted.
    """
    sets = dict[str, dict[str, Any]]()
    left_out = dict[str, dict[str, Any]]()
    icons = list[tuple[str, str]]()
    with stage("reading names", 0) as advance:
        for icon_set in package.sets():
            description: dict[str, Any] = {**icon_set.about, "icons": len(icon_set.names)}
            if icon_set.refusal:
                left_out[icon_set.prefix] = {**description, "reason": icon_set.refusal}
            else:
                sets[icon_set.prefix] = description
                icons += [(icon_set.prefix, name) for name in icon_set.names]
            advance(len(icons))
    icons.sort()
    for name in (name for icon in icons for name in icon):
        if _SAFE_NAME.fullmatch(name) is None:  # names become paths
            rule = f"names of letters, digits, _ and -, found {name!a}; {FETCH}"
            raise InvalidValue("package", package.path, rule=rule)
    if len(set(icons)) < len(icons):
        raise InvalidValue("package", package.path, rule=f"each set once; {FETCH}")
    words = [label_words(name, styles=styles) for _, name in icons]
    families = np.array(
        [number_of(unit="family", name=family_of(*icon)) for icon in icons], np.int64
    )
    chosen = (
        choose_labels(words, families, num_public=num_public, num_labels=num_labels)
        if icons
        else []
    )
    if len(chosen) < num_labels:
        rule = f"names with at least {num_labels} words, in sets with an open license"
        raise InvalidValue(
            "package", package.path, rule=f"{rule}, found {len(chosen)} in {len(icons)} icons"
        )
    bits = np.array([[label in icon_words for label in chosen] for icon_words in words], np.bool_)
    rows = np.flatnonzero(bits.any(axis=1))
    names = tuple(":".join(icons[row]) for row in rows.tolist())
    return Survey(
        sets=dict(sorted(sets.items())),
        left_out=dict(sorted(left_out.items())),
        label_names=tuple(chosen),
        names=names,
        labels=bits[rows],
        record_ids=np.array([number_of(unit="icon", name=name) for name in names], np.int64),
        group_ids=families[rows],
    )
