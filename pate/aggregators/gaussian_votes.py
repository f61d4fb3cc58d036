"""Plain PATE on many labels: every label's count against half the teachers, with Gaussian noise of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, OneBitEvent, SelfComposedEvent, ThresholdEvent
from pate.accounting.data_dependent import DataDependentCost, one_bit_cost
from pate.accounting.events import BitEvent
from pate.accounting.special import few_ndtr
from pate.aggregators.aggregator import Bits, ExpectedRelease, PerQueryAggregator, require_shape
from pate.mechanisms.noise.noisy_order import are_normally_above
from pate.mechanisms.parameters import COUNT, NOISE
from pate.validation import require_count
from pate.votes.made_up_votes import MadeUpVotes

_FARTHEST = 9.0  # noise stds: a count beyond is moved there, where an outcome differs with probability 1e-19


def _window(noise_std: float, threshold: float, num_teachers: int) -> tuple[int, int]:
    """The least and the largest count that are told apart."""
    low, high = (threshold + side * _FARTHEST * noise_std for side in (-1, 1))
    return math.floor(max(low, 0.0)), math.ceil(min(high, num_teachers))


def threshold_event(noise_std: float, threshold_share: float, num_teachers: int) -> ThresholdEvent:
    """The price of saying whether a count that moves by at most 1, with noise, reaches a share of the teachers."""
    threshold = threshold_share * require_count("num_teachers", num_teachers)
    low, high = _window(noise_std, threshold, num_teachers)
    return ThresholdEvent(noise_std, low - threshold, high - low + 1)


def threshold_cost(
    counts: NDArray[np.int64], noise_std: float, threshold_share: float, *, num_teachers: int, orders: object
) -> DataDependentCost:
    """What it cost on these counts, `[Q]` or `[Q, n]`, to say whether each reaches a share of the teachers."""
    low, high = _window(noise_std, threshold_share * num_teachers, num_teachers)
    event = threshold_event(noise_std, threshold_share, num_teachers)
    return one_bit_cost(np.clip(counts, low, high) - low, event=event, orders=orders)


def reach_threshold(
    counts: NDArray[np.int64], noise_std: float, threshold_share: float, *, num_teachers: int, rng: np.random.Generator
) -> Bits:
    """Whether count + N(0, noise_std**2) reaches a share of the teachers, elementwise and exactly: `[Q, n]`."""
    # Counts are moved into the window before there is noise. That moves no count farther from its neighbor's, so the
    # price needs the window alone, however many teachers there are.
    threshold = threshold_share * num_teachers
    return are_normally_above(counts, threshold, noise_std, rng, within=_window(noise_std, threshold, num_teachers))


@dataclass(frozen=True, kw_only=True)
class GaussianVotes(PerQueryAggregator):
    """Releases, for each label, whether count + N(0, noise_std**2) > num_teachers / 2. Answers every query.

    Formal guarantees:
        * All L counts of a query can move at once, each by at most 1, so as a vector release it is a Gaussian with
          l2 sensitivity sqrt(L), under either adjacency: L a / (2 noise_std**2) at order a.
        * Only the signs are released and the noises are independent, so the price charged is that of L bits per
          query: 0.637 of the vector's where noise_std is large.
        * Under add/remove the threshold stays at the declared num_teachers / 2.
        * Where one change reaches d teachers, each count moves by at most d, and so does the statistic of each bit.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        teachers_reached: d, by one change; more than 1 where groups are with several teachers.

    Source: Papernot et al. 2018 for one label; docs/proofs/gaussian_votes.md.

    >>> votes = np.array([[90, 3, 60]])
    >>> GaussianVotes(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False,  True]])
    """

    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "teachers"

    noise_std: float = field(metadata=NOISE)
    teachers_reached: int = field(default=1, metadata=COUNT)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        bit: BitEvent = threshold_event(self.noise_std, 0.5, num_teachers)
        if self.teachers_reached > 1:
            bit = OneBitEvent(tuple(bit.log_odds.tolist()), reach=self.teachers_reached)
        return SelfComposedEvent(bit, num_queries * num_labels)

    def cost_on(
        self, votes: NDArray[np.int64], *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> DataDependentCost | None:
        if self.teachers_reached > 1:
            return None
        return threshold_cost(votes, self.noise_std, 0.5, num_teachers=num_teachers, orders=orders)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        counts, places = np.unique(votes.counts(), return_inverse=True)
        above = few_ndtr((counts - votes.num_teachers / 2) / self.noise_std)[places.reshape(votes.labels.shape)]
        return ExpectedRelease(1.0, float(above[votes.labels].mean()), float(1 - above[~votes.labels].mean()))

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        labels = reach_threshold(votes, self.noise_std, 0.5, num_teachers=num_teachers, rng=rng)
        return labels, np.ones(len(votes), dtype=np.bool_)
