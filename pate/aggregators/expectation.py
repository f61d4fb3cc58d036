"""The expectation of a release: the share of labels that it would get right, computed from public numbers alone.

The noise of an aggregator can be judged before a release is charged. The aggregator is applied to made-up votes of
teachers, of whom a known share agrees (`MadeUpVotes`). If the noise hides even unanimous votes, the release is useless
and a warning is raised.

`expected_release` makes the votes and calls `expected_from_votes`, which dispatches on the class of the aggregator. A
class may register a function there, in its own file. All other classes get `expected_by_drawing`. That function
summarizes the votes and calls `expected_from_summary`, which draws.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.failures import USUAL_DELTA, with_failure_prob_for
from pate.aggregators.hashability import is_hashable
from pate.array_types import BoolArray
from pate.errors import users_stack_level
from pate.validation import InvalidValue
from pate.votes.made_up import USUAL_LABELS, MadeUpVotes

if TYPE_CHECKING:
    from pate.aggregators.aggregator import Aggregator
    from pate.votes.shape import VoteShape


MIN_ANSWERED = 1 / 3
"""The share of answered queries below which a release is useless."""

# The share of right labels in answers below which a release is useless. Answers drawn without the votes have 1/2.
_MIN_RIGHT = 0.75
# The number of made-up queries.
_NUM_MADE_UP = 256
# An aggregator that reads the votes of each teacher gets fewer queries, so that all votes have at most so many bits.
_MAX_MADE_UP_BITS = 2**22
# It gets at least so many queries.
_MIN_MADE_UP = 16


@dataclass(frozen=True)
class ExpectedRelease:
    """The expected shares of right labels in a release, computed for made-up votes.

    Attributes:
        answered: the probability that a query is answered, in [0, 1].
        present: the share of the truly present labels of answered queries that the answers name, in [0, 1]. It is 0 if
            no query is answered. If queries are answered but have no truly present label, it is 1.
        absent: the share of the truly absent labels of answered queries that the answers leave out, in [0, 1]. It is 0
            if no query is answered. If queries are answered but have no truly absent label, it is 1.
    """

    answered: float
    present: float
    absent: float

    @property
    def right(self) -> float:
        """The mean of `present` and `absent`; 1/2 for answers that are drawn without the votes."""
        return (self.present + self.absent) / 2

    @property
    def success(self) -> float:
        """`answered` times `right`, in [0, 1]: the probability of an answer, times the mean of two shares.

        The shares are those of present labels that answers name, and of absent labels that answers leave out. Labels
        that are drawn without the votes have a success of 1/2 if all queries are answered.
        """
        return self.answered * self.right

    @property
    def is_useless(self) -> bool:
        """Whether fewer than a third of the queries are answered, or `right` is below 3/4."""
        return self.answered < MIN_ANSWERED or self.right < _MIN_RIGHT

    @classmethod
    def from_answers(
        cls, drawn_labels: BoolArray, answered: BoolArray, true_labels: BoolArray
    ) -> Self:
        """Returns the shares of right labels, measured on drawn answers.

        Args:
            drawn_labels: bool `[num_queries, num_labels]`, the labels that were drawn.
            answered: bool `[num_queries]`, whether each query was answered.
            true_labels: bool `[num_queries, num_labels]`, the right labels.
        """
        if not answered.any():
            return cls(answered=0.0, present=0.0, absent=0.0)
        released_labels = drawn_labels[answered]
        expected_labels = true_labels[answered]
        share_right_of_present = (
            float(released_labels[expected_labels].mean()) if expected_labels.any() else 1.0
        )
        share_right_of_absent = (
            float((~released_labels[~expected_labels]).mean()) if not expected_labels.all() else 1.0
        )
        return cls(
            answered=float(answered.mean()),
            present=share_right_of_present,
            absent=share_right_of_absent,
        )


class UselessReleaseWarning(UserWarning):
    """A warning that the noise hides even votes on which all teachers agree."""


def expected_release(
    aggregator: Aggregator, shape: VoteShape, *, agreement: float = 1.0
) -> ExpectedRelease:
    """Returns the expected shares of right labels in a release; no private data are read, and nothing is charged.

    The aggregator is run on up to 256 made-up queries (`MadeUpVotes`) with a fixed seed, or a formula is used. A
    `failure_prob` of None is first replaced by a value that suits a delta of 1e-6. A shape without queries counts as
    one with a single query.

    Args:
        aggregator: the aggregator with its noise.
        shape: the number of queries, labels and teachers of the release.
        agreement: the share of the teachers that vote for each right label of a query, in [0, 1].

    Raises:
        InvalidValue: the aggregator cannot read made-up votes.

    >>> from pate.aggregators import StableTopK
    >>> from pate.votes import VoteShape
    >>> aggregator = StableTopK(selection_scale=20.0, test_std=10.0)
    >>> shape = VoteShape(num_queries=600, num_labels=40, num_teachers=200)
    >>> [round(expected_release(aggregator, shape, agreement=share).success, 2) for share in (1.0, 0.9, 0.7)]
    [1.0, 1.0, 0.94]
    """
    num_labels = shape.num_labels
    usual_labels = min(USUAL_LABELS, num_labels // 2, aggregator.max_labels or num_labels)
    num_present = aggregator.exact_labels or usual_labels
    made_up_votes = MadeUpVotes(
        num_queries=_NUM_MADE_UP,
        num_labels=num_labels,
        num_teachers=shape.num_teachers,
        agreement=agreement,
        num_present=max(1, min(num_present, num_labels)),
    )
    num_queries = max(shape.num_queries, 1)  # some functions divide by it
    planned_aggregator = with_failure_prob_for(
        aggregator, delta=USUAL_DELTA, num_queries=num_queries
    )
    return expected_from_votes(planned_aggregator, made_up_votes, num_queries)


@singledispatch
def expected_from_votes(
    aggregator: Aggregator, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, measured on answers that are drawn for made-up votes.

    This function dispatches on the type of the aggregator. An aggregator with a formula registers its own function.

    Args:
        aggregator: the aggregator with its noise.
        made_up_votes: made-up votes on a few hundred queries.
        num_queries: the number of queries of the planned release. Only functions of sessions, which may halt before the
            last query, and of `CenteredVotes` read it.
    """
    return expected_by_drawing(aggregator, made_up_votes)


