"""Calibrations of a comparison: files with the parameters by which a method meets a budget, such as its noise."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pate.accounting import Budget
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.files.atomic import write_text
from pate.files.paths import make_folder
from pate.files.reading import damaged, read_value
from pate.files.strict_json import to_json
from pate.validation import InvalidValue

# What the error of a damaged file says of the expected file, and what it advises.
_RULE = "the parameters that were solved for"
_REMEDY = "remove it, and the same command solves for them again"
# A parameter that a file can keep, or an entry of one that is a tuple.
_Plain = int | float | str | bool | None
# The relative error of a price that is allowed above the epsilon of the budget, for rounding.
_PRICE_ROUNDING = 1e-9


@dataclass(frozen=True)
class Calibration:
    """The parameters by which a method meets a budget, or the reason why no parameters meet the budget.

    Attributes:
        parameters: the parameters, by name; empty if none meet the budget.
        epsilon: the price, at most the epsilon of the budget; None if no parameters meet the budget.
        reason: the reason why no parameters meet the budget; empty if some do.
        refusal: the reason not to train the method, as `Contender.refusal` returns it; None if it was not computed.
    """

    parameters: Mapping[str, _Plain | tuple[_Plain, ...]]
    epsilon: float | None
    reason: str = ""
    refusal: str | None = None

    @classmethod
    def read(cls, calibration_file: Path | None) -> Self | None:
        """Returns the calibration in a file, or None if there is no such file. The price is not verified.

        Raises `DamagedFile` if the file is no calibration.
        """
        if calibration_file is None or not os.path.lexists(calibration_file):
            return None
        return read_value(cls, calibration_file, name="calibration", rule=_RULE, remedy=_REMEDY)

    def write(self, calibration_file: Path) -> None:
        """Writes the calibration to a file, unless a parameter is neither a plain value nor a tuple of plain values."""
        solved_values = self.parameters.values()
        if all(map(_can_be_kept, solved_values)):
            make_folder(calibration_file.parent, existing_parent=calibration_file.parent.parent)
            write_text(calibration_file, text=to_json(self) + "\n")

    def skip_reason(self, *, allow_useless: bool) -> str:
        """Returns the reason why the method is not trained, or an empty string if it is trained.

        Args:
            allow_useless: whether to train the method although it would learn next to nothing.
        """
        if self.reason or allow_useless:
            return self.reason
        return self.refusal or ""


class NotTrained(ValueError):
    """The error that a method is not trained at a budget. Its text is the reason, which tables show."""


def calibrate_method(
    method: Method,
    *,
    budget: Budget,
    bench: Bench,
    calibration_file: Path,
    allow_useless: bool = True,
) -> Contender:
    """Returns a method at a budget, ready to be trained.

    The parameters are read from a file if it exists. Otherwise they are computed and written to the file. Parameters of
    a file are priced again, so a file cannot make a release cheaper than it is.

    Args:
        method: the method.
        budget: the budget, with an epsilon.
        bench: what all methods share.
        calibration_file: the file of the parameters.
        allow_useless: whether to train the method although it would learn next to nothing.

    Raises:
        InvalidValue: no parameters meet the budget, or those in the file cost more.
        DamagedFile: the file holds no calibration, or parameters of another method.
        NotTrained: the file states that no parameters meet the budget, or the method would learn next to nothing.
    """
    stored_calibration = Calibration.read(calibration_file)
    parameters = None
    if stored_calibration is not None:
        _require_trainable(calibration=stored_calibration, allow_useless=allow_useless)
        parameters = dict(stored_calibration.parameters)
    try:
        contender = method.at(budget, bench, parameters)
        _require_epsilon(contender, budget=budget)
    except TypeError:  # the method has no parameters of these names
        if stored_calibration is None:
            raise
        raise damaged(
            calibration_file, rule=_RULE, finding="other parameters", remedy=_REMEDY
        ) from None
    except InvalidValue as error:
        if stored_calibration is None:
            Calibration(parameters={}, epsilon=None, reason=str(error)).write(calibration_file)
        raise
    calibration = stored_calibration or Calibration(
        parameters=contender.parameters, epsilon=contender.epsilon
    )
    if not allow_useless and calibration.refusal is None:
        calibration = replace(calibration, refusal=contender.refusal())
    if calibration is not stored_calibration:
        calibration.write(calibration_file)
    _require_trainable(calibration=calibration, allow_useless=allow_useless)
    return contender


def _require_epsilon(contender: Contender, budget: Budget) -> None:
    """Raises `InvalidValue` if a method costs more than its budget, or has a price that is no number."""
    max_epsilon = budget.required_epsilon()
    if not contender.epsilon <= max_epsilon * (1 + _PRICE_ROUNDING):
        rule = f"at most {max_epsilon:g} once calibrated"
        raise InvalidValue("epsilon", f"{contender.epsilon:.6g}", rule=rule)


def _require_trainable(calibration: Calibration, *, allow_useless: bool) -> None:
    """Raises `NotTrained`, with the reason of `Calibration.skip_reason`, if there is one.

    Args:
        calibration: the parameters that meet a budget, or the reason why none do.
        allow_useless: whether to train the method although it would learn next to nothing.
    """
    reason = calibration.skip_reason(allow_useless=allow_useless)
    if reason:
        raise NotTrained(reason)


def _can_be_kept(parameter: Any) -> bool:
    """Returns True for None, a truth value, a number, a text, or a tuple of such values, which JSON can keep."""
    plain_entries = parameter if isinstance(parameter, tuple) else (parameter,)
    return all(isinstance(entry, _Plain) for entry in plain_entries)
