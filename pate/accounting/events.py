"""Events: the prices of releases, as immutable values that know no accountant and never see a vote.

* An event is a function of public parameters only. Two releases with the same parameters have equal events.
* An event is an upper bound for one adjacency; a ledger refuses events that name another adjacency than its own.
* Zero noise is a legitimate value and costs infinity, but `ThresholdEvent` refuses it; negative noise is an error.
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
from numpy.typing import ArrayLike

from pate.accounting.adjacency import Adjacency
from pate.accounting.run_counts import RunCount, require_run_count
from pate.accounting.special import log_ndtr_without_scipy
from pate.array_types import FloatArray, IntArray
from pate.extras import require_extra
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_count,
    require_each,
    require_kind,
    require_non_negative,
    require_positive,
    require_probability,
    require_rising,
)

EVENT_RULE = "an event of pate.accounting"
"""The rule of the error for a value that is not an event."""


class Event:
    """The base class of all events: an event is the price of one release or of several, as an immutable value.

    The class does not inherit from `ABC`, because the instance check of an ABC is slow over 100,000 events.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # the names of the fields of a dataclass

    def __post_init__(self) -> None:
        for field_name, check in _checks_of(cast(Hashable, type(self))):
            check(field_name, getattr(self, field_name))

    def to_dp_event(self) -> Any:
        """Returns this event as an event of Google's library dp-accounting, which the extra `pld` installs.

        A `WinnerEvent` becomes the release of all noisy counts, which costs up to 1.6 times as much. A sampled Gaussian
        that replaces a unit becomes an event whose price is far above that of our own accountants. Raises
        `InvalidValue` for a kind of event that is not translated, such as pure DP.
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
                # The price of all noisy counts is a bound, up to 1.6 times the price of the winner.
                num_moving_counts = self.num_moving
                multiplier_of_counts = self.noise_multiplier / math.sqrt(num_moving_counts)
                return dp.GaussianDpEvent(multiplier_of_counts * (1 - 2.0**-50))
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
        raise InvalidValue("event", type(self).__name__, rule="an event that can be translated")


class LeafEvent(Event):
    """The base class of events that are not composed of other events, such as one Gaussian release."""

    __slots__ = ()


# The checks of fields: the metadata of a field hold a function, which is called with the field's name and value.
_NON_NEGATIVE = {"check": require_non_negative}
_POSITIVE = {"check": require_positive}
_COUNT = {"check": require_count}
_NATURAL = {"check": partial(require_count, minimum=0)}
_PROBABILITY = {"check": require_probability}
_BOOL = {"check": partial(require_kind, kind=bool, rule="True or False")}


def _require_price(field_name: str, price: float) -> None:
    if price != math.inf:
        require_non_negative(field_name, price)


def _require_logits(field_name: str, logits: tuple[float, ...]) -> None:
    require_kind(field_name, logits, kind=tuple, rule="a tuple of numbers")
    require(len(logits) > 0, field_name, "()", "at least one number")
    require_rising(field_name, logits)


def _require_event(field_name: str, field_value: object) -> None:
    require_kind(field_name, field_value, kind=Event, rule=EVENT_RULE)


def _require_number_of_calls(field_name: str, num_calls: float) -> None:
    is_number = num_calls == math.inf or (num_calls >= 0 and float(num_calls).is_integer())
    require(is_number, field_name, num_calls, "a whole number >= 0 or infinity")


def _require_one_or_two(field_name: str, field_value: int) -> None:
    require(field_value in (1, 2), field_name, field_value, "1 or 2")


def _require_finite(field_name: str, field_value: float) -> None:
    require(math.isfinite(field_value), field_name, field_value, "a finite number")


def _require_sampling_probability(field_name: str, sampling_prob: float) -> None:
    require(0 < sampling_prob <= 1, field_name, sampling_prob, "a number in (0, 1]")


def _require_failure_probability(field_name: str, failure_prob: float) -> None:
    require(0 <= failure_prob < 1, field_name, failure_prob, "a number in [0, 1)")


@lru_cache  # once for a class, because one total may make 100,000 events
def _checks_of(event_class: Hashable) -> tuple[tuple[str, Callable[[str, Any], object]], ...]:
    """Returns the fields of a class of events that have a check, as pairs of a field's name and its check.

    A check is a function from the name and the value of a field that raises an error for a wrong value.

    Args:
        event_class: the class, a dataclass.
    """
    return tuple(
        (dataclass_field.name, dataclass_field.metadata["check"])
        for dataclass_field in fields(cast(Any, event_class))
        if "check" in dataclass_field.metadata
    )


@dataclass(frozen=True, slots=True)
class NoOpEvent(LeafEvent):
    """The price of releasing nothing, which is zero."""


@dataclass(frozen=True, slots=True)
class NonPrivateEvent(LeafEvent):
    """The price of a release without noise, which is infinite."""


# Relative, and above the rounding error of any sum that numpy can make.
_SUMMATION_ROUNDING = 2.0**-46


@dataclass(frozen=True, slots=True)
class GaussianEvent(LeafEvent):
    """The price of a vector that is released with Gaussian noise, given noise std / l2 sensitivity."""

    # noise std / l2 sensitivity, >= 0; 0 costs infinity
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)

    @classmethod
    def composed(cls, noise_multipliers: ArrayLike) -> GaussianEvent:
        """Returns one Gaussian event that costs as much as several Gaussian releases together.

        The 1 / noise_multiplier**2 of the event is the sum of 1 / noise_multiplier**2 over the releases, rounded up.
        The bound holds even if each release was chosen after seeing the earlier ones, at multipliers that were fixed in
        advance.

        Args:
            noise_multipliers: the noise std / l2 sensitivity of each release, finite and >= 0, `[num_releases]`, at
                least one. If any multiplier is 0, the event costs infinity.

        >>> GaussianEvent.composed([2.0, 2.0, 2.0, 2.0])
        GaussianEvent(noise_multiplier=0.9999999999999858)
        """
        multiplier_array = np.asarray(noise_multipliers, dtype=np.float64)
        is_list = multiplier_array.ndim == 1 and multiplier_array.size > 0
        require(is_list, "noise_multipliers.shape", multiplier_array.shape, "one or more numbers")
        is_valid_multiplier = np.isfinite(multiplier_array) & (multiplier_array >= 0)
        require_each(
            "noise_multipliers", multiplier_array, is_valid_multiplier, rule="finite numbers >= 0"
        )
        smallest_multiplier = float(multiplier_array.min())
        if smallest_multiplier == 0:
            return cls(noise_multiplier=0.0)
        # The sum is between 1 and the number of releases, so it neither overflows nor vanishes.
        sum_of_squares = float(np.square(smallest_multiplier / multiplier_array).sum())
        return cls(
            noise_multiplier=smallest_multiplier
            / math.sqrt(sum_of_squares)
            * (1 - _SUMMATION_ROUNDING)
        )


@dataclass(frozen=True, slots=True)
class ScoresEvent(GaussianEvent):
    """The price of scores on private test records: of all their clipped counts together, as one Gaussian release.

    It costs as much as a `GaussianEvent` with the same noise. The class of its own lets a ledger distinguish released
    scores from releases that a model learned from (docs/proofs/scores.md).
    """


@dataclass(frozen=True, slots=True)
class ZCdpEvent(LeafEvent):
    """The price of a release that is rho-zCDP (zero-concentrated differential privacy).

    The Renyi divergence of order a between the outputs of two neighbors is at most rho * a, for all a > 1 (Bun &
    Steinke 2016).
    """

    rho: float = field(metadata={"check": _require_price})  # >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class PureDpEvent(LeafEvent):
    """The price of a release that is epsilon-DP with delta = 0, such as a sum with Laplace noise."""

    epsilon: float = field(metadata={"check": _require_price})  # >= 0; infinity is allowed


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent(LeafEvent):
    """The price of a release with a bounded range, such as the exponential mechanism.

    Take two neighboring data sets, and the log-likelihood ratio of each output between both. The largest ratio less the
    smallest is the range, which is at most `epsilon`. Let the utilities of all outputs change between neighbors by
    amounts within an interval of length w. Then the exponential mechanism (argmax after Gumbel noise of scale beta) has
    epsilon = w / beta. A range of epsilon implies epsilon-DP and epsilon**2 / 8 zCDP (Durfee & Rogers 2019; Dong,
    Durfee & Rogers 2020).
    """

    # the range, >= 0; infinity is allowed
    epsilon: float = field(metadata={"check": _require_price})


@dataclass(frozen=True, slots=True)
class NoisyMaxGaussianEvent(LeafEvent):
    """The price of report noisy max: releasing the index of the largest value after Gaussian noise on each value."""

    # noise std / the largest difference of one value between neighbors, >= 0; values may differ in opposite directions
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    num_candidates: int = field(metadata=_COUNT)  # the number of values that compete, >= 1


@dataclass(frozen=True, slots=True)
class OpposedMaximaEvent(NoisyMaxGaussianEvent):
    """The price of report noisy max with Gaussian noise where a second bound on the Renyi divergence holds too.

    The second bound is the divergence between two noisy maxima that move in opposite directions. Gap selection
    satisfies that bound (docs/proofs/gap_selection.md). So the price is at most that of a `NoisyMaxGaussianEvent` with
    the same fields.
    """


@dataclass(frozen=True, slots=True)
class WinnerEvent(LeafEvent):
    """The price of releasing the index of the largest noisy count, where one or two counts differ between neighbors.

    The noise is Gaussian, and the noisy counts themselves stay secret (docs/proofs/winner.md).
    """

    # noise std / the largest difference of one count between neighbors, >= 0
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    # 1 where one count moves between neighbors, 2 where one falls and another one rises by the same amount
    num_moving: int = field(metadata={"check": _require_one_or_two})


class BitEvent(LeafEvent):
    """The base class of prices of one released bit.

    The probability that the bit is 1 depends on an integer statistic of the private data, and never falls as that
    statistic rises.
    """

    __slots__ = ()

    @property
    def reach(self) -> int:
        """The largest difference, between two neighbors, of the integer statistic that the bit depends on, >= 1."""
        return 1

    @property
    @abstractmethod
    def log_odds(self) -> FloatArray:
        """The log odds that the bit is 1, for each value of the integer statistic it depends on, in rising order."""


@dataclass(frozen=True, slots=True)
class OneBitEvent(BitEvent):
    """The price of one released bit, such as the result of a stability test, from a table of the bit's log odds."""

    # log odds of the bit being 1 at statistic 0, 1, 2, …, never decreasing
    logits: tuple[float, ...] = field(metadata={"check": _require_logits})
    # The largest difference of the statistic between neighbors, >= 1. It has no default; the property of the base class
    # would be taken as the default without a `field`.
    reach: int = field(metadata=_COUNT)

    @property
    def log_odds(self) -> FloatArray:
        """The log odds that the bit is 1, one entry for each value 0, 1, 2, … of the bit's integer statistic."""
        return np.array(self.logits)


