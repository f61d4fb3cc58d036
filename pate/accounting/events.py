"""Events: the prices of releases, as immutable values that know no accountant and never see a vote.

* An event is a function of public parameters only. Two releases with the same parameters have equal events.
* An event is an upper bound for one adjacency; a ledger refuses events that were made for another adjacency.
* Zero noise is a legitimate value and costs infinity; negative noise is an error.
* An accountant that does not know an event raises; no accountant skips an event.
* A ledger stores class names and fields, and is read for years. No class or field is removed, renamed or given another
  meaning, and a new field has a default that means what its absence meant (`tests/oracle/ledgers/`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate import validation
from pate.accounting.adjacency import Adjacency
from pate.accounting.special import few_log_ndtr
from pate.extras import require_extra
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_count,
    require_non_negative,
    require_positive,
)

EVENT_RULE = "an event of pate.accounting"
"""The rule that a value which is no event breaks."""


class Event:
    """The price of a release, an abstract value; no ABC, whose instance check is slow over 100,000 events."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # the names of the fields of a dataclass

    def __post_init__(self) -> None:
        for name, check in _checks_of(cast(Hashable, type(self))):
            check(name, getattr(self, name))

    def to_dp_event(self) -> Any:
        """Returns the matching event of Google's dp-accounting (the extra `pld`).

        Raises `InvalidValue` where dp-accounting has no such event.
        """
        require_extra("to_dp_event", "pld")
        import dp_accounting as dp  # loads slowly, and is optional

        match self:
            case NoOpEvent():
                return dp.NoOpDpEvent()
            case NonPrivateEvent():
                return dp.NonPrivateDpEvent()
            case GaussianEvent():
                return dp.GaussianDpEvent(self.noise_multiplier)
            case WinnerEvent():
                # A bound: the price of all noisy counts, up to a quarter dearer than that of the winner.
                return dp.GaussianDpEvent(
                    self.noise_multiplier / math.sqrt(self.num_moving) * (1 - 2.0**-50)
                )
            case SampledGaussianEvent():
                # For a replaced unit this bound is far above the price of our own accountants.
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


# The checks of fields: the metadata of a field hold a function, which is called with the field's name and value.
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
    validation.require_kind(name, value, Event, EVENT_RULE)


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
    """Returns the names of the checked fields of a class of events, each with its check."""
    items = fields(cast(Any, kind))
    return tuple((item.name, item.metadata["check"]) for item in items if "check" in item.metadata)


@dataclass(frozen=True, slots=True)
class NoOpEvent(LeafEvent):
    """The release of nothing, whose price is zero."""


@dataclass(frozen=True, slots=True)
class NonPrivateEvent(LeafEvent):
    """A release without noise, whose price is infinite."""


_SUMMATION = 2.0**-46  # relative: above the rounding error of any sum that numpy can make


@dataclass(frozen=True, slots=True)
class GaussianEvent(LeafEvent):
    """A vector released with Gaussian noise."""

    noise_multiplier: float = field(
        metadata=_NON_NEGATIVE
    )  # noise std / l2 sensitivity, >= 0; 0 costs infinity

    @classmethod
    def composed(cls, noise_multipliers: ArrayLike) -> GaussianEvent:
        """Returns one event that costs what N >= 1 Gaussian releases cost together, given their multipliers `[N]`.

        Its 1 / noise_multiplier**2 is the sum of theirs, rounded up. The bound holds where each multiplier was chosen
        after seeing the earlier releases. A single multiplier of 0 makes the event cost infinity.

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
    """A rho-zCDP release: its Renyi divergence of order a is at most rho * a, for all a > 1 (Bun & Steinke 2016)."""

    rho: float = field(metadata={"check": _require_price})  # >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class PureDpEvent(LeafEvent):
    """An epsilon-DP release (Laplace or exponential noise, permute-and-flip)."""

    epsilon: float = field(metadata={"check": _require_price})  # >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent(LeafEvent):
    """A release whose log-likelihood ratios between neighbors span at most `epsilon`.

    The exponential mechanism (Gumbel noise, argmax) with utility range w and scale beta has epsilon = w / beta. A
    bounded range of epsilon implies epsilon-DP and epsilon**2 / 8 zCDP (Durfee & Rogers 2019; Dong, Durfee & Rogers
    2020).
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
    """A noisy maximum, as of gap selection, that two maxima which move in opposite ways dominate too.

    Its price is at most that of a `NoisyMaxGaussianEvent` with the same fields (docs/proofs/gap_selection.md).
    """


