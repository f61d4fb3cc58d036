"""Cases of BoundaryMax."""

from __future__ import annotations

from pate.aggregators import BoundaryMax
from tests.contract.case import SESSION, Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Counts, Law, Shape, rename_set

CONTRACT = (Case("boundary_max", BoundaryMax(selection_scale=6.0, **SESSION), halts=True),)


def _law(aggregator: BoundaryMax, histogram: Counts, _: Shape) -> Law:
    law = aggregator.distribution(histogram).tolist()
    return {(label,): p for label, p in enumerate(law[:-1])} | {(): law[-1]}


LAWS = (
    LawCase(
        "BoundaryMax",
        lambda shape: BoundaryMax(selection_scale=2.0, target_hits=1, adjacency=shape.adjacency),
        _law,
        tightness=0.7,
        rename=rename_set,
    ),
)
