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


def keys_to_outside_values(config: DictConfig) -> list[tuple[Any, ...]]:
    """Returns the keys that lead to each value that is read from outside the configuration, as from the environment.

    Within lists these are indices. Every resolver counts as reading from outside, whatever its name: `oc.select` can
    read a value that itself reads the environment.
    """
    plain_values = OmegaConf.to_container(config, resolve=False)
    return [
        keys_to_text
        for keys_to_text, setting_text in _texts_with_keys(plain_values)
        if not _is_pure(
            whole_config=plain_values,
            keys_to_text=keys_to_text,
            setting_text=setting_text,
            keys_to_visited_texts=frozenset(),
        )
    ]


def _texts_with_keys(
    nested_values: Any, keys_to_values: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yields pairs of the keys that lead to a text in nested plain values, and of this text.

    Args:
        nested_values: nested lists and dicts.
        keys_to_values: the keys, and within lists the indices, that lead to `nested_values`.
    """
    if isinstance(nested_values, str):
        yield keys_to_values, nested_values
    elif isinstance(nested_values, dict):
        for key, inner_value in nested_values.items():
            inner_keys = (*keys_to_values, key)
            yield from _texts_with_keys(inner_value, keys_to_values=inner_keys)
    elif isinstance(nested_values, list):
        for index, inner_value in enumerate(nested_values):
            inner_keys = (*keys_to_values, index)
            yield from _texts_with_keys(inner_value, keys_to_values=inner_keys)


def _is_pure(
    whole_config: Any,
    keys_to_text: tuple[Any, ...],
    setting_text: str,
    keys_to_visited_texts: frozenset[Any],
) -> bool:
    """Returns True if a text depends on nothing but the configuration.

    That is so if all interpolations in the text are references to values in which the same holds of each text.
    References that lead in a circle, or to nothing, give False.

    Args:
        whole_config: the configuration as plain values, with unresolved interpolations.
        keys_to_text: the keys that lead to the text.
        setting_text: the text with its interpolations.
        keys_to_visited_texts: those to the texts from which the references lead here.
    """
    if keys_to_text in keys_to_visited_texts:
        return False
    # Beside plain references there may be a resolver, or a reference whose name is itself computed.
    has_resolver = "${" in _REFERENCE.sub("", setting_text)
    if has_resolver:
        return False
    for reference_match in _REFERENCE.finditer(setting_text):
        key_names = tuple(re.findall(r"[^.\[\]]+", reference_match["name"]))
        num_dots = len(reference_match["dots"])
        keys_to_referenced_value = (
            (*keys_to_text[: len(keys_to_text) - num_dots], *key_names) if num_dots else key_names
        )
        referenced_value = _value_at(whole_config, keys_to_value=keys_to_referenced_value)
        if referenced_value is _NO_VALUE:
            return False
        if not all(
            _is_pure(
                whole_config,
                keys_to_text=keys_to_inner_text,
                setting_text=inner_text,
                keys_to_visited_texts=keys_to_visited_texts | {keys_to_text},
            )
            for keys_to_inner_text, inner_text in _texts_with_keys(
                referenced_value, keys_to_values=keys_to_referenced_value
            )
        ):
            return False
    return True


def _value_at(nested_values: Any, keys_to_value: tuple[Any, ...]) -> Any:
    """Returns the value in nested plain values to which keys and indices lead; the constant `_NO_VALUE` if none."""
    inner_value = nested_values
    for key in keys_to_value:
        if isinstance(inner_value, dict) and key in inner_value:
            inner_value = inner_value[key]
        elif isinstance(inner_value, list) and str(key).isdecimal() and int(key) < len(inner_value):
            inner_value = inner_value[int(key)]
        else:
            return _NO_VALUE
    return inner_value
