"""Digests of files and of plain values, and the texts from which they are computed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate.files.reading import require_file


def unabridged_repr(any_value: Any) -> str:
    """Returns the text of a value from which its digest is computed: `repr`, but with every entry of an array.

    Arrays, dataclass objects, lists, tuples and dictionaries are written with all their parts.
    """
    if is_dataclass(any_value) and not isinstance(any_value, type):
        return text_of_fields(type(any_value), text_by_field=field_texts(any_value))
    if isinstance(any_value, np.ndarray):
        return f"array({any_value.dtype.str}, {any_value.shape}, {unabridged_repr(any_value.tolist())})"
    if isinstance(any_value, (list, tuple)):
        return f"{type(any_value).__name__}({', '.join(map(unabridged_repr, any_value))})"
    if isinstance(any_value, dict):
        item_texts = [
            f"{unabridged_repr(key)}: {unabridged_repr(item)}" for key, item in any_value.items()
        ]
        return f"dict({', '.join(item_texts)})"
    return repr(any_value)


def field_texts(dataclass_object: Any) -> dict[str, str]:
    """Returns the `unabridged_repr` of each field of a dataclass object, by name, in the order of the fields."""
    field_names = [dataclass_field.name for dataclass_field in fields(dataclass_object)]
    return {name: unabridged_repr(getattr(dataclass_object, name)) for name in field_names}


def text_of_fields(cls: type, text_by_field: Mapping[str, str]) -> str:
    """Returns the text that `unabridged_repr` gives a dataclass object, from the texts of its fields.

    Args:
        cls: the class of the object.
        text_by_field: the text of each field that is written, by name.
    """
    field_texts_with_names = [f"{name}={text}" for name, text in text_by_field.items()]
    return f"{cls.__module__}.{cls.__qualname__}({', '.join(field_texts_with_names)})"


def digest(plain_values: Any) -> str:
    """Returns a short name for plain values: the first 16 hexadecimal digits of the SHA-256 of their JSON."""
    return hashlib.sha256(json.dumps(plain_values, sort_keys=True).encode()).hexdigest()[:16]


def file_digest(path: Path | str, *, remedy: str, rule: str = "a file of this run") -> str:
    """Returns the SHA-256 digest of a file in hexadecimal; raises `DamagedFile` if the path is no file.

    Args:
        path: the file.
        remedy: advice for the error.
        rule: a description of the expected file, for the error.
    """
    require_file(path, rule=rule, remedy=remedy)
    with open(path, "rb") as open_file:
        return hashlib.file_digest(open_file, "sha256").hexdigest()