@dataclass(frozen=True, slots=True)
class ThresholdEvent(BitEvent):
    """The price of releasing whether an integer plus Gaussian noise reaches a threshold.

    The integer differs by at most 1 between neighbors.
    """

    noise_std: float = field(metadata=_POSITIVE)  # > 0, in the units of the integer
    # the smallest value of the integer, minus the threshold
    lowest: float = field(metadata={"check": _require_finite})
    # the number of values that the integer can have, which are 1 apart; >= 1
    num_values: int = field(metadata=_COUNT)

    @property
    def log_odds(self) -> FloatArray:
        """The log odds that a noisy integer reaches the threshold, for each integer from the lowest, `[num_values]`."""
        return self.log_odds_at(steps=np.arange(self.num_values))

    def log_odds_at(self, steps: IntArray) -> FloatArray:
        """Returns the log odds that the noisy integer reaches the threshold, one entry for each entry of `steps`.

        Args:
            steps: how far each value of the integer lies above the smallest: 0 for that value, 1 for the next.
        """
        # The noisy integer reaches the threshold with probability Phi(z), where z has either sign.
        z = (self.lowest + steps) / self.noise_std
        return np.asarray(log_ndtr_without_scipy(z) - log_ndtr_without_scipy(-z))


@dataclass(frozen=True, slots=True)
class SmoothSensitivityEvent(LeafEvent):
    """The price of releasing a number with Gaussian noise in proportion to the number's smooth sensitivity.

    The smooth sensitivity is an upper bound on the local sensitivity that differs by at most a factor exp(beta) between
    neighbors. The Renyi divergence is infinite at high orders unless beta is 0.
    """

    # noise std / smooth sensitivity, >= 0; 0 costs infinity
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    # the sensitivity changes by at most a factor exp(beta) between neighbors, >= 0
    beta: float = field(metadata=_NON_NEGATIVE)


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent(LeafEvent):
    """The price of releasing a sum with Gaussian noise over a secret random sample of the privacy units.

    Each unit is in the sample with the same probability, independently of all other units (Poisson sampling).
    """

    # noise std over the l2 sensitivity of the sum over all units, >= 0; 0 costs infinity. With contributions no longer
    # than C that is 2 C if a unit is replaced, C if it is added or removed.
    noise_multiplier: float = field(metadata=_NON_NEGATIVE)
    sampling_prob: float = field(metadata={"check": _require_sampling_probability})  # in (0, 1]
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # the adjacency that the price is for

    def __post_init__(self) -> None:
        Event.__post_init__(
            self
        )  # `super()` fails in a dataclass with `slots=True`, which is a second class
        normalize_field(self, "adjacency", value=Adjacency.parse(self.adjacency))

    @property
    def is_replaced(self) -> bool:
        """Whether a neighbor replaces one unit by another, and does not add or remove one unit."""
        return self.adjacency is Adjacency.REPLACE_ONE

    @property
    def shift(self) -> float:
        """C / noise std, where C is the largest l2 norm of a unit's contribution to the sum.

        If a unit is replaced, the sensitivity is 2 C, so the result is half of 1 / noise_multiplier.
        """
        return (0.5 if self.is_replaced else 1.0) / self.noise_multiplier


