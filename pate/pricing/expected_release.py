"""What to expect of a release that was priced."""

from __future__ import annotations

from dataclasses import dataclass

from pate.aggregators import Aggregator, ExpectedRelease
from pate.aggregators.aggregator import LEAST_ANSWERED
from pate.pricing.shape import ReleaseShape

GOAL = 0.9
"""The success of unanimous teachers from which on a release is not doubted."""

AGREEMENTS = {"unanimous": 1.0, "90%": 0.9, "typical": 0.7}
"""The share of the teachers that name each label which a query has."""


@dataclass(frozen=True)
class Expectation:
    """The expected answers to three kinds of queries; a function of public numbers alone.

    Attributes:
        unanimous: where all teachers agree: the best that these parameters can give.
        clear: where 90% of them name each label that is present.
        typical: where 70% do.
    """

    unanimous: ExpectedRelease
    clear: ExpectedRelease
    typical: ExpectedRelease

    @property
    def too_few_answered(self) -> bool:
        """Whether fewer than a third of the queries on which nearly all teachers agree are answered."""
        return self.clear.answered < LEAST_ANSWERED

    @property
    def is_useless(self) -> bool:
        """Whether hardly a query is worth its price: unanimity is hidden, or only unanimity is answered."""
        return self.unanimous.is_useless or self.too_few_answered

    @property
    def is_heard(self) -> bool:
        """Whether nothing is doubted where all teachers agree."""
        return self.unanimous.success >= GOAL and not self.is_useless


def expected_release(aggregator: Aggregator, shape: ReleaseShape, *, agreement: float = 1.0) -> ExpectedRelease:
    """What a release of that shape would tell of queries on which teachers agree to that degree.

    Args:
        aggregator: with the noise that is to be used.
        shape: of the release.
        agreement: the share of the teachers that name each label which a query has, in [0, 1].

    >>> from pate.aggregators import StableTopK
    >>> aggregator = StableTopK(selection_scale=20.0, test_std=10.0)
    >>> shape = ReleaseShape(num_queries=600, num_labels=40, num_teachers=200)
    >>> [round(expected_release(aggregator, shape, agreement=share).success, 2) for share in AGREEMENTS.values()]
    [1.0, 1.0, 0.94]
    """
    return aggregator.expected_release(**shape.as_arguments, agreement=agreement)


def expectation(aggregator: Aggregator, shape: ReleaseShape) -> Expectation:
    """What a release would tell of queries of three kinds: see `expected_release` and `AGREEMENTS`."""
    return Expectation(*(expected_release(aggregator, shape, agreement=share) for share in AGREEMENTS.values()))
