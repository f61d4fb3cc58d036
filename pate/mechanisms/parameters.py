"""Public parameters of mechanisms: frozen dataclasses whose fields carry the check of their values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self, TypeVar

from pate.accounting import Adjacency
from pate.validation import (
    normalize_field,
    require_choice,
    require_count,
    require_non_negative,
    require_positive,
    require_probability,
)

P = TypeVar("P", bound="Parameters")

# Metadata of a field, with the check of its value: `k: int = field(metadata=COUNT)`.
COUNT = {"check": require_count}
NATURAL = {"check": partial(require_count, minimum=0)}
NON_NEGATIVE = {"check": require_non_negative}
POSITIVE = {"check": require_positive}
PROBABILITY = {"check": require_probability}
# A noise scale, which calibration multiplies; `Parameters` checks that it is > 0.
NOISE = {"noise": True}
# Together with a check: None passes the check, although it is not the default.
OPTIONAL = {"optional": True}


def one_of(choices: Iterable[str]) -> dict[str, Any]:
    """Returns the metadata of a field whose value must be one of several words."""
    return {"check": partial(require_choice, choices=tuple(choices))}


@dataclass(frozen=True)
class Parameters:
    """The base class of frozen dataclasses of public parameters, which checks the value of each field.

    The metadata of a field may hold a function `check`, which is called with the name and the value of the field and
    raises an error for a wrong value. A field with `noise` in its metadata must be positive. The value None is allowed
    if it is the default, or if the metadata contain `optional`. A field whose default is an `Adjacency` also accepts
    the name of an adjacency.
    """

    def __post_init__(self) -> None:
        for dataclass_field in fields(self):
            field_value = getattr(self, dataclass_field.name)
            if isinstance(dataclass_field.default, Adjacency):
                normalize_field(self, dataclass_field.name, Adjacency.parse(field_value))
            metadata = dataclass_field.metadata
            check_field = require_positive if metadata.get("noise") else metadata.get("check")
            may_be_none = dataclass_field.default is None or metadata.get("optional", False)
            if check_field is not None and not (field_value is None and may_be_none):
                check_field(dataclass_field.name, field_value)

    def with_values(self, field_values: Mapping[str, Any]) -> Self:
        """Returns a copy in which the fields that `field_values` names have other values."""
        return replace(self, **field_values)

    def convert_to(self, parameters_class: type[P], **other_field_values: Any) -> P:
        """Returns an object of another class of parameters, with the values of the fields that both classes share.

        Args:
            parameters_class: the class of the new object.
            other_field_values: values of further fields, and values that replace those of shared fields.
        """
        own_names = {dataclass_field.name for dataclass_field in fields(self)}
        names_in_other_class = {
            dataclass_field.name for dataclass_field in fields(parameters_class)
        }
        shared_field_values = {
            field_name: getattr(self, field_name) for field_name in own_names & names_in_other_class
        }
        return parameters_class(**shared_field_values | other_field_values)