@dataclass(frozen=True, slots=True)
class ApproximateEvent(Event):
    """The price of a release that costs at most as much as another event, except with a small failure probability.

    Accountants add the failure probability to delta.
    """

    event: Event = field(metadata={"check": _require_event})  # the price outside the failure
    # in [0, 1); on each of two neighbors the release fails with this probability, and `event` is the price of the rest
    failure_prob: float = field(metadata={"check": _require_failure_probability})


@dataclass(frozen=True, slots=True)
class ComposedEvent(Event):
    """The price of several releases together; each release may have been chosen after seeing the earlier releases."""

    # in the order of the releases, which optimal composition takes account of; an empty tuple costs nothing
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        for kind in set(map(type, self.events)):  # looking at 100,000 events takes long
            require(issubclass(kind, Event), "events", kind.__name__, EVENT_RULE)


@dataclass(frozen=True, slots=True)
class SelfComposedEvent(Event):
    """The price of `count` releases together that have the same price, each with fresh noise."""

    event: Event = field(metadata={"check": _require_event})  # the price of each release
    count: int = field(metadata=_NATURAL)  # the number of releases, >= 0


@dataclass(frozen=True, slots=True)
class SelectThenTestEvent(ComposedEvent):
    """The price of selecting a gap between sorted vote counts, and of testing whether that gap is stable.

    The gap is selected with Gumbel noise, and its position is released only if the test passes. The first of the two
    `events` is the price of the selection, a `BoundedRangeEvent`. The second is the price of the test, an
    `ApproximateEvent` of a `OneBitEvent` whose statistic is the gap, from 0 on. The price is at most that of both
    events together. For few votes beside the noise the joint law of selection and test makes the price smaller
    (docs/proofs/joint_law.md).
    """

    # The number of gaps that compete without a regularizer, >= 2. Their sum is at most T, the number of teachers. The
    # sum and each gap move by at most `reach` between neighbors.
    num_candidates: int = field(metadata=_COUNT)
    # 0 if the table of log odds has an entry for each gap from 0 to T. Otherwise T; larger gaps than those of the table
    # then pass with the log odds of its last entry.
    num_votes: int = field(default=0, metadata=_NATURAL)

    def __post_init__(self) -> None:
        ComposedEvent.__post_init__(self)
        require_count("num_candidates", self.num_candidates, minimum=2)
        match self.events:
            case (BoundedRangeEvent(), ApproximateEvent(event=OneBitEvent(logits=logits))):
                require(len(logits) > 1, "logits", logits, "those of the gaps 0 to T, T >= 1")
            case _:
                names_of_classes = ", ".join(type(event).__name__ for event in self.events)
                rule = "a BoundedRangeEvent and an ApproximateEvent of a OneBitEvent"
                raise InvalidValue("events", f"({names_of_classes})", rule=rule)

    @property
    def selection(self) -> BoundedRangeEvent:
        """The price of the selection."""
        return cast(BoundedRangeEvent, self.events[0])

    @property
    def bit(self) -> OneBitEvent:
        """The price of the test's bit, without the failure probability of the test."""
        return cast(OneBitEvent, cast(ApproximateEvent, self.events[1]).event)

    @property
    def num_teachers(self) -> int:
        """T, the number of teachers, which the sum of all gaps never exceeds."""
        return max(self.num_votes, len(self.bit.logits) - 1)


