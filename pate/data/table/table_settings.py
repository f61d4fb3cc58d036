"""The settings of a table that its schema's file stores, so that a run does not have to repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from pate.data.table.encoding import UTF_8
from pate.validation import require


@dataclass(frozen=True)
class TableSettings:
    """The settings of a table that a schema's file stores in addition to the columns, as passed to `pate-schema`.

    Each field is the setting of `Table` with the same name, and is used if a run does not set it. Columns in `drop`
    become no features in any case. The settings are public, like the names of columns, but are not published with a
    model.
    """

    labels: tuple[str, ...] = ()
    group: str | tuple[str, ...] | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    label_separator: str | None = None
    uncertain: str | None = None
    uncertain_words: tuple[str, ...] = ()
    encoding: str = UTF_8

    def plain(self) -> dict[str, Any]:
        """Returns the settings that differ from their defaults, with tuples as lists."""
        settings = {}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value != setting.default:
                settings[setting.name] = list(value) if isinstance(value, tuple) else value
        return settings

    @classmethod
    def read(cls, content: object, *, setting_name: str) -> Self:
        """Returns the settings in a schema's file; the defaults if the file has none.

        Args:
            content: the values of the file's YAML, with the settings under the key `settings`.
            setting_name: the name of the setting that names the file, for messages.

        Raises:
            InvalidValue: a setting is unknown, or the settings or `drop` have an impossible type. Other values are not
                checked before they become settings of a `Table`.
        """
        settings = content.get("settings") if isinstance(content, Mapping) else None
        if settings is None:
            return cls()
        names = tuple(setting.name for setting in fields(cls))
        rule = f"settings of pate-schema, some of {', '.join(names)}"
        require(isinstance(settings, Mapping), f"{setting_name}.settings", settings, rule)
        for key in settings:
            require(key in names, f"{setting_name}.settings.{key}", settings[key], rule)
        drop = _as_tuple(settings.get("drop", ()))
        require(isinstance(drop, tuple), f"{setting_name}.settings.drop", drop, "a list of columns")
        return cls(
            labels=_as_tuple(settings.get("labels", ())),
            group=_as_tuple(settings.get("group", ())) or None,
            id=settings.get("id"),
            drop=drop,
            label_separator=settings.get("label_separator"),
            uncertain=settings.get("uncertain"),
            uncertain_words=_as_tuple(settings.get("uncertain_words", ())),
            encoding=settings.get("encoding", UTF_8),
        )


def _as_tuple(value: Any) -> Any:
    return tuple(map(str, value)) if isinstance(value, list) else value
