"""Cases of GaussianVotes."""

from pate.aggregators import GaussianVotes
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Counts, Distribution, Shape, rename_bits
from tests.privacy.rival_distributions import bits_distribution

CONTRACT = (Case("votes", GaussianVotes(noise_std=3.0), refuses=False),)


def _distribution(aggregator: GaussianVotes, histogram: Counts, shape: Shape) -> Distribution:
    return bits_distribution(histogram, aggregator.noise_std, shape.num_teachers)


DISTRIBUTIONS = (
    LawCase(
        "GaussianVotes",
        lambda shape: GaussianVotes(noise_std=1.0, adjacency=shape.adjacency),
        _distribution,
        rename=rename_bits,
    ),
)
