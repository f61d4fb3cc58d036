"""What a release of given votes would really cost, by each aggregator, and what its authors' code would say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pate.accounting import Accountant, Adjacency, Event, GaussianEvent, NonPrivateEvent
from pate.accounting.data_dependent.gnmax import gnmax_log_q, theorem_6_rdp
from pate.accounting.paper_epsilons import converted, curve_of
from pate.aggregators import (
    Aggregator,
    ClippedVotes,
    ConfidentGNMax,
    ConfidentVotes,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.validation import InvalidValue, require_non_negative
from pate.votes.vote_files import ImportedVotes

_STD = 50.0
_ASSUMED = {"noise_std": _STD, "screening_std": _STD, "threshold_share": 0.6, "vote_clip": 2}
_NOISES = ("noise_std", "screening_std")
_ELSEWHERE = {"noise_std": "selection_scale", "screening_std": "test_std"}
_ALL_NOISES = {*_NOISES, *_ELSEWHERE.values()}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is known of the release that was made.

    Attributes:
        given: the aggregator that comes first, with its parameters; None for the plain one of the layout.
        parameters: what replaces the parameters of every aggregator that has them: noise_std, screening_std,
            threshold_share, vote_clip, max_size. The noise may be 0.
        target_delta: in (0, 1).
        accountant: makes an empty accountant.
    """

    given: Aggregator | None
    parameters: Mapping[str, Any]
    target_delta: float
    accountant: Callable[[], Accountant]

    def __post_init__(self) -> None:
        for name in _NOISES:
            require_non_negative(name, self.parameters.get(name, 1.0))

    def applied(self, aggregator: Aggregator) -> tuple[Aggregator, bool]:
        """The aggregator with these parameters, and whether some of its noise is 0, which no aggregator takes."""
        own = {item.name for item in fields(aggregator)}
        known = {_ELSEWHERE.get(name, name) if name not in own else name: value for name, value in self._values()}
        used = {name: value for name, value in known.items() if name in own}
        bare = [name for name, value in used.items() if value == 0 and name in _ALL_NOISES]
        return replace(aggregator, **used | dict.fromkeys(bare, 1.0)), bool(bare)

    @property
    def assumed(self) -> dict[str, float]:
        """What releases have of which nothing was said."""
        return {name: value for name, value in _ASSUMED.items() if self.parameters.get(name) is None}

    def _values(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in self.parameters.items() if value is not None]


@dataclass(frozen=True)
class Finding:
    """One aggregator's price on a vote file.

    Attributes:
        name: as in the configuration.
        epsilon: an upper bound, by adjacency.
        claimed: what published code prints for such a release; not a bound. None where it prints nothing of its own.
        claim: how that figure comes about.
    """

    name: str
    epsilon: Mapping[str, float]
    claimed: float | None
    claim: str


def findings(votes: ImportedVotes, settings: Settings) -> tuple[Finding, ...]:
    """The aggregator that is given, and all others that can release such votes."""
    usual = _usual(votes, settings.target_delta)
    made = [
        _finding(aggregator, votes, settings) for aggregator in usual if type(aggregator) is not type(settings.given)
    ]
    if settings.given is None:
        return tuple(made)
    single = isinstance(settings.given, (GNMax, ConfidentGNMax))
    if single != (votes.layout == "classes"):
        rule = "one that releases several labels" if single else "one that releases one label a query"
        raise InvalidValue(f"aggregator={_name(settings.given)}: expected {rule}, votes are of layout {votes.layout}")
    return (_finding(settings.given, votes, settings), *made)


def _usual(votes: ImportedVotes, target_delta: float) -> list[Aggregator]:
    """The rivals that can release such votes, with parameters to start from; the plain one first."""
    screened: dict[str, Any] = {name: value for name, value in _ASSUMED.items() if name != "vote_clip"}
    if votes.layout == "classes":
        return [GNMax(noise_std=_STD), ConfidentGNMax(**screened)]
    made: list[Aggregator] = [
        GaussianVotes(noise_std=_STD),
        ConfidentVotes(**screened),
        ClippedVotes(noise_std=_STD, vote_clip=int(_ASSUMED["vote_clip"])),
        PowersetGNMax(noise_std=_STD),
    ]
    if votes.counts.shape[1] == 1:
        return made
    failure = min(1e-9, 0.6 * target_delta / len(votes.counts))  # the paper's, where that leaves some of delta
    stable = StableTopK(selection_noise="gaussian", selection_scale=_STD, test_std=_STD, failure_prob=failure)
    return [*made, stable]


