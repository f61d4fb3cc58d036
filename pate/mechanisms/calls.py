"""Calls of target charging, paid for where they hit: noisy numbers at thresholds, the boundary, two runs, questions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import accounting
from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    Event,
    PureDpEvent,
    SelfComposedEvent,
    target_charging,
)
from pate.accounting.event_tree import failure_probability, leaves
from pate.accounting.target_charging import HeldBudget, QTarget, TargetCharging
from pate.mechanisms.noise.uniforms import (
    Array,
    Bits,
    Integers,
    LazyUniforms,
    Weights,
    boundary_weights,
    draw_index,
)
from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
from pate.mechanisms.parameters import COUNT, POSITIVE, PROBABILITY, Parameters, one_of
from pate.mechanisms.top_k import TopK, checked_counts
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_count,
    require_generator,
    require_kind,
)

Accept = Callable[[Any], bool]
Draw = Callable[[np.random.Generator], Any]

_LARGEST_VALUE = 2**53
# in total variation: of the distribution of a wrapped call by stated probabilities
_STATED_ERROR = 2.0**-40
_LARGEST_EXPONENT = 700.0


def require_threshold(name: str, value: Any) -> int:
    """Returns a whole number of either sign as an int, or raises."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(whole and abs(int(value)) <= _LARGEST_VALUE, name, value, "a whole number")
    return int(value)


def require_values(values: Any) -> Integers:
    """Returns whole numbers `[]` or `[Q]`, or raises."""
    array = require_array("values", values, kinds="iu")
    require(array.ndim <= 1, "values.shape", array.shape, "[] or [num_queries]")
    largest = max(abs(int(array.min(initial=0))), abs(int(array.max(initial=0))))
    require(largest <= _LARGEST_VALUE, "values", largest, "at most 2**53 in size")
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NoisyWhole(Parameters):
    """Whole numbers with discrete Laplace noise."""

    # pure DP of one noisy number, >= 2**-31; the noise is made for the largest rate on its grid that is no larger
    epsilon: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.noise

    @property
    def sensitivity(self) -> int:
        """The most by which a number moves between neighbors."""
        return 1

    @property
    def noise(self) -> DiscreteLaplace:
        """The discrete Laplace noise of a call."""
        return DiscreteLaplace.at_most(Fraction(float(self.epsilon)) / self.sensitivity)


