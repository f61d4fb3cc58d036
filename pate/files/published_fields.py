"""What of a value may stand in a file that is published: an allow-list that dataclasses write into their own fields.

`field(metadata={"public": True})` publishes a string, a list or an object in a field, `{"private": True}` holds back a
number. Without a word numbers, truth values and None are published, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

_SEEDS = ("seed", "random_state")


def published_fields(cls: type, values: Mapping[str, Any], *, declared_only: bool = False) -> dict[str, Any]:
    """The values of fields of a dataclass that may be published, in the order of the fields; none of another class.

    Args:
        cls: whose fields say what is public.
        values: by field; what is no field of the class is left out.
        declared_only: whether numbers, too, need a field that is declared public.
    """
    return {
        item.name: values[item.name]
        for item in _fields(cls)
        if item.name in values and _may_leave(item, values[item.name], declared_only)
    }


def is_scalar(value: Any) -> bool:
    """Whether it is a number, a truth value or None."""
    return value is None or isinstance(value, (bool, int, float))


def is_seed(name: str) -> bool:
    """Whether a field of this name is a seed, which is never published: noise can be drawn again with it."""
    return name.endswith(_SEEDS)


def _fields(cls: type) -> Iterator[Field[Any]]:
    if is_dataclass(cls):
        yield from fields(cls)


def _may_leave(item: Field[Any], value: Any, declared_only: bool) -> bool:
    if item.metadata.get("private") or is_seed(item.name):
        return False
    return bool(item.metadata.get("public")) or (is_scalar(value) and not declared_only)
