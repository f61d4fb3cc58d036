"""Events: what a release costs, as immutable values that know no accountant and never see a vote.

* An event is a function of public parameters only. Two releases with the same parameters have equal events.
* An event is an upper bound for one adjacency; a ledger refuses events that were made for another one.
* Zero noise is a legitimate value and costs infinity; a negative one is an error.
* An accountant that does not know an event raises; it never skips one.
* A ledger stores class names and fields, and is read for years: none is removed, renamed or given another meaning, and
  a new field has a default that means what its absence did (`tests/oracle/ledgers/`).
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate import validation
from pate.accounting.special import few_log_ndtr
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_count,
    require_non_negative,
    require_positive,
)


class Adjacency(StrEnum):
    """Which change of the private data the guarantee is about.

    REPLACE_ONE: one private record changes. The partition is fixed and disjoint, so one teacher is trained anew and its
    whole vote vector may change: every count moves by -1, 0 or +1. Their number is public. Record-level; the default.

    ADD_REMOVE: one teacher is added or removed, and its votes are absent from every sum: all counts move in one
    direction, each by 0 or 1. Absent is not zero, which is a vote to `CenteredVotes` and `PowersetGNMax`
    (docs/proofs/adjacency.md). The papers' convention; not record-level privacy.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @classmethod
    def parse(cls, value: str) -> Adjacency:
        """The member of that name; raises `InvalidValue` with the nearest names."""
        return cls(validation.require_choice("adjacency", str(value), tuple(cls)))

    @property
    def num_moved(self) -> int:
        """How many contributions of teachers one change moves: 2 or 1."""
        return 2 if self is Adjacency.REPLACE_ONE else 1

    @property
    def gap_sensitivity(self) -> int:
        """The most by which one gap between neighboring sorted counts moves: 2 or 1 votes."""
        return self.num_moved

    @property
    def gap_range(self) -> int:
        """The most by which the difference of two gaps moves, as they may move in opposite ways: 4 or 2."""
        return 2 * self.gap_sensitivity


class Event:
    """The price of a release, a value. Abstract; no ABC, whose instance check is slow over 100,000 events."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # of a dataclass: the names of its fields

    def __post_init__(self) -> None:
        for name, check in _checks_of(cast(Hashable, type(self))):
            check(name, getattr(self, name))

    def to_dp_event(self) -> Any:
        """The matching event of Google's dp-accounting (the extra `pld`); raises if it has no such event."""
        validation.require_extra("to_dp_event", "pld")
        import dp_accounting as dp  # loads slowly, and is optional

        match self:
            case NoOpEvent():
                return dp.NoOpDpEvent()
            case NonPrivateEvent():
                return dp.NonPrivateDpEvent()
            case GaussianEvent():
                return dp.GaussianDpEvent(self.noise_multiplier)
            # that of all noisy counts: a bound, up to a quarter dearer than the winner
            case WinnerEvent():
                return dp.GaussianDpEvent(
                    self.noise_multiplier / math.sqrt(self.num_moving) * (1 - 2.0**-50)
                )
            case SampledGaussianEvent():  # of a replaced unit a bound, but far above the price here
                return dp.PoissonSampledDpEvent(
                    self.sampling_prob, dp.GaussianDpEvent(self.noise_multiplier)
                )
            case ApproximateEvent(failure_prob=0):
                return self.event.to_dp_event()
            case ComposedEvent():
                return dp.ComposedDpEvent([part.to_dp_event() for part in self.events])
            case SelfComposedEvent():
                return dp.SelfComposedDpEvent(self.event.to_dp_event(), self.count)
        raise InvalidValue("event", type(self).__name__, rule="an event that dp-accounting has")


class LeafEvent(Event):
    """An event without parts."""

    __slots__ = ()


_OURS = "an event of pate.accounting"
# What a field of an event has to be: its metadata hold a check, which is called with name and value.
_NON_NEGATIVE = {"check": require_non_negative}
_POSITIVE = {"check": require_positive}
_COUNT = {"check": require_count}
_NATURAL = {"check": partial(require_count, minimum=0)}
_PROBABILITY = {"check": validation.require_probability}
_BOOL = {"check": partial(validation.require_kind, kind=bool, rule="True or False")}


