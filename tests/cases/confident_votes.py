"""Cases of ConfidentVotes."""

from pate.aggregators import ConfidentVotes
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_bits
from tests.privacy.rival_distributions import confident_votes_distribution

CONTRACT = (
    Case(
        name="confident_votes",
        aggregator=ConfidentVotes(screening_std=2.0, threshold_share=0.55, noise_std=3.0),
    ),
)
DISTRIBUTIONS = (
    LawCase(
        name="ConfidentVotes",
        mechanism_for=lambda small_instance: ConfidentVotes(
            screening_std=1.0,
            threshold_share=0.7,
            noise_std=1.0,
            adjacency=small_instance.adjacency,
        ),
        distribution=confident_votes_distribution,
        tightness=0.8,
        replace_one_refuted_at_size=None,
        relabel_outcome=rename_bits,
    ),
)
