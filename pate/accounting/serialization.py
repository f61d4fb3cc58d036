"""Events as JSON, for the ledger: what is read back equals what was written (an infinity is a string)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pate.accounting import events
from pate.accounting.events import Adjacency, Event, LeafEvent
from pate.files.values import number, plain
from pate.validation import InvalidValue, require

KINDS: dict[str, type[Event]] = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind not in (Event, LeafEvent)
}
"""Every kind of event that a ledger may hold, by its class name."""


def event_to_json(event: Event) -> dict[str, Any]:
    """A dictionary of plain values, with the event's class name under `kind`.

    A field with its default is left out: such a line is what an earlier version, without that field, wrote.

    Args:
        event: any event of this package, composed ones included.
    """
    require(isinstance(event, Event), "event", type(event).__name__, "an event of pate.accounting")
    return {"kind": type(event).__name__} | {
        field.name: _value_to_json(value)
        for field in fields(event)  # type: ignore[arg-type]  # every kind of event is a dataclass
        if (value := getattr(event, field.name)) != field.default
    }


def event_from_json(data: dict[str, Any]) -> Event:
    """The event that `event_to_json` wrote.

    Args:
        data: what `event_to_json` returned, or the same read from JSON.

    Raises:
        InvalidValue: a kind that does not exist.
    """
    values = dict(data)
    kind = values.pop("kind", None)
    if kind not in KINDS:
        raise InvalidValue(f"kind={kind}: expected one of {', '.join(sorted(KINDS))}")
    return KINDS[kind](**{name: _value_from_json(value) for name, value in values.items()})


def _value_to_json(value: Any) -> Any:
    if isinstance(value, Event):
        return event_to_json(value)
    if isinstance(value, tuple):
        return [_value_to_json(part) for part in value]
    return plain(value)


def _value_from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return event_from_json(value)
    if isinstance(value, list):
        return tuple(_value_from_json(part) for part in value)
    return number(value) if isinstance(value, str) and value not in tuple(Adjacency) else value
