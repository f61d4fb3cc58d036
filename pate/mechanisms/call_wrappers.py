"""Mechanisms as calls that are paid for only where they hit: the boundary, two runs, conditional release."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent, SelfComposedEvent, target_charging
from pate.accounting.events import failure_probability, leaves
from pate.accounting.target_charging import HeldBudget, QTarget, TargetCharging
from pate.mechanisms.noise.uniforms import Array, LazyUniforms, Weights, boundary_weights, draw_index
from pate.mechanisms.top_k import TopK
from pate.validation import InvalidValue, require, require_generator, require_kind

Accept = Callable[[Any], bool]

_STATED_ERROR = 2.0**-40
"""Total variation between the distribution of a wrapped call and the one computed from stated probabilities."""
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class BoundaryOutcome:
    """The outcome of wrapped calls."""

    indices: NDArray[np.int64]  # [] or [Q]: the place in the mechanism's distribution, -1 for the boundary

    @property
    def in_target(self) -> NDArray[np.bool_]:
        """The hits of a session: the boundary."""
        return np.asarray(self.indices < 0)


@dataclass(frozen=True)
class BoundaryWrapper:
    """Answers "boundary" with probability pi / (1 + pi), else runs the mechanism: pi = min(1 - largest chance, 1/2).

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: t-DP, t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)) < 4/3 epsilon.
        * in a session: the boundary is a q-target (`tight_boundary`), so that only calls that end there are paid.
        * Where the mechanism has exact `weights` beside its distribution (`GapSelection` with Gumbel or exponential
          noise), draws follow them exactly. Else they follow the stated probabilities, and the error of these counts
          as a failure: `failure_prob` of every call.

    Edge cases: an outcome that is certain in double precision is never on the boundary. The distribution must be
    computed with no side channel, such as a run time that depends on votes.

    Attributes:
        mechanism: of pure DP (`PureDpEvent`, `BoundedRangeEvent`, or several), with `event` and `probabilities(votes)`,
            to 2**-42 in total, `[n]` or `[Q, n]`. One that `has_weights` also gives them exactly: `weights(votes)`.

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
        kind = type(self.mechanism)
        require(hasattr(kind, "event"), "mechanism", kind.__name__, "a mechanism with a probability oracle")
        _ = self.target

    @property
    def target(self) -> QTarget:
        """What a call costs in a session; its epsilon is that of one access."""
        return target_charging.tight_boundary(pure_epsilon(self.mechanism.event))

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
        # P'(S) <= P(S) + e <= exp(t) Q(S) + e <= exp(t) Q'(S) + (1 + exp(t)) e for laws within e of a t-DP call's
        return min((1 + math.exp(min(self.target.epsilon, _LARGEST_EXPONENT))) * _STATED_ERROR, 0.5)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> BoundaryOutcome:
        """Draws for one histogram, or for each of a batch."""
        require_generator(rng)
        distribution = self.probabilities(votes)
        distributions, histograms = np.atleast_2d(distribution), np.atleast_2d(votes)

        def weights(row: int) -> Weights:
            if getattr(self.mechanism, "has_weights", False):
                return boundary_weights(self.mechanism.weights(histograms[row]))
            stated = list(map(Fraction, self.mechanism.probabilities(histograms[row]).tolist()))
            unit = math.lcm(*(p.denominator for p in stated))
            return boundary_weights(lambda digits: [(int(p * unit), int(p * unit)) for p in stated])

        drawn = draw_index(distributions, LazyUniforms.draw((len(distributions),), rng), weights)
        indices = np.where(drawn == distributions.shape[1] - 1, -1, drawn)
        return BoundaryOutcome(indices if distribution.ndim == 2 else np.asarray(indices[0]))

    def probabilities(self, votes: NDArray[np.integer]) -> Array:
        """The exact distribution of a call: `[n + 1]` or `[Q, n + 1]`, the boundary last."""
        return target_charging.boundary_distribution(self.mechanism.probabilities(votes))


def pure_epsilon(event: Event) -> float:
    """The epsilon of a release of pure DP, or a refusal; the epsilons of its parts add up."""
    total = 0.0
    for part, count in leaves(event):
        pure = isinstance(part, (PureDpEvent, BoundedRangeEvent)) and failure_probability(event) == 0
        require(pure, "mechanism.event", type(part).__name__, "a mechanism of pure DP")
        total += count * getattr(part, "epsilon", math.inf)
    require(0 < total < math.inf, "mechanism.event.epsilon", total, "a number > 0")
    return total


@dataclass(frozen=True)
class TwoRuns:
    """Two outcomes of a mechanism for the same votes."""

    first: Any
    second: Any
    in_target: NDArray[np.bool_]  # [] or [Q]: whether they differ, the hits of a session


