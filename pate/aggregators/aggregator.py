"""What every aggregator offers: a price that never sees votes, and a release that is priced before it exists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from pate.accounting import Accountant, Adjacency, Event, Ledger, RdpAccountant, calibrate
from pate.accounting.ledger import charge_draw
from pate.aggregators.release import Release
from pate.files.fingerprint import full_text


@dataclass(frozen=True, kw_only=True)
class Aggregator(ABC):
    """Turns vote counts into labels under a price.

    A frozen dataclass whose fields are public parameters; votes and the generator are call arguments, so the price
    cannot depend on them.

    Attributes:
        adjacency: what one change means; it sets thresholds and price alike.
        reads: what `aggregate` takes, of the class: `histogram`, counts `[Q, L]` (`HistogramAggregator`), or
            `teacher_votes`, each teacher's votes `[N, Q, L]` (`TeacherVotesAggregator`).
        single_label: whether it is for one label a sample, of the class: every answer names exactly one.
    """

    reads: ClassVar[str]
    single_label: ClassVar[bool] = False

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @abstractmethod
    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The price of aggregating that many queries, answered or refused."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same aggregator with every noise multiplied by `factor` > 0: the calibrator's handle."""

    @property
    def max_votes_per_teacher(self) -> int | None:
        """The most labels of a query that the price lets one teacher vote for; None where it lets it vote for all."""
        return None

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
    def aggregate(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
    ) -> Release:
        """Releases labels for all queries; `HistogramAggregator` and `TeacherVotesAggregator` say what they read."""

    def _pay(self, event: Event, ledger: Ledger | None, rng: np.random.Generator, name: Callable[[str], str]) -> None:
        """Charges the ledger; `name` digests all that the release is a function of, given a salt."""
        charge_draw(ledger, event, adjacency=self.adjacency, description=repr(self), rng=rng, key=name)

    def identity(self, *, num_labels: int, num_teachers: int) -> str:
        """All public parameters, as text that no two aggregators share which can release different things.

        An aggregator with a function among its fields must say what the function does, as `StableTopK` does.
        """
        return full_text(self)