@dataclass(frozen=True, slots=True)
class SessionEvent(LeafEvent):
    """The price of a whole session under target charging, computed from the number of its hits.

    A session runs epsilon-DP calls on the private data. A call whose output lies in its target set is a hit. The
    session ends after a given number of hits, or after `num_calls` calls. A call can be seen as first deciding at
    random whether to access the private data at all. An access is then a hit with probability q or more
    (`pate.accounting.q_targets`).

    Attributes:
        epsilon: the epsilon of pure DP of one access to the data, > 0.
        hit_prob: q, the smallest probability of a hit given an access, in (0, 1).
        target_hits: tau, the number of hits that ends the session, >= 1.
        num_calls: the largest number of calls, >= 0; infinity is allowed.
        accesses: the price of the session as a composition of accesses that may fail, for accountants that do not price
            hits.

    Source: Cohen & Lyu 2023; docs/proofs/hits.md.
    """

    epsilon: float = field(metadata=_POSITIVE)
    hit_prob: float = field(metadata=_PROBABILITY)
    target_hits: int = field(metadata=_COUNT)
    num_calls: float = field(metadata={"check": _require_number_of_calls})
    accesses: Event = field(metadata={"check": _require_event})


@dataclass(frozen=True, slots=True)
class BoundarySessionEvent(SessionEvent):
    """The price of a session whose calls pass through the boundary wrapper, at most that of an equal `SessionEvent`.

    The boundary wrapper sometimes replaces the output of a call by a fixed symbol, which is the hit
    (`pate.accounting.q_targets.boundary`). The fields of `SessionEvent` describe the wrapped calls.

    Attributes:
        call_epsilon: the epsilon of pure DP of one call before it is wrapped, > 0.
        bounded_range: whether the log-likelihood ratios of the call also span at most `call_epsilon`.
    """

    call_epsilon: float = field(metadata=_POSITIVE)
    bounded_range: bool = field(metadata=_BOOL)


