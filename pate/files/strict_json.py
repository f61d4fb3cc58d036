"""Dataclasses and plain values as strict JSON, in which NaN is null and an infinity is the text "inf"."""

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from pate.validation import InvalidValue, require

T = TypeVar("T")

# The texts of infinities, which JSON has no numbers for.
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def to_json(value: object) -> str:
    """Returns a dataclass object as indented strict JSON, with keys in the order of its fields; raises as `plain`."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def to_json_line(value: object) -> str:
    """Returns a value as strict JSON in ASCII, on one line without a line break; raises as `plain`."""
    return json.dumps(plain(value), allow_nan=False)


def read_number(data: object, *, name: str = "number") -> float:
    """Returns a number from a JSON value that `plain` made, in which an infinity is a text.

    Args:
        data: the JSON value.
        name: the parameter that the error names.

    Raises:
        InvalidValue: the value is no number; null, which stands for NaN, is none either.
    """
    value = _INFINITIES.get(data, data) if isinstance(data, str) else data
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(is_number, name, type(data).__name__, "a number")
    try:
        return float(value)  # type: ignore[arg-type]  # `require` has looked at its class
    except OverflowError:
        raise InvalidValue(name, "int", rule="a number that a float holds") from None


def from_json(cls: type[T], text: str, *, name: str) -> T:
    """Returns a dataclass object from the JSON text that `to_json` made.

    Args:
        cls: the dataclass.
        text: the JSON text.
        name: the parameter that the error names.

    Raises:
        InvalidValue: the text is no JSON, a key is missing or unknown, or a value has a wrong type.
    """

    def refuse(constant: str) -> float:
        """Raises `InvalidValue` for NaN, Infinity and -Infinity, which Python's reader of JSON would accept."""
        raise InvalidValue("number", constant, rule="strict JSON, which has no such number")

    try:
        data = json.loads(text, parse_constant=refuse)
    except (
        ValueError,
        RecursionError,
    ) as error:  # of other texts, and of very many digits or brackets
        raise InvalidValue(name, rule=f"a JSON object ({error})") from None
    value: T = _read(cls, data, name)
    return value


def plain(value: object) -> Any:
    """Converts a value to the types of JSON: dataclasses and mappings become objects, and tuples become lists.

    NaN becomes null, and an infinity becomes the text "inf" or "-inf". A value of any other type raises TypeError.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        names = [dataclass_field.name for dataclass_field in fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__}: no JSON form")


def _read(value_type: Any, data: Any, name: str) -> Any:
    """Converts a JSON value to the type of a dataclass field; raises `InvalidValue` if that is impossible.

    Args:
        value_type: the type of a field: a dataclass, a union, a mapping, a tuple, or a plain type.
        data: the JSON value.
        name: the key of the value, for the error.
    """
    origin = get_origin(value_type)
    if is_dataclass(value_type):
        return _read_dataclass(value_type, data, name)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(value_type), data, name)
    if origin is Mapping:
        require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
        _, item_kind = get_args(value_type)
        return {key: _read(item_kind, item, name=f"{name}.{key}") for key, item in data.items()}
    if origin is tuple:
        return _read_tuple(get_args(value_type), data, name)
    if value_type is float:
        return read_number(data, name=name)
    is_of_kind = isinstance(data, value_type) and (value_type is bool or not isinstance(data, bool))
    require(is_of_kind, name, type(data).__name__, f"a value of type {value_type.__name__}")
    return data


def _read_dataclass(value_type: Any, data: Any, name: str) -> Any:
    """Converts a JSON object to a dataclass, whose fields with a default may be missing; arguments as in `_read`."""
    require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
    names = [dataclass_field.name for dataclass_field in fields(value_type)]
    required = {
        dataclass_field.name
        for dataclass_field in fields(value_type)
        if dataclass_field.default is dataclass_field.default_factory is MISSING
    }
    unknown = data.keys() - set(names)
    missing = required - data.keys()
    wrong = sorted(unknown | missing)
    require(not wrong, name, wrong, f"the keys {', '.join(names)}")
    hints = get_type_hints(value_type)
    values = {key: _read(hints[key], item, name=f"{name}.{key}") for key, item in data.items()}
    return value_type(**values)


def _read_union(kinds: tuple[Any, ...], data: Any, name: str) -> Any:
    """Converts a JSON value to one of the types `kinds`; `data` and `name` are as in `_read`.

    A value of one of these types is returned unchanged. Any other value is converted if it is a list and there is one
    type of tuples, or if there is one type besides None; otherwise it is an `InvalidValue`.
    """
    if type(data) in kinds:  # JSON's own types need no conversion
        return data
    possible_kinds = [kind for kind in kinds if kind is not type(None)]
    if isinstance(data, list) and len(possible_kinds) > 1:
        possible_kinds = [kind for kind in possible_kinds if get_origin(kind) is tuple]
    if len(possible_kinds) == 1:
        return _read(possible_kinds[0], data, name)
    rule = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise InvalidValue(name, type(data).__name__, rule=rule)


def _read_tuple(kinds: tuple[Any, ...], data: Any, name: str) -> tuple[Any, ...]:
    """Converts a JSON list to a tuple.

    Args:
        kinds: the type of each entry; the type of all entries and an ellipsis for a tuple of any length.
        data: the JSON value.
        name: the key of the value, for the error.
    """
    if kinds[-1] is Ellipsis and isinstance(data, list):
        kinds = kinds[:1] * len(data)
    has_length = isinstance(data, list) and len(data) == len(kinds)
    require(has_length, name, repr(data), f"a list of {len(kinds)}")
    return tuple(_read(kind, item, name) for kind, item in zip(kinds, data, strict=True))
