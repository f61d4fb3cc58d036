"""The expectation of a plan: what its release would tell of queries of three kinds, by public numbers alone."""

from dataclasses import dataclass

from pate.aggregators import Aggregator, ExpectedRelease, expected_release
from pate.aggregators.expectation import LEAST_ANSWERED
from pate.pricing.priced_release import PricedRelease
from pate.votes.shape import VoteShape

# The shares of the teachers that name each label of a query.
AGREEMENTS = {"unanimous": 1.0, "90%": 0.9, "typical": 0.7}
GOAL = 0.9  # the success of unanimous teachers from which on a release is not doubted


@dataclass(frozen=True)
class Expectation:
    """The expected answers to three kinds of queries; a function of public numbers alone."""

    unanimous: ExpectedRelease  # where all teachers agree: the best that these parameters can give
    clear: ExpectedRelease  # where 90% of them name each label that is present
    typical: ExpectedRelease  # where 70% do

    @property
    def is_useless(self) -> bool:
        """True where hardly a query is worth its price: unanimity is hidden, or only unanimity is answered."""
        return self.unanimous.is_useless or self.clear.answered < LEAST_ANSWERED


def expectation(aggregator: Aggregator, shape: VoteShape) -> Expectation:
    """Returns what a release would tell of queries of three kinds (`AGREEMENTS`)."""
    return Expectation(
        unanimous=expected_release(aggregator, shape, agreement=AGREEMENTS["unanimous"]),
        clear=expected_release(aggregator, shape, agreement=AGREEMENTS["90%"]),
        typical=expected_release(aggregator, shape, agreement=AGREEMENTS["typical"]),
    )


def is_plan_heard(planned: PricedRelease | None) -> bool:
    """Returns whether a plan is not doubted where all teachers agree, and answers enough where 90% of them do."""
    if planned is None:
        return False
    # Unanimity first: most plans of a search fail there.
    unanimous = expected_release(planned.aggregator, planned.shape)
    if unanimous.is_useless or unanimous.success < GOAL:
        return False
    clear = expected_release(planned.aggregator, planned.shape, agreement=AGREEMENTS["90%"])
    return clear.answered >= LEAST_ANSWERED