@dataclass(frozen=True, slots=True)
class TuningEvent(LeafEvent):
    """The price of publishing the best of a secret number of runs, which are compared by scores of the private data.

    Each run is a release together with its score. The number of runs is drawn from `distribution`, whatever the data,
    and stays secret, as do all other runs and all scores but those of the published run. Failures of runs are not part
    of the event (`pate.accounting.tuning.tuning_event`).

    Source: Papernot & Steinke 2022; docs/proofs/tuning.md.
    """

    base: Event = field(metadata={"check": _require_event})  # the price of the release of one run
    # the price of the score of one run; `NoOpEvent` where the score costs these data nothing
    score: Event = field(metadata={"check": _require_event})
    distribution: RunCount = field(metadata={"check": require_run_count})  # of the number of runs

    def __post_init__(self) -> None:
        # imported here, because it imports this module
        from pate.accounting.event_tree import failure_probability

        Event.__post_init__(self)
        for field_name in ("base", "score"):
            failure_prob = failure_probability(getattr(self, field_name))
            if failure_prob != 0:
                rule = "a price without failures; tuning_event moves them out"
                raise InvalidValue(f"{field_name}.failure_prob", failure_prob, rule=rule)

    @property
    def candidate(self) -> ComposedEvent:
        """The price of one run: of its release and its score together."""
        return ComposedEvent((self.base, self.score))