def _require_price(name: str, value: float) -> None:
    if value != math.inf:
        require_non_negative(name, value)


def _require_logits(name: str, logits: tuple[float, ...]) -> None:
    validation.require_kind(name, logits, tuple, "a tuple of numbers")
    require(len(logits) > 0, name, "()", "at least one number")
    validation.require_rising(name, logits)


def _require_event(name: str, value: object) -> None:
    validation.require_kind(name, value, Event, _OURS)


def _require_number_of_calls(name: str, value: float) -> None:
    is_number = value == math.inf or (value >= 0 and float(value).is_integer())
    require(is_number, name, value, "a whole number >= 0 or infinity")


def _require_one_or_two(name: str, value: int) -> None:
    require(value in (1, 2), name, value, "1 or 2")


def _require_finite(name: str, value: float) -> None:
    require(math.isfinite(value), name, value, "a finite number")


def _require_sampling_probability(name: str, value: float) -> None:
    require(0 < value <= 1, name, value, "a number in (0, 1]")


def _require_failure_probability(name: str, value: float) -> None:
    require(0 <= value < 1, name, value, "a number in [0, 1)")


@lru_cache
def _checks_of(kind: Hashable) -> tuple[tuple[str, Callable[[str, Any], object]], ...]:
    """Returns the checked fields of a class of events, each by its name, with its check."""
    items = fields(cast(Any, kind))
    return tuple((item.name, item.metadata["check"]) for item in items if "check" in item.metadata)


@dataclass(frozen=True, slots=True)
class NoOpEvent(LeafEvent):
    """Nothing was released; its price is zero."""


@dataclass(frozen=True, slots=True)
class NonPrivateEvent(LeafEvent):
    """Something was released without noise; its price is infinite."""


_SUMMATION = 2.0**-46  # relative: above the rounding error of any sum that numpy can make


@dataclass(frozen=True, slots=True)
class GaussianEvent(LeafEvent):
    """A vector released with Gaussian noise."""

    noise_multiplier: float = field(
        metadata=_NON_NEGATIVE
    )  # noise std / l2 sensitivity, >= 0; 0 costs infinity

    @classmethod
    def composed(cls, noise_multipliers: ArrayLike) -> GaussianEvent:
        """One event that costs what these `[N]`, N >= 1, cost together, each possibly chosen after seeing earlier ones.

        Its 1 / noise_multiplier**2 is the sum of theirs, rounded up. A single 0 makes it cost infinity.

        >>> GaussianEvent.composed([2.0, 2.0, 2.0, 2.0])
        GaussianEvent(noise_multiplier=0.9999999999999858)
        """
        multipliers = np.asarray(noise_multipliers, dtype=np.float64)
        rule = "one or more finite numbers >= 0"
        require(
            multipliers.ndim == 1 and multipliers.size > 0,
            "noise_multipliers.shape",
            multipliers.shape,
            rule,
        )
        validation.require_each(
            "noise_multipliers", multipliers, np.isfinite(multipliers) & (multipliers >= 0), rule
        )
        least = float(multipliers.min())
        if least == 0:
            return cls(0.0)
        # in 1..N: neither overflows nor vanishes
        total = float(np.square(least / multipliers).sum())
        return cls(least / math.sqrt(total) * (1 - _SUMMATION))


@dataclass(frozen=True, slots=True)
class ZCdpEvent(LeafEvent):
    """A rho-zCDP release: Renyi divergence of order a at most rho * a, for all a > 1."""

    rho: float = field(metadata={"check": _require_price})  # >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class PureDpEvent(LeafEvent):
    """An epsilon-DP release (Laplace or exponential noise, permute-and-flip)."""

    epsilon: float = field(metadata={"check": _require_price})  # >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent(LeafEvent):
    """A release whose log-likelihood ratios between neighbors span at most `epsilon`.

    The exponential mechanism (Gumbel noise, argmax) with utility range w and scale beta has epsilon = w / beta. Implies
    epsilon-DP and epsilon**2 / 8 zCDP (Durfee & Rogers 2019; Dong, Durfee & Rogers 2020).
    """

    epsilon: float = field(
        metadata={"check": _require_price}
    )  # the range, >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class NoisyMaxGaussianEvent(LeafEvent):
    """The index of the largest of several values with Gaussian noise (report noisy max)."""

    # noise std / the most by which one value moves, >= 0; values may move in opposite ways
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    num_candidates: int = field(metadata=_COUNT)  # how many values compete, >= 1


