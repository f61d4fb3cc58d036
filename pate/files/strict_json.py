"""Values in files: strict JSON, where NaN is null and infinity "inf"; digests; what of a value may be published."""

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
    """Writes a dataclass as strict JSON, indented, keys in the order of its fields; raises as `plain`."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def to_json_line(value: object) -> str:
    """Writes a value as strict JSON on one line, without its line break, in ASCII."""
    return json.dumps(plain(value), allow_nan=False)


def number(data: object, *, name: str = "number") -> float:
    """The number that `plain` wrote, an infinity included, or raises."""
    read = _INFINITIES.get(data, data) if isinstance(data, str) else data
    require(
        isinstance(read, (int, float)) and not isinstance(read, bool),
        name,
        type(data).__name__,
        "a number",
    )
    try:
        return float(read)  # type: ignore[arg-type]  # the line above
    except OverflowError:
        raise InvalidValue(name, "int", rule="a number that a float holds") from None


def from_json(cls: type[T], text: str, *, name: str) -> T:
    """Reads a dataclass from what `to_json` wrote; a key that is missing or unknown, or another type, raises."""

    def refuse(text: str) -> float:
        raise InvalidValue("number", text, rule="strict JSON, which has no such number")

    try:
        data = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # digits or brackets without end, too
        raise InvalidValue(name, rule=f"a JSON object ({error})") from None
    value: T = _read(cls, data, name)
    return value


def plain(value: object) -> Any:
    """A value in JSON's own types: dataclasses and mappings become objects, tuples lists; TypeError for others."""
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
    kinds = get_args(kind)
    if is_dataclass(kind):  # of which a field with a default may be missing
        require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
        hints = get_type_hints(kind)
        constructor = cast(Any, kind)
        required = {
            item.name for item in fields(kind) if item.default is item.default_factory is MISSING
        }
        wrong = sorted(
            (data.keys() - {item.name for item in fields(kind)}) | (required - data.keys())
        )
        require(not wrong, name, wrong, f"the keys {', '.join(item.name for item in fields(kind))}")
        return constructor(
            **{key: _read(hints[key], item, f"{name}.{key}") for key, item in data.items()}
        )
    if origin in (Union, types.UnionType):
        other_kinds = [kind_ for kind_ in kinds if kind_ is not type(None)]
        if type(data) in kinds:  # JSON's own type before a conversion
            return data
        if len(other_kinds) == 1:
            return _read(other_kinds[0], data, name)
        raise InvalidValue(
            name, type(data).__name__, rule=" or ".join(kind_.__name__ for kind_ in kinds)
        )
    if origin is Mapping:
        require(isinstance(data, dict), name, type(data).__name__, "a JSON object")
        return {key: _read(kinds[1], item, f"{name}.{key}") for key, item in data.items()}
    if origin is tuple:
        if kinds[-1] is Ellipsis and isinstance(data, list):
            kinds = kinds[:1] * len(data)
        require(
            isinstance(data, list) and len(data) == len(kinds),
            name,
            repr(data),
            f"a list of {len(kinds)}",
        )
        return tuple(_read(*pair, name) for pair in zip(kinds, data, strict=True))
    if kind is float:
        return number(data, name=name)
    exact = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    require(exact, name, type(data).__name__, f"a value of type {kind.__name__}")
    return data