@dataclass(frozen=True, slots=True)
class WinnerEvent(LeafEvent):
    """The index of the largest of several counts with Gaussian noise, where one or two counts move between neighbors.

    No noisy count is released (docs/proofs/winner.md).
    """

    noise_multiplier: float = field(
        metadata=_NON_NEGATIVE
    )  # noise std / the most by which one count moves, >= 0
    # 1 where one count moves between neighbors, 2 where one falls and another one rises
    num_moving: int = field(metadata={"check": _require_one_or_two})


class BitEvent(LeafEvent):
    """A released bit whose probability never falls in an integer statistic; abstract."""

    __slots__ = ()

    @property
    def reach(self) -> int:
        """The largest move of the statistic between neighbors, >= 1."""
        return 1

    @property
    @abstractmethod
    def log_odds(self) -> NDArray[np.float64]:
        """The log odds of a 1 at the statistic's least value, the next value, and so on."""


@dataclass(frozen=True, slots=True)
class OneBitEvent(BitEvent):
    """A released bit whose log odds stand in a table, such as that of a stability test."""

    # log odds of the bit being 1 at statistic 0, 1, 2, …, never decreasing
    logits: tuple[float, ...] = field(metadata={"check": _require_logits})
    # of the statistic, >= 1; required: without this the base's property would be its default
    reach: int = field(metadata=_COUNT)

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """The log odds of a 1 at each value of the statistic."""
        return np.array(self.logits)


