"""The parameters of a release by somebody else, of which some are known and the others assumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from pate.aggregators import Aggregator
from pate.pricing.priced_release import with_fields
from pate.validation import require_non_negative

# The parameters of a release whose own parameters are not known. `ClippedVotes` keeps its own threshold, a half.
ASSUMED: dict[str, float] = {
    "noise_std": 50.0,
    "screening_std": 50.0,
    "threshold_share": 0.6,
    "vote_clip": 2,
}

# The names that some aggregators have for parameters of `ReleaseParameters`.
_AGGREGATOR_NAMES = {"noise_std": "selection_scale", "screening_std": "test_std"}
# The names of all parameters that are a noise.
_NOISE_NAMES = {*_AGGREGATOR_NAMES, *_AGGREGATOR_NAMES.values()}


@dataclass(frozen=True, kw_only=True)
class ReleaseParameters:
    """The known parameters of a release by somebody else. None stands for a parameter that is not known.

    Attributes:
        noise_std: the standard deviation of the noise of answers, or the scale of a selection's noise, in votes; 0 for
            none.
        screening_std: the standard deviation of the noise of a screening or a stability test, in votes; 0 for none.
        threshold_share: the fraction of the teachers who must agree for an answer.
        vote_clip: the largest number of votes of a teacher that count in a query.
        max_size: the largest size of a set of labels.
    """

    noise_std: float | None = None
    screening_std: float | None = None
    threshold_share: float | None = None
    vote_clip: int | None = None
    max_size: int | None = None

    def __post_init__(self) -> None:
        for parameter_name in ("noise_std", "screening_std"):
            if parameter_name in self.known:
                require_non_negative(parameter_name, self.known[parameter_name])

    @property
    def known(self) -> dict[str, float]:
        """The known parameters: their values by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def assumed(self) -> dict[str, float]:
        """The assumed values, by name, of parameters that are not known."""
        return {name: value for name, value in ASSUMED.items() if name not in self.known}

    def applied(self, aggregator: Aggregator) -> KnownRelease:
        """Returns a copy of an aggregator in which the known parameters are set, with its parameters by name.

        Aggregators refuse noise of 0. They get noise of 1 instead, and the result is marked as noiseless.
        """
        field_names = {aggregator_field.name for aggregator_field in fields(aggregator)}
        # The aggregator's own name of each parameter that it has.
        own_names: dict[str, str] = {}
        for parameter_field in fields(self):
            name = parameter_field.name
            if name in field_names:
                own_names[name] = name
            elif _AGGREGATOR_NAMES.get(name) in field_names:
                own_names[name] = _AGGREGATOR_NAMES[name]
        changed_values = {
            own_name: self.known[name] for name, own_name in own_names.items() if name in self.known
        }
        noiseless_names = [
            name for name, value in changed_values.items() if value == 0 and name in _NOISE_NAMES
        ]
        for name in noiseless_names:
            changed_values[name] = 1.0
        parameters: dict[str, float] = {}
        for name, own_name in own_names.items():
            value = self.known.get(name, getattr(aggregator, own_name))
            if isinstance(value, (int, float)):
                parameters[name] = value
        return KnownRelease(
            aggregator=with_fields(aggregator, new_values=changed_values),
            all_parameters=parameters,
            is_noiseless=len(noiseless_names) > 0,
        )


@dataclass(frozen=True)
class KnownRelease:
    """An aggregator in which the known parameters of a release by somebody else are set.

    Attributes:
        aggregator: the aggregator.
        all_parameters: the parameters of the aggregator, known or not, by the names of `ReleaseParameters`.
        is_noiseless: whether a noise of the release is 0; the aggregator then has noise of 1 in its place.
    """

    aggregator: Aggregator
    all_parameters: dict[str, float]
    is_noiseless: bool
