"""The boundary wrapper of a mechanism: a session is charged only for the calls that answer "boundary"."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent, target_charging
from pate.accounting.event_tree import failure_probability, leaves
from pate.accounting.target_charging import QTarget
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import Weights, boundary_weights, draw_index
from pate.validation import InvalidValue, require, require_generator

# The error in total variation of the distribution of a wrapped call, where probabilities are stated to 2**-42
_STATED_ERROR = 2.0**-40
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class BoundaryOutcome:
    """The outcomes of one call, or of a batch of Q calls, of a `BoundaryWrapper`."""

    indices: IntArray  # [] or [Q]: the index of the outcome in the mechanism's distribution, or -1 for the boundary
    # bool [] or [Q]: True where the call is a hit, that is where it answers "boundary"
    in_target: BoolArray


@dataclass(frozen=True)
class BoundaryWrapper:
    """A mechanism that answers "boundary" with probability pi / (1 + pi), and otherwise runs the wrapped mechanism.

    Here pi = min(1 - p, 1/2), and p is the probability of the likeliest outcome of the wrapped mechanism.

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: t-DP, t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)) < 4/3 epsilon.
        * in a session: the boundary is a q-target (`tight_boundary`), so only calls that answer "boundary" are charged.
        * Some mechanisms have exact `weights` (`GapSelection` with Gumbel or exponential noise). Then draws follow the
          weights exactly. For all other mechanisms draws follow `probabilities`, and the rounding error of the
          probabilities is charged to every call as `failure_prob`.

    Edge cases: an outcome that is certain in double precision is never on the boundary. The distribution must be
    computed with no side channel, such as a run time that depends on votes.

    Attributes:
        mechanism: the wrapped mechanism, of pure DP. Its `event` is a `PureDpEvent`, a `BoundedRangeEvent`, or a
            composition of such events. Its `probabilities(votes)` returns the distribution over its n outcomes,
            `[n]` or `[Q, n]`, with a total error of at most 2**-42. A mechanism with a true attribute `has_weights`
            also has exact `weights(votes)`.

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
        self._validate()

    def _validate(self) -> None:
        """Raises `InvalidValue` unless the mechanism is of pure DP, with an epsilon that has a target."""
        self._make_target()

    @property
    def target(self) -> QTarget:
        """The target set of target charging, which is the outcome "boundary", with the epsilon of one access."""
        return self._make_target()

    def _make_target(self) -> QTarget:
        """Returns the target for the epsilon of the wrapped mechanism."""
        return target_charging.tight_boundary(mechanism_epsilon(self.mechanism))

    @property
    def event(self) -> Event:
        """The price of one call, for every answer."""
        pure = PureDpEvent(self.target.epsilon)
        return (
            ApproximateEvent(pure, failure_prob=self.failure_prob)
            if self.failure_prob > 0
            else pure
        )

    @property
    def failure_prob(self) -> float:
        """The failure probability of each call, which a session is charged; 0 for a mechanism with exact weights."""
        if getattr(self.mechanism, "has_weights", False):
            return 0.0
        # P'(S) <= P(S) + e <= exp(t) Q(S) + e <= exp(t) Q'(S) + (1 + exp(t)) e for laws within e of a t-DP call's
        return min((1 + math.exp(min(self.target.epsilon, _LARGEST_EXPONENT))) * _STATED_ERROR, 0.5)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> BoundaryOutcome:
        """Draws an outcome of the mechanism or "boundary", for one histogram `[d]` or each of a batch `[Q, d]`."""
        require_generator(rng)
        distribution = self.probabilities(votes)
        distributions = np.atleast_2d(distribution)
        histograms = np.atleast_2d(votes)

        def weights(row: int) -> Weights:
            if getattr(self.mechanism, "has_weights", False):
                return boundary_weights(self.mechanism.weights(histograms[row]))
            stated = list(map(Fraction, self.mechanism.probabilities(histograms[row]).tolist()))
            unit = math.lcm(*(p.denominator for p in stated))
            numerators = [int(p * unit) for p in stated]

            def exact_bounds(digits: int) -> list[tuple[int, int]]:
                """Returns equal lower and upper bounds of the stated probabilities, in units of 1 / `unit`."""
                return [(numerator, numerator) for numerator in numerators]

            return boundary_weights(exact_bounds)

        uniforms = LazyUniforms.draw((len(distributions),), rng)
        indices = draw_index(distributions, uniforms, exact_weights_of_row=weights)
        if distribution.ndim == 1:
            indices = np.asarray(indices[0])
        is_boundary = np.asarray(indices == distributions.shape[1] - 1)
        return BoundaryOutcome(indices=np.where(is_boundary, -1, indices), in_target=is_boundary)

    def probabilities(self, votes: NDArray[np.integer]) -> FloatArray:
        """Returns the distribution of a call over the mechanism's n outcomes and, last, the boundary.

        The result is `[n + 1]` for one histogram of votes, `[Q, n + 1]` for a batch.
        """
        return target_charging.boundary_distribution(self.mechanism.probabilities(votes))


def mechanism_epsilon(mechanism: Any) -> float:
    """Returns the total epsilon of a mechanism of pure DP, added over all events of which its price is composed.

    Raises `InvalidValue` for a mechanism that is not of pure DP or has no `event`.
    """
    event = getattr(mechanism, "event", None)
    total = 0.0
    if not isinstance(event, Event):
        rule = "a mechanism of pure DP, with its event"
        raise InvalidValue("mechanism", type(mechanism).__name__, rule=rule)
    never_fails = failure_probability(event) == 0
    for part, count in leaves(event):
        if not (never_fails and isinstance(part, (PureDpEvent, BoundedRangeEvent))):
            kind = type(part).__name__
            raise InvalidValue("mechanism.event", kind, rule="a mechanism of pure DP")
        total += count * part.epsilon
    require(0 < total < math.inf, "mechanism.event.epsilon", total, "a number > 0")
    return total
