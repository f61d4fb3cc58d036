"""Digests of files and of plain values, and the texts from which they are computed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate.files.reading import require_file


def full_text(value: Any) -> str:
    """Returns the text of a value from which its digest is computed: `repr`, but with every entry of an array.

    Arrays, dataclass objects, lists, tuples and dictionaries are written with all their parts.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return text_of_fields(type(value), text_by_field=field_texts(value))
    if isinstance(value, np.ndarray):
        return f"array({value.dtype.str}, {value.shape}, {full_text(value.tolist())})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(full_text, value))})"
    if isinstance(value, dict):
        items = [f"{full_text(key)}: {full_text(item)}" for key, item in value.items()]
        return f"dict({', '.join(items)})"
    return repr(value)


def field_texts(value: Any) -> dict[str, str]:
    """Returns the `full_text` of each field of a dataclass object, by name, in the order of the fields."""
    names = [dataclass_field.name for dataclass_field in fields(value)]
    return {name: full_text(getattr(value, name)) for name in names}


def text_of_fields(cls: type, text_by_field: Mapping[str, str]) -> str:
    """Returns the text that `full_text` gives a dataclass object, from the texts of its fields.

    Args:
        cls: the class of the object.
        text_by_field: the text of each field that is written, by name.
    """
    parts = [f"{name}={text}" for name, text in text_by_field.items()]
    return f"{cls.__module__}.{cls.__qualname__}({', '.join(parts)})"


def digest(values: Any) -> str:
    """Returns a short name for plain values: the first 16 hexadecimal digits of the SHA-256 of their JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def file_digest(path: Path | str, *, remedy: str, rule: str = "a file of this run") -> str:
    """Returns the SHA-256 digest of a file in hexadecimal; raises `DamagedFile` if the path is no file.

    Args:
        path: the file.
        remedy: advice for the error.
        rule: a description of the expected file, for the error.
    """
    require_file(path, rule=rule, remedy=remedy)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
