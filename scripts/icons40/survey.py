"""What a package's names alone say: its sets, the labels, and which icons have one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Stage
from pate.validation import InvalidValue
from scripts.icons40.package import FETCH, IconPackage
from scripts.icons40.splits import choose_labels, number_of
from scripts.icons40.words import family_of, label_words


@dataclass(frozen=True, eq=False)
class Survey:
    """The icons that have a label, sorted by set and name.

    Attributes:
        sets: of each set that is taken, what it says of itself and how many icons it has.
        left_out: of each other set, the same and the reason.
        label_names: the labels, the most frequent first.
        names: `set:name` of each icon with a label.
        labels: bool `[n, L]`.
        record_ids: int64 `[n]`.
        group_ids: int64 `[n]`, the numbers of families.
    """

    sets: dict[str, dict[str, Any]]
    left_out: dict[str, dict[str, Any]]
    label_names: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.bool_]
    record_ids: NDArray[np.int64]
    group_ids: NDArray[np.int64]

    def rows_by_set(self) -> dict[str, range]:
        """Rows of each set that has any; a set's icons stand together."""
        first, rows = 0, dict[str, range]()
        for icon_set, count in Counter(name.partition(":")[0] for name in self.names).items():
            rows[icon_set] = range(first, first := first + count)
        return rows

    def counts(self) -> dict[str, int]:
        """How many icons the package has, and why how many of them have no place."""
        refused = Counter[str]()
        for about in self.left_out.values():
            refused[f"left out: {about['reason']}"] += about["icons"]
        taken = sum(about["icons"] for about in self.sets.values())
        totals = {"icons": taken + sum(refused.values()), **dict(sorted(refused.items()))}
        return {**totals, "left out: none of the labels": taken - len(self.names), "with a label": len(self.names)}


def survey_names(package: IconPackage, stage: Stage, *, num_public: int, num_labels: int, styles: bool) -> Survey:
    """Reads the names of all sets and chooses the labels, see `choose_labels`.

    Raises:
        InvalidValue: no set that may be taken, or names with fewer words than labels are wanted.
    """
    sets, left_out, icons = dict[str, dict[str, Any]](), dict[str, dict[str, Any]](), list[tuple[str, str]]()
    with stage("reading names", 0) as advance:
        for icon_set in package.sets():
            about: dict[str, Any] = {**icon_set.about, "icons": len(icon_set.names)}
            if icon_set.refusal:
                left_out[icon_set.prefix] = {**about, "reason": icon_set.refusal}
            else:
                sets[icon_set.prefix] = about
                icons += [(icon_set.prefix, name) for name in icon_set.names]
            advance(len(icons))
    icons.sort()
    if len(set(icons)) < len(icons):
        raise InvalidValue(f"package={package.path}: expected each set once; {FETCH}")
    words = [label_words(name, styles=styles) for _, name in icons]
    families = np.array([number_of("family", family_of(*icon)) for icon in icons], np.int64)
    chosen = choose_labels(words, families, num_public=num_public, num_labels=num_labels) if icons else []
    if len(chosen) < num_labels:
        rule = f"names with at least {num_labels} words, in sets with an open license"
        raise InvalidValue(f"package={package.path}: expected {rule}, found {len(chosen)} in {len(icons)} icons")
    bits = np.array([[label in each for label in chosen] for each in words], np.bool_)
    kept = np.flatnonzero(bits.any(axis=1))
    names = tuple(":".join(icons[row]) for row in kept.tolist())
    return Survey(
        sets=dict(sorted(sets.items())),
        left_out=dict(sorted(left_out.items())),
        label_names=tuple(chosen),
        names=names,
        labels=bits[kept],
        record_ids=np.array([number_of("icon", name) for name in names], np.int64),
        group_ids=families[kept],
    )
