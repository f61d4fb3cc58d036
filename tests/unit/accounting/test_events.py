"""Privacy events: their form in dp-accounting, their refusals, their JSON, and the price of sessions.

A session runs epsilon-DP calls on the private data, and a call whose output lies in a target set is a hit. The session
ends after a given number of hits. An access is one use of the private data at epsilon.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from pate import accounting
from pate.accounting.event_json import EVENT_KINDS, event_from_json, event_to_json
from pate.accounting.event_tree import leaves, priced_by_accesses
from pate.accounting.filters import GaussianFilter, RenyiFilter, Spent
from pate.accounting.session_rdp import hit_cost
from pate.accounting.target_charging import tight_boundary
from tests.refusals import ANY, refused_parameter

GAUSSIAN = accounting.GaussianEvent(noise_multiplier=2.0)


def threshold_event(
    *,
    noise_std: float = 1.0,
    smallest_count_minus_threshold: float = 0.0,
    num_possible_counts: int = 3,
) -> accounting.ThresholdEvent:
    """Returns the price of releasing whether a noisy count, one of a range of counts, reaches a threshold."""
    return accounting.ThresholdEvent(
        noise_std=noise_std,
        lowest=smallest_count_minus_threshold,
        num_values=num_possible_counts,
    )


def test_events_convert_to_those_of_dp_accounting() -> None:
    """`to_dp_event` of a tree of events is the corresponding tree of dp-accounting's events.

    An event with a failure probability of 0 becomes the event without failures.
    """
    dp_accounting = pytest.importorskip("dp_accounting")
    tree = accounting.ComposedEvent(
        (
            GAUSSIAN,
            accounting.SelfComposedEvent(event=GAUSSIAN, count=3),
            accounting.NoOpEvent(),
            accounting.NonPrivateEvent(),
        )
    )
    assert tree.to_dp_event() == dp_accounting.ComposedDpEvent(
        [
            dp_accounting.GaussianDpEvent(2.0),
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 3),
            dp_accounting.NoOpDpEvent(),
            dp_accounting.NonPrivateDpEvent(),
        ]
    )
    assert accounting.ApproximateEvent(
        event=GAUSSIAN, failure_prob=0.0
    ).to_dp_event() == dp_accounting.GaussianDpEvent(2.0)


DELTA = 1e-6
BOUNDARY_TARGET = tight_boundary(call_epsilon=0.05)
EVENT_OF_ACCESSES = accounting.ApproximateEvent(
    event=accounting.SelfComposedEvent(
        event=accounting.PureDpEvent(BOUNDARY_TARGET.epsilon), count=101
    ),
    failure_prob=3.3e-7,
)
SESSION_EVENT = accounting.BoundarySessionEvent(
    BOUNDARY_TARGET.epsilon,
    BOUNDARY_TARGET.hit_prob,
    target_hits=10,
    num_calls=2000,
    accesses=EVENT_OF_ACCESSES,
    call_epsilon=0.05,
    bounded_range=True,
)


def composed_epsilon(
    accountant: type[accounting.Accountant], *events: accounting.Event, delta: float = DELTA
) -> float:
    """Returns the epsilon of events composed by an accountant, at `delta`."""
    return accountant().compose_all((event, 1) for event in events).get_epsilon(delta)


def test_by_accesses_replaces_sessions_only() -> None:
    """`priced_by_accesses` replaces each session in a tree of events by the composition of its accesses.

    A tree without sessions is returned itself.
    """
    failing = accounting.SelfComposedEvent(
        event=accounting.ApproximateEvent(
            event=accounting.PureDpEvent(epsilon=0.1), failure_prob=1e-9
        ),
        count=3,
    )
    plain = accounting.ComposedEvent((accounting.GaussianEvent(noise_multiplier=2.0), failing))
    assert priced_by_accesses(plain) is plain
    composition = accounting.ComposedEvent(
        (
            plain,
            accounting.SelfComposedEvent(
                event=accounting.ApproximateEvent(event=SESSION_EVENT, failure_prob=1e-9), count=2
            ),
        )
    )
    assert priced_by_accesses(composition) == accounting.ComposedEvent(
        (
            plain,
            accounting.SelfComposedEvent(
                event=accounting.ApproximateEvent(event=EVENT_OF_ACCESSES, failure_prob=1e-9),
                count=2,
            ),
        )
    )


@pytest.mark.parametrize(
    "accountant", [accounting.ExactAccountant, accounting.PldAccountant, accounting.AutoAccountant]
)
def test_loss_accountants_return_the_smaller_price_of_a_session(
    accountant: type[accounting.Accountant],
) -> None:
    """An accountant of loss distributions returns the Renyi accountant's epsilon of a session if it is smaller.

    Such accountants can compose the accesses of a session. The Renyi accountant counts its hits, which costs less here.
    """
    assert composed_epsilon(accountant, SESSION_EVENT) == pytest.approx(
        composed_epsilon(accounting.RdpAccountant, SESSION_EVENT), rel=1e-9
    )
    bounded_range = accounting.BoundedRangeEvent(epsilon=0.3)
    epsilon_between_ranges = composed_epsilon(
        accountant, bounded_range, SESSION_EVENT, bounded_range
    )
    assert epsilon_between_ranges <= composed_epsilon(
        accounting.RdpAccountant, bounded_range, SESSION_EVENT, bounded_range
    ) * (1 + 1e-9)
    assert epsilon_between_ranges < composed_epsilon(
        accounting.ExactAccountant, bounded_range, EVENT_OF_ACCESSES, bounded_range
    )


@pytest.mark.parametrize("accountant", [accounting.ExactAccountant, accounting.PldAccountant])
def test_a_session_costs_the_smaller_price_of_accesses_and_hits(
    accountant: type[accounting.Accountant],
) -> None:
    """A session of 3 accesses costs the epsilon of its accesses; a session of 101 accesses costs that of its 10 hits.

    At a delta smaller than the failure probability of the accesses, the price by hits is still
    finite.
    """
    event_of_three_accesses = accounting.SelfComposedEvent(
        event=accounting.PureDpEvent(BOUNDARY_TARGET.epsilon), count=3
    )
    short_session_event = accounting.SessionEvent(
        epsilon=BOUNDARY_TARGET.epsilon,
        hit_prob=BOUNDARY_TARGET.hit_prob,
        target_hits=10,
        num_calls=3,
        accesses=event_of_three_accesses,
    )
    assert (
        composed_epsilon(accountant, short_session_event)
        == composed_epsilon(accountant, event_of_three_accesses)
        < composed_epsilon(accounting.RdpAccountant, short_session_event)
    )
    assert accountant().compose(short_session_event).get_delta(
        target_epsilon=0.1
    ) == accountant().compose(event_of_three_accesses).get_delta(target_epsilon=0.1)
    assert composed_epsilon(accountant, SESSION_EVENT, delta=1e-7) == composed_epsilon(
        accounting.RdpAccountant, SESSION_EVENT, delta=1e-7
    )
    delta = accountant().compose(SESSION_EVENT).get_delta(target_epsilon=3.0)
    assert (
        delta
        == accounting.RdpAccountant().compose(SESSION_EVENT).get_delta(target_epsilon=3.0)
        < 3.3e-7
    )
    with refused_parameter("failure_prob"):
        composed_epsilon(accountant, EVENT_OF_ACCESSES, delta=1e-7)


def test_filters_count_hits_by_renyi_and_accesses_by_mu() -> None:
    """The Renyi filter prices a session by its hits, and the Gaussian filter prices it by its accesses.

    Under a cap of 1.8, the Renyi filter has room for the session, but not for the composition of its accesses.
    """
    assert RenyiFilter(max_epsilon=1.8, target_delta=DELTA).affords(Spent(), SESSION_EVENT) == 1
    assert RenyiFilter(max_epsilon=1.8, target_delta=DELTA).affords(Spent(), EVENT_OF_ACCESSES) == 0
    gaussian_filter = GaussianFilter(max_epsilon=4.0, target_delta=DELTA)
    assert gaussian_filter.fixed_by(SESSION_EVENT) == gaussian_filter.fixed_by(EVENT_OF_ACCESSES)
    assert gaussian_filter.price(SESSION_EVENT) == gaussian_filter.price(EVENT_OF_ACCESSES)


@pytest.mark.parametrize(
    ("order", "call_epsilon"),
    [(323_960.43135932373, 3.113915523281301e-10), (20_000.0, 5e-9), (400.0, 1e-7), (3.0, 0.02)],
)
def test_the_cost_of_a_hit_is_rounded_up_at_every_order(order: float, call_epsilon: float) -> None:
    """The cost of one hit at a Renyi order is at least its value in 60 digits, and at most 20% larger."""
    event = replace(
        SESSION_EVENT, epsilon=3 * call_epsilon, call_epsilon=call_epsilon, bounded_range=False
    )
    with mpmath.workdps(60):
        a = mpmath.mpf(order)
        smallest_mass = mpmath.exp(-mpmath.mpf(call_epsilon)) / 2

        def renyi_term(first_mass: Any, second_mass: Any) -> Any:
            return first_mass**a * second_mass ** (1 - a)

        likelier_mass = 1 + smallest_mass
        likeliest_mass = mpmath.mpf("1.5")
        half = mpmath.mpf("0.5")
        rises = 2 - (
            renyi_term(likelier_mass, likeliest_mass) - renyi_term(1 - smallest_mass, half)
        ) / renyi_term(smallest_mass, half)
        falls = 2 - (
            renyi_term(likeliest_mass, likelier_mass) - renyi_term(half, 1 - smallest_mass)
        ) / renyi_term(half, smallest_mass)
        exact = max(rises, falls)
        cost = hit_cost(event, orders=np.array([order]))[0]
        assert exact <= cost <= exact * 1.2 + order * 1e-13


NAN = math.nan
INF = math.inf
INVALID_VALUES: list[tuple[str, Callable[[Any], Any], tuple[Any, ...]]] = [
    ("noise_multiplier", accounting.GaussianEvent, (-1.0, NAN, INF)),
    (
        "noise_multiplier",
        lambda invalid_value: accounting.NoisyMaxGaussianEvent(
            noise_multiplier=invalid_value, num_candidates=3
        ),
        (-1e-300,),
    ),
    ("noise_multiplier", event_from_json, ({"kind": "GaussianEvent", "noise_multiplier": -1.0},)),
    ("rho", accounting.ZCdpEvent, (NAN,)),
    ("epsilon", accounting.PureDpEvent, (-1e-300,)),
    ("epsilon", accounting.BoundedRangeEvent, (NAN,)),
    (
        "num_candidates",
        lambda invalid_value: accounting.NoisyMaxGaussianEvent(
            noise_multiplier=1.0, num_candidates=invalid_value
        ),
        (0, 2.5),
    ),
    (
        "num_moving",
        lambda invalid_value: accounting.WinnerEvent(
            noise_multiplier=1.0, num_moving=invalid_value
        ),
        (0, 3),
    ),
    (
        "logits",
        lambda invalid_value: accounting.OneBitEvent(logits=invalid_value, reach=1),
        ((0.0, 1.0, 0.5), (0.0, NAN, 1.0), (NAN,), (), [0.0]),
    ),
    (
        "reach",
        lambda invalid_value: accounting.OneBitEvent(logits=(0.0,), reach=invalid_value),
        (0,),
    ),
    (
        "noise_std",
        lambda invalid_value: threshold_event(noise_std=invalid_value),
        (0.0,),
    ),
    (
        "lowest",
        lambda invalid_value: threshold_event(smallest_count_minus_threshold=invalid_value),
        (INF, NAN),
    ),
    (
        "num_values",
        lambda invalid_value: threshold_event(num_possible_counts=invalid_value),
        (0,),
    ),
    (
        "beta",
        lambda invalid_value: accounting.SmoothSensitivityEvent(
            noise_multiplier=1.0, beta=invalid_value
        ),
        (-1.0,),
    ),
    (
        "sampling_prob",
        lambda invalid_value: accounting.SampledGaussianEvent(
            noise_multiplier=1.0, sampling_prob=invalid_value
        ),
        (0.0, 1.1, NAN),
    ),
    (
        "failure_prob",
        lambda invalid_value: accounting.ApproximateEvent(
            event=GAUSSIAN, failure_prob=invalid_value
        ),
        (-0.1, 1.0, NAN),
    ),
    (
        "count",
        lambda invalid_value: accounting.SelfComposedEvent(event=GAUSSIAN, count=invalid_value),
        (-1, 1.5, True),
    ),
    (
        "event",
        lambda invalid_value: accounting.SelfComposedEvent(event=invalid_value, count=2),
        (3.0,),
    ),
    (
        "event",
        lambda invalid_value: accounting.ApproximateEvent(event=invalid_value, failure_prob=0.1),
        ("free",),
    ),
    ("events", lambda invalid_value: accounting.ComposedEvent((GAUSSIAN, invalid_value)), (5,)),
    ("event", lambda invalid_value: list(leaves(invalid_value)), ({},)),
    ("noise_multipliers.shape", accounting.GaussianEvent.composed, ([], [[1.0]], 3.0)),
    ("noise_multipliers", accounting.GaussianEvent.composed, ([1.0, -1.0], [NAN], [INF])),
    ("epsilon", lambda invalid_value: replace(SESSION_EVENT, epsilon=invalid_value), (0.0,)),
    ("hit_prob", lambda invalid_value: replace(SESSION_EVENT, hit_prob=invalid_value), (1.0,)),
    ("target_hits", lambda invalid_value: replace(SESSION_EVENT, target_hits=invalid_value), (0,)),
    ("num_calls", lambda invalid_value: replace(SESSION_EVENT, num_calls=invalid_value), (1.5, -1)),
    ("accesses", lambda invalid_value: replace(SESSION_EVENT, accesses=invalid_value), (3,)),
    (
        "call_epsilon",
        lambda invalid_value: replace(SESSION_EVENT, call_epsilon=invalid_value),
        (-1.0,),
    ),
    (
        "bounded_range",
        lambda invalid_value: replace(SESSION_EVENT, bounded_range=invalid_value),
        (1,),
    ),
    (
        "distribution",
        lambda invalid_value: accounting.TuningEvent(
            base=GAUSSIAN, score=GAUSSIAN, distribution=invalid_value
        ),
        (4,),
    ),
    ("mean", accounting.Poisson, (0.0, -1.0, NAN, INF)),
]


@pytest.mark.parametrize(
    ("name", "make_event", "invalid_value"),
    [
        pytest.param(name, make_event, invalid_value, id=f"{name}={invalid_value}")
        for name, make_event, invalid_values in INVALID_VALUES
        for invalid_value in invalid_values
    ],
)
def test_an_invalid_event_is_refused(
    name: str, make_event: Callable[[Any], Any], invalid_value: Any
) -> None:
    """`make_event` builds an event with one invalid parameter, and raises an `InvalidValue` about the parameter."""
    with refused_parameter(name, value=ANY):
        make_event(invalid_value)


EVENTS: list[accounting.Event] = [
    accounting.NoOpEvent(),
    accounting.NonPrivateEvent(),
    accounting.GaussianEvent(noise_multiplier=0.1 + 0.2),
    accounting.ScoresEvent(noise_multiplier=7.5),
    accounting.ZCdpEvent(rho=math.inf),
    accounting.PureDpEvent(epsilon=1e-300),
    accounting.BoundedRangeEvent(epsilon=4 / 85.3),
    accounting.NoisyMaxGaussianEvent(noise_multiplier=25.0, num_candidates=39),
    accounting.OpposedMaximaEvent(noise_multiplier=25.0, num_candidates=39),
    accounting.WinnerEvent(noise_multiplier=50.0, num_moving=2),
    accounting.SmoothSensitivityEvent(noise_multiplier=20.0, beta=0.02),
    accounting.SampledGaussianEvent(noise_multiplier=3.3, sampling_prob=0.066),
    accounting.SampledGaussianEvent(
        noise_multiplier=3.3, sampling_prob=0.066, adjacency=accounting.Adjacency.ADD_REMOVE
    ),
    accounting.OneBitEvent(logits=(-math.inf, -20.7, 0.0, math.inf), reach=2),
    threshold_event(
        noise_std=150.0, smallest_count_minus_threshold=-1350.5, num_possible_counts=2702
    ),
    accounting.SessionEvent(
        epsilon=0.1,
        hit_prob=0.47,
        target_hits=10,
        num_calls=math.inf,
        accesses=accounting.ApproximateEvent(
            event=accounting.SelfComposedEvent(event=accounting.PureDpEvent(epsilon=0.1), count=70),
            failure_prob=1e-7,
        ),
    ),
    accounting.BoundarySessionEvent(
        epsilon=0.133,
        hit_prob=0.29,
        target_hits=3,
        num_calls=2000,
        accesses=accounting.ApproximateEvent(
            event=accounting.SelfComposedEvent(event=accounting.PureDpEvent(epsilon=0.1), count=70),
            failure_prob=1e-7,
        ),
        call_epsilon=0.1,
        bounded_range=True,
    ),
    accounting.TuningEvent(
        base=accounting.SelfComposedEvent(accounting.GaussianEvent(noise_multiplier=20.0), count=3),
        score=accounting.ScoresEvent(noise_multiplier=9.0),
        distribution=accounting.TruncatedNegativeBinomial(eta=-0.5, gamma=0.05),
    ),
    accounting.TuningEvent(
        base=accounting.PureDpEvent(epsilon=math.inf),
        score=accounting.NoOpEvent(),
        distribution=accounting.Poisson(mean=4.0),
    ),
    accounting.ApproximateEvent(
        event=accounting.GaussianEvent(noise_multiplier=1.0), failure_prob=1e-9
    ),
    accounting.ComposedEvent(()),
    accounting.SelectThenTestEvent(
        events=(
            accounting.BoundedRangeEvent(epsilon=0.1),
            accounting.ApproximateEvent(
                event=accounting.OneBitEvent(logits=(-3.0, 0.5), reach=1), failure_prob=1e-9
            ),
        ),
        num_candidates=39,
    ),
    accounting.SelfComposedEvent(
        event=accounting.ComposedEvent(
            (
                accounting.BoundedRangeEvent(epsilon=0.1),
                accounting.ApproximateEvent(
                    event=accounting.OneBitEvent(logits=(0.0,), reach=1), failure_prob=0.0
                ),
            )
        ),
        count=600,
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_a_round_trip_through_json(event: accounting.Event) -> None:
    """An event that is written as JSON and read back equals the original event."""
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(data=json.loads(text)) == event


def test_the_examples_cover_every_kind_of_event() -> None:
    """The list `EVENTS`, whose events the round trip through JSON tests, has every kind that JSON may name."""
    assert {type(event) for event in EVENTS} == set(EVENT_KINDS.values())


@pytest.mark.parametrize("data", [{}, {"kind": "Free"}, {"kind": "Event"}, {"kind": "LeafEvent"}])
def test_unknown_kinds_are_refused(data: dict[str, str]) -> None:
    """JSON without a kind, with an unknown kind, or with an abstract class of events as its kind is refused."""
    with refused_parameter("kind", value=data.get("kind")):
        event_from_json(data)
