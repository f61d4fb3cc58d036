"""Calibrations of a comparison: the parameters that a method was solved for at a budget, kept in a file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pate.accounting import Budget
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.files.disk import damaged, make_folder, read_value, write_text
from pate.files.strict_json import to_json
from pate.validation import (
    InvalidValue,
)

_RULE = "the parameters that were solved for"
_SOLVED_AGAIN = "remove it, and the same command solves for them again"
_PLAIN = (int, float, str, bool, type(None))


@dataclass(frozen=True)
class Calibration:
    """Parameters that were solved for, for a method at a budget; or why there are none."""

    parameters: Mapping[str, int | float | str | bool | list[Any] | None]
    epsilon: float | None  # the price, at most the budget's; None where nothing reaches the budget
    reason: str = ""  # why nothing does
    refusal: str | None = None  # see `Contender.refusal`; None where nobody asked

    @classmethod
    def read(cls, path: Path | None) -> Self | None:
        """Reads a file, or returns None where there is none. Nothing is priced again: it is for show."""
        if path is None or not os.path.lexists(path):
            return None
        return read_value(cls, path, name="calibration", rule=_RULE, remedy=_SOLVED_AGAIN)

    def write(self, path: Path) -> None:
        """Writes a file where all parameters are plain values, or lists of them."""
        if _is_plain(tuple(self.parameters.values())):
            make_folder(path.parent, within=path.parent.parent)
            write_text(path, to_json(self) + "\n")

    def note(self, allow_useless: bool) -> str:
        """Returns why the method is not trained; empty where it is."""
        if self.reason or allow_useless:
            return self.reason
        return self.refusal or ""


class NotTrained(ValueError):
    """A method that is not trained at a budget; the text is the note that stands in place of its results."""


def calibrated(
    method: Method, budget: Budget, bench: Bench, path: Path, *, allow_useless: bool = True
) -> Contender:
    """Returns the method at a budget, with the parameters of a file, or else solved for and written to the file.

    Parameters of a file are priced again: neither a file nor a calibrator can make a release cheaper than it is.
    Raises `InvalidValue` where nothing reaches the budget. Raises `NotTrained` where that was found before or, unless
    it is allowed, the method tells nothing at the budget.
    """
    on_file = Calibration.read(path)
    parameters = None
    if on_file is not None:
        _require_trained(on_file, allow_useless)
        parameters = {name: as_tuple(value) for name, value in on_file.parameters.items()}
    try:
        contender = method.at(budget, bench, parameters)
        most = budget.required_epsilon()
        if not contender.epsilon <= most * (1 + 1e-9):
            raise InvalidValue(
                "epsilon", f"{contender.epsilon:.6g}", rule=f"at most {most:g} once calibrated"
            )
    except TypeError:
        if on_file is None:
            raise
        raise damaged(path, _RULE, "other parameters", _SOLVED_AGAIN) from None
    except InvalidValue as error:
        if on_file is None:
            Calibration(parameters={}, epsilon=None, reason=str(error)).write(path)
        raise
    calibration = on_file or Calibration(contender.parameters, contender.epsilon)
    if not allow_useless and calibration.refusal is None:
        calibration = replace(calibration, refusal=contender.refusal())
    if calibration is not on_file:
        calibration.write(path)
    _require_trained(calibration, allow_useless)
    return contender


def _require_trained(calibration: Calibration, allow_useless: bool) -> None:
    """Raises `NotTrained`, with the reason, for a method that is not trained."""
    note = calibration.note(allow_useless)
    if note:
        raise NotTrained(note)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def as_tuple(value: Any) -> Any:
    """Returns tuples for the lists that JSON has in their place."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value
