"""A rehearsal of a release with canaries in it, and what guesses of their coins refute: a lower bound on epsilon.

A secret fair coin decides which of two variants of each of m canaries a release gets; who sees it guesses r of them.
Canaries are records, planted into a copy of the data, or teachers whose votes are crafted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, Budget
from pate.aggregators import Aggregator, CenteredVotes
from pate.aggregators.record import MemoryRecord
from pate.data import Dataset, Split
from pate.data.dataset import require_dataset
from pate.models.kernel import KernelVotes
from pate.pricing import PricedRelease, plan_release
from pate.progress import Monitor
from pate.run.random_streams import RandomStreams
from pate.threads import all_cores
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_probability,
)
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.moment_votes import MomentVotes
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes
from pate.votes.weighted import Integers

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Signs = NDArray[np.int8]
# the student's weights `[D, L]`, the labels' scale `[L]`, the clipped sum
Asked = tuple[Array, Array, ClippedMoments]
# what was asked, the sum as it is and as released, its noise's std
Round = tuple[Asked, Integers, Integers, float]
# queries made so that canaries decide: sides and others of labels
Craft = tuple[tuple[int, ...], tuple[int, ...]]

SABOTAGE = ("noise", "clip", "charge", "features", "seed")  # ways to break a release on purpose
_LESS_NOISE = 0.1
# times the root of the number of coins: where the bound was highest for 1,000 to 20,000 Gaussian
# coins
_GUESSED = 6.0
_CANARIES = 1000
_FEWER = 4, 16  # times fewer canaries are tried: their votes are noise to each other
_REPEATS = 4  # how often each canary counts where `sabotage=clip`
_FEWEST_GROUPS = 400  # of a release in rounds, half of which may be canaries
_DELTAS = np.logspace(-7, -0.3, 20)  # where a price is read; more of them refute a little more
# scales of the noise that are looked at, up and down: prices of much more take minutes
_WIDEST = 2.0**4
# of a scale, and of an epsilon
_HALVINGS = 5
_FINER = 18
_LARGEST = 200.0
_UNCLIPPED = 16  # times the clip that is promised, a power of 2
# of the labels that are the rarer way in a canary: few tell canaries apart, many are clipped
_PRESENT = 0.1, 0.8
_EXACT = 1e-3  # of a canary's length: the noise of what is released without any

_GAPS = (0.0, *np.geomspace(0.004, 0.6, 15), 0.2, 1 / 3)  # between places, of the teachers
_FEW_GAPS = (0.0, 0.1, 0.2)
# labels of a place; places above the last
_WIDTHS = (1, 4)
_STAIRS = (1, 2, 4, 7)
_WORTH = 1.25  # times as much that each of them has to tell
# queries that a craft is judged by, and the best one
_ROWS = 500
_MORE_ROWS = 4000
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class PriceCurve:
    """Points of a price: the run is said to be (epsilons[j], deltas[j])-DP for every j."""

    epsilons: Array  # `[J]`, >= 0
    deltas: Array  # `[J]`, in [0, 1)

    @classmethod
    def of(cls, spent: Accountant) -> Self:
        """What an accountant says at many deltas, beyond what failure probabilities take."""
        deltas = _DELTAS[2 * spent.failure_prob < _DELTAS]
        epsilons = np.array([spent.get_epsilon(float(delta)) for delta in deltas])
        is_finite = np.isfinite(epsilons)
        require(bool(is_finite.any()), "price", "infinite", "a finite one at some delta")
        return cls(epsilons[is_finite], deltas[is_finite])

    def least_wrong(self, right: float) -> float:
        """How likely an event is at least on a neighbor, where its probability is `right` here."""
        # (epsilon, delta)-DP bounds the event, right <= e^epsilon x + delta, and its complement,
        # 1 - x <= e^epsilon (1 - right) + delta.
        grown = np.exp(np.minimum(self.epsilons, _LARGEST))
        of_event = (right - self.deltas) / grown
        of_rest = 1 - self.deltas - grown * (1 - right)
        return max(float(of_event.max()), float(of_rest.max()), 0.0)


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """How many coins were guessed, and how many of them rightly."""

    num_canaries: int  # m, coins that were thrown
    num_guesses: int  # r, coins that were guessed, fixed before; 1 <= r <= m.
    num_correct: int  # c, in 0..r

    def refute(self, curve: PriceCurve, *, confidence: float = 0.95) -> bool:
        """Whether a run with this price has at least so many right with a probability below 1 - confidence.

        Formal guarantee: where the price holds, for each coin and any guesses, this is true with a probability of at
        most 1 - confidence.

        Source: Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run"; docs/proofs/attack.md
        """
        # p_i is the probability of exactly i right guesses, A_i = sum_{l>=i} l p_l / m that a random coin is among at
        # least i right ones, B_i = sum_{l>=i} (r - l) p_l / m that it is guessed wrongly beside at least i. Turning
        # that coin shows B_{i-1} >= g(A_i), g = least_wrong. A tail of 1 - confidence at c, all of it at c itself,
        # forces the least further mass level by level; where that passes 1, the tail cannot be so large.
        most = self.num_guesses
        count = self.num_canaries
        correct = self.num_correct
        mass = 1 - require_probability("confidence", confidence)
        right = mass * correct / count
        wrong = mass * (most - correct) / count
        for level in range(correct - 1, -1, -1):
            needed = max(wrong, curve.least_wrong(right))
            added = (needed - wrong) * count / (most - level)
            mass = mass + added
            right = right + added * level / count
            wrong = needed
            if mass > 1:
                return True
        return False

    def least_epsilon(self, delta: float, *, confidence: float = 0.95) -> float:
        """The largest epsilon of which (epsilon, delta)-DP is refuted, whatever the mechanism; 0 if none is."""

        def refuted(epsilon: float) -> bool:
            return self.refute(
                PriceCurve(np.array([epsilon]), np.array([delta])), confidence=confidence
            )

        if not refuted(0.0):
            return 0.0
        low = 0.0
        high = _LARGEST
        for _ in range(_FINER):
            middle = (low + high) / 2
            low, high = (middle, high) if refuted(middle) else (low, middle)
        return low

    def least_price(
        self, spent: Callable[[float], Accountant], *, target_delta: float, confidence: float = 0.95
    ) -> float:
        """The largest refuted epsilon at `target_delta` among the prices of one kind of release; of any, where none is.

        `spent` is the price of the same release with its noise multiplied by a factor > 0.
        """

        def refuted(scale: float) -> bool:
            try:
                return self.refute(PriceCurve.of(spent(scale)), confidence=confidence)
            except InvalidValue:  # so little noise that no accountant has a price
                return False

        least = self.least_epsilon(target_delta, confidence=confidence)
        high = 1.0
        while not refuted(high):  # little noise is not refuted, much noise is
            high *= 2
            if high > _WIDEST:
                return least
        low = high / 2
        while low >= 1 / _WIDEST and refuted(low):
            low, high = low / 2, low
        for _ in range(_HALVINGS):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if refuted(middle) else (middle, high)
        return max(least, spent(high).get_epsilon(target_delta))


class _OverheardVotes(MomentVotes):
    """Keeps what rounds asked and the exact sums `[D, L]` in steps, clipped at `times` the clip of the noise."""

    def __init__(self, times: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.times = times
        self.overheard = list[tuple[Asked, Integers]]()

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        exact = self.times * super().total(
            weights, label_scale, replace(clipped, clip=self.times * clipped.clip)
        )
        self.overheard.append(((weights, label_scale, clipped), exact))
        return exact

    def moved(
        self, inputs: NDArray[np.float32], labels: NDArray[np.bool_], asked: Asked
    ) -> tuple[Array, Array]:
        """The features `[m, D]` and residuals `[m, L]` of records, whose products are what they add to a sum."""
        weights, label_scale, clipped = asked
        wider = replace(clipped, clip=self.times * clipped.clip)
        features, residuals = self.of_each(inputs, labels, weights, label_scale, wider)
        return features, self.times * residuals


@dataclass(frozen=True, eq=False)
class RecordAttack:
    """Guesses which of two records stands in the place of each canary's group, from the sums of all rounds.

    A canary has the inputs of a public record, or these mirrored at the pool's mean, and labels that are mostly the
    rarer way. Whoever guesses knows all other records, both variants of each canary, and all that was released.
    """

    aggregator: CenteredVotes  # what draws the release
    dataset: Dataset  # whose private groups give way to canaries
    num_canaries: int  # m, groups
    num_queries: int  # Q
    # "features": fitted on the private records, canaries included; "clip": votes are not clipped as promised; "seed": a
    # second run on known records draws the same noise
    sabotage: str | None = None

    def __post_init__(self) -> None:
        require(
            self.dataset.kind == "features",
            "data",
            self.dataset.kind,
            "features, such as features=patches gives",
        )

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is.

        `coins`, `[m]`, are +1 for the public record's inputs, -1 for the mirrored ones; canaries and noise are drawn.
        """
        canaries = _Canaries.of(self.dataset, self.num_canaries, rng)
        noise = int(rng.integers(2**63))
        votes, rounds = self._released(canaries.planted(self.dataset, coins), noise)
        sums = []
        # the difference of two first rounds, in one of which all coins are known to be +1
        if self.sabotage == "seed":
            _, planted_rounds = self._released(
                canaries.planted(self.dataset, np.ones_like(coins)), noise
            )
            (asked_labels, _, total, _) = rounds[0]
            known = planted_rounds[0][2]
            features, residuals = votes.moved(canaries.inputs, canaries.labels, asked_labels)
            sums.append(
                canaries.evidence(votes, asked_labels, total - known + features.T @ residuals, 0.0)
            )
        else:
            for asked_labels, exact, total, std in rounds:
                features, residuals = votes.moved(canaries.by(coins), canaries.labels, asked_labels)
                sums.append(
                    canaries.evidence(
                        votes, asked_labels, total - (exact - features.T @ residuals), std
                    )
                )
        # the mean of records that canaries are among, times their number, has no noise
        if self.sabotage == "features":
            moves = (canaries.inputs - canaries.mirrored).astype(np.float64) / 2
            std = _EXACT * float(np.linalg.norm(moves, axis=1).mean())
            sums.append((moves @ moves.T / std**2, moves @ (coins @ moves) / std**2))
        # Of what is seen, D^T coins + noise in each sum, the coins' best linear estimate.
        gram = sum(block_gram for block_gram, _ in sums) + np.eye(len(coins))
        return np.asarray(
            scipy.linalg.solve(gram, sum(matched for _, matched in sums), assume_a="pos")
        )

    def _released(self, private: Split, noise: int) -> tuple[_OverheardVotes, list[Round]]:
        """Rounds of votes on private records, with noise of a seed."""
        groups, teacher_of = np.unique(private.group_ids, return_inverse=True)
        made = self.aggregator
        record = MemoryRecord()
        source = KernelVotes(
            private=private,
            teacher_of=teacher_of.astype(np.int64),
            num_teachers=len(groups),
            public=private if self.sabotage == "features" else self.dataset.public,
            num_queries=self.num_queries,
            moments=partial(_OverheardVotes, _UNCLIPPED if self.sabotage == "clip" else 1),
        )
        made.release(source, np.random.default_rng(noise), record)
        votes = cast(
            _OverheardVotes,
            source.in_rounds(noise_multiplier=made.votes_multiplier, recipe=made.recipe),
        )
        require(bool(votes.overheard), "aggregator.rounds", made.rounds, "a release in rounds")
        wider = made.votes_multiplier * math.sqrt(made.num_rounds)
        return votes, [
            (
                asked_labels,
                exact,
                (record.committed(f"step-{number}") or {})["total"],
                wider * asked_labels[2].l2_sensitivity,
            )
            for number, (asked_labels, exact) in enumerate(votes.overheard)
        ]


