"""What a build made of which sets, and what it left out and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.icons40.drawing import BLANK, BROKEN, DRAWN
from scripts.icons40.survey import Survey

_OUTCOMES = {DRAWN: "drawn", BLANK: "blank", BROKEN: "broken"}


def counts_of(survey: Survey, outcomes: NDArray[np.uint8], sizes: NDArray[np.int64]) -> dict[str, Any]:
    """For JSON: labels with their counts, splits, what was left out, and all sets with author and license.

    Args:
        survey: the names.
        outcomes: uint8 `[n]`, of drawing each icon with a label.
        sizes: of the splits: public, test, private.
    """
    drawn = outcomes == DRAWN
    of_set = np.array([name.partition(":")[0] for name in survey.names])
    by_set = {
        icon_set: {word: int((outcomes[of_set == icon_set] == code).sum()) for code, word in _OUTCOMES.items()}
        for icon_set in survey.sets
    }
    licenses = Counter[str]()
    for icon_set, about in survey.sets.items():
        licenses[about["license"]] += by_set[icon_set]["drawn"]
    return {
        "counts": {
            **survey.counts(),
            "left out: blank": int((outcomes == BLANK).sum()),
            "left out: broken": int((outcomes == BROKEN).sum()),
            "pictures": int(drawn.sum()),
            "families": len(np.unique(survey.group_ids[drawn])),
        },
        "splits": dict(zip(("public", "test", "private"), sizes.tolist(), strict=True)),
        "labels": dict(zip(survey.label_names, survey.labels[drawn].sum(axis=0).tolist(), strict=True)),
        "licenses": dict(licenses.most_common()),
        "sets": {icon_set: {**about, **by_set[icon_set]} for icon_set, about in survey.sets.items()},
        "left_out": survey.left_out,
    }
