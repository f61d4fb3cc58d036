"""The fields of a dataclass that may be published, determined by their metadata and types.

`field(metadata={"public": True})` publishes a text, a list or an object. `field(metadata={"private": True})` does not
publish a number. Without metadata, numbers, truth values and None are published, and no other type. A seed is never
published.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def published_fields(
    cls: type, values: Mapping[str, Any], *, declared_only: bool = False
) -> dict[str, Any]:
    """Returns the values of those fields of a dataclass that may be published, in the order of the fields.

    A field may be published if its metadata have `public`, or if its value is a number, a truth value or None. A field
    with `private` in its metadata is left out, and so is a seed. The result is empty for a class that is no dataclass.

    Args:
        cls: the dataclass.
        values: the values, by the names of fields; values of unknown names are ignored.
        declared_only: true publishes only fields with `public` in their metadata.
    """
    if not is_dataclass(cls):
        return {}
    published = {}
    for dataclass_field in fields(cls):
        field_name = dataclass_field.name
        metadata = dataclass_field.metadata
        if field_name not in values or metadata.get("private") or is_seed(field_name):
            continue
        field_value = values[field_name]
        if metadata.get("public") or (is_scalar(field_value) and not declared_only):
            published[field_name] = field_value
    return published


def is_scalar(field_value: Any) -> bool:
    """Returns True if a value is a number, a truth value or None."""
    return field_value is None or isinstance(field_value, (bool, int, float))


def is_seed(field_name: str) -> bool:
    """Returns True if a field of this name is a seed, so that its value would tell the noise.

    The names of seeds end in `seed` or `random_state`.
    """
    return field_name.endswith(("seed", "random_state"))
