"""The boundary wrapper: calls of a mechanism that are paid for only where they end on the boundary."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import accounting
from pate.accounting import (
    ApproximateEvent,
    Event,
    PureDpEvent,
    target_charging,
)
from pate.accounting.event_tree import failure_probability, leaves
from pate.accounting.target_charging import QTarget
from pate.mechanisms.noise.lazy_uniforms import Array, Bits, Integers, LazyUniforms
from pate.mechanisms.noise.weighted_index import Weights, boundary_weights, draw_index
from pate.validation import (
    InvalidValue,
    require,
    require_generator,
)

# the error in total variation of the distribution of a wrapped call, where probabilities are stated to 2**-42
_STATED_ERROR = 2.0**-40
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class BoundaryOutcome:
    """Outcomes of wrapped calls."""

    indices: Integers  # [] or [Q]: the place in the mechanism's distribution, -1 for the boundary
    in_target: Bits  # the hits of a session: the boundary


@dataclass(frozen=True)
class BoundaryWrapper:
    """A mechanism that answers "boundary" with probability pi / (1 + pi), and else runs the wrapped mechanism.

    Here pi = min(1 - p, 1/2), and p is the probability of the likeliest outcome of the wrapped mechanism.

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: t-DP, t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)) < 4/3 epsilon.
        * in a session: the boundary is a q-target (`tight_boundary`), so that only calls that end on it are paid for.
        * Where the mechanism has exact `weights` beside its distribution (`GapSelection` with Gumbel or exponential
          noise), draws follow the weights exactly. Else draws follow the stated probabilities, whose error counts as
          a failure: `failure_prob` of every call.

    Edge cases: an outcome that is certain in double precision is never on the boundary. The distribution must be
    computed with no side channel, such as a run time that depends on votes.

    Attributes:
        mechanism: of pure DP (`PureDpEvent`, `BoundedRangeEvent`, or several), with `event` and `probabilities(votes)`,
            which are exact to 2**-42 in total, `[n]` or `[Q, n]`. A mechanism that `has_weights` also has exact
            `weights(votes)`.

    Source: Cohen & Lyu 2023; docs/proofs/target_charging.md.

    >>> from pate.mechanisms.gap_selection import GapSelection
    >>> wrapper = BoundaryWrapper(GapSelection(noise_scale=20.0, num_labels=3, num_teachers=400))
    >>> wrapper.probabilities(np.array([400, 50, 40])).round(3)  # k = 1, k = 2, boundary
    array([1., 0., 0.])
    >>> wrapper(np.array([[400, 50, 40], [400, 210, 20]]), rng=np.random.default_rng(5)).indices
    array([ 0, -1])
    """

    mechanism: Any

    def __post_init__(self) -> None:
        _ = self.target

    @property
    def target(self) -> QTarget:
        """The target of target charging: the boundary. Its epsilon is that of one access."""
        return target_charging.tight_boundary(pure_epsilon(self.mechanism))

    @property
    def event(self) -> Event:
        """The price of one call, whichever its answer."""
        pure = PureDpEvent(self.target.epsilon)
        return ApproximateEvent(pure, self.failure_prob) if self.failure_prob > 0 else pure

    @property
    def failure_prob(self) -> float:
        """The failure probability that a session is charged for each call: 0 where draws are exact."""
        if getattr(self.mechanism, "has_weights", False):
            return 0.0
        # P'(S) <= P(S) + e <= exp(t) Q(S) + e <= exp(t) Q'(S) + (1 + exp(t)) e for laws within e of a t-DP call's
        return min((1 + math.exp(min(self.target.epsilon, _LARGEST_EXPONENT))) * _STATED_ERROR, 0.5)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> BoundaryOutcome:
        """Draws an outcome or the boundary, for one histogram `[d]` or each of a batch `[Q, d]`."""
        require_generator(rng)
        distribution = self.probabilities(votes)
        distributions = np.atleast_2d(distribution)
        histograms = np.atleast_2d(votes)

        def weights(row: int) -> Weights:
            if getattr(self.mechanism, "has_weights", False):
                return boundary_weights(self.mechanism.weights(histograms[row]))
            stated = list(map(Fraction, self.mechanism.probabilities(histograms[row]).tolist()))
            unit = math.lcm(*(p.denominator for p in stated))
            return boundary_weights(lambda digits: [(int(p * unit), int(p * unit)) for p in stated])

        uniforms = LazyUniforms.draw((len(distributions),), rng)
        indices = draw_index(distributions, uniforms, weights)
        if distribution.ndim == 1:
            indices = np.asarray(indices[0])
        is_boundary = np.asarray(indices == distributions.shape[1] - 1)
        return BoundaryOutcome(indices=np.where(is_boundary, -1, indices), in_target=is_boundary)

    def probabilities(self, votes: NDArray[np.integer]) -> Array:
        """Returns the exact distribution of a call: `[n + 1]` or `[Q, n + 1]`, the boundary last."""
        return target_charging.boundary_distribution(self.mechanism.probabilities(votes))


def pure_epsilon(mechanism: Any) -> float:
    """Returns the epsilon of a mechanism of pure DP, the sum over its parts; raises `InvalidValue` for another one."""
    event = getattr(mechanism, "event", None)
    total = 0.0
    if not isinstance(event, Event):
        rule = "a mechanism of pure DP, with its event"
        raise InvalidValue("mechanism", type(mechanism).__name__, rule=rule)
    for part, count in leaves(event):
        pure = (
            isinstance(part, (PureDpEvent, accounting.BoundedRangeEvent))
            and failure_probability(event) == 0
        )
        require(pure, "mechanism.event", type(part).__name__, "a mechanism of pure DP")
        total += count * getattr(part, "epsilon", math.inf)
    require(0 < total < math.inf, "mechanism.event.epsilon", total, "a number > 0")
    return total
