"""Dataclasses to strict JSON and back: no NaN, no Infinity, every key checked on the way in."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from pate.validation import InvalidValue, require

T = TypeVar("T")


def to_json(value: object) -> str:
    """Writes a dataclass as strict JSON, indented, keys in the order of its fields.

    Infinity becomes the string `"inf"`, NaN (an undefined number) becomes null; numpy scalars become numbers.

    Raises:
        TypeError: a value that JSON has no form for.
    """
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def from_json(cls: type[T], text: str, *, name: str) -> T:
    """Reads a dataclass from what `to_json` wrote.

    Raises:
        InvalidValue: no JSON object, a missing or an unknown key, or a value of another type.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidValue(f"{name}={text[:40]!r}: expected a JSON object ({error})") from None
    value: T = _read(cls, data, name)
    return value


def _plain(value: object) -> object:
    """`value` in JSON's own types."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__}: no JSON form")


def _read(kind: Any, data: Any, name: str) -> Any:
    """`data` as the type `kind` asks for, or an error that names the key."""
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, data, name)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(kind), data, name)
    if origin is Mapping:
        require(isinstance(data, dict), name, data, "a JSON object")
        return {key: _read(get_args(kind)[1], item, f"{name}.{key}") for key, item in data.items()}
    if kind is float:
        data = math.inf if data == "inf" else data
        require(isinstance(data, (int, float)) and not isinstance(data, bool), name, data, "a number")
        return float(data)
    exact = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    require(exact, name, repr(data), f"a value of type {kind.__name__}")
    return data


def _read_dataclass(kind: Any, data: Any, name: str) -> Any:
    """A dataclass from an object with its fields as keys; a field with a default may be missing."""
    require(isinstance(data, dict), name, repr(data), "a JSON object")
    known = {item.name: item for item in fields(kind)}
    unknown = sorted(data.keys() - known.keys())
    require(not unknown, name, unknown, f"only the keys {', '.join(known)}")
    missing = [key for key, item in known.items() if key not in data and _is_required(item)]
    require(not missing, name, sorted(data), f"also the keys {', '.join(missing)}")
    hints = get_type_hints(kind)
    return kind(**{key: _read(hints[key], item, f"{name}.{key}") for key, item in data.items()})


def _is_required(item: Field[Any]) -> bool:
    """Whether a dataclass field has no default."""
    return item.default is MISSING and item.default_factory is MISSING


def _read_union(kinds: tuple[Any, ...], data: Any, name: str) -> Any:
    """The first of several types that fits, the JSON type's own before a conversion."""
    if data is None and type(None) in kinds:
        return None
    if type(data) in kinds:
        return data
    others = tuple(kind for kind in kinds if kind is not type(None))
    if len(others) == 1:
        return _read(others[0], data, name)
    raise InvalidValue(f"{name}={data!r}: expected {' or '.join(kind.__name__ for kind in kinds)}")


def _refuse_constant(text: str) -> float:
    raise InvalidValue(f"number={text}: expected strict JSON, which has no such number")
