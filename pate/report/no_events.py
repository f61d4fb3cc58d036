"""No events: what a run tells that keeps no curves."""

from __future__ import annotations

from typing import Any, Self


class NoEvents:
    """Takes what `RunWriter` takes, and writes nothing."""

    def teacher(self, teacher: int, loss: float) -> None:
        """Nothing."""

    def teacher_accuracies(self, accuracies: Any) -> None:
        """Nothing."""

    def gaps(self, gaps: Any) -> None:
        """Nothing."""

    def queries(self, answered: Any, epsilon_after_query: Any) -> None:
        """Nothing."""

    def hits(self, num_asked: int, *, hits: int, remaining_hits: int, epsilon: float) -> None:
        """Nothing."""

    def epoch(self, epoch: int, values: Any, *, model: str = "student") -> None:
        """Nothing."""

    def report(self, report: Any) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing."""
