"""The parameters of an aggregator at an epsilon: solved for without any votes, once, and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pate.accounting import Accountant
from pate.aggregators import Aggregator
from pate.files.atomic import write_text
from pate.validation import InvalidValue

_SLACK = 1 + 1e-9
_PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class Tuning:
    """What the calibrator found.

    Attributes:
        aggregator: ready to use; None where no noise reaches the epsilon.
        parameters: those of its fields that were solved for.
        epsilon: the price of the whole release, at most what was asked for; None likewise.
        reason: why there is none.
    """

    aggregator: Aggregator | None
    parameters: dict[str, Any]
    epsilon: float | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a release may cost, and its size: all that a calibrator sees.

    Attributes:
        epsilon: > 0.
        delta: in (0, 1).
        accountant: makes an empty accountant.
        num_queries: Q.
        num_labels: L.
        num_teachers: T.
    """

    epsilon: float
    delta: float
    accountant: Callable[[], Accountant]
    num_queries: int
    num_labels: int
    num_teachers: int

    @property
    def shape(self) -> dict[str, int]:
        """The size of the release."""
        return {name: getattr(self, name) for name in ("num_queries", "num_labels", "num_teachers")}


def tuned(aggregator: Aggregator, target: Target, path: Path) -> Tuning:
    """The aggregator for the target, from the file where it is there, solved for and written where it is not.

    What is read back is priced again: a file cannot make a release cheaper than it is.
    """
    if (kept := read_tuning(path)) is not None:
        return kept if kept.reason else _priced(replace(aggregator, **kept.parameters), kept.parameters, target)
    tuning = _solved(aggregator, target)
    if all(_is_plain(value) for value in tuning.parameters.values()):
        values = {"parameters": tuning.parameters, "reason": tuning.reason, "epsilon": tuning.epsilon}
        write_text(path, json.dumps(values, indent=2) + "\n")
    return tuning


def read_tuning(path: Path) -> Tuning | None:
    """What was kept, for show: without an aggregator, and not priced again. None where nothing was."""
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    parameters = {name: _tuple(value) for name, value in kept["parameters"].items()}
    return Tuning(None, parameters, kept["epsilon"], kept["reason"])


def _solved(aggregator: Aggregator, target: Target) -> Tuning:
    try:
        found = aggregator.calibrated(
            target_epsilon=target.epsilon, target_delta=target.delta, accountant=target.accountant, **target.shape
        )
        return _priced(found, _changes(aggregator, found), target)
    except InvalidValue as error:
        return Tuning(None, {}, None, str(error))


def _priced(aggregator: Aggregator, parameters: dict[str, Any], target: Target) -> Tuning:
    """With its price; without a release where that is above the target."""
    epsilon = target.accountant().compose(aggregator.event_for(**target.shape)).get_epsilon(target.delta)
    if epsilon > target.epsilon * _SLACK:
        return Tuning(None, {}, None, f"epsilon={epsilon:.6g}: expected at most {target.epsilon:g} once calibrated")
    return Tuning(aggregator, parameters, epsilon)


def _changes(before: Aggregator, after: Aggregator) -> dict[str, Any]:
    """The fields that differ."""
    names = [item.name for item in fields(after) if item.init]
    return {name: getattr(after, name) for name in names if repr(getattr(after, name)) != repr(getattr(before, name))}


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(_is_plain(item) for item in value))


def _tuple(value: Any) -> Any:
    """JSON knows lists only."""
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
