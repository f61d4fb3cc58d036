"""The gaps in votes that the stability test of an aggregator lets pass.

The gap of a query is the number of votes by which the selected labels are ahead of all other labels. A stability test
passes at random, the more often the larger the gap is, and an answer is released only if the test passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pate import aggregators
from pate.aggregators import Aggregator
from pate.votes.shape import VoteShape


@dataclass(frozen=True)
class PassingGaps:
    """The smallest gaps, in votes, that pass an aggregator's stability test with a given probability.

    A gap is the difference of two successive counts of a query in falling order. All attributes are None for an
    aggregator without a stability test.

    Attributes:
        gap_at_50: the smallest gap that passes the test with a probability of at least 50%; None where no gap does.
        gap_at_95: the smallest gap that passes the test with a probability of at least 95%; None where no gap does.
        lone_gap_at_50: for `StableTopK`, the smallest gap that is selected and passes the test with a probability of at
            least 50% if all other gaps of the query are 0. None where there is no such gap, and for other aggregators.
    """

    gap_at_50: int | None = None
    gap_at_95: int | None = None
    lone_gap_at_50: int | None = None


def passing_gaps(aggregator: Aggregator, shape: VoteShape) -> PassingGaps:
    """Returns the smallest gaps that pass the stability test of an aggregator, for votes of a shape."""
    stability_test = aggregator.stability_test(num_teachers=shape.num_teachers)
    if stability_test is None:
        return PassingGaps()
    lone_gap_at_50 = None
    # This attribute loads the module of the class, which few prices need.
    if isinstance(aggregator, aggregators.StableTopK):
        steps = aggregator.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        lone_gap_at_50 = steps.gap_to_release(probability=0.5)
    return PassingGaps(
        gap_at_50=stability_test.gap_to_pass(probability=0.5),
        gap_at_95=stability_test.gap_to_pass(probability=0.95),
        lone_gap_at_50=lone_gap_at_50,
    )
