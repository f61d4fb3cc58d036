"""Prices of events that dp-accounting knows agree with it, by Renyi divergences to 1e-9.

By privacy loss distributions (PLD) they lie between its two roundings, up to 0.1%.
"""

from typing import Any

import numpy as np
import pytest

import pate.accounting as pate_accounting

dp_accounting: Any = pytest.importorskip("dp_accounting")
rdp: Any = pytest.importorskip("dp_accounting.rdp")
pld: Any = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

ORDERS = [1.1, 1.5, 2.0, 3.0, 4.5, 8.0, 16.0, 64.0, 512.0]
MULTIPLIERS = np.random.default_rng(0).uniform(low=20.0, high=200.0, size=300)
EVENTS: dict[str, pate_accounting.Event] = {
    "gaussian": pate_accounting.GaussianEvent(noise_multiplier=1.3),
    "many": pate_accounting.SelfComposedEvent(
        event=pate_accounting.GaussianEvent(noise_multiplier=60.0), count=600
    ),
    "different": pate_accounting.ComposedEvent(
        tuple(pate_accounting.GaussianEvent(noise_multiplier=float(z)) for z in MULTIPLIERS)
    ),
    "tree": pate_accounting.ComposedEvent(
        (
            pate_accounting.GaussianEvent(noise_multiplier=1.3),
            pate_accounting.SelfComposedEvent(
                event=pate_accounting.ComposedEvent(
                    (
                        pate_accounting.GaussianEvent(noise_multiplier=9.0),
                        pate_accounting.NoOpEvent(),
                    )
                ),
                count=7,
            ),
        )
    ),
    "nothing": pate_accounting.NoOpEvent(),
    "everything": pate_accounting.ComposedEvent(
        (pate_accounting.GaussianEvent(noise_multiplier=1.0), pate_accounting.NonPrivateEvent())
    ),
}
EVENTS_WITH_THEIRS: dict[str, tuple[pate_accounting.Event, Any]] = {
    name: (event, event.to_dp_event()) for name, event in EVENTS.items()
} | {
    "zcdp": (pate_accounting.ZCdpEvent(rho=0.03), dp_accounting.dp_event.ZCDpEvent(0.03)),
    "randomized response": (
        pate_accounting.PureDpEvent(epsilon=0.7),
        dp_accounting.dp_event.RandomizedResponseDpEvent(
            noise_parameter=2 / (1 + np.exp(0.7)), num_buckets=2
        ),
    ),
}


@pytest.mark.parametrize("name", EVENTS_WITH_THEIRS)
def test_the_renyi_accountant_agrees_at_the_same_orders(name: str) -> None:
    """The Renyi accountants of the package and of dp-accounting agree on epsilon and delta within 1e-9.

    Both use the same orders.
    """
    event, dp_event = EVENTS_WITH_THEIRS[name]
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    if name == "randomized response":
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    theirs = rdp.RdpAccountant(orders=ORDERS, neighboring_relation=relation).compose(dp_event)
    ours = pate_accounting.RdpAccountant(orders=ORDERS).compose(event)
    for delta in (1e-3, 1e-6, 1e-10):
        assert ours.get_epsilon(target_delta=delta) == pytest.approx(
            theirs.get_epsilon(target_delta=delta), rel=1e-9
        )
    for epsilon in (0.1, 1.0, 6.0):
        assert ours.get_delta(target_epsilon=epsilon) == pytest.approx(
            theirs.get_delta(target_epsilon=epsilon), rel=1e-9, abs=1e-300
        )


def test_composed_gaussians_agree_with_dp_accounting() -> None:
    """300 Gaussians merged by `GaussianEvent.composed` cost the epsilon that dp-accounting gives, and not less."""
    ours = pate_accounting.RdpAccountant(orders=ORDERS).compose(
        pate_accounting.GaussianEvent.composed(MULTIPLIERS)
    )
    theirs = rdp.RdpAccountant(orders=ORDERS).compose(EVENTS["different"].to_dp_event())
    assert ours.get_epsilon(target_delta=1e-6) == pytest.approx(
        theirs.get_epsilon(target_delta=1e-6), rel=1e-9
    )
    assert ours.get_epsilon(target_delta=1e-6) >= theirs.get_epsilon(target_delta=1e-6) * (
        1 - 1e-15
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "count"),
    [
        (pate_accounting.GaussianEvent(noise_multiplier=30.0), 600),
        (pate_accounting.PureDpEvent(epsilon=0.05), 600),
    ],
)
def test_pld_epsilon_is_between_both_roundings_of_dp_accounting(
    event: pate_accounting.Event, count: int
) -> None:
    """The PLD accountant's epsilon is at least dp-accounting's with optimistic rounding.

    It is at most 0.1% above that with pessimistic rounding.
    """

    def their_distribution(*, pessimistic: bool) -> Any:
        """Returns dp-accounting's privacy loss distribution of all events, with one of its two roundings."""
        if isinstance(event, pate_accounting.GaussianEvent):
            single = pld.from_gaussian_mechanism(
                standard_deviation=30.0,
                use_connect_dots=False,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=1e-4,
            )
        else:
            single = pld.from_randomized_response(
                noise_parameter=2 / (1 + np.exp(0.05)),
                num_buckets=2,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=1e-4,
            )
        return single.self_compose(count)

    ours = pate_accounting.PldAccountant().compose(event, count=count)
    for delta in (1e-4, 1e-6):
        low = their_distribution(pessimistic=False).get_epsilon_for_delta(delta)
        high = their_distribution(pessimistic=True).get_epsilon_for_delta(delta)
        assert low <= ours.get_epsilon(target_delta=delta) <= high * 1.001
