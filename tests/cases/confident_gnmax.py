"""Cases of ConfidentGNMax."""

from pate.aggregators import ConfidentGNMax
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_set
from tests.privacy.rival_distributions import confident_gnmax_distribution

CONTRACT = (
    Case(
        name="confident_gnmax",
        aggregator=ConfidentGNMax(
            screening_std=2.0, threshold_share=0.85, noise_std=6.0, max_votes=40
        ),
    ),
)
DISTRIBUTIONS = (
    LawCase(
        name="ConfidentGNMax",
        mechanism_for=lambda small_instance: ConfidentGNMax(
            screening_std=1.0,
            threshold_share=0.7,
            noise_std=1.0,
            max_votes=small_instance.num_labels,
            adjacency=small_instance.adjacency,
        ),
        distribution=confident_gnmax_distribution,
        tightness=0.45,
        replace_one_refuted_at_size=None,
        relabel_outcome=rename_set,
    ),
)