@dataclass(frozen=True, slots=True)
class ThresholdEvent(BitEvent):
    """A bit: 1 where a whole number that moves by at most 1, with Gaussian noise, reaches a threshold."""

    noise_std: float = field(metadata=_POSITIVE)  # > 0, in the units of the number
    # the least value of the number less the threshold
    lowest: float = field(metadata={"check": _require_finite})
    num_values: int = field(metadata=_COUNT)  # how many values it can take, 1 apart, >= 1

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """The log odds of passing the threshold at each value, from the lowest on."""
        return self.log_odds_at(np.arange(self.num_values))

    def log_odds_at(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the log odds of passing the threshold at values, counted from the lowest."""
        z = (self.lowest + places) / self.noise_std
        return np.asarray(few_log_ndtr(z) - few_log_ndtr(-z))


@dataclass(frozen=True, slots=True)
class SmoothSensitivityEvent(LeafEvent):
    """A number with Gaussian noise that is scaled to a smooth bound on the number's local sensitivity.

    The Renyi divergence is infinite at high orders.
    """

    # noise std / smooth sensitivity, >= 0; 0 costs infinity
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    # the sensitivity changes by at most a factor exp(beta) between neighbors, >= 0
    beta: float = field(metadata=_NON_NEGATIVE)


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent(LeafEvent):
    """A sum with Gaussian noise over a secret Poisson sample of the units.

    Each unit takes part with the same probability, independently of all others.
    """

    # noise std over the l2 sensitivity of the sum over all units, >= 0; 0 costs infinity. With contributions no longer
    # than C that is 2 C if a unit is replaced, C if it is added or removed.
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    sampling_prob: float = field(metadata={"check": _require_sampling_probability})  # in (0, 1]
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # the adjacency that the price is for

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        normalize_field(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def is_replaced(self) -> bool:
        """True where a neighbor has another unit in place of one, and not one unit more or less."""
        return self.adjacency is Adjacency.REPLACE_ONE

    @property
    def shift(self) -> float:
        """C / noise std, where C is the longest contribution of a unit."""
        return (0.5 if self.is_replaced else 1.0) / self.noise_multiplier


@dataclass(frozen=True, slots=True)
class ApproximateEvent(Event):
    """An event whose price holds except with a small probability, which is added to delta."""

    event: Event = field(metadata={"check": _require_event})  # the price outside the failure
    # in [0, 1); the outputs of neighbors are conditioned on events of exactly this probability
    failure_prob: float = field(metadata={"check": _require_failure_probability})


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """Several releases, each possibly chosen after seeing the releases before."""

    events: tuple[Event, ...]  # in any order; an empty tuple costs nothing

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        for kind in set(map(type, self.events)):  # looking at 100,000 events takes long
            require(issubclass(kind, Event), "events", kind.__name__, EVENT_RULE)


@dataclass(frozen=True, slots=True)
class SelfComposedEvent(Event):
    """Several releases with the same price, each with fresh noise."""

    event: Event = field(metadata={"check": _require_event})  # the price of each release
    count: int = field(metadata=_NATURAL)  # the number of releases, >= 0


@dataclass(frozen=True, slots=True)
class SelectThenTestEvent(ComposedEvent):
    """A gap that was chosen with Gumbel noise and released where the test of this gap passes.

    The first of its events is the selection, a `BoundedRangeEvent`. The second is the test, an `ApproximateEvent` of a
    `OneBitEvent` whose statistic is the gap, from 0 on. The price is at most that of both events; where votes are few,
    the joint law of selection and test makes it smaller (docs/proofs/joint_law.md).
    """

    # The number of gaps that compete without a regularizer, >= 2. The sum of the gaps is at most T. The sum and each
    # gap move by at most `reach` between neighbors.
    num_candidates: int = field(metadata=_COUNT)
    # T where the table of log odds ends before T, and larger gaps pass like its last; 0 where the table ends at T
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
        """The event of the selection."""
        return cast(BoundedRangeEvent, self.events[0])

    @property
    def bit(self) -> OneBitEvent:
        """The event of the test, given that the test does not fail."""
        return cast(OneBitEvent, cast(ApproximateEvent, self.events[1]).event)

    @property
    def num_teachers(self) -> int:
        """T, the number of votes that all gaps share."""
        return max(self.num_votes, len(self.bit.logits) - 1)


@dataclass(frozen=True, slots=True)
class SessionEvent(LeafEvent):
    """A session of calls under target charging, which ends with a given number of hits and is priced by its hits.

    Source: Cohen & Lyu 2023; docs/proofs/hits.md.
    """

    # the pure DP of one access to the data, > 0
    epsilon: float = field(metadata={"check": _require_price})
    # q, the least probability of a hit given an access, in (0, 1)
    hit_prob: float = field(metadata=_PROBABILITY)
    # tau, >= 1; the hit of this number is the last outcome
    target_hits: int = field(metadata=_COUNT)
    # the largest number of calls, >= 0; infinity is allowed
    num_calls: float = field(metadata={"check": _require_number_of_calls})
    # the session as accesses with an overrun, for accountants that do not price hits
    accesses: Event = field(metadata={"check": _require_event})

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        Event.__post_init__(self)


@dataclass(frozen=True, slots=True)
class BoundarySessionEvent(SessionEvent):
    """A session of calls in the boundary wrapper, at most as dear as a `SessionEvent` with the same fields."""

    # the pure DP of one call before it is wrapped, > 0; `epsilon` and `hit_prob` are those of the wrapped call
    call_epsilon: float = field(metadata=_POSITIVE)
    # True where the log-likelihood ratios of the call also span at most `call_epsilon`
    bounded_range: bool = field(metadata=_BOOL)
