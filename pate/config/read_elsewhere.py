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
    plain = OmegaConf.to_container(config, resolve=False)
    return [
        path
        for path, value in _texts_with_paths(plain)
        if not _is_pure(plain_values=plain, path=path, text=value, visited_paths=frozenset())
    ]


def _texts_with_paths(
    value: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yields each text in nested plain values, with its path.

    Args:
        value: nested lists and dicts.
        path: the path of `value`, of keys and indices.
    """
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts_with_paths(item, path=(*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts_with_paths(item, path=(*path, index))


def _is_pure(
    plain_values: Any, path: tuple[Any, ...], text: str, visited_paths: frozenset[Any]
) -> bool:
    """Returns True if a text depends on nothing but the configuration.

    That is so if all interpolations in the text are references to texts for which the same holds.
    References that lead in a circle, or to nothing, give False.

    Args:
        plain_values: the configuration as plain values, with unresolved interpolations.
        path: the path of the text.
        text: the text with its interpolations.
        visited_paths: the paths of the texts from which the references lead here.
    """
    if path in visited_paths:
        return False
    # Beside plain references there may be a resolver, or a reference whose name is itself computed.
    has_resolver = "${" in _REFERENCE.sub("", text)
    if has_resolver:
        return False
    for match in _REFERENCE.finditer(text):
        names = tuple(re.findall(r"[^.\[\]]+", match["name"]))
        num_dots = len(match["dots"])
        target = (*path[: len(path) - num_dots], *names) if num_dots else names
        value = _value_at(plain_values, path=target)
        if value is _NO_VALUE:
            return False
        if not all(
            _is_pure(
                plain_values, path=inner_path, text=inner_text, visited_paths=visited_paths | {path}
            )
            for inner_path, inner_text in _texts_with_paths(value, path=target)
        ):
            return False
    return True


def _value_at(plain_values: Any, path: tuple[Any, ...]) -> Any:
    """Returns the value at a path (keys and indices) of nested plain values; the constant `_NO_VALUE` if none."""
    value = plain_values
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and str(key).isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _NO_VALUE
    return value
