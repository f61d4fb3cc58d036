"""What is said before anything is composed: files for the whole configuration, and the words of a command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException
from omegaconf import OmegaConf

from pate.config.location import file_of

_FOLDER_OPTIONS = ("--config-dir", "-cd")


def overlay(group: str, name: str, folders: Sequence[Path] | None = None) -> Iterator[Mapping[str, Any]]:
    """The contents of a file for the whole configuration, such as an experiment's, and of those that it includes.

    Args:
        group: such as experiment.
        name: of the member.
        folders: where to look; None for wherever Hydra looks.
    """
    file = file_of(group, name, folders)
    if file is None:
        return
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    if not isinstance(content, Mapping):
        return
    yield content
    for entry in content.get("defaults", []):
        for included in _included(group, entry):
            yield from overlay(*included, folders)


def own_folders(words: Sequence[str]) -> tuple[Path, ...]:
    """The folders that a command line adds to the configuration."""
    named = []
    for word, following in zip(words, [*words, ""][1:], strict=True):
        option, equals, value = word.partition("=")
        if option in _FOLDER_OPTIONS:
            named.append(value if equals else following)
    return tuple(Path(folder) for folder in named if folder)


def given_words(words: Sequence[str]) -> dict[str, Any]:
    """What a command line gives, by setting or group."""
    return dict(_values(words))


def allowed_prefixes(words: Sequence[str]) -> tuple[str, ...]:
    """What `allowed_targets` will be: what a command line says, as no file can."""
    return _texts(dict(_values(words)).get("allowed_targets"))


def _values(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for word in words:
        try:
            (override,) = OverridesParser.create().parse_overrides([word])
        except OverrideParseException:  # an option, or a mistake that Hydra will name
            continue
        simple = not override.is_sweep_override() and not override.is_delete()
        yield override.key_or_group, override.value() if simple else word.partition("=")[2]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _included(group: str, entry: Any) -> Iterator[tuple[str, str]]:
    """Group and name of the files that an entry of a list of defaults includes for the whole configuration."""
    if isinstance(entry, str) and entry != "_self_":
        path = entry if entry.startswith("/") else f"{group}/{entry}"
        where, _, name = path.rpartition("/")
        yield where.removeprefix("/"), name
    elif isinstance(entry, Mapping):
        for key, name in entry.items():
            where, _, package = str(key).partition("@")
            if package == "_global_" and isinstance(name, str):
                yield where.removeprefix("/") if where.startswith("/") else f"{group}/{where}", name
