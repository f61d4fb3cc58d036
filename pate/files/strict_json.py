"""Dataclasses and plain values as strict JSON, in which NaN is null and an infinity is the text "inf"."""

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from pate.validation import InvalidValue, require

T = TypeVar("T")

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def to_json(value: object) -> str:
    """Returns a dataclass as indented strict JSON, with keys in the order of its fields; raises as `plain`."""
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
        InvalidValue: the value is no number.
    """
    value = _INFINITIES.get(data, data) if isinstance(data, str) else data
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(is_number, name, type(data).__name__, "a number")
    try:
        return float(value)  # type: ignore[arg-type]  # `require` has looked at its class
    except OverflowError:
        raise InvalidValue(name, "int", rule="a number that a float holds") from None


def from_json(cls: type[T], text: str, *, name: str) -> T:
    """Returns a dataclass from the JSON text that `to_json` made.

    Args:
        cls: the dataclass.
        text: the JSON text.
        name: the parameter that the error names.

    Raises:
        InvalidValue: the text is no JSON, a key is missing or unknown, or a value has a wrong type.
    """

    def refuse(text: str) -> float:
        raise InvalidValue("number", text, rule="strict JSON, which has no such number")

    try:
        data = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # also for digits or brackets without end
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
        return {
            dataclass_field.name: plain(getattr(value, dataclass_field.name))
            for dataclass_field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__}: no JSON form")


def _read(kind: Any, data: Any, name: str) -> Any:
    """Converts a JSON value to the type `kind`; raises `InvalidValue`, with the key `name`, if that is impossible."""
    origin = get_origin(kind)
    kinds = get_args(kind)
    if is_dataclass(kind):  # fields with a default may be missing
        require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
        hints = get_type_hints(kind)
        constructor = cast(Any, kind)
        required = {
            dataclass_field.name
            for dataclass_field in fields(kind)
            if dataclass_field.default is dataclass_field.default_factory is MISSING
        }
        wrong = sorted(
            (data.keys() - {dataclass_field.name for dataclass_field in fields(kind)})
            | (required - data.keys())
        )
        require(
            not wrong,
            name,
            wrong,
            f"the keys {', '.join(dataclass_field.name for dataclass_field in fields(kind))}",
        )
        return constructor(
            **{
                key: _read(hints[key], data=item, name=f"{name}.{key}")
                for key, item in data.items()
            }
        )
    if origin in (Union, types.UnionType):
        if type(data) in kinds:  # a value in JSON's own types needs no conversion
            return data
        kinds_without_none = [kind_ for kind_ in kinds if kind_ is not type(None)]
        if len(kinds_without_none) == 1:
            return _read(kinds_without_none[0], data, name)
        rule = " or ".join(kind_.__name__ for kind_ in kinds)
        raise InvalidValue(name, type(data).__name__, rule=rule)
    if origin is Mapping:
        require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
        return {key: _read(kinds[1], data=item, name=f"{name}.{key}") for key, item in data.items()}
    if origin is tuple:
        if kinds[-1] is Ellipsis and isinstance(data, list):
            kinds = kinds[:1] * len(data)
        require(
            isinstance(data, list) and len(data) == len(kinds),
            name,
            repr(data),
            f"a list of {len(kinds)}",
        )
        return tuple(
            _read(item_kind, data=item, name=name)
            for item_kind, item in zip(kinds, data, strict=True)
        )
    if kind is float:
        return read_number(data, name=name)
    is_of_kind = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    require(is_of_kind, name, type(data).__name__, f"a value of type {kind.__name__}")
    return data