@dataclass(frozen=True, eq=False)
class _Canaries:
    """Where canaries stand, their two inputs `[m, d]` and their labels `[m, L]`."""

    rows: NDArray[np.int64]
    # rows of the private split: one of each canary's group, all of other groups
    kept: NDArray[np.int64]
    inputs: NDArray[np.float32]
    mirrored: NDArray[np.float32]
    labels: NDArray[np.bool_]

    @classmethod
    def of(cls, dataset: Dataset, count: int, rng: np.random.Generator) -> _Canaries:
        private = dataset.private
        public = np.asarray(dataset.public.inputs)
        groups, first, group_of = np.unique(
            private.group_ids, return_index=True, return_inverse=True
        )
        chosen = rng.choice(len(groups), count, replace=False)
        gives_way = np.isin(group_of, chosen)
        gives_way[first[chosen]] = False
        inputs = public[rng.choice(len(public), count, replace=count > len(public))]
        mirrored = (2 * public.mean(axis=0, dtype=np.float64) - inputs).astype(np.float32)
        rarer = private.labels.mean(axis=0) < 0.5
        labels = rarer ^ (rng.random((count, len(rarer))) >= rng.uniform(*_PRESENT, (count, 1)))
        return cls(first[chosen], np.flatnonzero(~gives_way), inputs, mirrored, labels)

    def planted(self, dataset: Dataset, coins: Signs) -> Split:
        """The private split with a canary in each place."""
        private = dataset.private
        inputs = np.array(private.inputs)
        labels = private.labels.copy()
        inputs[self.rows] = self.by(coins)
        labels[self.rows] = self.labels
        return replace(private, inputs=inputs, labels=labels).take(self.kept)

    def by(self, coins: Signs) -> NDArray[np.float32]:
        """The inputs that the coins choose."""
        return np.where((coins > 0)[:, None], self.inputs, self.mirrored)

    def evidence(
        self, votes: _OverheardVotes, asked: Asked, rest: Array | Integers, std: float
    ) -> tuple[Array, Array]:
        """What a noisy sum, of which `rest` is left without the known records, says of the coins.

        It moves by a difference with each. Products of these, `[m, m]`, and with the rest, `[m]`, over the variance.
        """
        (f, r), (g, s) = (
            votes.moved(inputs, self.labels, asked) for inputs in (self.inputs, self.mirrored)
        )
        rest = rest - (f.T @ r + g.T @ s) / 2
        gram = (
            (f @ f.T) * (r @ r.T)
            + (g @ g.T) * (s @ s.T)
            - (f @ g.T) * (r @ s.T)
            - (g @ f.T) * (s @ r.T)
        ) / 4
        matched = (np.einsum("ij,ij->i", f @ rest, r) - np.einsum("ij,ij->i", g @ rest, s)) / 2
        variance = std**2 or _EXACT**2 * float(gram.diagonal().mean())
        return gram / variance, matched / variance