@dataclass(frozen=True, slots=True)
class OpposedMaximaEvent(NoisyMaxGaussianEvent):
    """The same at a smaller or equal price, from two maxima that move in opposite ways. Gap selection uses it."""


@dataclass(frozen=True, slots=True)
class WinnerEvent(LeafEvent):
    """The index of the largest of several counts with Gaussian noise, where few counts move; no count is shown."""

    noise_multiplier: float = field(
        metadata=_NON_NEGATIVE
    )  # noise std / the most by which one count moves, >= 0
    # 1 where one count moves between neighbors, 2 where one falls and another one rises
    num_moving: int = field(metadata={"check": _require_one_or_two})


class BitEvent(LeafEvent):
    """One released bit whose probability never falls in an integer statistic. Abstract."""

    __slots__ = ()

    @property
    def reach(self) -> int:
        """The most by which the statistic moves between neighbors, >= 1."""
        return 1

    @property
    @abstractmethod
    def log_odds(self) -> NDArray[np.float64]:
        """Of the bit being 1 at the statistic's least value, the next one, and so on."""


@dataclass(frozen=True, slots=True)
class OneBitEvent(BitEvent):
    """The bit of a table of log odds."""

    # log odds of the bit being 1 at statistic 0, 1, 2, …, never decreasing
    logits: tuple[float, ...] = field(metadata={"check": _require_logits})
    # of the statistic, >= 1; required: without this the base's property would be its default
    reach: int = field(metadata=_COUNT)

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """The log-odds of the bit at each value of the gap."""
        return np.array(self.logits)