def _finding(start: Aggregator, votes: ImportedVotes, settings: Settings) -> Finding:
    aggregator, bare = settings.applied(start)
    delta = settings.target_delta
    claimed, claim = (0.0, "no noise costs nothing") if bare else _claim(aggregator, votes, delta)
    bounds = {}
    for adjacency in Adjacency:
        event = NonPrivateEvent() if bare else _event(replace(aggregator, adjacency=adjacency), votes)
        bounds[str(adjacency)] = settings.accountant().compose(event).get_epsilon(delta)
    return Finding(_name(aggregator), bounds, claimed, claim)


def _event(aggregator: Aggregator, votes: ImportedVotes) -> Event:
    num_queries, num_labels = votes.counts.shape
    return aggregator.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=votes.num_teachers)


def _claim(aggregator: Aggregator, votes: ImportedVotes, delta: float) -> tuple[float | None, str]:
    """What published code says of such a release; docs/how-to/audit-votes.md names the code."""
    num_queries, num_labels = votes.counts.shape
    if isinstance(aggregator, GaussianVotes):
        return _classic(GaussianEvent(aggregator.noise_std / 2**0.5), num_queries, delta), "all labels cost like one"
    if isinstance(aggregator, PowersetGNMax):
        return _classic(GaussianEvent(aggregator.noise_std / 2**0.5), num_queries, delta), "two counts move"
    if isinstance(aggregator, ClippedVotes):
        moved = min(aggregator.vote_clip, num_labels)
        return _classic(GaussianEvent(aggregator.noise_std / moved**0.5), num_queries, delta), "only tau counts move"
    if isinstance(aggregator, GNMax):
        return _data_dependent(votes.counts, aggregator.noise_std, delta), "data dependent: private, one direction"
    if isinstance(aggregator, (ConfidentVotes, ConfidentGNMax)):
        return _expected_cost(aggregator, votes, delta), "expected answers only: private"
    claimed = aggregator.paper_epsilon(num_queries=num_queries, target_delta=delta)
    return claimed, "" if claimed is None else "selection as a Gaussian"


def _expected_cost(aggregator: ConfidentVotes | ConfidentGNMax, votes: ImportedVotes, delta: float) -> float:
    """Every screening, and answers as often as they are expected."""
    num_queries, num_labels = votes.counts.shape
    answers = num_labels if isinstance(aggregator, ConfidentVotes) else 2
    answer = curve_of(GaussianEvent(aggregator.noise_std / answers**0.5))
    screening = curve_of(GaussianEvent(aggregator.screening_std))
    expected = float(_passing(aggregator, votes).sum())

    def both(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(expected * answer(orders) + num_queries * screening(orders))

    return converted(both, count=1, target_delta=delta, conversion="classic")


def _classic(event: Event, num_queries: int, target_delta: float) -> float:
    return converted(curve_of(event), count=num_queries, target_delta=target_delta, conversion="classic")


def _data_dependent(counts: NDArray[np.int64], noise_std: float, target_delta: float) -> float:
    log_q = gnmax_log_q(counts, noise_std=noise_std)

    def curve(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(theorem_6_rdp(log_q, noise_std=noise_std, orders=orders).sum(axis=0))

    return converted(curve, count=1, target_delta=target_delta, conversion="classic")


def _passing(aggregator: ConfidentVotes | ConfidentGNMax, votes: ImportedVotes) -> NDArray[np.float64]:
    """The probability that each query passes its screening: computed from the votes, so private."""
    counts, total = votes.counts, votes.num_teachers
    single = isinstance(aggregator, ConfidentGNMax)
    statistic = counts.max(axis=1) if single else np.maximum(counts, total - counts).min(axis=1)
    return np.asarray(ndtr((statistic - aggregator.threshold_share * total) / aggregator.screening_std))


def _name(aggregator: Aggregator) -> str:
    """The name of the class as the configuration spells it: GNMax is gnmax, ClippedVotes is clipped_votes."""
    text = type(aggregator).__name__.replace("GNMax", "Gnmax").replace("TopK", "Top_k")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


def printable(epsilon: float | None) -> float | str | None:
    """JSON has no infinity."""
    return repr(epsilon) if epsilon is not None and not math.isfinite(epsilon) else epsilon
