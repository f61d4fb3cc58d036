"""The expected answers of a plan, to queries on which a given share of the teachers agrees.

Expectations depend on public numbers alone: the aggregator, and the numbers of queries, labels and teachers.
"""

from dataclasses import dataclass

from pate.aggregators import Aggregator, ExpectedRelease, expected_release
from pate.aggregators.expectation import MIN_ANSWERED
from pate.pricing.priced_release import PricedRelease
from pate.votes.shape import VoteShape

# The agreement of teachers: the share of them that votes for each label of a query, by the kind of the query.
AGREEMENT_SHARES = {"unanimous": 1.0, "clear": 0.9, "typical": 0.7}
# A useful plan answers a unanimous label, and answers it correctly, with at least this probability.
MIN_SUCCESS = 0.9


@dataclass(frozen=True)
class Expectation:
    """The expected answers to three kinds of queries.

    Attributes:
        unanimous: expected answers if all teachers agree: the best that this noise allows.
        clear: expected answers if 90% of the teachers vote for each right label of a query.
        typical: expected answers if 70% of the teachers vote for each right label of a query.
    """

    unanimous: ExpectedRelease
    clear: ExpectedRelease
    typical: ExpectedRelease

    @property
    def is_useless(self) -> bool:
        """Whether the noise hides even unanimous votes, or few queries are answered where 90% of the teachers agree.

        Noise hides unanimous votes if the mean share of right labels (`ExpectedRelease.right`) is below 3/4, or if
        fewer than a third of the queries are answered. Few queries are fewer than a third. A release that is not
        useless may still be no useful plan: `is_plan_useful` asks for more.
        """
        return self.unanimous.is_useless or self.clear.answered < MIN_ANSWERED


def expectation(aggregator: Aggregator, shape: VoteShape) -> Expectation:
    """Returns the expected answers of a release to queries on which 100%, 90% or 70% of the teachers agree."""
    return Expectation(
        unanimous=expected_release(aggregator, shape, agreement=AGREEMENT_SHARES["unanimous"]),
        clear=expected_release(aggregator, shape, agreement=AGREEMENT_SHARES["clear"]),
        typical=expected_release(aggregator, shape, agreement=AGREEMENT_SHARES["typical"]),
    )


def is_plan_useful(planned_release: PricedRelease | None) -> bool:
    """Returns True if a plan is useful: it answers unanimous labels correctly, and enough queries.

    A label on which all teachers agree has to be answered, and right, with a probability of at least `MIN_SUCCESS`
    (90%). At least a third of the queries have to be answered where 90% of the teachers agree. For None, which stands
    for a plan that does not exist, the result is False.
    """
    if planned_release is None:
        return False
    # Unanimous votes are checked first, since most plans of a search fail there.
    unanimous = expected_release(planned_release.aggregator, planned_release.shape)
    if unanimous.is_useless or unanimous.success < MIN_SUCCESS:
        return False
    clear = expected_release(
        planned_release.aggregator, planned_release.shape, agreement=AGREEMENT_SHARES["clear"]
    )
    return clear.answered >= MIN_ANSWERED
