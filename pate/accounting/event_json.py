"""Events as JSON, the form in which ledgers and releases keep them.

A ledger stores class names and field names, and is read for years. So no kind of event is renamed or removed, and
`tests/oracle/ledgers/` holds files of earlier versions that every version has to read.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, cast

import numpy as np

from pate.accounting import events
from pate.accounting.events import Event
from pate.accounting.run_counts import RUN_COUNTS, RunCount
from pate.validation import require, require_kind

EVENT_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        events.ApproximateEvent,
        events.BoundarySessionEvent,
        events.BoundedRangeEvent,
        events.ComposedEvent,
        events.GaussianEvent,
        events.NoOpEvent,
        events.NoisyMaxGaussianEvent,
        events.NonPrivateEvent,
        events.OneBitEvent,
        events.OpposedMaximaEvent,
        events.PureDpEvent,
        events.SampledGaussianEvent,
        events.ScoresEvent,
        events.SelectThenTestEvent,
        events.SelfComposedEvent,
        events.SessionEvent,
        events.SmoothSensitivityEvent,
        events.ThresholdEvent,
        events.TuningEvent,
        events.WinnerEvent,
        events.ZCdpEvent,
    )
}
"""The classes of events that a ledger may hold, by class name."""


def event_to_json(event: Event) -> dict[str, Any]:
    """Returns an event as a dictionary for JSON: its class name under `kind`, and its fields by name.

    A field that has its default value is left out. Earlier versions did not have every field, so an equal event gets
    equal JSON in all versions. An infinity becomes the string `inf` or `-inf`, because JSON has no number for infinity.
    """
    require_kind("event", value=event, kind=Event, rule=events.EVENT_RULE)
    return _fields_to_json(event)


def event_from_json(data: dict[str, Any]) -> Event:
    """Returns the event that `event_to_json` wrote; raises `InvalidValue` where `kind` names no class of events."""
    json_of_fields = dict(data)
    class_name = json_of_fields.pop("kind", None)
    require(
        class_name in EVENT_KINDS, "kind", class_name, f"one of {', '.join(sorted(EVENT_KINDS))}"
    )
    return EVENT_KINDS[class_name](
        **{name: _from_json(json_of_field) for name, json_of_field in json_of_fields.items()}
    )


def _fields_to_json(value: Event | RunCount) -> dict[str, Any]:
    """Returns the class name of an event or a `RunCount`, and its fields that differ from their defaults."""
    json_of_fields = {
        field.name: _to_json(getattr(value, field.name))
        for field in fields(cast(Any, value))
        if getattr(value, field.name) != field.default
    }
    return {"kind": type(value).__name__} | json_of_fields


def _to_json(field_value: Any) -> Any:
    """Returns the value of an event's field in types that JSON has: an event as a dictionary, a tuple as a list.

    A distribution of a number of runs is a dictionary, too. An infinity becomes a string.
    """
    if isinstance(field_value, (Event, RunCount)):
        return _fields_to_json(field_value)
    if isinstance(field_value, tuple):
        return [_to_json(entry) for entry in field_value]
    number = field_value.item() if isinstance(field_value, np.generic) else field_value
    return str(number) if isinstance(number, float) and math.isinf(number) else number


def _from_json(json_value: Any) -> Any:
    """Returns the value of an event's field, given the JSON that `_to_json` returned."""
    if isinstance(json_value, list):
        return tuple(map(_from_json, json_value))
    if isinstance(json_value, dict):
        if json_value.get("kind") in RUN_COUNTS:
            numbers = {
                name: _from_json(number) for name, number in json_value.items() if name != "kind"
            }
            return RUN_COUNTS[json_value["kind"]](**numbers)
        return event_from_json(json_value)
    return float(json_value) if json_value in ("inf", "-inf") else json_value
