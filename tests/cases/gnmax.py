"""Cases of GNMax."""

from pate.aggregators import GNMax
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_set
from tests.privacy.rival_distributions import gnmax_distribution

CONTRACT = (Case(name="gnmax", aggregator=GNMax(noise_std=6.0, max_votes=40), refuses=False),)
DISTRIBUTIONS = (
    LawCase(
        name="GNMax",
        mechanism_for=lambda small_instance: GNMax(
            noise_std=1.0, max_votes=small_instance.num_labels, adjacency=small_instance.adjacency
        ),
        distribution=gnmax_distribution,
        tightness=0.35,
        replace_one_refuted_at_size=None,
        relabel_outcome=rename_set,
    ),
)
