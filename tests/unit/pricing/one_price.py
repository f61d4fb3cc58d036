"""Prices that anybody can work out: every query costs 1 / noise_std, and prices add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pate.accounting import Accountant, Event, PureDpEvent, SelfComposedEvent
from pate.aggregators import GaussianVotes


@dataclass(frozen=True, kw_only=True)
class OnePrice(GaussianVotes):
    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return SelfComposedEvent(PureDpEvent(1 / self.noise_std), num_queries)


class Sum(Accountant):
    """Basic composition of such events, which nothing makes cheaper."""

    name = "sum"
    failure_prob = 0.0

    def __init__(self) -> None:
        self.total = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        assert isinstance(event, SelfComposedEvent) and isinstance(event.event, PureDpEvent)
        self.total += count * event.count * event.event.epsilon
        return self

    def get_epsilon(self, target_delta: float) -> float:
        return self.total

    def get_delta(self, target_epsilon: float) -> float:
        return 0.0 if self.total <= target_epsilon else 1.0
