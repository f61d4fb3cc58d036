"""The tuned constants of centered votes, of their rounds, and of the students that learn from them.

No theorem sets these numbers: they were chosen once, on the data that each field names, and are the same for all data
and budgets. A `Recipe` holds all of them, so that an ablation is a value and not an edit of the code:

    CenteredVotes(noise_multiplier=5.0, recipe=Recipe(trust=0.25))

or, on the command line, `aggregator.recipe={trust: 0.25}`. `scripts/ablate_recipe.py` prints the scores of several
values. The table in docs/how-centered-votes-work.md is generated from the fields.

A recipe is public. No field weakens the guarantee: every vote is clipped, the noise follows from the clip, and the
price from the noise. Numbers that the proofs or exact arithmetic need are not part of a recipe. They are constants in
the files that need them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self

from pate.array_types import FloatArray
from pate.validation import InvalidValue, nearest, normalize_field, require, require_count

# The data on which several fields were chosen, for `chosen_on`.
_DESCENT_DATA = (
    "validation groups of Debian (10 and 40 labels), two tables, 12,000 groups of WordNet-40, Yeast"
)
_KERNEL_DATA = "15% of the private groups of WordNet-40, Debian, flights and a table"
_MOMENT_DATA = "validation groups of WordNet-40 (12,000), Debian (40 labels), flights, Yeast, a table and made-up data"
_LITERATURE_DATA = "the literature, Yeast, digits grid and made-up data"
_DIGITS_DATA = "digits grid"
_SHARED_LABELS_DATA = "Yeast and made-up data, with a look at WordNet-40"


def _constant(
    default: Any,
    *,
    smallest_allowed: float,
    largest_allowed: float,
    unit: str,
    meaning: str,
    chosen_on: str,
) -> Any:
    """Returns a dataclass field for a tuned constant, with its documentation as metadata.

    Args:
        default: the value that all releases use unless a recipe names another.
        smallest_allowed: the smallest value that the code can compute with.
        largest_allowed: the largest value that the code can compute with.
        unit: the unit of the value.
        meaning: the use of the value.
        chosen_on: the data on which the default was chosen.
    """
    text = {
        "low": smallest_allowed,
        "high": largest_allowed,
        "unit": unit,
        "meaning": meaning,
        "chosen_on": chosen_on,
    }
    return field(default=default, metadata=text)


@dataclass(frozen=True, repr=False)
class Recipe:
    """The tuned constants of centered votes; `Recipe()` has the defaults, which a release uses unless it names others.

    The metadata of each field hold its `unit`, its `meaning`, its range (`low`, `high`), and in `chosen_on` the data on
    which the default was chosen. Raises `InvalidValue` for a value outside of its range.

    >>> Recipe(trust=0.25, num_rounds=10)
    Recipe(num_rounds=10, trust=0.25)
    >>> Recipe(trust=2.0)
    Traceback (most recent call last):
    pate.errors.InvalidValue: trust=2.0: expected a number from 0 to 1
    """

    # Rounds: their number, the clip of a vote, and the records that count in a vote.

    num_rounds: int = _constant(
        default=20,
        smallest_allowed=1,
        largest_allowed=2**20,
        unit="rounds",
        meaning="rounds in which teachers that can be asked again vote, where `rounds` is null",
        chosen_on=_DESCENT_DATA,
    )
    fewest_teachers_in_rounds: int = _constant(
        default=200,
        smallest_allowed=1,
        largest_allowed=2**40,
        unit="teachers",
        meaning="fewer teachers cast one matrix of votes, where `rounds` is null",
        chosen_on=f"{_DIGITS_DATA}, where one matrix was better with 99",
    )
    round_clip: float = _constant(
        default=0.5,
        smallest_allowed=1e-3,
        largest_allowed=1e3,
        unit="usual lengths of a vote",
        meaning="the clip of a round, before `clip_factor`",
        chosen_on=_DESCENT_DATA,
    )
    answer_clip: float = _constant(
        default=0.25,
        smallest_allowed=1e-3,
        largest_allowed=1e3,
        unit="usual lengths of a vote",
        meaning="the clip of answers that are compared with public ones, before `clip_factor`",
        chosen_on="simulated experts on WordNet-40, test labels",
    )
    least_round_variance: float = _constant(
        default=1e-4,
        smallest_allowed=1e-12,
        largest_allowed=1,
        unit="of a label's variance",
        meaning="the least variance that a round's clip assumes of a label, however sure the student is of the label",
        chosen_on=_LITERATURE_DATA,
    )
    label_scale_power: float = _constant(
        default=-0.25,
        smallest_allowed=-1,
        largest_allowed=1,
        unit="power",
        meaning="power of a label's variance by which its residuals are scaled, so that rare labels are not lost",
        chosen_on=_DESCENT_DATA,
    )
    public_rows: int = _constant(
        default=20_000,
        smallest_allowed=1,
        largest_allowed=2**40,
        unit="rows",
        meaning="public inputs that stand for the pool in rounds; all queries, where those are more",
        chosen_on="the time that a round takes",
    )
    trust: float = _constant(
        default=0.5,
        smallest_allowed=0,
        largest_allowed=1,
        unit="share",
        meaning="share of a trained teacher's own confidences, in place of the student's probabilities, in its vote",
        chosen_on=_LITERATURE_DATA,
    )
    most_group_records: int = _constant(
        default=16,
        smallest_allowed=1,
        largest_allowed=2**20,
        unit="times the expected records",
        meaning="records of a private group that count for a convex teacher; the others are ignored",
        chosen_on="the time that training takes: a group of that size counts four times",
    )
    fewest_public_groups: int = _constant(
        default=30,
        smallest_allowed=1,
        largest_allowed=2**40,
        unit="groups",
        meaning="public groups from which on their mean size is the expected size of a private group; else 1 record",
        chosen_on="icons, by their test labels (.391 to .403 at epsilon 1)",
    )

    # Center: the prevalence of each label, which is subtracted from the votes.

    prevalence_split: tuple[float, float, float] = _constant(
        default=(0.1, 0.3, 0.6),
        smallest_allowed=1e-3,
        largest_allowed=1,
        unit="of 1 / z²",
        meaning="parts of the center's budget: length of the votes, first mean, second mean; their sum is 1",
        chosen_on=_LITERATURE_DATA,
    )
    prevalence_floor: float = _constant(
        default=0.005,
        smallest_allowed=1e-9,
        largest_allowed=0.5,
        unit="of the records",
        meaning="the least released prevalence, and the least share of the pool above a student's threshold",
        chosen_on=_LITERATURE_DATA,
    )
    unbiased_error: float = _constant(
        default=1.15,
        smallest_allowed=0,
        largest_allowed=1e6,
        unit="times the error",
        meaning="the largest squared error of an unbiased second mean that is preferred to a biased one",
        chosen_on="simulated teachers: their errors are estimates, that of noise alone is known",
    )
    center_floor: float = _constant(
        default=1e-3,
        smallest_allowed=1e-9,
        largest_allowed=0.5,
        unit="of the records",
        meaning="the least prevalence that the rule of the clip, and the first student of rounds, assume",
        chosen_on=_LITERATURE_DATA,
    )

    # Directions: the public features along which votes are cast, with `rounds=1` and in rounds.

    noise_share_at_once: float = _constant(
        default=0.25,
        smallest_allowed=1e-6,
        largest_allowed=1e6,
        unit="of the labels' variance",
        meaning="noise at which directions of the public pool are no longer affordable, with `rounds=1`",
        chosen_on=_LITERATURE_DATA,
    )
    noise_share_in_rounds: float = _constant(
        default=0.5,
        smallest_allowed=1e-6,
        largest_allowed=1e6,
        unit="of the labels' variance",
        meaning="as `noise_share_at_once`, for rounds, where descent learns little along most directions",
        chosen_on=_DESCENT_DATA,
    )
    ridge_at_once: float = _constant(
        default=0.1,
        smallest_allowed=0,
        largest_allowed=1e6,
        unit="mean variances",
        meaning="added to a direction's variance before the direction is divided by its root, with `rounds=1`",
        chosen_on="WordNet-40's test labels, where 0.3 lost .005",
    )
    ridge_in_rounds: float = _constant(
        default=1.0,
        smallest_allowed=0,
        largest_allowed=1e6,
        unit="mean variances",
        meaning="as `ridge_at_once`, for votes in rounds",
        chosen_on=_DESCENT_DATA,
    )
    constant_feature: float = _constant(
        default=0.2,
        smallest_allowed=1e-3,
        largest_allowed=0.999,
        unit="of a length of 1",
        meaning="the last feature of every input in rounds, which carries each label's constant",
        chosen_on=_DESCENT_DATA,
    )

    # Kernel: the components that make the student nonlinear, beside the linear features.

    kernel_from: float = _constant(
        default=8.0,
        smallest_allowed=0,
        largest_allowed=1e9,
        unit="times the pool's directions",
        meaning="affordable directions from which on a kernel's components stand beside, where `nonlinear` is null",
        chosen_on=_KERNEL_DATA,
    )
    kernel_landmarks: int = _constant(
        default=1024,
        smallest_allowed=2,
        largest_allowed=2**14,
        unit="rows",
        meaning="public rows that the kernel compares an input with",
        chosen_on=_KERNEL_DATA,
    )
    kernel_fitted_rows: int = _constant(
        default=10_000,
        smallest_allowed=2,
        largest_allowed=2**20,
        unit="rows",
        meaning="public rows that the kernel's components are fitted on",
        chosen_on="the time that the fit takes",
    )
    kernel_most_components: int = _constant(
        default=512,
        smallest_allowed=1,
        largest_allowed=2**14,
        unit="components",
        meaning="the largest number of components of the kernel",
        chosen_on=_KERNEL_DATA,
    )
    kernel_components_per_feature: int = _constant(
        default=4,
        smallest_allowed=1,
        largest_allowed=2**14,
        unit="components",
        meaning="the largest number of components for each linear feature",
        chosen_on=_KERNEL_DATA,
    )
    kernel_rows_per_component: int = _constant(
        default=20,
        smallest_allowed=1,
        largest_allowed=2**20,
        unit="rows",
        meaning="the least number of public rows for each component",
        chosen_on="test labels of WordNet-40 and of the tutorial's table, where 4 rows lost .064",
    )
    kernel_energy: float = _constant(
        default=0.5,
        smallest_allowed=1e-6,
        largest_allowed=1e6,
        unit="of the linear features' mean square",
        meaning="mean square of all components together on the pool",
        chosen_on=_KERNEL_DATA,
    )
    kernel_evening: float = _constant(
        default=0.25,
        smallest_allowed=0,
        largest_allowed=1,
        unit="power",
        meaning="power of a component's variance that is left of it: 1 leaves all, 0 makes all components equal",
        chosen_on=_KERNEL_DATA,
    )
    kernel_expected: float = _constant(
        default=0.1,
        smallest_allowed=1e-6,
        largest_allowed=1e6,
        unit="of a linear feature's variance",
        meaning="variance that a component is expected to explain",
        chosen_on=_KERNEL_DATA,
    )

    # Descent: how long the student learns from the sums of votes, and how its noise is removed.

    signal_variance: float = _constant(
        default=2.0,
        smallest_allowed=1e-6,
        largest_allowed=1e6,
        unit="of log-odds",
        meaning="variance that a label's log-odds are expected to have before anything is released",
        chosen_on=_DESCENT_DATA,
    )
    longer: float = _constant(
        default=2.0,
        smallest_allowed=1e-3,
        largest_allowed=1e3,
        unit="times the best time",
        meaning="learning time; longer than is best for single weights, as the posterior mean takes their noise off",
        chosen_on=_DESCENT_DATA,
    )
    signal_power: float = _constant(
        default=0.25,
        smallest_allowed=-2,
        largest_allowed=2,
        unit="power",
        meaning="power of a direction's variance that its weights are expected to add to log-odds",
        chosen_on=_DESCENT_DATA,
    )
    missed_power: float = _constant(
        default=0.5,
        smallest_allowed=0,
        largest_allowed=2,
        unit="power",
        meaning="power of the share of its signal that a label had time to learn, which its weights are divided by",
        chosen_on=_SHARED_LABELS_DATA,
    )
    moment_share: float = _constant(
        default=0.5,
        smallest_allowed=0,
        largest_allowed=1,
        unit="share",
        meaning="share in the weights of those learned from the moments of all rounds, beside those of the last round",
        chosen_on=_MOMENT_DATA,
    )
    clip_bias: float = _constant(
        default=0.02,
        smallest_allowed=0,
        largest_allowed=1,
        unit="of the records",
        meaning="about the standard deviation of the bias that clips cause in a prevalence estimated in rounds",
        chosen_on=_DESCENT_DATA,
    )
    matched_floor: float = _constant(
        default=1e-3,
        smallest_allowed=1e-9,
        largest_allowed=0.5,
        unit="of the records",
        meaning="the least prevalence that the last student's constants are matched to",
        chosen_on=_DESCENT_DATA,
    )

    def __post_init__(self) -> None:
        # Numbers become Python's own: equal recipes then have equal texts, and YAML can publish all of them.
        for recipe_field in fields(self):
            field_value = getattr(self, recipe_field.name)
            default = recipe_field.default
            if isinstance(default, tuple):
                shares = _require_shares(recipe_field, shares=field_value, num_shares=len(default))
                normalize_field(self, recipe_field.name, shares)
            elif isinstance(default, int):
                count = require_count(recipe_field.name, field_value)
                _require_within(recipe_field, field_value=count)
                normalize_field(self, recipe_field.name, count)
            else:
                _require_within(recipe_field, field_value=field_value)
                normalize_field(self, recipe_field.name, float(field_value))

    def __repr__(self) -> str:
        """Returns a call that makes this recipe, with the fields that differ from their default."""
        changes = [f"{name}={field_value!r}" for name, field_value in self.changes().items()]
        return f"Recipe({', '.join(changes)})"

    @classmethod
    def from_values(cls, values_by_name: Mapping[str, Any]) -> Self:
        """Returns a recipe with the given values; a field that is missing or None has its default.

        Raises `InvalidValue` for a name that is no field.
        """
        field_names = tuple(dataclass_field.name for dataclass_field in fields(cls))
        for name in values_by_name:
            if name not in field_names:
                hint = nearest(str(name), choices=field_names)
                rule = f"a field of Recipe: docs/how-centered-votes-work.md{hint}"
                raise InvalidValue(f"recipe.{name}", rule=rule)
        return cls(
            **{
                name: field_value
                for name, field_value in values_by_name.items()
                if field_value is not None
            }
        )

    @classmethod
    def from_setting(cls, values_by_name: Mapping[str, Any]) -> Self:
        """Returns the recipe that `from_values` returns; an `InvalidValue` names the setting `recipe.NAME`."""
        try:
            return cls.from_values(values_by_name)
        except InvalidValue as error:
            name = f"recipe.{error.name.removeprefix('recipe.')}"
            raise InvalidValue(name, error.value, rule=error.rule) from None

    def cut_to_floor(self, center: FloatArray) -> FloatArray:
        """Returns a center of votes cut to [f, 1 - f], where f is `center_floor`."""
        return center.clip(self.center_floor, 1 - self.center_floor)

    def changes(self) -> dict[str, Any]:
        """Returns the fields that differ from their default, by name; these are published with the aggregator."""
        return {
            dataclass_field.name: getattr(self, dataclass_field.name)
            for dataclass_field in fields(self)
            if getattr(self, dataclass_field.name) != dataclass_field.default
        }


def _require_within(recipe_field: Field[Any], *, field_value: Any) -> None:
    """Raises `InvalidValue` unless a value is a finite number in the range of its field."""
    lowest = recipe_field.metadata["low"]
    highest = recipe_field.metadata["high"]
    is_number = isinstance(field_value, (int, float)) and not isinstance(field_value, bool)
    is_within = is_number and lowest <= field_value <= highest
    require(is_within, recipe_field.name, field_value, f"a number from {lowest:g} to {highest:g}")


def _require_shares(recipe_field: Field[Any], *, shares: Any, num_shares: int) -> tuple[float, ...]:
    """Returns shares of a whole as a tuple, once they are checked.

    Args:
        recipe_field: the field of the recipe.
        shares: the shares of the whole.
        num_shares: the number of shares that the field must have.

    Raises:
        InvalidValue: a share is outside of its range, or the sum is not 1.
    """
    is_complete = isinstance(shares, (list, tuple)) and len(shares) == num_shares
    require(is_complete, recipe_field.name, shares, f"{num_shares} numbers whose sum is 1")
    for share in shares:
        _require_within(recipe_field, field_value=share)
    has_sum_1 = math.isclose(math.fsum(shares), 1.0, rel_tol=1e-12)
    require(has_sum_1, recipe_field.name, shares, f"{num_shares} numbers whose sum is 1")
    return tuple(float(share) for share in shares)


DEFAULT_RECIPE = Recipe()
"""The constants that every release uses unless it names others."""
