"""Events as JSON: what is read back equals what was written."""

from __future__ import annotations

import json
import math

import pytest

import pate.accounting as pa
from pate.accounting.events import KINDS, event_from_json, event_to_json
from pate.validation import InvalidValue

EVENTS: list[pa.Event] = [
    pa.NoOpEvent(),
    pa.NonPrivateEvent(),
    pa.GaussianEvent(0.1 + 0.2),
    pa.ZCdpEvent(math.inf),
    pa.PureDpEvent(1e-300),
    pa.BoundedRangeEvent(4 / 85.3),
    pa.NoisyMaxGaussianEvent(25.0, 39),
    pa.OpposedMaximaEvent(25.0, 39),
    pa.WinnerEvent(50.0, 2),
    pa.SmoothSensitivityEvent(20.0, 0.02),
    pa.SampledGaussianEvent(3.3, 0.066),
    pa.SampledGaussianEvent(3.3, 0.066, pa.Adjacency.ADD_REMOVE),
    pa.OneBitEvent((-math.inf, -20.7, 0.0, math.inf), reach=2),
    pa.ThresholdEvent(150.0, -1350.5, 2702),
    pa.SessionEvent(0.1, 0.47, 10, math.inf, pa.ApproximateEvent(pa.SelfComposedEvent(pa.PureDpEvent(0.1), 70), 1e-7)),
    pa.BoundarySessionEvent(
        0.133, 0.29, 3, 2000, pa.ApproximateEvent(pa.SelfComposedEvent(pa.PureDpEvent(0.1), 70), 1e-7), 0.1, True
    ),
    pa.ApproximateEvent(pa.GaussianEvent(1.0), 1e-9),
    pa.ComposedEvent(()),
    pa.SelectThenTestEvent((pa.BoundedRangeEvent(0.1), pa.ApproximateEvent(pa.OneBitEvent((-3.0, 0.5), 1), 1e-9)), 39),
    pa.SelfComposedEvent(
        pa.ComposedEvent((pa.BoundedRangeEvent(0.1), pa.ApproximateEvent(pa.OneBitEvent((0.0,), 1), 0.0))), 600
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_round_trip_through_text(event: pa.Event) -> None:
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(json.loads(text)) == event


def test_every_kind_of_event_is_covered() -> None:
    assert {type(event) for event in EVENTS} == set(KINDS.values())


@pytest.mark.parametrize("data", [{}, {"kind": "Free"}, {"kind": "Event"}, {"kind": "LeafEvent"}])
def test_unknown_kinds_are_refused(data: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match=rf"kind={data.get('kind')}: expected one of ApproximateEvent, "):
        event_from_json(data)


def test_a_price_that_is_no_price_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"noise_multiplier=-1\.0: expected a number >= 0"):
        event_from_json({"kind": "GaussianEvent", "noise_multiplier": -1.0})
