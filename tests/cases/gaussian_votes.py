"""Cases of GaussianVotes."""

from pate.aggregators import GaussianVotes
from pate.array_types import IntArray
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Distribution, SmallInstance, rename_bits
from tests.privacy.rival_distributions import bits_distribution

CONTRACT = (Case(name="votes", aggregator=GaussianVotes(noise_std=3.0), refuses=False),)


def _distribution(
    aggregator: GaussianVotes, histogram: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the probability of each vector of released bits for a histogram of votes."""
    return bits_distribution(
        histogram, noise_std=aggregator.noise_std, num_teachers=small_instance.num_teachers
    )


DISTRIBUTIONS = tuple(
    LawCase(
        name=f"GaussianVotes-{noise_std}",
        mechanism_for=lambda small_instance, noise_std=noise_std: GaussianVotes(
            noise_std=noise_std, adjacency=small_instance.adjacency
        ),
        distribution=_distribution,
        tightness=0.999,
        replace_one_refuted_at_size=None,
        relabel_outcome=rename_bits,
        is_sharply_priced=noise_std == 1.0,
    )
    # With the first standard deviation, counts far from the threshold are drawn like nearer ones.
    for noise_std in (0.1, 0.5, 1.0, 3.0)
)
