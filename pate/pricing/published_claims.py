"""What published code prints for a release: not a bound; docs/how-to/audit-votes.md names the code.

A claim is looked up by the aggregator's class; one without an entry here claims what its `paper_epsilon` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from pate.accounting import GaussianEvent
from pate.accounting.data_dependent.gnmax import gnmax_log_q, theorem_6_rdp
from pate.accounting.paper_epsilons import converted, curve_of
from pate.accounting.special import ndtr
from pate.aggregators import (
    Aggregator,
    ClippedVotes,
    ConfidentGNMax,
    ConfidentVotes,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
)
from pate.votes.vote_files import ImportedVotes


@dataclass(frozen=True)
class PublishedClaim:
    """A figure that is not a bound.

    Attributes:
        epsilon: None where published code prints nothing of its own.
        origin: how that figure comes about.
    """

    epsilon: float | None
    origin: str = ""


@singledispatch
def published_claim(aggregator: Aggregator, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    """What published code says of a release of these votes by this aggregator."""
    claimed = aggregator.paper_epsilon(num_queries=len(votes.counts), target_delta=target_delta)
    return PublishedClaim(claimed, "" if claimed is None else "selection as a Gaussian")


@published_claim.register
def _(aggregator: GaussianVotes, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    return PublishedClaim(_gaussian(aggregator.noise_std, 2, votes, target_delta), "all labels cost like one")


@published_claim.register
def _(aggregator: PowersetGNMax, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    return PublishedClaim(_gaussian(aggregator.noise_std, 2, votes, target_delta), "two counts move")


@published_claim.register
def _(aggregator: ClippedVotes, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    moved = min(aggregator.vote_clip, votes.counts.shape[1])
    return PublishedClaim(_gaussian(aggregator.noise_std, moved, votes, target_delta), "only tau counts move")


@published_claim.register
def _(aggregator: GNMax, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    log_q = gnmax_log_q(votes.counts, noise_std=aggregator.noise_std)

    def curve(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(theorem_6_rdp(log_q, noise_std=aggregator.noise_std, orders=orders).sum(axis=0))

    epsilon = converted(curve, count=1, target_delta=target_delta, conversion="classic")
    return PublishedClaim(epsilon, "data dependent: private, one direction")


@published_claim.register
def _(aggregator: ConfidentVotes, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    agreement = np.maximum(votes.counts, votes.num_teachers - votes.counts).min(axis=1)
    return _expected_answers(aggregator, agreement, votes.counts.shape[1], votes, target_delta)


@published_claim.register
def _(aggregator: ConfidentGNMax, votes: ImportedVotes, target_delta: float) -> PublishedClaim:
    return _expected_answers(aggregator, votes.counts.max(axis=1), 2, votes, target_delta)


def _gaussian(noise_std: float, moved: int, votes: ImportedVotes, target_delta: float) -> float:
    """Gaussian noise on every query, of which so many counts move by 1."""
    event, num_queries = GaussianEvent(noise_std / moved**0.5), len(votes.counts)
    return converted(curve_of(event), count=num_queries, target_delta=target_delta, conversion="classic")


def _expected_answers(
    aggregator: ConfidentVotes | ConfidentGNMax,
    agreement: NDArray[np.int64],
    moved: int,
    votes: ImportedVotes,
    target_delta: float,
) -> PublishedClaim:
    """Every screening, and answers as often as they are expected, which is computed from the votes."""
    needed = aggregator.threshold_share * votes.num_teachers
    expected = float(ndtr((agreement - needed) / aggregator.screening_std).sum())
    answer = curve_of(GaussianEvent(aggregator.noise_std / moved**0.5))
    screening = curve_of(GaussianEvent(aggregator.screening_std))

    def both(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(expected * answer(orders) + len(votes.counts) * screening(orders))

    epsilon = converted(both, count=1, target_delta=target_delta, conversion="classic")
    return PublishedClaim(epsilon, "expected answers only: private")