class CraftedVotes(TeacherVotes):
    """Votes of canaries by their ways, `[m, Q]` or `[m, Q * L]`, and of all other teachers as the craft says."""

    records_per_teacher = 1.0

    def __init__(self, craft: Craft, ways: Signs, repeats: int, shape: VoteShape) -> None:
        self.ways = ways
        self.repeats = repeats
        self.num_teachers = shape.num_teachers
        self.num_queries = shape.num_queries
        self.num_labels = shape.num_labels
        self.total = shape.num_teachers - repeats * len(ways)
        self.sides, self.others = np.zeros((2, shape.num_labels), dtype=np.int64)
        self.sides[: len(craft[0])], self.others[: len(craft[1])] = craft
        self.by_bit = not craft[0]

    def bits(self) -> Iterator[Bits]:
        """Yields the crafted votes of all teachers, `[c, Q, L]` a block, canaries first."""
        for first in range(0, len(self.ways), _BLOCK):
            yield self._by(self.ways[first : first + _BLOCK]).repeat(self.repeats, axis=0)
        # whose turn it is moves on: no teacher always votes alike
        places = 7 * np.arange(self.ways.shape[1])
        for first in range(0, self.total, _BLOCK):
            turns = (
                np.arange(first, min(first + _BLOCK, self.total))[:, None] + places
            ) % self.total
            if self.by_bit:
                yield self._by(np.where(turns < self.total // 2, 1, -1).astype(np.int8))
            # one side from the first turn on, the other from the last: rivals share no teacher
            else:
                turns = np.where(
                    self.sides < 0, self.total - 1 - turns[:, :, None], turns[:, :, None]
                )
                yield np.asarray(turns < self.others)

    def label_shares(self) -> Array:
        """Returns each teacher's share of votes for each label, `[N, L]`."""
        return np.concatenate([block.mean(axis=1) for block in self.bits()])

    def _by(self, ways: Signs) -> Bits:
        """The votes of teachers that go these ways, `[c, Q, L]`."""
        if self.by_bit:
            return np.asarray(ways.reshape(-1, self.num_queries, self.num_labels) > 0)
        return np.asarray(ways[:, :, None] * self.sides > 0)

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        """As `bits` have it, of which no teacher has over `max_votes`."""
        ahead = (self.ways > 0).sum(axis=0)
        if self.by_bit:
            counts = self.total // 2 + self.repeats * ahead
            return np.asarray(counts.reshape(self.num_queries, self.num_labels))
        voting = np.where(self.sides > 0, ahead[:, None], len(self.ways) - ahead[:, None]) * (
            self.sides != 0
        )
        return np.asarray(self.others + self.repeats * voting)


@dataclass(frozen=True, eq=False, kw_only=True)
class TeacherAttack:
    """Guesses which way canary teachers vote from a release of crafted queries."""

    aggregator: Aggregator  # what draws the release
    shape: VoteShape  # of the release
    num_canaries: int  # m, at most an eighth of the teachers
    repeats: int = 1  # how often a canary counts: 1, but where the price is broken on purpose
    # Of each label: a canary votes for those of the side, 1 or -1, that its coin and the query's sign say; and of the
    # first labels how many of the other teachers vote for them. Empty where each label has a sign of its own, and half
    # of the other teachers.
    craft: Craft
    weights: Array  # `[F]`, of what is seen
    told: float = 0.0  # how much of a coin they tell, in rehearsals

    @classmethod
    def rehearsed(
        cls,
        aggregator: Aggregator,
        shape: VoteShape,
        counts: Sequence[int],
        repeats: int,
        rng: np.random.Generator,
    ) -> TeacherAttack:
        """With the craft and the number of canaries of which releases tell most, on coins of its own."""
        chosen: TeacherAttack | None = None
        for count in counts:
            crafts = [*_crafts(aggregator, shape, shape.num_teachers - repeats * count)]
            require(
                bool(crafts),
                "num_labels",
                shape.num_labels,
                "two labels at least, for canaries to decide",
            )
            rehearsals = [
                cls(
                    aggregator=aggregator,
                    shape=shape,
                    num_canaries=count,
                    repeats=repeats,
                    weights=np.empty(0),
                    craft=craft,
                )._fitted(_ROWS, rng)
                for craft in crafts
            ]
            best = max(rehearsals, key=lambda rehearsal: rehearsal.told)
            best = best._fitted(_MORE_ROWS, rng)
            chosen = best if chosen is None or best.told > _WORTH * chosen.told else chosen
        return cast(TeacherAttack, chosen)

    def _fitted(self, rows: int, rng: np.random.Generator) -> TeacherAttack:
        """By least squares of the canaries' sum on what is seen."""
        parts: list[tuple[Signs, Array]] = []
        while sum(len(block) for _, block in parts) < rows:
            signs = self._signs(rng)
            parts.append((signs, self._seen(signs, rng)))
        moved = np.concatenate([signs.sum(axis=0, dtype=np.float64) for signs, _ in parts])
        seen = np.concatenate([block for _, block in parts])
        weights = np.linalg.lstsq(seen, moved, rcond=1e-9)[0]
        by_chance = np.count_nonzero(seen.any(axis=0)) / len(seen)
        explained = float(((seen @ weights) ** 2).sum() / (moved**2).sum()) - by_chance
        return replace(
            self, weights=weights, told=explained * len(seen) / len(parts) / self.num_canaries
        )

    def guess(self, coins: Signs, rng: np.random.Generator) -> Array:
        """A score for each canary, `[m]`: its sign guesses the coin, its size says how sure that is."""
        signs = self._signs(rng)
        features = self._seen(signs * coins[:, None], rng)
        return np.asarray(signs.astype(np.float64) @ (features @ self.weights))

    def _signs(self, rng: np.random.Generator) -> Signs:
        """Which way each canary votes on each query with a coin of +1, `[m, Q]`, or on each bit, `[m, Q * L]`."""
        width = self.shape.num_queries * (1 if self.craft[0] else self.shape.num_labels)
        return (2 * rng.integers(0, 2, (self.num_canaries, width), dtype=np.int8) - 1).astype(
            np.int8
        )

    def _seen(self, ways: Signs, rng: np.random.Generator) -> Array:
        """What a release says, around its mean, `[Q or Q * L, F]`: bits or scores, answers, hits; 0 once it halts."""
        source = CraftedVotes(self.craft, ways, self.repeats, self.shape)
        first = np.minimum.accumulate(source.sides) > 0  # what a student expects

        def prior(labels: Bits, answered: Bits, num_queries: int) -> Bits:
            return np.broadcast_to(first, (num_queries, len(first)))

        aggregator = self.aggregator.with_prior(prior)
        release = aggregator.release(source, rng, MemoryRecord())
        values = np.asarray(getattr(release, "scores", release.labels), dtype=np.float64)
        if source.by_bit:
            return np.asarray(values.reshape(-1, 1) - values.mean())
        chosen, rest = np.split(values, [len(self.craft[1])], axis=1)
        hits = getattr(release, "hits", np.zeros(len(values)))
        seen = np.column_stack([chosen, rest.sum(axis=1), release.answered, hits]).astype(
            np.float64
        )
        was_asked = np.arange(len(seen)) < getattr(release, "num_asked", len(seen))
        return np.asarray((seen - seen[was_asked].mean(axis=0)) * was_asked[:, None])


def _crafts(aggregator: Aggregator, shape: VoteShape, total: int) -> Iterator[Craft]:
    """What to try, with `total` other teachers; little where each teacher's votes are read, which takes long."""
    most = aggregator.max_votes_per_teacher or shape.num_labels
    fixed = aggregator.exact_labels
    counted = aggregator.reads_counts
    if most >= shape.num_labels and fixed is None:
        yield (), ()
    for width in _WIDTHS if fixed is None else (fixed,):
        for gap in (round(part * total) for part in (_GAPS if counted else _FEW_GAPS)):
            # each other teacher votes for one of two sets
            if width <= most and 2 * width <= shape.num_labels:
                first = (total + gap) // 2
                yield (1,) * width + (-1,) * width, (first,) * width + (total - first,) * width
            # places of falling counts; canaries move every second one up and all others down
            for steps in _STAIRS:
                if counted and most >= shape.num_labels > width * steps and gap * steps <= total:
                    places = [min(label // width, steps) for label in range(shape.num_labels)]
                    counts = tuple(gap * (steps - place) for place in places if place < steps)
                    yield tuple(1 - 2 * (place % 2) for place in places), counts


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """What an attack found: for the owner of the records alone, as no epsilon covers it."""

    epsilon: float  # the price that is printed for the release
    delta: float  # at which
    adjacency: str
    # the largest epsilon, at that delta and confidence, that the guesses refute for a release of this kind, whatever
    # its noise.
    lower_bound: float
    lower_bound_any: float  # the same for any mechanism: (epsilon, delta)-DP alone is refuted
    confidence: float  # of both
    num_canaries: int  # coins that were thrown in all runs
    num_guesses: int  # coins that were guessed
    num_correct: int  # of them
    unit: str  # what a canary is: a `record`, with its whole group, or a `teacher`
    aggregator: str  # its class
    sabotage: str | None  # what was broken on purpose; None for nothing.
    seconds: float  # it took

    @property
    def refuted(self) -> bool:
        """Whether the guesses refute the printed price."""
        return self.lower_bound > self.epsilon

    def to_json(self) -> dict[str, Any]:
        """All of it in JSON's types."""
        return asdict(self) | {"refuted": self.refuted}


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """Plants canaries, draws the release of an aggregator, and guesses each canary from it.

    With `CenteredVotes` a canary is a private record, and the release is that of one-record votes in rounds. With all
    other aggregators a canary is a teacher, the unit that their price covers, and queries are crafted so that it
    decides. Whoever guesses knows everything but the coins and the noise.

    Formal guarantee: where the printed price holds, `AttackResult.lower_bound_any` exceeds it with a probability of at
    most 1 - confidence; so does `lower_bound`, where the price of this kind of release holds at all deltas.

    Attributes:
        aggregator: with any noise; the budget solves for it.
        budget: of the release.
        num_queries: Q.
        num_teachers: T, where canaries are teachers.
        num_canaries: in each run; None for 1,000, at most a tenth of the groups or an eighth of the teachers. None also
            tries fewer teachers, in as many more runs: their votes are noise to each other.
        num_runs: with new coins and noise.
        confidence: in (0, 1).
        sabotage: what is broken on purpose: a member of `SABOTAGE`, or None.
        seed: of all coins and noise; None draws from the operating system.

    Source: docs/proofs/attack.md.
    """

    aggregator: Aggregator
    budget: Budget
    num_queries: int
    num_teachers: int
    num_canaries: int | None = None
    num_runs: int = 4
    confidence: float = 0.95
    sabotage: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_queries", "num_teachers", "num_runs"):
            require_count(name, getattr(self, name))
        if self.num_canaries is not None:
            require_count("num_canaries", self.num_canaries)
        require_probability("confidence", self.confidence)
        rule = "replace_one: a canary is replaced, which add_remove counts as two changes"
        require(
            self.aggregator.adjacency is Adjacency.REPLACE_ONE,
            "adjacency",
            self.aggregator.adjacency,
            rule,
        )
        if self.sabotage is not None:
            require_choice("sabotage", self.sabotage, SABOTAGE)
            of_records = self.sabotage not in ("features", "seed") or self.of_records
            require(
                of_records,
                "sabotage",
                self.sabotage,
                "noise, clip or charge, but for aggregator=centered_votes",
            )

    @property
    def of_records(self) -> bool:
        """Whether canaries are records."""
        return isinstance(self.aggregator, CenteredVotes)

    @all_cores()
    def run(self, dataset: Dataset, monitor: Monitor | None = None) -> AttackResult:
        """Plants, draws and guesses; raises for too few groups or teachers, and a budget that no noise meets."""
        started = time.monotonic()
        monitor = monitor or Monitor()
        total = (
            require_dataset(dataset).private.num_groups if self.of_records else self.num_teachers
        )
        rule = f"at least {_FEWEST_GROUPS} private groups or teachers for canaries among them"
        require(total >= _FEWEST_GROUPS, "num_teachers", total, rule)
        shape = VoteShape(
            num_queries=self.num_queries, num_labels=dataset.num_labels, num_teachers=total
        )
        priced = plan_release(self.aggregator, shape, self.budget)
        most = total // 2 if self.of_records else total // 8
        count = self.num_canaries or min(_CANARIES, total // 10 if self.of_records else most)
        require(count <= most, "num_canaries", count, f"at most {most} of {total}")
        streams = RandomStreams.from_secret() if self.seed is None else RandomStreams(self.seed)
        rng = streams.generator("noise")
        coins = list[Signs]()
        scores = list[Array]()
        with monitor.stage("looking for the most telling queries"):
            options = (
                priced.aggregator.scaled(_LESS_NOISE)
                if self.sabotage == "noise"
                else priced.aggregator
            )
            guesser: RecordAttack | TeacherAttack
            if isinstance(options, CenteredVotes):
                guesser = RecordAttack(options, dataset, count, self.num_queries, self.sabotage)
            else:
                tries = (1, *_FEWER) if self.num_canaries is None and options.reads_counts else (1,)
                counts = [count // times for times in tries]
                repeats = _REPEATS if self.sabotage == "clip" else 1
                guesser = TeacherAttack.rehearsed(options, shape, counts, repeats, rng)
        num_runs = self.num_runs * (count // guesser.num_canaries)
        with monitor.stage("rehearsing the release", num_runs) as advance:
            for number in range(num_runs):
                coins.append((2 * rng.integers(0, 2, guesser.num_canaries) - 1).astype(np.int8))
                scores.append(guesser.guess(coins[-1], rng))
                advance(number + 1)
        with monitor.stage("searching the price that they refute"):
            return self._result(priced, np.concatenate(coins), np.concatenate(scores), started)

    def _result(
        self, priced: PricedRelease, coins: Signs, scores: Array, started: float
    ) -> AttackResult:
        """What the surest guesses refute; how many there are was fixed before anything was drawn."""
        most = min(len(coins), round(_GUESSED * math.sqrt(len(coins))))
        surest = np.argsort(-np.abs(scores), kind="stable")[:most]
        correct = int(((scores > 0) == (coins > 0))[surest].sum())
        guesses = Guesses(num_canaries=len(coins), num_guesses=most, num_correct=correct)

        def spent(scale: float) -> Accountant:
            event = priced.aggregator.scaled(scale).event(priced.shape)
            return self.budget.accountant().compose(event)

        delta = self.budget.delta
        return AttackResult(
            epsilon=priced.epsilon / 2 if self.sabotage == "charge" else priced.epsilon,
            delta=delta,
            adjacency=str(priced.aggregator.adjacency),
            lower_bound=guesses.least_price(spent, target_delta=delta, confidence=self.confidence),
            lower_bound_any=guesses.least_epsilon(delta, confidence=self.confidence),
            confidence=self.confidence,
            **asdict(guesses),
            unit="record" if self.of_records else "teacher",
            aggregator=type(priced.aggregator).__name__,
            sabotage=self.sabotage,
            seconds=time.monotonic() - started,
        )