@dataclass(frozen=True)
class RunTwice:
    """Runs a mechanism twice on the same votes, query by query with fresh noise, and releases both outcomes.

    Formal guarantees, for the adjacency of the wrapped epsilon-DP mechanism:
        * one call: twice its event.
        * in a session: "the outcomes differ" is a q-target of a 2 epsilon-DP call, with q the smaller of
          (e^epsilon + 1) / (e^(2 epsilon) + e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2; tight.

    Attributes:
        mechanism: of pure DP, with its `event`; draws an array, `[]` or `[Q]`, or a `TopK`, from votes and `rng=`.

    Source: Cohen & Lyu 2023, Lemma F.1; docs/proofs/target_charging.md.

    >>> from pate.mechanisms.gap_selection import GapSelection
    >>> twice = RunTwice(GapSelection(noise_scale=20.0, num_labels=3, num_teachers=400))
    >>> outcome = twice(np.array([[400, 50, 40], [400, 210, 20]]), rng=np.random.default_rng(3))
    >>> outcome.first, outcome.second, outcome.in_target
    (array([1, 1]), array([1, 2]), array([False,  True]))
    """

    mechanism: Any

    def __post_init__(self) -> None:
        require(hasattr(self.mechanism, "event"), "mechanism", type(self.mechanism).__name__, "one of pure DP")
        _ = self.target

    @property
    def target(self) -> QTarget:
        """What a call costs in a session."""
        return target_charging.run_twice(pure_epsilon(self.mechanism.event))

    @property
    def event(self) -> Event:
        """The price of one call outside a session."""
        return SelfComposedEvent(self.mechanism.event, 2)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> TwoRuns:
        require_generator(rng)
        first, second = self.mechanism(votes, rng=rng), self.mechanism(votes, rng=rng)
        if isinstance(first, TopK):  # the order of indices counts
            return TwoRuns(first, second, np.asarray((first.indices != second.indices).any(axis=-1)))
        if isinstance(first, (np.ndarray, np.generic)) and first.ndim <= 1:
            return TwoRuns(first, second, np.asarray(first != second))
        raise InvalidValue(f"mechanism={type(first).__name__}: expected one whose outcome is an array [Q] or a TopK")


@dataclass(frozen=True)
class Conditional:
    """What was published of one outcome."""

    key: int  # names the outcome, for `ConditionalRelease.revise`
    published: bool  # whether it lay in the set
    outcome: Any  # None where it was not published


class ConditionalRelease(HeldBudget):
    """Draws outcomes, keeps them, and publishes each at most once: when it lies in a set that is asked for.

    The caller chooses the sets from what is known so far. They may overlap: an unpublished outcome lies in none before.

    Formal guarantees, within the price of the session, which is charged before anything is returned:
        * the first question about an epsilon-DP outcome is a q-target call, q = 1 / (e^epsilon + 1), hit if published.
        * every later one is charged as a call of 2 epsilon; each outcome hits at most once in its life.
        * a delta of the outcome's mechanism is charged with the first question alone.

    Edge cases: a question that raises an error is charged as a hit, as the error may depend on the outcome. Unpublished
    outcomes are private, in memory only. Threads take turns. It refuses copies, pickles and forks.

    Attributes:
        session: one counter, whose target covers every question: 2 epsilon if outcomes are asked for again.

    Source: Cohen & Lyu 2023, ConditionalRelease and ReviseCR; docs/proofs/target_charging.md.

    >>> session = TargetCharging.of_targets([target_charging.revise(0.1)], target_hits=5, target_delta=1e-6)
    >>> stored = ConditionalRelease(session)
    >>> first = stored.release(lambda rng: 7, lambda y: y > 9, epsilon=0.1, rng=np.random.default_rng(0))
    >>> first.published, stored.revise(first.key, lambda y: y > 5).outcome, session.hits
    (False, 7, [1])
    """

    def __init__(self, session: TargetCharging) -> None:
        super().__init__()
        require_kind("session", session, TargetCharging, "a TargetCharging session")
        require(len(session.hits) == 1, "session.num_counters", len(session.hits), "1")
        self.session = session
        self._waiting: dict[int, tuple[Any, QTarget]] = {}
        self._count = 0

    def release(
        self,
        draw: Callable[[np.random.Generator], Any],
        accept: Accept,
        *,
        epsilon: float,
        failure_prob: float = 0.0,
        rng: np.random.Generator,
    ) -> Conditional:
        """Draws an outcome of an (epsilon, failure_prob)-DP mechanism and publishes it if `accept`, the set, says so.

        `accept` must not look at private data.

        Raises:
            InvalidValue: the session has halted or does not cover such a call; then nothing was drawn.
        """
        require_generator(rng)
        target = target_charging.not_prior(epsilon)
        with self._turn():
            self.session.require_open(target, failure_prob=failure_prob)
            key, self._count = self._count, self._count + 1
            again = target_charging.revise(epsilon)
            return self._ask(key, lambda: draw(rng), accept, (target, again), failure_prob)

    def revise(self, key: int, accept: Accept) -> Conditional:
        """Asks for a stored outcome again, with another set.

        Raises:
            InvalidValue: no such outcome waits, or the session has halted or does not cover twice the epsilon; then
                nothing was looked at.
        """
        with self._turn():
            if key not in self._waiting:
                raise InvalidValue(f"key={key}: expected an outcome that was drawn and not published")
            outcome, target = self._waiting[key]
            self.session.require_open(target)
            del self._waiting[key]
            return self._ask(key, lambda: outcome, accept, (target, target), 0.0)

    def _ask(
        self, key: int, look: Callable[[], Any], accept: Accept, targets: tuple[QTarget, QTarget], failure_prob: float
    ) -> Conditional:
        """Charges one question, by its target and that of the next one; what raises counts as published."""
        published = True
        try:
            outcome = look()
            published = bool(accept(outcome))
        finally:
            self.session.charge(published, target=targets[0], failure_prob=failure_prob)
        if published:
            return Conditional(key, True, outcome)
        self._waiting[key] = (outcome, targets[1])
        return Conditional(key, False, None)
