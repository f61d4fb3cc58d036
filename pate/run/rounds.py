"""The rounds of a session in a run: kept one by one, and the student whose predictions are the next round's prior."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event
from pate.aggregators import Aggregator, ChargedRelease, Release, Round, TargetChargedAggregator
from pate.files.atomic import write_arrays
from pate.student import Student

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class RoundFiles:
    """One file a round, whole or not there: what a killed run has released is read back, never drawn again.

    Attributes:
        folder: made with the first round.
    """

    folder: Path

    def read(self) -> list[Round]:
        """The first rounds, up to the first that is missing."""
        rounds: list[Round] = []
        while (path := self._path(len(rounds))).exists():
            with np.load(path) as arrays:
                rounds.append(Round(arrays["labels"], arrays["answered"], arrays["hits"]))
        return rounds

    def write(self, index: int, outcome: Round) -> None:
        """Puts a round on disk."""
        write_arrays(self._path(index), labels=outcome.labels, answered=outcome.answered, hits=outcome.hits)

    def _path(self, index: int) -> Path:
        return self.folder / f"round-{index:05d}.npz"


def release_in_rounds(
    aggregator: TargetChargedAggregator,
    votes: NDArray[np.int64],
    *,
    files: RoundFiles,
    tell: Callable[[int, int], None],
    **how: Any,
) -> ChargedRelease:
    """Releases in rounds, each on disk before the next begins; rounds that are there are read back.

    Args:
        aggregator: what the session uses.
        votes: `[Q, L]`.
        files: where rounds are kept.
        tell: told how many queries were asked and how many of them hit, after each round.
        **how: the other arguments of `TargetChargedAggregator.aggregate`.
    """
    done, asked, hits = files.read(), 0, 0

    def count(outcome: Round) -> None:
        nonlocal asked, hits
        asked, hits = asked + len(outcome.hits), hits + int(outcome.hits.sum())
        tell(asked, hits)

    def on_round(index: int, outcome: Round) -> None:
        files.write(index, outcome)
        count(outcome)

    for outcome in done:
        count(outcome)
    return aggregator.aggregate(votes, done=done, on_round=on_round, **how)


def read_release(path: Path, aggregator: Aggregator, event: Event) -> Release:
    """What a run released, from its file."""
    with np.load(path) as arrays:
        released = (arrays["labels"], arrays["answered"], event, aggregator.adjacency)
        if isinstance(aggregator, TargetChargedAggregator):
            return ChargedRelease(*released, arrays["hits"], int(arrays["num_asked"]), aggregator.target_hits)
        return Release(*released)


@dataclass(frozen=True, eq=False)
class StudentPrior:
    """The labels that a student expects, trained on what was released before: public inputs and released labels.

    Attributes:
        student: the recipe.
        inputs: float32 `[Q, …]`, the public samples asked about.
        seed: of the student's training.
        never_empty: whether every answer has a label; a student that predicts none then names its likeliest.
    """

    student: Student
    inputs: NDArray[np.float32]
    seed: int
    never_empty: bool

    @property
    def name(self) -> str:
        """All that the predictions depend on, beside the release."""
        digest = hashlib.sha256(np.ascontiguousarray(self.inputs).data).hexdigest()
        return f"{self.student!r} {self.seed} {self.never_empty} {digest}"

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Expects nothing before anything was answered."""
        start = len(labels)
        expected = np.zeros((num_queries, labels.shape[1]), dtype=np.bool_)
        if not answered.any():
            return expected
        model = self.student.fit(self.inputs[:start][answered], labels[answered], seed=self.seed)
        following = self.inputs[start : start + num_queries]
        expected |= model.predict(following)
        if self.never_empty:
            likeliest = model.predict_proba(following).argmax(axis=1)
            expected[np.flatnonzero(~expected.any(axis=1)), likeliest[~expected.any(axis=1)]] = True
        return expected
