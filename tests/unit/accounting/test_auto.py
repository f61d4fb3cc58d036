"""The auto accountant returns the smallest bound of several accountants."""

import sys
from functools import partial
from time import process_time

import pytest

from pate import accounting


@pytest.mark.parametrize(
    ("event", "count", "winner", "kind"),
    [
        (accounting.BoundedRangeEvent(epsilon=0.1), 20, "exact", accounting.ExactAccountant),
        (
            accounting.GaussianEvent(noise_multiplier=50.0),
            100_000,
            "exact",
            accounting.ExactAccountant,
        ),
        (accounting.ZCdpEvent(rho=0.01), 5, "rdp", accounting.RdpAccountant),
        (accounting.BoundedRangeEvent(epsilon=0.01), 20_000, "exact", accounting.ExactAccountant),
        (accounting.BoundedRangeEvent(epsilon=0.001), 300_000, "rdp", accounting.RdpAccountant),
        (
            accounting.ComposedEvent(
                tuple(accounting.PureDpEvent(epsilon=0.01 + 0.001 * i) for i in range(65))
            ),
            2,
            "rdp",
            accounting.RdpAccountant,
        ),
    ],
)
def test_the_auto_accountant_returns_the_smallest_quick_bound(event, count, winner, kind) -> None:  # type: ignore[no-untyped-def]
    """The auto accountant composes `count` equal events and names the accountant whose bound it returns.

    This name is `winner`, and the epsilon equals that of an accountant of the class `kind` on the
    same events.
    """
    spent = accounting.AutoAccountant().compose(event, count=count)
    assert spent.winner(target_delta=1e-6) == winner
    assert spent.get_epsilon(target_delta=1e-6) == kind().compose(event, count=count).get_epsilon(
        target_delta=1e-6
    )


@pytest.mark.slow
def test_a_noisy_maximum_is_composed_optimally_without_dp_accounting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without dp-accounting installed, the auto accountant returns the exact accountant's epsilon
    for 30 noisy maxima.
    """
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    event = accounting.OpposedMaximaEvent(noise_multiplier=20.0, num_candidates=5)
    spent = accounting.AutoAccountant().compose(event, count=30)
    assert spent.winner(target_delta=1e-6) == "exact"
    assert spent.get_epsilon(target_delta=1e-6) == accounting.ExactAccountant().compose(
        event, count=30
    ).get_epsilon(target_delta=1e-6)


@pytest.mark.slow
def test_noisy_maxima_and_bits_in_any_order_cost_less_than_renyi() -> None:
    """With `any_event_order=True`, 30 noisy maxima and 30 bits have one epsilon in both orders of the kinds.

    This epsilon is below that of the Renyi accountant, and at least that of the auto accountant for the given order of
    the events.
    """
    parts = [
        accounting.OpposedMaximaEvent(noise_multiplier=20.0, num_candidates=5),
        accounting.OneBitEvent(logits=(-1.0, 0.0, 1.0), reach=1),
    ]
    prices = {
        name: [
            make_accountant()
            .compose_all((part, 30) for part in order)
            .get_epsilon(target_delta=1e-6)
            for order in orders
        ]
        for name, make_accountant, orders in (
            ("in order", accounting.AutoAccountant, [parts]),
            (
                "in any order",
                partial(accounting.AutoAccountant, any_event_order=True),
                [parts, parts[::-1]],
            ),
            ("rdp", accounting.RdpAccountant, [parts]),
        )
    }
    epsilon, epsilon_of_reversed_events = prices["in any order"]
    assert epsilon == pytest.approx(epsilon_of_reversed_events, rel=1e-9)
    assert prices["in order"][0] <= epsilon < prices["rdp"][0]


def test_events_added_after_a_reading_raise_the_epsilon() -> None:
    """The epsilon of an accountant rises if it composes one more event, also after its epsilon was read.

    A copy that was made before the event keeps the earlier epsilon.
    """
    spent = accounting.AutoAccountant().compose(
        accounting.GaussianEvent(noise_multiplier=10.0), count=4
    )
    before = spent.get_epsilon(target_delta=1e-6)
    copied = spent.copy()
    assert (
        spent.compose(accounting.WinnerEvent(noise_multiplier=10.0, num_moving=1)).get_epsilon(
            target_delta=1e-6
        )
        > before
    )
    assert copied.get_epsilon(target_delta=1e-6) == before


@pytest.mark.slow
def test_pricing_thousands_of_steps_is_as_quick_as_hundreds() -> None:
    """The auto accountant prices 24,000 bounded-range events twice within 5 seconds of CPU time.

    Both epsilons are equal, and more than 3% below that of the Renyi accountant.
    """
    event = accounting.SelfComposedEvent(
        event=accounting.BoundedRangeEvent(epsilon=0.01), count=24_000
    )
    started = process_time()
    prices = [
        accounting.AutoAccountant().compose(event).get_epsilon(target_delta=1e-6) for _ in range(2)
    ]
    assert process_time() - started < 5
    assert (
        prices[0]
        == prices[1]
        < 0.97 * accounting.RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)
    )
