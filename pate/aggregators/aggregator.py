"""What every aggregator offers: a price that never sees votes, and a release that is priced before it exists."""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, Event, Ledger, RdpAccountant, calibrate
from pate.accounting.ledger import noise_name
from pate.aggregators.release import Release
from pate.validation import require, require_count, require_generator, require_histogram

Bits = NDArray[np.bool_]

_QUERIES_AT_ONCE = 16384


@dataclass(frozen=True, kw_only=True)
class Aggregator(ABC):
    """Turns vote counts into labels under a price.

    A frozen dataclass whose fields are public parameters; votes and the generator are call arguments, so the price
    cannot depend on them.

    Attributes:
        adjacency: what one change means; it sets thresholds and price alike.
        reads: what `aggregate` takes, of the class: `histogram`, counts `[Q, L]`, or `teacher_votes`, each teacher's
            votes `[N, Q, L]` (`TeacherVotesAggregator`).
    """

    reads: ClassVar[str] = "histogram"

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @abstractmethod
    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The price of aggregating that many queries, answered or refused."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same aggregator with every noise multiplied by `factor` > 0: the calibrator's handle."""

    def calibrated(
        self,
        *,
        target_epsilon: float,
        target_delta: float,
        num_queries: int,
        num_labels: int,
        num_teachers: int,
        accountant: Callable[[], Accountant] = RdpAccountant,
    ) -> Self:
        """The same aggregator with the least noise that costs at most `target_epsilon` at `target_delta`.

        Raises:
            InvalidValue: no noise reaches the target, or failure probabilities use up delta.
        """
        shape = {"num_queries": num_queries, "num_labels": num_labels, "num_teachers": num_teachers}
        factor = calibrate(
            lambda noise: self.scaled(noise).event_for(**shape),
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            accountant=accountant,
        )
        return self.scaled(factor)

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """What the mechanism's own paper would print; not a bound. None where the paper's accounting gives nothing."""
        return None

    @abstractmethod
    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        """Labels `[q, L]` and answered `[q]` for some of the queries."""

    def aggregate(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
    ) -> Release:
        """Releases labels for all queries.

        Args:
            votes: integers `[Q, L]` in 0..num_teachers: how many teachers vote for each label; anything that
                `numpy.asarray` takes.
            num_teachers: T, public.
            rng: fresh noise for every query comes from it.
            ledger: charged, and on disk, before any noise is drawn; a refused charge releases nothing. The same votes
                with the generator in the same state give the same release, which is charged once.

        Raises:
            InvalidValue: impossible votes; a seed instead of a generator; a charge that the ledger refuses.
        """
        counts, event = self._charge(votes, num_teachers=num_teachers, rng=rng, ledger=ledger)
        labels = np.zeros(counts.shape, dtype=np.bool_)
        answered = np.zeros(len(counts), dtype=np.bool_)
        for rows, block in _blocks(counts):
            labels[rows], answered[rows] = self._draw(block, num_teachers=num_teachers, rng=rng)
        return Release(labels, answered, event, self.adjacency)

    def _charge(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None,
        beside: str = "",
    ) -> tuple[NDArray[np.integer], Event]:
        """Checks the arguments of `aggregate`, charges the ledger, and returns the counts `[Q, L]` and the price.

        `beside` names whatever else the release is a function of.
        """
        require_generator(rng)
        require_count("num_teachers", num_teachers)
        counts = require_histogram("votes", votes, num_teachers=num_teachers, rank=2)
        if (most := self.votes_each) is not None:
            total = int(counts.sum(axis=1, dtype=np.int64).max())
            rule = f"at most {most * num_teachers}, {num_teachers} teachers with max_votes={most}"
            require(total <= most * num_teachers, "votes.sum", total, rule)
        num_queries, num_labels = counts.shape
        event = self.event_for(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        if ledger is not None:
            noise = noise_name(rng)
            key = self._release_key(counts, num_teachers, noise, beside) if noise else uuid.uuid4().hex
            ledger.charge(event, adjacency=self.adjacency, key=key, description=repr(self), noise=noise)
        return counts, event

    @property
    def votes_each(self) -> int | None:
        """The most labels of a query that the price lets one teacher vote for; None where it lets it vote for all."""
        return None

    def _identity(self, *, num_labels: int, num_teachers: int) -> str:
        """All public parameters, as text that no two aggregators share which can release different things.

        An aggregator with a function among its fields must say what the function does, as `StableTopK` does.
        """
        return _full_text(self)

    def _release_key(self, counts: NDArray[np.integer], num_teachers: int, noise: str, beside: str) -> str:
        """A digest of all that the release is a function of; the name of the noise salts the votes."""
        identity = self._identity(num_labels=counts.shape[1], num_teachers=num_teachers)
        named = (identity, num_teachers, counts.shape, noise, *([beside] if beside else []))
        digest = hashlib.sha256(repr(named).encode())
        for _, block in _blocks(counts):
            digest.update(np.ascontiguousarray(block).data)
        return digest.hexdigest()


def _full_text(value: Any) -> str:
    """Like repr, but all of an array and every field: `repr` elides the middle of a long array."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = [f"{item.name}={_full_text(getattr(value, item.name))}" for item in fields(value)]
        return f"{type(value).__module__}.{type(value).__qualname__}({', '.join(parts)})"
    if isinstance(value, np.ndarray):
        return f"array({value.dtype.str}, {value.shape}, {_full_text(value.tolist())})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_full_text, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_full_text(key)}: {_full_text(item)}' for key, item in value.items())})"
    return repr(value)


def _blocks(counts: NDArray[np.integer]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Consecutive rows, few enough that their working copies stay small."""
    for start in range(0, len(counts), _QUERIES_AT_ONCE):
        rows = slice(start, start + _QUERIES_AT_ONCE)
        yield rows, counts[rows].astype(np.int64, copy=False)
