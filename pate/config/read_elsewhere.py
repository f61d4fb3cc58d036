"""The search for values that a configuration reads from outside, such as from the environment.

OmegaConf calls `${...}` within a text an interpolation. `${..name}` is a reference to another value of the same
configuration. `${oc.env:NAME}` calls a resolver, a function that may read anything outside it.
"""

import re
from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

# A reference such as ${..name}: dots that lead upwards, then names of keys.
_REFERENCE = re.compile(r"\$\{(?P<dots>\.*)(?P<name>[\w.\[\]-]+)\}")
# A value that no configuration holds, for a reference to nothing.
_NO_VALUE = object()


def paths_read_elsewhere(config: DictConfig) -> list[tuple[Any, ...]]:
    """Returns the paths of values that are read from outside the configuration, such as from the environment.

    A path consists of keys and, within lists, of indices. Every resolver counts as such, whatever its name: `oc.select`
    can read a value that itself reads the environment.
    """
    plain_values = OmegaConf.to_container(config, resolve=False)
    return [
        text_path
        for text_path, setting_text in _texts_with_paths(plain_values)
        if not _is_pure(
            nested_values=plain_values,
            text_path=text_path,
            setting_text=setting_text,
            visited_paths=frozenset(),
        )
    ]


def _texts_with_paths(
    nested_values: Any, path_of_values: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yields each text in nested plain values, with its path.

    Args:
        nested_values: nested lists and dicts.
        path_of_values: the path of `nested_values`, of keys and indices.
    """
    if isinstance(nested_values, str):
        yield path_of_values, nested_values
    elif isinstance(nested_values, dict):
        for key, inner_value in nested_values.items():
            yield from _texts_with_paths(inner_value, path_of_values=(*path_of_values, key))
    elif isinstance(nested_values, list):
        for index, inner_value in enumerate(nested_values):
            yield from _texts_with_paths(inner_value, path_of_values=(*path_of_values, index))


def _is_pure(
    nested_values: Any, text_path: tuple[Any, ...], setting_text: str, visited_paths: frozenset[Any]
) -> bool:
    """Returns True if a text depends on nothing but the configuration.

    That is so if all interpolations in the text are references to texts for which the same holds.
    References that lead in a circle, or to nothing, give False.

    Args:
        nested_values: the configuration as plain values, with unresolved interpolations.
        text_path: the path of the text.
        setting_text: the text with its interpolations.
        visited_paths: the paths of the texts from which the references lead here.
    """
    if text_path in visited_paths:
        return False
    # Beside plain references there may be a resolver, or a reference whose name is itself computed.
    has_resolver = "${" in _REFERENCE.sub("", setting_text)
    if has_resolver:
        return False
    for reference_match in _REFERENCE.finditer(setting_text):
        key_names = tuple(re.findall(r"[^.\[\]]+", reference_match["name"]))
        num_dots = len(reference_match["dots"])
        referenced_path = (
            (*text_path[: len(text_path) - num_dots], *key_names) if num_dots else key_names
        )
        referenced_value = _value_at(nested_values, value_path=referenced_path)
        if referenced_value is _NO_VALUE:
            return False
        if not all(
            _is_pure(
                nested_values,
                text_path=inner_path,
                setting_text=inner_text,
                visited_paths=visited_paths | {text_path},
            )
            for inner_path, inner_text in _texts_with_paths(
                referenced_value, path_of_values=referenced_path
            )
        ):
            return False
    return True


def _value_at(nested_values: Any, value_path: tuple[Any, ...]) -> Any:
    """Returns the value at a path (keys and indices) of nested plain values; the constant `_NO_VALUE` if none."""
    inner_value = nested_values
    for key in value_path:
        if isinstance(inner_value, dict) and key in inner_value:
            inner_value = inner_value[key]
        elif isinstance(inner_value, list) and str(key).isdecimal() and int(key) < len(inner_value):
            inner_value = inner_value[int(key)]
        else:
            return _NO_VALUE
    return inner_value
