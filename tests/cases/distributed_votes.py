"""Cases of DistributedVotes."""

from pate.aggregators import DistributedVotes
from tests.contract.case import Case

CONTRACT = (
    Case("distributed", DistributedVotes(noise_std=3.0, num_holders=4), refuses=False),
    Case(
        "distributed_with_dropouts",
        DistributedVotes(noise_std=3.0, num_holders=5, max_dropouts=1, max_colluders=2),
        refuses=False,
    ),
)
WITHOUT_DISTRIBUTION = (
    "the server sees whole numbers without bounds; all histograms in test_distributed_votes.py"
)
