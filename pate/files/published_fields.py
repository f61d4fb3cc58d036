"""The fields of a dataclass whose values may be published."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def published_fields(
    cls: type, values: Mapping[str, Any], *, declared_only: bool = False
) -> dict[str, Any]:
    """The values of fields of a dataclass that may be published, in the order of the fields; none of another class.

    `field(metadata={"public": True})` publishes a string, a list or an object, `{"private": True}` holds back a number.
    Without a word numbers, truth values and None are published, and nothing else; with `declared_only` these neither.
    """
    known = (
        {item.name: item.metadata for item in fields(cls) if item.name in values}
        if is_dataclass(cls)
        else {}
    )
    return {
        name: values[name]
        for name, spelling in known.items()
        if not (spelling.get("private") or is_seed(name))
        and (spelling.get("public") or (is_scalar(values[name]) and not declared_only))
    }


def is_scalar(value: Any) -> bool:
    """Whether it is a number, a truth value or None."""
    return value is None or isinstance(value, (bool, int, float))


def is_seed(name: str) -> bool:
    """Whether a field of this name is a seed, which is never published: noise can be drawn again with it."""
    return name.endswith(("seed", "random_state"))