def expected_by_drawing(aggregator: Aggregator, made_up_votes: MadeUpVotes) -> ExpectedRelease:
    """Returns the expected shares of right labels, measured on answers drawn for made-up votes with a fixed seed.

    If the votes of each teacher are read, and teachers and labels are many, only some of the made-up queries are drawn.
    """
    if not aggregator.reads_counts:
        bits_per_query = made_up_votes.num_teachers * made_up_votes.num_labels
        max_queries = max(_MIN_MADE_UP, _MAX_MADE_UP_BITS // bits_per_query)
        made_up_votes = made_up_votes.first(min(made_up_votes.num_queries, max_queries))
    return expected_from_summary(
        aggregator, summary=aggregator.summarize(made_up_votes), made_up_votes=made_up_votes
    )


def expected_from_summary(
    aggregator: Aggregator, summary: NDArray[Any], made_up_votes: MadeUpVotes
) -> ExpectedRelease:
    """Returns the expected shares of right labels, measured on answers that the aggregator draws with a fixed seed.

    Args:
        aggregator: the aggregator with its noise.
        summary: the summary of the made-up votes, as `aggregator.summarize` would return it.
        made_up_votes: the made-up votes, which hold the right labels.
    """
    answers = aggregator.draw_all(
        summary, vote_shape=made_up_votes.shape, rng=np.random.default_rng(0)
    )
    return ExpectedRelease.from_answers(
        answers.labels, answers.answered, true_labels=made_up_votes.labels
    )


def warn_if_useless(aggregator: Aggregator, vote_shape: VoteShape) -> None:
    """Warns if the noise hides even votes on which all teachers agree.

    An aggregator that has a hash is warned about once for each shape, and one without a hash each time.
    """
    warn = _warn_once if is_hashable(aggregator) else _warn
    warn(aggregator, vote_shape)


def _warn(aggregator: Aggregator, vote_shape: VoteShape) -> None:
    """Warns if a release of votes on which all teachers agree is expected to be useless (`ExpectedRelease.is_useless`).

    Nothing is warned of an aggregator that cannot read made-up votes.
    """
    try:
        expected = expected_release(aggregator, vote_shape)
    except InvalidValue:
        # An aggregator of another package may not take made-up votes.
        return
    if expected.is_useless:
        warnings.warn(
            f"aggregator={type(aggregator).__name__}: unanimous votes of {vote_shape.num_teachers} teachers would be "
            f"heard in {expected.success:.0%} of the cases, where chance has 50%; take more teachers or less noise; "
            "pate-account suggest=true finds numbers that work",
            UselessReleaseWarning,
            stacklevel=users_stack_level(),
        )


_warn_once = lru_cache(maxsize=4096)(_warn)