@dataclass(frozen=True, kw_only=True)
class ThresholdCall(NoisyWhole):
    """Compares noisy whole numbers with public thresholds; each call is epsilon-DP, for the adjacency given."""

    # "count", a number of teachers, which moves by at most 1; or "gap", the difference of two ranked counts, which
    # moves by at most 2 (replace-one) or 1 (add/remove)
    statistic: str = field(default="count", metadata=one_of(("count", "gap")))

    @property
    def sensitivity(self) -> int:
        """How far one change moves the statistic."""
        return 1 if self.statistic == "count" else self.adjacency.gap_sensitivity

    @property
    def event(self) -> Event:
        """The price of one call, whichever its answer."""
        return PureDpEvent(self.call_epsilon)

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, of the noise as it is drawn: at most `epsilon`."""
        return min(float(self.sensitivity * self.noise.rate), float(self.epsilon))

    def noisy(self, values: Any, rng: np.random.Generator) -> Integers:
        """Returns values with fresh noise."""
        checked = require_values(values)
        return np.asarray(checked + self.noise.sample(checked.shape, rng))


@dataclass(frozen=True)
class ReleasedValues:
    """The outcome of calls that release a number or nothing."""

    values: Integers  # [] or [Q]; 0 where nothing was released, not to be read
    answered: Bits  # [] or [Q]

    @property
    def in_target(self) -> Bits:
        """The hits of a session: whatever was released."""
        return self.answered


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(ThresholdCall):
    """Releases value + noise where that is at least `threshold`; the noise is discrete Laplace.

    The threshold is a whole number, public, and may depend on all earlier outcomes. There is no noise on it.

    Formal guarantee: epsilon-DP, for the adjacency given. In a session releases are a q-target of an epsilon-DP call,
    q = 1 / (e^epsilon + 1); the rest is free.
    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> test = AboveThreshold(threshold=50, epsilon=2.0)
    >>> outcome = test(np.array([3, 90, 20]), rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([False,  True, False]), array([ 0, 90,  0]))
    """

    threshold: int = field(metadata={"check": require_threshold})

    @property
    def target(self) -> QTarget:
        """What a call costs in a session of target charging; nothing is the prior."""
        return target_charging.not_prior(self.call_epsilon)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> ReleasedValues:
        """Tests one whole number `[]`, or each of a batch `[Q]` with noise of its own."""
        noisy = self.noisy(values, rng)
        answered = np.asarray(noisy >= self.threshold)
        return ReleasedValues(np.where(answered, noisy, 0), answered)

    def probabilities(self, values: Any, *, largest: int) -> Array:
        """The distribution of calls: `[..., n]` over nothing, threshold, threshold + 1, …, largest, all above it."""
        require(
            largest >= self.threshold, "largest", largest, f"a whole number >= {self.threshold}"
        )
        value = require_values(values)[..., None]
        released = self.noise.mass(np.arange(self.threshold, largest + 1) - value)
        nothing = self.noise.tail(value - self.threshold + 1)
        above = self.noise.tail(largest + 1 - value)
        return np.concatenate([nothing, released, above], axis=-1)


@dataclass(frozen=True)
class Sides:
    """The outcome of calls that compare a noisy number with two thresholds."""

    sides: Integers  # [] or [Q]: -1 below, 0 between, 1 above
    in_target: Bits  # the hits of a session: whatever fell between


@dataclass(frozen=True, kw_only=True)
class BetweenThresholds(ThresholdCall):
    """Says whether value + noise is < lower, in [lower, upper), or >= upper; the noise is discrete Laplace.

    Both are whole numbers, public, and may depend on all earlier outcomes.

    Formal guarantee: epsilon-DP, for the adjacency given. In a session "between" is a q-target of an epsilon-DP call,
    q = (1 - e^(-width rate)) / (e^epsilon + 1) with width = upper - lower and rate = epsilon / sensitivity; tight. The
    rest is free.
    Source: Cohen & Lyu 2023, for continuous noise; docs/proofs/threshold_calls.md.

    >>> test = BetweenThresholds(lower=300, upper=500, epsilon=0.1)
    >>> test(np.array([20, 410, 790]), rng=np.random.default_rng(0)).sides
    array([-1,  0,  1])
    """

    lower: int = field(metadata={"check": require_threshold})
    upper: int = field(metadata={"check": require_threshold})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lower < self.upper, "upper", self.upper, f"more than lower={self.lower}")

    @property
    def target(self) -> QTarget:
        """The q-value of an answer between the thresholds."""
        width = (self.upper - self.lower) / self.sensitivity
        return target_charging.between_thresholds(self.call_epsilon, width=width)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> Sides:
        """Tests one whole number `[]` or a batch `[Q]`: -1 below, 0 between the thresholds, 1 above."""
        noisy = self.noisy(values, rng)
        sides = np.asarray((noisy >= self.lower).astype(np.int64) + (noisy >= self.upper) - 1)
        return Sides(sides, np.asarray(sides == 0))

    def probabilities(self, values: Any) -> Array:
        """The distribution of calls: `[..., 3]`, below, between and above."""
        value = require_values(values)
        below = self.noise.tail(value - self.lower + 1)
        above = self.noise.tail(self.upper - value)
        # outside: how far the nearest between is
        steps = np.maximum(self.lower - value, value - self.upper + 1)
        width = self.upper - self.lower
        outside = self.noise.tail(np.maximum(steps, 0)) * -np.expm1(-width * float(self.noise.rate))
        return np.stack([below, np.where(steps > 0, outside, 1 - below - above), above], axis=-1)


def _price(target: QTarget, target_hits: int, failure_prob: float) -> Event:
    """That of everything released, however many questions, where one change is part of so many hits at most."""
    count = target_charging.min_accesses(
        target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=failure_prob
    )
    return ApproximateEvent(SelfComposedEvent(PureDpEvent(target.epsilon), count), failure_prob)


@dataclass(frozen=True, kw_only=True)
class SparseVector(NoisyWhole):
    """Releases, per query, the noisy number of items with a bit if it reaches a threshold; for any number of queries.

    An item is one teacher's, or one record's, bit in each query. When a sum is released, every item with the bit counts
    a hit; with its `item_hits`-th hit it drops out of all later sums. Which items did is private.

    Formal guarantee, for all releases together, except with probability `failure_prob`: a query is free where the
    item's bit is 0, and a not-prior call of epsilon where it is 1. An item, which is added or removed, has at most
    `item_hits` hits; an exchange (replace-one) at most twice as many. Queries and thresholds may depend on all earlier
    outcomes.

    Attributes:
        epsilon: of one sum, not of the release.
        item_hits: tau, >= 1.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.

    Source: Cohen & Lyu 2023; Kaplan, Mansour & Stemmer 2021; docs/proofs/sparse_vector.md.

    >>> mechanism = SparseVector(epsilon=1.0, item_hits=1, failure_prob=1e-9)
    >>> bits = np.zeros((3, 100), dtype=bool)
    >>> bits[0, :80], bits[1, :90], bits[2, 40:] = True, True, True
    >>> outcome = mechanism(bits, thresholds=50, rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([ True, False, False]), array([80,  0,  0]))
    """

    item_hits: int = field(metadata=COUNT)
    failure_prob: float = field(metadata=PROBABILITY)

    @property
    def target(self) -> QTarget:
        """What a query costs an item that has the bit."""
        return target_charging.not_prior(float(self.noise.rate))

    @property
    def target_hits(self) -> int:
        """The most hits that one change is part of."""
        return self.item_hits * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)

    @property
    def event(self) -> Event:
        """The price of one session."""
        return _price(self.target, self.target_hits, self.failure_prob)

    def start(self, num_items: int) -> "SparseVectorSession":
        """A session in which every item has all its hits; the event pays for one session."""
        return SparseVectorSession(self, num_items)

    def __call__(self, bits: Any, *, thresholds: Any, rng: np.random.Generator) -> ReleasedValues:
        """Answers queries `[Q, num_items]`, in their order, in one session; thresholds are whole, `[]` or `[Q]`."""
        checked = _require_bits(bits, rank=2)
        session = self.start(checked.shape[1])
        levels = np.broadcast_to(np.asarray(thresholds), (len(checked),)).tolist()
        answers = [
            session.ask(query, threshold=at, rng=rng)
            for query, at in zip(checked, levels, strict=True)
        ]
        answered = np.array([answer is not None for answer in answers], dtype=bool)
        return ReleasedValues(
            np.array([answer or 0 for answer in answers], dtype=np.int64), answered
        )


class SparseVectorSession(HeldBudget):
    """A session of sparse vector: counts the hits of each item. It is private, like the items."""

    def __init__(self, mechanism: SparseVector, num_items: int) -> None:
        super().__init__()
        require_kind("mechanism", mechanism, SparseVector, "a SparseVector")
        self.mechanism = mechanism
        self._noise = mechanism.noise
        self._hits = np.zeros(require_count("num_items", num_items), dtype=np.int64)

    def ask(self, bits: Any, *, threshold: int, rng: np.random.Generator) -> int | None:
        """The noisy number of items with the bit, bool `[num_items]`, that are still in; None below the threshold."""
        require_generator(rng)
        level = require_threshold("threshold", threshold)
        checked = _require_bits(bits, rank=1)
        require(
            checked.shape == self._hits.shape, "bits.shape", checked.shape, f"{self._hits.shape}"
        )
        with self._turn():
            counted = checked & (self._hits < self.mechanism.item_hits)
            noisy = int(counted.sum()) + int(self._noise.sample((), rng))
            if noisy < level:
                return None
            self._hits += counted
            return noisy


def _require_bits(bits: Any, *, rank: int) -> Bits:
    array = require_array("bits", bits, kinds="b")
    shapes = {1: "[num_items]", 2: "[num_queries, num_items]"}
    require(array.ndim == rank and array.size > 0, "bits.shape", array.shape, shapes[rank])
    return array


@dataclass(frozen=True)
class ScoredTopK(TopK):
    """A top-k outcome, in falling order of its noisy counts."""

    scores: Integers  # `[k]` or `[Q, k]`, counts with noise


@dataclass(frozen=True, kw_only=True)
class SweepTopK(NoisyWhole):
    """Adds discrete Laplace noise to every count and releases the k largest, with their noisy counts.

    A threshold sweeps from the top down. At each step every count not yet released is asked whether its noisy value
    equals it; the k-th yes ends the sweep. So the price depends on the k hits alone.

    Formal guarantee: every question is a not-prior call of 2 epsilon (`revise`); k hits are n accesses except with
    probability `failure_prob`. The same for replace-one and add/remove: one count moves by at most 1 under both.

    Attributes:
        epsilon: of one noisy count, not of the release.
        k: how many indices, >= 1.
        failure_prob: of more accesses than are paid for, in (0, 1); their number follows from it.

    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> sweep = SweepTopK(k=2, epsilon=0.5, failure_prob=1e-9)
    >>> outcome = sweep(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices, outcome.scores
    (array([0, 2]), array([89, 49]))
    """

    k: int = field(metadata=COUNT)
    failure_prob: float = field(metadata=PROBABILITY)

    @property
    def target(self) -> QTarget:
        """What a question costs; several sweeps in one session are k hits each."""
        return target_charging.revise(float(self.noise.rate))

    @property
    def event(self) -> Event:
        """The price of a sweep: k hits of the target."""
        return _price(self.target, self.k, self.failure_prob)

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> ScoredTopK:
        """Draws for one histogram `[d]` or each of a batch `[Q, d]`, of whole numbers in 0..2**40."""
        require_generator(rng)
        checked = checked_counts(counts, self.k)
        noisy = checked + self.noise.sample(checked.shape, rng)
        indices = np.argsort(-noisy, axis=-1, kind="stable")[..., : self.k]
        answered = np.ones(checked.shape[:-1], dtype=bool)
        return ScoredTopK(indices, answered, np.take_along_axis(noisy, indices, axis=-1))


@dataclass(frozen=True)
class BoundaryOutcome:
    """The outcome of wrapped calls."""

    indices: Integers  # [] or [Q]: the place in the mechanism's distribution, -1 for the boundary
    in_target: Bits  # the hits of a session: the boundary


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
        _ = self.target

    @property
    def target(self) -> QTarget:
        """What a call costs in a session; its epsilon is that of one access."""
        return target_charging.tight_boundary(pure_epsilon(self.mechanism))

    @property
    def event(self) -> Event:
        """The price of one call, whichever its answer."""
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
        """Draws an outcome, or the boundary, for one histogram `[d]` or each of a batch `[Q, d]`."""
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

        drawn = draw_index(distributions, LazyUniforms.draw((len(distributions),), rng), weights)
        drawn = drawn if distribution.ndim == 2 else np.asarray(drawn[0])
        hit = np.asarray(drawn == distributions.shape[1] - 1)
        return BoundaryOutcome(np.where(hit, -1, drawn), hit)

    def probabilities(self, votes: NDArray[np.integer]) -> Array:
        """The exact distribution of a call: `[n + 1]` or `[Q, n + 1]`, the boundary last."""
        return target_charging.boundary_distribution(self.mechanism.probabilities(votes))


def pure_epsilon(mechanism: Any) -> float:
    """The epsilon of a mechanism of pure DP, or a refusal; the epsilons of its parts add up."""
    event: Any = getattr(mechanism, "event", None)
    total = 0.0
    require(
        isinstance(event, Event),
        "mechanism",
        type(mechanism).__name__,
        "a mechanism of pure DP, with its event",
    )
    for part, count in leaves(event):
        pure = (
            isinstance(part, (PureDpEvent, accounting.BoundedRangeEvent))
            and failure_probability(event) == 0
        )
        require(pure, "mechanism.event", type(part).__name__, "a mechanism of pure DP")
        total += count * getattr(part, "epsilon", math.inf)
    require(0 < total < math.inf, "mechanism.event.epsilon", total, "a number > 0")
    return total


@dataclass(frozen=True)
class TwoRuns:
    """Two outcomes of a mechanism for the same votes."""

    first: Any
    second: Any
    in_target: Bits  # [] or [Q]: whether they differ, the hits of a session


@dataclass(frozen=True)
class RunTwice:
    """Runs a mechanism twice on the same votes, query by query with fresh noise, and releases both outcomes.

    The mechanism is of pure DP, has an `event`, and draws an array, `[]` or `[Q]`, or a `TopK`, from votes and `rng=`.

    Formal guarantee, for the adjacency of the mechanism: one call costs twice its event. In a session "the outcomes
    differ" is a q-target of a 2 epsilon-DP call, with q the smaller of (e^epsilon + 1) / (e^(2 epsilon) +
    e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2; tight.
    Source: Cohen & Lyu 2023, Lemma F.1; docs/proofs/target_charging.md.

    >>> from pate.mechanisms.gap_selection import GapSelection
    >>> twice = RunTwice(GapSelection(noise_scale=20.0, num_labels=3, num_teachers=400))
    >>> outcome = twice(np.array([[400, 50, 40], [400, 210, 20]]), rng=np.random.default_rng(3))
    >>> outcome.first, outcome.second, outcome.in_target
    (array([1, 1]), array([1, 2]), array([False,  True]))
    """

    mechanism: Any

    def __post_init__(self) -> None:
        _ = self.target

    @property
    def target(self) -> QTarget:
        """The q-value of two answers that differ."""
        return target_charging.run_twice(pure_epsilon(self.mechanism))

    @property
    def event(self) -> Event:
        """The price of two runs."""
        return SelfComposedEvent(self.mechanism.event, 2)

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> TwoRuns:
        """Runs the mechanism twice on one histogram `[d]` or each of a batch `[Q, d]`."""
        require_generator(rng)
        first = self.mechanism(votes, rng=rng)
        second = self.mechanism(votes, rng=rng)
        if isinstance(first, TopK):  # the order of indices counts
            return TwoRuns(
                first, second, np.asarray((first.indices != second.indices).any(axis=-1))
            )
        if isinstance(first, (np.ndarray, np.generic)) and first.ndim <= 1:
            return TwoRuns(first, second, np.asarray(first != second))
        raise InvalidValue(
            "mechanism", type(first).__name__, rule="one whose outcome is an array [Q] or a TopK"
        )


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
    outcomes are private, in memory only. Threads take turns. It refuses copies, pickles and forks. The session has one
    counter, whose target covers every question: 2 epsilon if outcomes are asked for again.
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
        draw: Draw,
        accept: Accept,
        *,
        epsilon: float,
        failure_prob: float = 0.0,
        rng: np.random.Generator,
    ) -> Conditional:
        """Draws an outcome of an (epsilon, failure_prob)-DP mechanism and publishes it if `accept`, the set, says so.

        `accept` must not look at private data. `InvalidValue`, and nothing is drawn, where the session has halted or
        does not cover such a call.
        """
        require_generator(rng)
        target = target_charging.not_prior(epsilon)
        with self._turn():
            self.session.require_open(target, failure_prob=failure_prob)
            key = self._count
            self._count = self._count + 1
            again = target_charging.revise(epsilon)
            return self._ask(key, lambda: draw(rng), accept, (target, again), failure_prob)

    def revise(self, key: int, accept: Accept) -> Conditional:
        """Asks for a stored outcome again, with another set.

        `InvalidValue`, and nothing is looked at, where no such outcome waits, or the session has halted or does not
        cover twice the epsilon.
        """
        with self._turn():
            if key not in self._waiting:
                raise InvalidValue("key", key, rule="an outcome that was drawn and not published")
            outcome, target = self._waiting[key]
            self.session.require_open(target)
            del self._waiting[key]
            return self._ask(key, lambda: outcome, accept, (target, target), 0.0)

    def _ask(
        self,
        key: int,
        look: Callable[[], Any],
        accept: Accept,
        targets: tuple[QTarget, QTarget],
        failure_prob: float,
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
