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


def to_json(dataclass_object: object) -> str:
    """Returns a dataclass object as indented strict JSON, with keys in the order of its fields; raises as `plain`."""
    return json.dumps(plain(dataclass_object), indent=2, ensure_ascii=False, allow_nan=False)


def to_json_line(any_value: object) -> str:
    """Returns a value as strict JSON in ASCII, on one line without a line break; raises as `plain`."""
    return json.dumps(plain(any_value), allow_nan=False)


def read_number(json_value: object, *, name: str = "number") -> float:
    """Returns a number from a JSON value that `plain` made, in which an infinity is a text.

    Args:
        json_value: the JSON value.
        name: the parameter that the error names.

    Raises:
        InvalidValue: the value is no number; null, which stands for NaN, is none either.
    """
    number = _INFINITIES.get(json_value, json_value) if isinstance(json_value, str) else json_value
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    require(is_number, name, type(json_value).__name__, "a number")
    try:
        return float(number)  # type: ignore[arg-type]  # `require` has looked at its class
    except OverflowError:
        raise InvalidValue(name, "int", rule="a number that a float holds") from None


def from_json(cls: type[T], json_text: str, *, name: str) -> T:
    """Returns a dataclass object from the JSON text that `to_json` made.

    Args:
        cls: the dataclass.
        json_text: the JSON text.
        name: the parameter that the error names.

    Raises:
        InvalidValue: the text is no JSON, a key is missing or unknown, or a value has a wrong type.
    """

    def refuse(constant: str) -> float:
        """Raises `InvalidValue` for NaN, Infinity and -Infinity, which Python's reader of JSON would accept."""
        raise InvalidValue("number", constant, rule="strict JSON, which has no such number")

    try:
        json_value = json.loads(json_text, parse_constant=refuse)
    except (
        ValueError,
        RecursionError,
    ) as error:  # of other texts, and of very many digits or brackets
        raise InvalidValue(name, rule=f"a JSON object ({error})") from None
    value: T = _read(cls, json_value=json_value, key_path=name)
    return value


def plain(any_value: object) -> Any:
    """Converts a value to the types of JSON: dataclasses and mappings become objects, and tuples become lists.

    NaN becomes null, and an infinity becomes the text "inf" or "-inf". A value of any other type raises TypeError.
    """
    if isinstance(any_value, np.generic):
        any_value = any_value.item()
    if is_dataclass(any_value) and not isinstance(any_value, type):
        field_names = [dataclass_field.name for dataclass_field in fields(any_value)]
        return {name: plain(getattr(any_value, name)) for name in field_names}
    if isinstance(any_value, Mapping):
        return {str(key): plain(item) for key, item in any_value.items()}
    if isinstance(any_value, (list, tuple)):
        return [plain(item) for item in any_value]
    if isinstance(any_value, float) and not math.isfinite(any_value):
        return None if math.isnan(any_value) else str(any_value)
    if any_value is None or isinstance(any_value, (str, int, float)):
        return any_value
    raise TypeError(f"{type(any_value).__name__}: no JSON form")


def _read(field_type: Any, json_value: Any, key_path: str) -> Any:
    """Converts a JSON value to the type of a dataclass field; raises `InvalidValue` if that is impossible.

    Args:
        field_type: the type of a field: a dataclass, a union, a mapping, a tuple, or a plain type.
        json_value: the JSON value.
        key_path: the key of the value, for the error.
    """
    origin = get_origin(field_type)
    if is_dataclass(field_type):
        return _read_dataclass(field_type, json_value=json_value, key_path=key_path)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(field_type), json_value=json_value, key_path=key_path)
    if origin is Mapping:
        require(isinstance(json_value, dict), key_path, type(json_value).__name__, "a JSON object")
        _, item_type = get_args(field_type)
        return {
            key: _read(item_type, item, key_path=f"{key_path}.{key}")
            for key, item in json_value.items()
        }
    if origin is tuple:
        return _read_tuple(get_args(field_type), json_value=json_value, key_path=key_path)
    if field_type is float:
        return read_number(json_value, name=key_path)
    is_of_kind = isinstance(json_value, field_type) and (
        field_type is bool or not isinstance(json_value, bool)
    )
    require(
        is_of_kind, key_path, type(json_value).__name__, f"a value of type {field_type.__name__}"
    )
    return json_value


def _read_dataclass(dataclass_type: Any, json_value: Any, key_path: str) -> Any:
    """Converts a JSON object to a dataclass, whose fields with a default may be missing; arguments as in `_read`."""
    require(isinstance(json_value, dict), key_path, type(json_value).__name__, "a JSON object")
    field_names = [dataclass_field.name for dataclass_field in fields(dataclass_type)]
    required_names = {
        dataclass_field.name
        for dataclass_field in fields(dataclass_type)
        if dataclass_field.default is dataclass_field.default_factory is MISSING
    }
    unknown_keys = json_value.keys() - set(field_names)
    missing_keys = required_names - json_value.keys()
    wrong_keys = sorted(unknown_keys | missing_keys)
    require(not wrong_keys, key_path, wrong_keys, f"the keys {', '.join(field_names)}")
    type_by_field = get_type_hints(dataclass_type)
    value_by_field = {
        key: _read(type_by_field[key], item, key_path=f"{key_path}.{key}")
        for key, item in json_value.items()
    }
    return dataclass_type(**value_by_field)


def _read_union(possible_types: tuple[Any, ...], json_value: Any, key_path: str) -> Any:
    """Converts a JSON value to one of the types `possible_types`; `json_value` and `key_path` are as in `_read`.

    A value of one of these types is returned unchanged. Any other value is converted if it is a list and there is one
    type of tuples, or if there is one type besides None; otherwise it is an `InvalidValue`.
    """
    if type(json_value) in possible_types:  # JSON's own types need no conversion
        return json_value
    fitting_types = [
        possible_type for possible_type in possible_types if possible_type is not type(None)
    ]
    if isinstance(json_value, list) and len(fitting_types) > 1:
        fitting_types = [
            possible_type for possible_type in fitting_types if get_origin(possible_type) is tuple
        ]
    if len(fitting_types) == 1:
        return _read(fitting_types[0], json_value=json_value, key_path=key_path)
    rule = " or ".join(
        getattr(possible_type, "__name__", str(possible_type)) for possible_type in possible_types
    )
    raise InvalidValue(key_path, type(json_value).__name__, rule=rule)


def _read_tuple(entry_types: tuple[Any, ...], json_value: Any, key_path: str) -> tuple[Any, ...]:
    """Converts a JSON list to a tuple.

    Args:
        entry_types: the type of each entry; the type of all entries and an ellipsis for a tuple of any length.
        json_value: the JSON value.
        key_path: the key of the value, for the error.
    """
    if entry_types[-1] is Ellipsis:
        require(isinstance(json_value, list), key_path, repr(json_value), "a list")
        entry_types = entry_types[:1] * len(json_value)
    has_length = isinstance(json_value, list) and len(json_value) == len(entry_types)
    require(has_length, key_path, repr(json_value), f"a list of {len(entry_types)}")
    return tuple(
        _read(entry_type, json_value=item, key_path=key_path)
        for entry_type, item in zip(entry_types, json_value, strict=True)
    )
