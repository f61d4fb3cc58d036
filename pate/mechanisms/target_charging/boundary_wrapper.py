"""The boundary wrapper: a call is free where one outcome is nearly certain; else it may answer "boundary", a hit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent
from pate.accounting.events import failure_probability, leaves
from pate.accounting.target_charging import QTarget, boundary_distribution, tight_boundary
from pate.mechanisms.noise.categorical import Weights, boundary_weights, draw_index, stated_weights
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms
from pate.validation import require, require_generator

Array = NDArray[np.float64]


_STATED_ERROR = 2.0**-40
"""Total variation between the distribution of a wrapped call and the one computed from stated probabilities."""
_LARGEST_EXPONENT = 700.0


class ProbabilityOracle(Protocol):
    """A mechanism that knows the distribution of its outcome to 2**-42 in total, such as `GapSelection`.

    One that `has_weights` also gives it exactly for one histogram, as `pate.mechanisms.noise.categorical.Weights`.
    """

    @property
    def event(self) -> Event:
        """Its price."""
        ...

    def probabilities(self, votes: NDArray[np.integer]) -> Array:
        """The distribution of the outcome for one histogram, `[n]`, or for each of a batch, `[Q, n]`."""
        ...


@dataclass(frozen=True)
class BoundaryOutcome:
    """The outcome of wrapped calls.

    Attributes:
        indices: int64 `[]` or `[Q]`: the outcome's place in the mechanism's distribution, -1 for the boundary.
    """

    indices: NDArray[np.int64]

    @property
    def in_target(self) -> NDArray[np.bool_]:
        """The hits of a session: the boundary."""
        return np.asarray(self.indices < 0)


@dataclass(frozen=True)
class BoundaryWrapper:
    """Answers "boundary" with probability pi / (1 + pi), else runs the mechanism.

    pi = min(1 - largest probability, 1/2) is computed from the exact distribution.

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: t-DP, t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)) < 4/3 epsilon.
        * in a session: the boundary is a q-target (`tight_boundary`), so that only calls that end there are paid.
        * Where the mechanism has exact `weights` beside its distribution (`GapSelection` with Gumbel or exponential
          noise), draws follow them exactly. Else they follow the stated probabilities, and the error of these counts
          as a failure: `failure_prob` of every call.

    Edge cases: an outcome that is certain in double precision is never on the boundary. The distribution must be
    computed with no side channel, such as a run time that depends on votes.

    Attributes:
        mechanism: of pure DP (`PureDpEvent`, `BoundedRangeEvent`, or several of them), with a probability oracle.

    Source: Cohen & Lyu 2023; docs/proofs/target_charging.md.

    >>> from pate.mechanisms.stable.gap_selection import GapSelection
    >>> wrapper = BoundaryWrapper(GapSelection(noise_scale=20.0, num_labels=3, num_teachers=400))
    >>> wrapper.probabilities(np.array([400, 50, 40])).round(3)  # k = 1, k = 2, boundary
    array([1., 0., 0.])
    >>> wrapper(np.array([[400, 50, 40], [400, 210, 20]]), rng=np.random.default_rng(5)).indices
    array([ 0, -1])
    """

    mechanism: ProbabilityOracle

    def __post_init__(self) -> None:
        kind = type(self.mechanism)
        require(hasattr(kind, "event"), "mechanism", kind.__name__, "a mechanism with a probability oracle")
        _ = self.target

    @property
    def target(self) -> QTarget:
        """What a call costs in a session; its epsilon is that of one access."""
        return tight_boundary(pure_epsilon(self.mechanism.event))

    @property
    def event(self) -> Event:
        """The price of one call outside a session."""
        pure = PureDpEvent(self.target.epsilon)
        return ApproximateEvent(pure, self.failure_prob) if self.failure_prob > 0 else pure

    @property
    def failure_prob(self) -> float:
        """What a session is charged for a call beside its target: 0 where draws are exact."""
        if getattr(self.mechanism, "has_weights", False):
            return 0.0
        return min((1 + math.exp(min(self.target.epsilon, _LARGEST_EXPONENT))) * _STATED_ERROR, 0.5)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> BoundaryOutcome:
        """Draws for one histogram, or for each of a batch."""
        require_generator(rng)
        distribution = self.probabilities(votes)
        distributions = np.atleast_2d(distribution)
        histograms = np.atleast_2d(votes)
        drawn = draw_index(
            distributions, LazyUniforms.draw((len(distributions),), rng), lambda row: self._weights(histograms[row])
        )
        indices = np.where(drawn == distributions.shape[1] - 1, -1, drawn)
        return BoundaryOutcome(indices if distribution.ndim == 2 else np.asarray(indices[0]))

    def _weights(self, votes: NDArray[np.integer]) -> Weights:
        exact = getattr(self.mechanism, "weights", None)
        weights = None if exact is None else exact(votes)
        return boundary_weights(stated_weights(self.mechanism.probabilities(votes)) if weights is None else weights)

    def probabilities(self, votes: NDArray[np.integer]) -> Array:
        """The exact distribution of a call: `[n + 1]` or `[Q, n + 1]`, the boundary last."""
        return boundary_distribution(self.mechanism.probabilities(votes))


def pure_epsilon(event: Event) -> float:
    """The epsilon of a release of pure DP; the epsilons of its parts add up.

    Raises:
        InvalidValue: an event that states none, or a sum that is not > 0 and finite.
    """
    total = 0.0
    for part, count in leaves(event):
        pure = isinstance(part, (PureDpEvent, BoundedRangeEvent)) and failure_probability(event) == 0
        require(pure, "mechanism.event", type(part).__name__, "a mechanism of pure DP")
        total += count * getattr(part, "epsilon", math.inf)
    require(0 < total < math.inf, "mechanism.event.epsilon", total, "a number > 0")
    return total
