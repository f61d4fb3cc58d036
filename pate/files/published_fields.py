"""The fields of a dataclass whose values may be published, by their metadata and types.

`field(metadata={"public": True})` publishes a text, a list or an object. `field(metadata={"private": True})` holds a
number back. Without metadata numbers, truth values and None are published, and nothing else. Seeds never are.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def published_fields(
    cls: type, values: Mapping[str, Any], *, declared_only: bool = False
) -> dict[str, Any]:
    """Returns the values of a dataclass's fields that may be published, in the order of the fields.

    A class that is no dataclass has no such fields.

    Args:
        cls: the dataclass.
        values: values by the names of fields; further names are left out.
        declared_only: whether numbers, truth values and None are left out, too, unless they are declared public.
    """
    if not is_dataclass(cls):
        return {}
    published = {}
    for item in fields(cls):
        if item.name not in values or item.metadata.get("private") or is_seed(item.name):
            continue
        value = values[item.name]
        if item.metadata.get("public") or (is_scalar(value) and not declared_only):
            published[item.name] = value
    return published


def is_scalar(value: Any) -> bool:
    """Returns whether a value is a number, a truth value or None."""
    return value is None or isinstance(value, (bool, int, float))


def is_seed(name: str) -> bool:
    """Returns whether a field of this name is a seed, with which noise could be drawn again."""
    return name.endswith(("seed", "random_state"))
