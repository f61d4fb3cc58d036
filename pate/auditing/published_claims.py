"""The epsilon that the published code of PATE papers computes for a release of votes, which may be too low.

`audit_votes` shows it beside the price, so that a reader can tell why the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from pate import aggregators
from pate.accounting import GaussianEvent
from pate.accounting.conversion import Curve, epsilon_as_in_papers
from pate.accounting.rdp import rdp_curve_of
from pate.accounting.special import ndtr
from pate.aggregators import Aggregator
from pate.array_types import FloatArray, IntArray
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

    def renyi_curve(self, orders: FloatArray) -> FloatArray:
        """Returns the claimed Renyi divergence of all releases together, `[A]`, at orders `[A]`."""
        multiplier = self.noise_std / self.num_moved**0.5
        return np.asarray(
            self.num_releases * rdp_curve_of(GaussianEvent(noise_multiplier=multiplier))(orders)
        )


class PublishedClaim(NamedTuple):
    """The epsilon that published code computes for a release, which may be too low, and its reasoning."""

    epsilon: float | None  # None if published code computes none for this type of aggregator
    reasoning: str  # in few words; empty without an epsilon


def published_claim(
    aggregator: Aggregator, imported_votes: ImportedVotes, target_delta: float
) -> PublishedClaim:
    """Returns the epsilon that published code computes for a release of votes, and the code's reasoning in few words.

    Args:
        aggregator: the aggregator of the release, with its noise.
        imported_votes: the votes of the release.
        target_delta: the delta of the epsilon.
    """
    claimed_curves = _claimed_curves(aggregator, imported_votes)
    if claimed_curves is None:
        epsilon = aggregator.paper_epsilon(
            num_queries=imported_votes.counts.shape[0], target_delta=target_delta
        )
        reasoning = "" if epsilon is None else "selection as a Gaussian"
        return PublishedClaim(epsilon, reasoning=reasoning)

    def sum_of_curves(orders: FloatArray) -> FloatArray:
        """Returns the claimed Renyi divergence of the release, `[A]`, at orders `[A]`."""
        return np.asarray(sum(renyi_curve(orders) for renyi_curve in claimed_curves.renyi_curves))

    epsilon = epsilon_as_in_papers(
        sum_of_curves, count=1, target_delta=target_delta, conversion="classic"
    )
    return PublishedClaim(epsilon, reasoning=claimed_curves.reasoning)


class _ClaimedCurves(NamedTuple):
    """The claimed Renyi curve of each part of a release, and the reasoning of published code in few words."""

    renyi_curves: list[Curve]
    reasoning: str


def _claimed_curves(aggregator: Aggregator, imported_votes: ImportedVotes) -> _ClaimedCurves | None:
    """Returns the claimed Renyi curve of each part of a release, and the reasoning of published code in few words.

    The result is None for an aggregator whose claim is not computed from curves. `Aggregator.paper_epsilon` is then the
    claim, as of `StableTopK`, or None.

    Args:
        aggregator: the aggregator of the release, with its noise.
        imported_votes: the votes of the release.
    """
    num_queries, num_labels = imported_votes.counts.shape
    match aggregator:
        case aggregators.GaussianVotes():
            # One label is a histogram of yes and no, and a changed vote moves both counts. The code takes this price of
            # one label for all labels together.
            votes_on_labels = ClaimedGaussian(
                aggregator.noise_std, num_moved=2, num_releases=num_queries
            )
            return _ClaimedCurves(
                [votes_on_labels.renyi_curve], reasoning="all labels cost like one"
            )
        case aggregators.PowersetGNMax():
            # Each set of labels is a class, and a changed vote moves from one class to another.
            votes_on_sets = ClaimedGaussian(
                aggregator.noise_std, num_moved=2, num_releases=num_queries
            )
            return _ClaimedCurves([votes_on_sets.renyi_curve], reasoning="two counts move")
        case aggregators.ClippedVotes():
            # The papers write tau for `vote_clip`. The claim overlooks that a changed record can move 2 tau counts.
            clipped_votes = ClaimedGaussian(
                aggregator.noise_std,
                num_moved=min(aggregator.vote_clip, num_labels),
                num_releases=num_queries,
            )
            return _ClaimedCurves([clipped_votes.renyi_curve], reasoning="only tau counts move")
        case aggregators.GNMax():
            gnmax_curve = partial(
                _gnmax_curve, counts=imported_votes.counts, noise_std=aggregator.noise_std
            )
            return _ClaimedCurves([gnmax_curve], reasoning="data dependent: private, one direction")
        case aggregators.ConfidentGNMax():
            renyi_curves_of_screened = _renyi_curves_of_screened(
                aggregator, imported_votes, agreement=imported_votes.counts.max(axis=1), num_moved=2
            )
            return _ClaimedCurves(
                renyi_curves_of_screened, reasoning="expected answers only: private"
            )
        case aggregators.ConfidentVotes():
            votes_for_majority = np.maximum(
                imported_votes.counts, imported_votes.num_teachers - imported_votes.counts
            )
            renyi_curves_of_screened = _renyi_curves_of_screened(
                aggregator,
                imported_votes,
                agreement=votes_for_majority.min(axis=1),
                num_moved=num_labels,
            )
            return _ClaimedCurves(
                renyi_curves_of_screened, reasoning="expected answers only: private"
            )
        case _:
            return None


def _gnmax_curve(orders: FloatArray, *, counts: IntArray, noise_std: float) -> FloatArray:
    """Returns the bound of Theorem 6 of Papernot et al. 2018 for all queries together, `[A]`.

    Args:
        orders: the Renyi orders, `[A]`.
        counts: the counts of votes, `[num_queries, num_classes]`.
        noise_std: the standard deviation of the noise, in votes.
    """
    log_q = gnmax_log_q(counts, noise_std=noise_std)
    return np.asarray(theorem_6_rdp(log_q, noise_std=noise_std, orders=orders).sum(axis=0))


def _renyi_curves_of_screened(
    aggregator: aggregators.ConfidentVotes | aggregators.ConfidentGNMax,
    imported_votes: ImportedVotes,
    *,
    agreement: IntArray,
    num_moved: int,
) -> list[Curve]:
    """Returns two claimed Renyi curves of a screened aggregator: that of all answers, and that of all screenings.

    A screening decides with noise whether a query is answered. The claim counts all screenings, and the expected number
    of answers on these votes.

    Args:
        aggregator: the aggregator of the release, with its noise.
        imported_votes: the votes of the release.
        agreement: `[num_queries]`, the number of votes that a screening compares with its threshold.
        num_moved: the number of counts of an answer that differ by 1 between neighbors, according to the claim.
    """
    threshold = aggregator.threshold_share * imported_votes.num_teachers
    answer_probs = ndtr((agreement - threshold) / aggregator.screening_std)
    claimed_answers = ClaimedGaussian(
        aggregator.noise_std, num_moved=num_moved, num_releases=float(answer_probs.sum())
    )
    claimed_screenings = ClaimedGaussian(
        aggregator.screening_std, num_moved=1, num_releases=len(imported_votes.counts)
    )
    return [claimed_answers.renyi_curve, claimed_screenings.renyi_curve]
