"""What a method's parameters are at a budget: solved for without any data, once, and kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.files.atomic import make_folder, write_text
from pate.files.reading import damaged, read_json
from pate.pricing import Budget
from pate.validation import InvalidValue

_RULE = "the parameters that were solved for"
_REMEDY = "remove it, and the same command solves for them again"
_PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class Calibration:
    """What was found for a method at a budget.

    Attributes:
        parameters: those that were solved for.
        epsilon: the price, at most the budget's; None where nothing reaches the budget.
        reason: why nothing does.
        refusal: see `Contender.refusal`; None where nobody asked.
    """

    parameters: Mapping[str, Any]
    epsilon: float | None
    reason: str = ""
    refusal: str | None = None

    @classmethod
    def read(cls, path: Path) -> Calibration | None:
        """What was kept, for show: it is not priced again. None where nothing was."""
        if not os.path.lexists(path):
            return None
        kept = read_json(path, rule=_RULE, remedy=_REMEDY)
        try:
            parameters = {name: _tuple(value) for name, value in kept["parameters"].items()}
            epsilon, reason, refusal = kept["epsilon"], kept["reason"], kept.get("refusal")
        except (KeyError, TypeError, AttributeError):
            raise damaged(path, _RULE, "other keys", _REMEDY) from None
        told = isinstance(reason, str) and isinstance(refusal, (str, type(None)))
        if not isinstance(epsilon, (int, float, type(None))) or not told:
            raise damaged(path, _RULE, "values of another type", _REMEDY)
        return cls(parameters, epsilon, reason, refusal)

    def write(self, path: Path) -> None:
        """Keeps it, where all its parameters are plain values."""
        if all(_is_plain(value) for value in self.parameters.values()):
            values = vars(self) | {"parameters": dict(self.parameters)}
            make_folder(path.parent, within=path.parent.parent)
            write_text(path, json.dumps(values, indent=2) + "\n")


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
            return method.at(budget, bench, kept.parameters)
        except TypeError:
            raise damaged(path, _RULE, "other parameters", _REMEDY) from None
    try:
        contender = method.at(budget, bench)
    except InvalidValue as error:
        Calibration({}, None, str(error)).write(path)
        raise
    Calibration(contender.parameters, contender.epsilon).write(path)
    return contender


def refusal_of(contender: Contender, path: Path) -> str:
    """`Contender.refusal`, from the file where it is there: what works in its place takes seconds to find."""
    if (kept := Calibration.read(path)) is not None and kept.refusal is not None:
        return kept.refusal
    refusal = contender.refusal
    Calibration(contender.parameters, contender.epsilon, refusal=refusal).write(path)
    return refusal


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(_is_plain(item) for item in value))


def _tuple(value: Any) -> Any:
    """JSON knows lists only."""
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
