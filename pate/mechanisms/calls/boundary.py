"""The boundary wrapper of a mechanism: a session is charged only for the calls that answer "boundary"."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent, q_targets
from pate.accounting.event_tree import failure_probability, leaves
from pate.accounting.q_targets import QTarget
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import (
    Interval,
    WeightEncloser,
    boundary_encloser,
    draw_index,
)
from pate.validation import InvalidValue, require, require_generator

# A bound on the error, in total variation, of the distribution of a wrapped call. The probabilities of the wrapped
# mechanism have a total error of at most 2**-42.
_OUTCOME_DISTRIBUTION_ERROR = 2.0**-40
# Larger exponents are cut to this, because the exponential function of 710 exceeds all floats.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class BoundaryOutcome:
    """The outcomes of one call, or of a batch of Q calls, of a `BoundaryWrapper`.

    Attributes:
        indices: the index of the outcome among those of the wrapped mechanism; -1 for "boundary": `[]` or `[Q]`.
        in_target: bool `[]` or `[Q]`, True where the call is a hit, which is where it answers "boundary".
    """

    indices: IntArray
    in_target: BoolArray


@dataclass(frozen=True)
class BoundaryWrapper:
    """A mechanism that answers "boundary" with probability pi / (1 + pi), and otherwise runs the wrapped mechanism.

    Here pi = min(1 - p, 1/2), and p is the probability of the likeliest outcome of the wrapped mechanism.

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: t-DP, t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)) < 4/3 epsilon.
        * in a session: the boundary is a q-target (`tight_boundary`), so only calls that answer "boundary" are hits.
        * Some mechanisms have exact `weights` (`GapSelection` with Gumbel or exponential noise). Then draws follow the
          weights exactly. For all other mechanisms draws follow `probabilities`, and the rounding error of the
          probabilities is charged to every call as `failure_prob`.

    Edge cases: without exact weights, a mechanism whose outcome is certain in double precision never answers
    "boundary". The distribution must be computed with no side channel, such as a run time that depends on votes.

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
        _ = self.target  # raises `InvalidValue` for a mechanism without a target

    @property
    def target(self) -> QTarget:
        """The target set of target charging, which is the outcome "boundary", with the epsilon t of one call."""
        return q_targets.tight_boundary(mechanism_epsilon(self.mechanism))

    @property
    def event(self) -> Event:
        """The price of one call, which does not depend on what the call answers."""
        pure_event = PureDpEvent(self.target.epsilon)
        if self.failure_prob == 0:
            return pure_event
        return ApproximateEvent(pure_event, failure_prob=self.failure_prob)

    @property
    def failure_prob(self) -> float:
        """The failure probability of each call, which a session is charged; 0 for a mechanism with exact weights."""
        if self._has_weights:
            return 0.0
        # Let P and Q be the distributions of a t-DP call on neighbors, and P' and Q' distributions within e of them.
        # Then P'(S) <= P(S) + e <= exp(t) Q(S) + e <= exp(t) Q'(S) + (1 + exp(t)) e.
        epsilon = min(self.target.epsilon, _LARGEST_EXPONENT)
        return min((1 + math.exp(epsilon)) * _OUTCOME_DISTRIBUTION_ERROR, 0.5)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> BoundaryOutcome:
        """Draws an outcome of the mechanism or "boundary", for one histogram `[d]` or each of a batch `[Q, d]`."""
        require_generator(rng)
        outcome_probs = self.probabilities(votes)
        outcome_probs_of_rows = np.atleast_2d(outcome_probs)
        histograms = np.atleast_2d(votes)

        def make_encloser(row: int) -> WeightEncloser:
            return boundary_encloser(enclose_weights=self._weight_encloser(histograms[row]))

        lazy_uniforms = LazyUniforms.draw((len(outcome_probs_of_rows),), rng)
        outcome_indices = draw_index(
            approximate_weights=outcome_probs_of_rows,
            lazy_uniforms=lazy_uniforms,
            make_encloser=make_encloser,
        )
        if outcome_probs.ndim == 1:
            outcome_indices = np.asarray(outcome_indices[0])
        is_boundary = np.asarray(outcome_indices == outcome_probs_of_rows.shape[1] - 1)
        return BoundaryOutcome(
            indices=np.where(is_boundary, -1, outcome_indices), in_target=is_boundary
        )

    def probabilities(self, votes: NDArray[np.integer]) -> FloatArray:
        """Returns the distribution of a call over the mechanism's n outcomes and, last, the boundary.

        The result is `[n + 1]` for one histogram of votes, `[Q, n + 1]` for a batch.
        """
        return q_targets.boundary_distribution(self.mechanism.probabilities(votes))

    @property
    def _has_weights(self) -> bool:
        """Whether the wrapped mechanism computes exact weights, in proportion to the probabilities of its outcomes."""
        has_outcome_weights = getattr(self.mechanism, "has_weights", False)
        return bool(has_outcome_weights)

    def _weight_encloser(self, histogram: NDArray[np.integer]) -> WeightEncloser:
        """Returns the function that encloses the weights of the n outcomes, for one histogram of votes `[d]`.

        The wrapped mechanism has each outcome with a probability in proportion to the weight of the outcome. If the
        mechanism computes no weights, the weights are its probabilities: floats that are taken as exact fractions, in a
        unit in which all of them are whole numbers.
        """
        if self._has_weights:
            enclose_weights: WeightEncloser = self.mechanism.weights(histogram)
            return enclose_weights
        probabilities = [
            Fraction(probability)
            for probability in self.mechanism.probabilities(histogram).tolist()
        ]
        common_denominator = math.lcm(*(probability.denominator for probability in probabilities))
        numerators = [int(probability * common_denominator) for probability in probabilities]

        def enclose_probabilities(decimal_digits: int) -> list[Interval]:
            return [(numerator, numerator) for numerator in numerators]

        return enclose_probabilities


def mechanism_epsilon(mechanism: Any) -> float:
    """Returns the total epsilon of a mechanism of pure DP, added over all events of which its price is composed.

    An event of bounded range, which implies pure DP, counts with its epsilon.
    Raises `InvalidValue` for a mechanism that is not of pure DP or has no `event`.
    """
    mechanism_event = getattr(mechanism, "event", None)
    if not isinstance(mechanism_event, Event):
        rule = "a mechanism of pure DP, with its event"
        raise InvalidValue("mechanism", type(mechanism).__name__, rule=rule)
    never_fails = failure_probability(mechanism_event) == 0
    epsilon = 0.0
    for leaf_event, count in leaves(mechanism_event):
        if not (never_fails and isinstance(leaf_event, (PureDpEvent, BoundedRangeEvent))):
            rule = "a mechanism of pure DP"
            raise InvalidValue("mechanism.event", type(leaf_event).__name__, rule=rule)
        epsilon += count * leaf_event.epsilon
    require(0 < epsilon < math.inf, "mechanism.event.epsilon", epsilon, "a number > 0")
    return epsilon