@dataclass(frozen=True, slots=True)
class ThresholdEvent(BitEvent):
    """Whether a whole number that moves by at most 1, with Gaussian noise, reaches a threshold."""

    noise_std: float = field(metadata=_POSITIVE)  # > 0, in the units of the number
    lowest: float = field(
        metadata={"check": _require_finite}
    )  # the least that the number less the threshold can be
    num_values: int = field(metadata=_COUNT)  # how many values it can take, 1 apart, >= 1

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """The log-odds of passing the threshold at each value, from the lowest on."""
        return self.log_odds_at(np.arange(self.num_values))

    def log_odds_at(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the log-odds of passing the threshold at values, counted from the lowest."""
        z = (self.lowest + places) / self.noise_std
        return np.asarray(few_log_ndtr(z) - few_log_ndtr(-z))


@dataclass(frozen=True, slots=True)
class SmoothSensitivityEvent(LeafEvent):
    """A number with Gaussian noise scaled to a smooth bound on its local sensitivity; infinite at high orders."""

    noise_multiplier: float = field(
        metadata=_NON_NEGATIVE
    )  # noise std / smooth sensitivity, >= 0; 0 costs infinity
    beta: float = field(
        metadata=_NON_NEGATIVE
    )  # the sensitivity changes by at most a factor exp(beta) between neighbors, >= 0


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent(LeafEvent):
    """A sum with Gaussian noise over units, each of which takes part with a probability, independently, in secret."""

    # noise std over the l2 sensitivity of the sum over all units, >= 0; 0 costs infinity. With contributions no longer
    # than C that is 2 C if a unit is replaced, C if it is added or removed.
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    sampling_prob: float = field(metadata={"check": _require_sampling_probability})  # in (0, 1]
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # which of the two the price is for

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        normalize_field(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def is_replaced(self) -> bool:
        """True where a neighbor has another record in place of one, rather than one more."""
        return self.adjacency is Adjacency.REPLACE_ONE

    @property
    def shift(self) -> float:
        """C over the noise's std."""
        return (0.5 if self.is_replaced else 1.0) / self.noise_multiplier


@dataclass(frozen=True, slots=True)
class ApproximateEvent(Event):
    """An event whose price holds except with a small probability, which is added to delta."""

    event: Event = field(metadata={"check": _require_event})  # the price outside the failure
    # in [0, 1). Outputs of neighbors are conditioned on events of exactly this probability.
    failure_prob: float = field(metadata={"check": _require_failure_probability})


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several releases, each possibly chosen after seeing the ones before."""

    events: tuple[Event, ...]  # in any order; none at all costs nothing

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        for kind in set(map(type, self.events)):  # looking at 100,000 events takes long
            require(issubclass(kind, Event), "events", kind.__name__, _OURS)


@dataclass(frozen=True, slots=True)
class SelfComposedEvent(Event):
    """The same release several times, with fresh noise each time."""

    event: Event = field(metadata={"check": _require_event})  # one of them
    count: int = field(metadata=_NATURAL)  # how many, >= 0


@dataclass(frozen=True, slots=True)
class SelectThenTestEvent(ComposedEvent):
    """A gap that was chosen with Gumbel noise, released where the test of that very gap passes.

    Its events are the selection, a `BoundedRangeEvent`, and its test, an `ApproximateEvent` of a `OneBitEvent` whose
    statistic is the gap, from 0 on. Costs at most what these do; less by the joint law of both where votes are few.
    """

    # how many gaps compete, >= 2, without a regularizer. Their sum is at most T; it and each move by `reach` at most.
    num_candidates: int = field(metadata=_COUNT)
    # T, where larger gaps pass like that of the last of the log odds; 0 where these end at T
    num_votes: int = field(default=0, metadata=_NATURAL)

    def __post_init__(self) -> None:
        ComposedEvent.__post_init__(self)
        require_count("num_candidates", self.num_candidates, minimum=2)
        match self.events:
            case (BoundedRangeEvent(), ApproximateEvent(event=OneBitEvent(logits=logits))):
                require(len(logits) > 1, "logits", logits, "those of the gaps 0 to T, T >= 1")
            case _:
                kinds = f"({', '.join(type(event).__name__ for event in self.events)})"
                require(
                    False,
                    "events",
                    kinds,
                    "a BoundedRangeEvent and an ApproximateEvent of a OneBitEvent",
                )

    @property
    def selection(self) -> BoundedRangeEvent:
        """The event of the selection, which comes first."""
        return cast(BoundedRangeEvent, self.events[0])

    @property
    def bit(self) -> OneBitEvent:
        """The second part, given that the test does not fail."""
        return cast(OneBitEvent, cast(ApproximateEvent, self.events[1]).event)

    @property
    def num_teachers(self) -> int:
        """T, the votes that all gaps share."""
        return max(self.num_votes, len(self.bit.logits) - 1)


@dataclass(frozen=True, slots=True)
class SessionEvent(LeafEvent):
    """Calls under target charging, until a number of them have hit; priced by what one hit can have cost."""

    epsilon: float = field(
        metadata={"check": _require_price}
    )  # pure DP of one access to the data, > 0
    hit_prob: float = field(
        metadata=_PROBABILITY
    )  # q, the least probability of a hit given an access, in (0, 1)
    target_hits: int = field(
        metadata=_COUNT
    )  # tau, >= 1; the hit of that number is the last outcome
    num_calls: float = field(
        metadata={"check": _require_number_of_calls}
    )  # at most so many, >= 0; infinity is allowed
    # the same session as accesses with an overrun, for accountants that do not price hits
    accesses: Event = field(metadata={"check": _require_event})

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        Event.__post_init__(self)


@dataclass(frozen=True, slots=True)
class BoundarySessionEvent(SessionEvent):
    """The same at a smaller or equal price, for calls in the boundary wrapper."""

    # pure DP of one call before it is wrapped, > 0; `epsilon` and `hit_prob` are those of the wrapped call
    call_epsilon: float = field(metadata=_POSITIVE)
    bounded_range: bool = field(
        metadata=_BOOL
    )  # whether the call's log-likelihood ratios also span at most `call_epsilon`


def nodes(event: Event, *, count: int = 1) -> Iterator[tuple[Event, int]]:
    """An event and all its parts, with how often each occurs; raises for what is no event."""
    pending = [(event, count)]
    while pending:
        node, times = pending.pop()
        yield node, times
        if isinstance(node, ComposedEvent):
            for part in node.events:
                if isinstance(part, LeafEvent):
                    yield part, times
                else:
                    pending.append((part, times))
        elif isinstance(node, (SelfComposedEvent, ApproximateEvent)):
            pending.append(
                (node.event, times * node.count if isinstance(node, SelfComposedEvent) else times)
            )
        else:
            validation.require_kind("event", node, LeafEvent, _OURS)


def leaves(event: Event, *, count: int = 1) -> Iterator[tuple[LeafEvent, int]]:
    """Those that have no parts."""
    return (
        (node, times) for node, times in nodes(event, count=count) if isinstance(node, LeafEvent)
    )


# by kind: which, and how often each
LeafCounts = dict[type[LeafEvent], tuple[list[LeafEvent], list[int]]]


def count_leaves(event: Event, *, count: int = 1) -> LeafCounts:
    """The parts without parts of an event and how often each occurs, by kind."""
    if isinstance(event, ComposedEvent) and count > 0:
        kinds = set(map(type, event.events))
        if len(kinds) == 1 and issubclass(kind := kinds.pop(), LeafEvent):
            # by its kind; looking at 100,000 of them takes long
            all_of_it = cast(list[LeafEvent], list(event.events))
            return {kind: (all_of_it, [count] * len(all_of_it))}
    counts: LeafCounts = {}
    for leaf, times in leaves(event, count=count):
        if times > 0:
            group = counts.setdefault(type(leaf), ([], []))
            group[0].append(leaf)
            group[1].append(times)
    return counts


def by_accesses(event: Event) -> Event:
    """The event with every session replaced by its accesses: for accountants that do not price hits."""
    if isinstance(event, SessionEvent):
        return event.accesses
    if isinstance(event, ComposedEvent):
        kinds = set(map(type, event.events))  # looking at 100,000 parts takes long
        if not all(
            issubclass(kind, LeafEvent) and not issubclass(kind, SessionEvent) for kind in kinds
        ):
            parts = tuple(map(by_accesses, event.events))
            return (
                event
                if all(map(operator.is_, parts, event.events))
                else replace(event, events=parts)
            )
    if isinstance(event, (SelfComposedEvent, ApproximateEvent)):
        part = by_accesses(event.event)
        return event if part is event.event else replace(event, event=part)
    return event


def failure_probability(event: Event) -> float:
    """The sum of the failure probabilities in an event: a part of delta that no noise can buy back."""
    if isinstance(event, ApproximateEvent):
        return event.failure_prob + failure_probability(event.event)
    if isinstance(event, SelfComposedEvent):
        return event.count * failure_probability(event.event)
    if isinstance(event, ComposedEvent):
        return math.fsum(
            failure_probability(part) for part in event.events if not isinstance(part, LeafEvent)
        )
    return 0.0


_KINDS = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, Event)]
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in _KINDS if kind not in (Event, LeafEvent, BitEvent)
}
"""Every kind of event that a ledger may hold, by its class name."""


def event_to_json(event: Event) -> dict[str, Any]:
    """A dictionary of plain values, with the event's class name under `kind`.

    A field with its default is left out, as an earlier version, without that field, wrote it. An infinity is a string.
    """
    validation.require_kind("event", event, Event, _OURS)

    def plain(value: Any) -> Any:
        if isinstance(value, Event):
            return event_to_json(value)
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        value = value.item() if isinstance(value, np.generic) else value
        return str(value) if isinstance(value, float) and math.isinf(value) else value

    own = [item for item in fields(cast(Any, event)) if getattr(event, item.name) != item.default]
    return {"kind": type(event).__name__} | {
        item.name: plain(getattr(event, item.name)) for item in own
    }


def event_from_json(data: dict[str, Any]) -> Event:
    """The event that `event_to_json` wrote; raises for a kind that does not exist."""

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(read, value))
        if isinstance(value, dict):
            return event_from_json(value)
        return float(value) if value in ("inf", "-inf") else value

    values = dict(data)
    kind = values.pop("kind", None)
    require(kind in KINDS, "kind", kind, f"one of {', '.join(sorted(KINDS))}")
    return KINDS[kind](**{name: read(value) for name, value in values.items()})
