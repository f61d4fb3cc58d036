"""Cases of GaussianVotes."""

from __future__ import annotations

from pate.aggregators import GaussianVotes
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Counts, Law, Shape, rename_bits
from tests.privacy.rival_laws import bits_law

CONTRACT = (Case("votes", GaussianVotes(noise_std=3.0), refuses=False),)


def _law(aggregator: GaussianVotes, histogram: Counts, shape: Shape) -> Law:
    return bits_law(histogram, aggregator.noise_std, shape.num_teachers)


LAWS = (
    LawCase(
        "GaussianVotes",
        lambda shape: GaussianVotes(noise_std=1.0, adjacency=shape.adjacency),
        _law,
        rename=rename_bits,
    ),
)
