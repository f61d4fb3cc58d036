"""Cases of ClippedVotes."""

from pate.aggregators import ClippedVotes
from tests.contract.case import Case

CONTRACT = (
    Case(name="clipped_l1", aggregator=ClippedVotes(noise_std=3.0, vote_clip=3), refuses=False),
    Case(
        name="clipped_l2",
        aggregator=ClippedVotes(noise_std=3.0, vote_clip=3, norm="l2"),
        refuses=False,
    ),
)
WITHOUT_DISTRIBUTION = "reads each teacher's votes; all ensembles in test_clipped_votes.py"
