"""Strict JSON, the one way in which the package writes it: no NaN, no Infinity; every key checked on the way in.

Infinity is the string `"inf"`, minus infinity `"-inf"`; NaN (an undefined number) is null; numpy scalars are numbers;
tuples are lists.
"""

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

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def to_json(value: object) -> str:
    """Writes a dataclass as strict JSON, indented, keys in the order of its fields.

    Raises:
        TypeError: a value that JSON has no form for.
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def to_json_line(value: object) -> str:
    """Writes a value as strict JSON on one line, without its line break, in ASCII.

    >>> to_json_line({"epsilon": math.inf, "orders": (1.5, 2)})
    '{"epsilon": "inf", "orders": [1.5, 2]}'

    Raises:
        TypeError: a value that JSON has no form for.
    """
    return json.dumps(plain(value), allow_nan=False)


def number(data: object, *, name: str = "number") -> float:
    """The number that `plain` wrote, an infinity included.

    >>> number("-inf"), number(3)
    (-inf, 3.0)

    Raises:
        InvalidValue: something else.
    """
    read = _INFINITIES.get(data, data) if isinstance(data, str) else data
    require(isinstance(read, (int, float)) and not isinstance(read, bool), name, type(data).__name__, "a number")
    try:
        return float(read)  # type: ignore[arg-type]  # the line above
    except OverflowError:
        raise InvalidValue(f"{name}=int: expected a number that a float holds") from None


def from_json(cls: type[T], text: str, *, name: str) -> T:
    """Reads a dataclass from what `to_json` wrote.

    Raises:
        InvalidValue: no JSON object, a missing or an unknown key, or a value of another type.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidValue(f"{name}: expected a JSON object ({error})") from None
    except InvalidValue:
        raise
    except (ValueError, RecursionError):
        raise InvalidValue(f"{name}: expected a JSON object, not brackets or digits without end") from None
    value: T = _read(cls, data, name)
    return value


def plain(value: object) -> Any:
    """A value in JSON's own types: dataclasses and mappings become objects, tuples lists.

    Raises:
        TypeError: a value that JSON has no form for.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
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
    """`data` as the type `kind` asks for, or an error that names the key."""
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, data, name)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(kind), data, name)
    if origin is Mapping:
        require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
        return {key: _read(get_args(kind)[1], item, f"{name}.{key}") for key, item in data.items()}
    if origin is tuple:
        kinds = get_args(kind)
        require(isinstance(data, list) and len(data) == len(kinds), name, repr(data), f"a list of {len(kinds)}")
        return tuple(_read(*pair, name) for pair in zip(kinds, data, strict=True))
    if kind is float:
        return number(data, name=name)
    exact = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    require(exact, name, type(data).__name__, f"a value of type {kind.__name__}")
    return data


def _read_dataclass(kind: Any, data: Any, name: str) -> Any:
    """A dataclass from an object with its fields as keys; a field with a default may be missing."""
    require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
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
    raise InvalidValue(f"{name}={type(data).__name__}: expected {' or '.join(kind.__name__ for kind in kinds)}")


def _refuse_constant(text: str) -> float:
    raise InvalidValue(f"number={text}: expected strict JSON, which has no such number")
