"""The parameters of a release by somebody else, of which some are known and the others assumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pate.aggregators import Aggregator
from pate.validation import require_non_negative

# The parameters of a release whose own parameters are not known.
ASSUMED: dict[str, float] = {
    "noise_std": 50.0,
    "screening_std": 50.0,
    "threshold_share": 0.6,
    "vote_clip": 2,
}

_OTHER_NAMES = {"noise_std": "selection_scale", "screening_std": "test_std"}
_NOISES = {*_OTHER_NAMES, *_OTHER_NAMES.values()}


@dataclass(frozen=True, kw_only=True)
class ReleaseParameters:
    """The known parameters of a release by somebody else. None stands for a parameter that is not known."""

    # the noise of answers, or the scale of a selection, in votes; 0 for no noise
    noise_std: float | None = None
    # the noise of the screening or of a stability test, in votes; 0 for no noise
    screening_std: float | None = None
    threshold_share: float | None = None  # the fraction of teachers who must agree for an answer
    vote_clip: int | None = None  # the most votes of a teacher that count in a query
    max_size: int | None = None  # the largest size of a set of labels

    def __post_init__(self) -> None:
        for name in sorted(_OTHER_NAMES.keys() & self.known):
            require_non_negative(name, self.known[name])

    @property
    def known(self) -> dict[str, float]:
        """The known parameters: their values by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def assumed(self) -> dict[str, float]:
        """The assumed values, by name, of parameters that are not known."""
        return {name: value for name, value in ASSUMED.items() if name not in self.known}

    def applied(self, aggregator: Aggregator) -> KnownRelease:
        """Returns an aggregator in which the known parameters are set, and its parameters by name.

        Aggregators refuse noise of 0. They get noise of 1 instead, and the result is marked as noiseless.
        """
        names_of_fields = {dataclass_field.name for dataclass_field in fields(aggregator)}
        # the aggregator's own name of each parameter that it has
        own_names: dict[str, str] = {}
        for dataclass_field in fields(self):
            for name in (_OTHER_NAMES.get(dataclass_field.name), dataclass_field.name):
                if name in names_of_fields:
                    own_names[dataclass_field.name] = name
        changes: dict[str, Any] = {
            own_name: self.known[name] for name, own_name in own_names.items() if name in self.known
        }
        noiseless = [name for name, value in changes.items() if value == 0 and name in _NOISES]
        if "screening_std" not in own_names:
            # without a screening the threshold has no part in a price or a claim
            own_names.pop("threshold_share", None)
        parameters: dict[str, float] = {}
        for name, own_name in own_names.items():
            value = self.known.get(name, getattr(aggregator, own_name))
            if isinstance(value, (int, float)):
                parameters[name] = value
        return KnownRelease(
            aggregator=replace(aggregator, **changes | dict.fromkeys(noiseless, 1.0)),
            parameters=parameters,
            is_noiseless=bool(noiseless),
        )


@dataclass(frozen=True)
class KnownRelease:
    """An aggregator in which the known parameters of a release by somebody else are set."""

    aggregator: Aggregator
    # all parameters, known or assumed, by the names of `ReleaseParameters`
    parameters: dict[str, float]
    is_noiseless: bool  # whether a standard deviation of the release is 0
