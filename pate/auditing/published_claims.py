"""The epsilon that the published code of PATE papers computes for a release of votes, which is no valid bound.

`audit_votes` shows it beside the price, so that a reader can tell why the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate import aggregators
from pate.accounting import GaussianEvent
from pate.accounting.conversion import epsilon_as_in_papers
from pate.accounting.rdp import rdp_curve_of
from pate.accounting.special import ndtr
from pate.aggregators import Aggregator
from pate.array_types import FloatArray
from pate.auditing.gnmax_divergence import gnmax_log_q, theorem_6_rdp
from pate.votes.imported import ImportedVotes


@dataclass(frozen=True)
class ClaimedGaussian:
    """A number of Gaussian mechanisms, with the sensitivity that a published claim assumes.

    Attributes:
        noise_std: the standard deviation of the noise, in votes.
        num_moved: the number of counts that differ by 1 between neighbors, according to the claim.
        num_releases: the number of releases, according to the claim; possibly an expected number.
    """

    noise_std: float
    num_moved: int
    num_releases: float

    def curve(self, orders: FloatArray) -> FloatArray:
        """Returns the claimed Renyi divergence of all releases together, `[A]`, at orders `[A]`."""
        multiplier = self.noise_std / self.num_moved**0.5
        return np.asarray(
            self.num_releases * rdp_curve_of(GaussianEvent(noise_multiplier=multiplier))(orders)
        )


def published_claim(
    aggregator: Aggregator, votes: ImportedVotes, target_delta: float
) -> tuple[float | None, str]:
    """Returns the epsilon that published code computes for a release of votes, and the code's reasoning in few words.

    The epsilon is not a valid bound. It is None if published code computes no epsilon for this type of aggregator.

    Args:
        aggregator: the aggregator of the release, with its noise.
        votes: the votes of the release.
        target_delta: the delta of the epsilon.
    """
    counts = votes.counts
    num_teachers = votes.num_teachers
    num_queries, num_labels = counts.shape
    gaussians: list[ClaimedGaussian] = []
    match aggregator:
        case aggregators.GaussianVotes():
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=2, num_releases=num_queries)
            ]
            claim = "all labels cost like one"
        case aggregators.PowersetGNMax():
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=2, num_releases=num_queries)
            ]
            claim = "two counts move"
        case aggregators.ClippedVotes():
            num_moved = min(aggregator.vote_clip, num_labels)
            gaussians = [
                ClaimedGaussian(aggregator.noise_std, num_moved=num_moved, num_releases=num_queries)
            ]
            claim = "only tau counts move"
        case aggregators.GNMax():
            claim = "data dependent: private, one direction"
        case aggregators.ConfidentVotes() | aggregators.ConfidentGNMax():
            # The claim counts all screenings, and the expected number of answers on these votes.
            if isinstance(aggregator, aggregators.ConfidentGNMax):
                agreement = counts.max(axis=1)
                num_moved = 2
            else:
                agreement = np.maximum(counts, num_teachers - counts).min(axis=1)
                num_moved = num_labels
            threshold = aggregator.threshold_share * num_teachers
            answer_probs = ndtr((agreement - threshold) / aggregator.screening_std)
            num_answers = float(answer_probs.sum())
            gaussians = [
                ClaimedGaussian(
                    aggregator.noise_std, num_moved=num_moved, num_releases=num_answers
                ),
                ClaimedGaussian(aggregator.screening_std, num_moved=1, num_releases=num_queries),
            ]
            claim = "expected answers only: private"
        case _:
            claimed_epsilon = aggregator.paper_epsilon(
                num_queries=num_queries, target_delta=target_delta
            )
            claim = "" if claimed_epsilon is None else "selection as a Gaussian"
            return claimed_epsilon, claim

    def claimed_curve(orders: FloatArray) -> FloatArray:
        """Returns the claimed Renyi divergence of the release, `[A]`, at orders `[A]`."""
        if isinstance(aggregator, aggregators.GNMax):
            log_q = gnmax_log_q(counts, noise_std=aggregator.noise_std)
            rdp_of_queries = theorem_6_rdp(log_q, noise_std=aggregator.noise_std, orders=orders)
            return np.asarray(rdp_of_queries.sum(axis=0))
        return np.asarray(sum(gaussian.curve(orders) for gaussian in gaussians))

    epsilon = epsilon_as_in_papers(
        claimed_curve, count=1, target_delta=target_delta, conversion="classic"
    )
    return epsilon, claim
