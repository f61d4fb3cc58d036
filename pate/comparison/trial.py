"""Models that are trained and scored: parameters solved for once, each result on disk as soon as it is done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate.comparison.frontier import Run
from pate.comparison.method import Bench, Contender, Method, Reference, Trained
from pate.data import Split
from pate.files.disk import damaged, make_folder, read_value, write_text
from pate.files.values import to_json, to_json_line
from pate.pricing import Budget
from pate.report import metric_intervals, multilabel_metrics
from pate.validation import InvalidValue

_RULE = "the parameters that were solved for"
_SOLVED_AGAIN = "remove it, and the same command solves for them again"
_RESULT = "a result of this comparison"
_MADE_AGAIN = "remove it, and the same command makes it again"
_PLAIN = (int, float, str, bool, type(None))
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Calibration:
    """What was found for a method at a budget."""

    parameters: Mapping[str, int | float | str | bool | list | None]  # type: ignore[type-arg]  # that were solved for
    epsilon: float | None  # the price, at most the budget's; None where nothing reaches the budget
    reason: str = ""  # why nothing does
    refusal: str | None = None  # see `Contender.refusal`; None where nobody asked

    @classmethod
    def read(cls, path: Path) -> Calibration | None:
        """What was kept, for show: it is not priced again. None where nothing was."""
        if not os.path.lexists(path):
            return None
        return read_value(cls, path, name="calibration", rule=_RULE, remedy=_SOLVED_AGAIN)

    def write(self, path: Path) -> None:
        """Keeps it where all parameters are plain values, or lists of them."""
        if all(_is_plain(value) for value in self.parameters.values()):
            make_folder(path.parent, within=path.parent.parent)
            write_text(path, to_json(self) + "\n")


def calibrated(method: Method, budget: Budget, bench: Bench, path: Path) -> Contender:
    """The method at a budget, from the file where it is there, solved for and kept where it is not.

    What is read back is priced again: a file cannot make a release cheaper than it is.

    Raises:
        InvalidValue: nothing reaches the budget.
    """
    if (kept := Calibration.read(path)) is not None:
        if kept.reason:
            raise InvalidValue(kept.reason)
        try:
            solved = {name: _tuple(value) for name, value in kept.parameters.items()}
            return _within(budget, method.at(budget, bench, solved))
        except TypeError:
            raise damaged(path, _RULE, "other parameters", _SOLVED_AGAIN) from None
    try:
        contender = _within(budget, method.at(budget, bench))
    except InvalidValue as error:
        Calibration({}, None, str(error)).write(path)
        raise
    Calibration(contender.parameters, contender.epsilon).write(path)
    return contender


def _within(budget: Budget, contender: Contender) -> Contender:
    """The contender, or an error where it costs more than it may: no calibrator and no file is believed."""
    most = budget.target_epsilon or 0.0
    if not contender.epsilon <= most * _SLACK:
        raise InvalidValue(f"epsilon={contender.epsilon:.6g}: expected at most {most:g} once calibrated")
    return contender


@dataclass(frozen=True)
class CachedRun:
    """A seed, and the file with its result."""

    seed: int  # of the noise and of the training
    path: Path  # of the file

    def read(self) -> Run | None:
        """The result, or None; raises `DamagedFile` where it is not what was written."""
        if not os.path.lexists(self.path):
            return None
        return read_value(Run, self.path, name="run", rule=_RESULT, remedy=_MADE_AGAIN)

    def write(self, run: Run) -> Run:
        make_folder(self.path.parent, within=self.path.parent.parent)
        write_text(self.path, to_json_line(run) + "\n")
        return run


@dataclass(frozen=True)
class Trial:
    """A method at a budget, for several seeds."""

    method: Method  # who
    budget: Budget  # what it may cost
    bench: Bench  # what all methods share
    calibration_path: Path  # where its parameters are kept
    cached: tuple[CachedRun, ...]  # one per seed
    blank: Run  # a run with what is known before
    allow_useless: bool = False  # whether it is trained although `Contender.refusal` speaks against it

    @property
    def num_steps(self) -> int:
        return len(self.cached)

    def done(self) -> list[Run] | None:
        kept = Calibration.read(self.calibration_path)
        if kept is not None and (note := kept.reason or (not self.allow_useless and kept.refusal)):
            return [replace(self.blank, note=note)]
        if not self.allow_useless and (kept is None or kept.refusal is None):
            return None
        runs = [run for run in map(self._kept, self.cached) if run is not None]
        return runs if len(runs) == len(self.cached) else None

    def runs(self) -> list[Run]:
        """The results; where nothing reaches the budget, or tells nothing there, one that says so."""
        if (done := self.done()) is not None:
            return done
        try:
            contender = calibrated(self.method, self.budget, self.bench, self.calibration_path)
        except InvalidValue as error:
            return [replace(self.blank, note=str(error))]
        kept = Calibration.read(self.calibration_path)
        if not self.allow_useless and (kept is None or kept.refusal is None):  # what works in its place takes seconds
            kept = Calibration(contender.parameters, contender.epsilon, refusal=contender.refusal())
            kept.write(self.calibration_path)
        if not self.allow_useless and kept is not None and kept.refusal:
            return [replace(self.blank, note=kept.refusal)]
        blank = replace(self.blank, priced_epsilon=contender.epsilon)

        def run(cached: CachedRun) -> Run:
            try:
                return _scored(contender.train(cached.seed), self.bench.dataset.test, replace(blank, seed=cached.seed))
            except InvalidValue as error:  # data that it is not made for
                return replace(blank, seed=cached.seed, note=str(error))

        return [self._kept(cached) or cached.write(run(cached)) for cached in self.cached]

    def _kept(self, cached: CachedRun) -> Run | None:
        run = cached.read()
        return None if run is None else replace(run, aggregator=self.blank.aggregator)


@dataclass(frozen=True)
class Baseline:
    """A model that no epsilon covers."""

    reference: Reference  # how it is trained
    bench: Bench  # what all methods share
    cached: CachedRun  # where its result is kept
    blank: Run  # a run with what is known before
    num_steps: int = 1

    def done(self) -> list[Run] | None:
        found = self.cached.read()
        return None if found is None else [found]

    def runs(self) -> list[Run]:
        if (done := self.done()) is not None:
            return done
        trained = self.reference.train(self.cached.seed)
        return [self.cached.write(_scored(trained, self.bench.dataset.test, self.blank))]


def _scored(trained: Trained, test: Split, blank: Run) -> Run:
    """With the five metrics on the test split."""
    bits, probabilities = trained.model.predict(test.inputs), trained.model.predict_proba(test.inputs)
    scores = vars(multilabel_metrics(bits, probabilities.astype(np.float64), test.labels))
    intervals = metric_intervals(bits, probabilities.astype(np.float64), test.labels)
    answers = replace(blank, num_answered=trained.num_answered, label_accuracy=trained.label_accuracy)
    return replace(answers, intervals=intervals, **scores)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(_is_plain(item) for item in value))


def _tuple(value: Any) -> Any:
    """JSON knows lists only."""
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
