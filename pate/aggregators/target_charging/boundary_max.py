"""BoundaryMax: the label with the most votes under target charging, for data with one label per sample."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, BoundedRangeEvent, Event, SelfComposedEvent
from pate.accounting.special import softmax
from pate.accounting.target_charging import boundary_distribution, tight_boundary
from pate.aggregators.histogram import Bits
from pate.aggregators.target_charging.aggregator import TargetChargedAggregator
from pate.aggregators.target_charging.rounds import Round
from pate.aggregators.target_charging.session_price import session_event
from pate.mechanisms.noise.categorical import boundary_weights, draw_index, softmax_weights
from pate.mechanisms.noise.uniforms import LazyUniforms
from pate.validation import require_count, require_positive


@dataclass(frozen=True, kw_only=True)
class BoundaryMax(TargetChargedAggregator):
    """Releases one label per query, by the exponential mechanism over the counts inside the boundary wrapper.

    A query whose likeliest label is not certain is abstained from with a probability of at most 1/3: a hit. All
    others are free. No query is refused before the session halts.

    Formal guarantees:
        * Each count moves by at most 1: a call is (2 / selection_scale)-DP under replace-one and
          (1 / selection_scale)-DP under add/remove, where all counts move in one direction. There is no failure.
        * That holds for any votes, one label per teacher or several.

    Attributes:
        selection_scale: beta of the Gumbel noise in votes, > 0.

    Source: Cohen & Lyu 2023 (boundary wrapper); docs/proofs/boundary_top_k.md.

    >>> aggregator = BoundaryMax(selection_scale=2.0, target_hits=1)
    >>> release = aggregator.aggregate(np.array([[95, 5, 0]]), num_teachers=100, rng=np.random.default_rng(0))
    >>> release.labels, release.num_hits
    (array([[ True, False, False]]), 0)
    """

    single_label: ClassVar[bool] = True

    selection_scale: float = field(metadata={"noise": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("selection_scale", self.selection_scale)

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, and its bounded range."""
        return (2 if self.adjacency is Adjacency.REPLACE_ONE else 1) / self.selection_scale

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The session: what its hits can cost, or all queries where those are fewer."""
        require_count("num_labels", num_labels)
        require_count("num_teachers", num_teachers)
        return session_event(
            tight_boundary,
            self.call_epsilon,
            target_hits=self.target_hits,
            num_calls=require_count("num_queries", num_queries, minimum=0),
            session_delta=self.session_delta,
            bounded_range=True,
        )

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The exponential mechanism for every query."""
        return SelfComposedEvent(BoundedRangeEvent(self.call_epsilon), num_queries)

    def scaled(self, factor: float) -> BoundaryMax:
        """selection_scale multiplied by `factor`."""
        return replace(self, selection_scale=self.selection_scale * factor)

    def distribution(self, votes: NDArray[np.integer]) -> NDArray[np.float64]:
        """The exact distribution of one call on `[L]` counts: `[L + 1]`, the boundary last."""
        return np.asarray(self._distribution(np.asarray(votes)[None])[0])

    def hit_probabilities(
        self, votes: NDArray[np.int64], *, num_teachers: int, prior: Bits | None = None
    ) -> NDArray[np.float64]:
        """That the outcome is the boundary; there is no prior."""
        return np.asarray(self._distribution(votes)[:, -1])

    def _distribution(self, counts: NDArray[np.integer]) -> NDArray[np.float64]:
        return boundary_distribution(softmax(counts / self.selection_scale, axis=1))

    def _ask(
        self,
        counts: NDArray[np.int64],
        numbers: LazyUniforms,
        prior: Bits | None,
        *,
        first: int,
        num_teachers: int,
    ) -> Round:
        num_labels = counts.shape[1]
        deficits = (counts.max(axis=1, keepdims=True) - counts).astype(np.float64)
        outcomes = draw_index(
            self._distribution(counts),
            numbers.column(0),
            lambda row: boundary_weights(softmax_weights(deficits[row], self.selection_scale)),
        )
        labels = outcomes[:, None] == np.arange(num_labels)
        return Round(labels, outcomes < num_labels, outcomes == num_labels)
