"""Cases of CenteredVotes."""

from pate.aggregators import CenteredVotes
from tests.contract.case import Case

CONTRACT = (
    Case(
        name="centered",
        aggregator=CenteredVotes(noise_multiplier=2.0, prevalence_share=0.0),
        refuses=False,
        any_real=True,
        is_one_release=True,
    ),
)
WITHOUT_DISTRIBUTION = "real numbers; its sum and its noise in test_centered_votes.py"
