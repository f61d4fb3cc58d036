"""The PLD accountant against exact distributions, and what it takes from the Renyi accountant."""

import math
import sys

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting.events import LeafEvent
from pate.accounting.pld import LossDistribution
from pate.accounting.pure_dp import pure_dp_composition_delta
from pate.aggregators import StableTopK
from pate.validation import InvalidValue


def distribution(*parts: tuple[LeafEvent, int]) -> LossDistribution:
    return LossDistribution(list(parts))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_the_distribution_of_gaussians_is_a_close_upper_bound(epsilon: float) -> None:
    for multiplier in (0.5, 2.0, 50.0):
        exact = pa.gaussian_delta(1 / multiplier, epsilon=epsilon)
        delta = distribution((pa.GaussianEvent(multiplier), 1)).delta(epsilon)
        assert exact <= delta <= exact * 1.001 + 1e-11
        if exact > 1e-9:  # the control: more noise is cheaper than this
            assert distribution((pa.GaussianEvent(1.1 * multiplier), 1)).delta(epsilon) < exact


@pytest.mark.parametrize(("epsilon", "count"), [(0.05, 600), (1.0, 4), (0.3, 50), (0.001, 2000)])
def test_the_distribution_of_randomized_response_is_a_close_upper_bound(epsilon: float, count: int) -> None:
    made = distribution((pa.PureDpEvent(epsilon), count))
    for target in (0.1, 0.5, 2.0):
        exact = pure_dp_composition_delta(epsilon, count=count, target_epsilon=target)
        assert exact <= made.delta(target) <= exact * 1.05 + made.allowance + 1e-9


def test_a_gaussian_and_a_pure_release_against_a_quadrature() -> None:
    mu, epsilon = 0.5, 0.8
    made = distribution((pa.GaussianEvent(1 / mu), 1), (pa.PureDpEvent(epsilon), 2))
    truth = 1 / (1 + math.exp(-epsilon))
    masses = {2 * epsilon: truth**2, 0.0: 2 * truth * (1 - truth), -2 * epsilon: (1 - truth) ** 2}
    for target in (0.5, 1.5, 3.0):
        exact = sum(
            mass * (pa.gaussian_delta(mu, epsilon=target - loss) if target > loss else _below(mu, target - loss))
            for loss, mass in masses.items()
        )
        assert exact <= made.delta(target) <= exact * 1.001 + 1e-9


def _below(mu: float, epsilon: float) -> float:
    """The hockey stick at a negative epsilon, by the exchange of the two distributions."""
    return -math.expm1(epsilon) + math.exp(epsilon) * pa.gaussian_delta(mu, epsilon=-epsilon)


@pytest.mark.parametrize(
    "event", [pa.PureDpEvent(120.0), pa.BoundedRangeEvent(150.0), pa.OneBitEvent((-90.0, 80.0), reach=1)]
)
def test_large_losses_do_not_cancel(event: LeafEvent) -> None:
    """Every outcome of the worst pair gives the loss away, up to a delta near 1."""
    made = distribution((event, 1))
    assert made.delta(30.0) >= 1 - 1e-10
    assert made.delta(75.0) >= 0.99


@pytest.mark.parametrize(
    "event",
    [
        pa.GaussianEvent(5.0),
        pa.SelfComposedEvent(pa.BoundedRangeEvent(0.05), 600),
        pa.ComposedEvent((pa.ZCdpEvent(0.01), pa.GaussianEvent(3.0), pa.PureDpEvent(0.5))),
        pa.NoisyMaxGaussianEvent(5.0, num_candidates=9),
        pa.ApproximateEvent(pa.OneBitEvent((-3.0, 0.0, 2.0), reach=2), 1e-8),
    ],
    ids=repr,
)
def test_never_above_renyi(event: pa.Event) -> None:
    made, renyi = pa.PldAccountant().compose(event), pa.RdpAccountant().compose(event)
    for delta in (1e-10, 1e-6, 1e-2):
        assert made.get_epsilon(max(delta, 2e-8)) <= renyi.get_epsilon(max(delta, 2e-8))
    for epsilon in (0.0, 0.3, 2.0, 1e4):
        assert made.get_delta(epsilon) <= renyi.get_delta(epsilon)


@pytest.mark.parametrize(
    ("adjacency", "alone", "returned"), [("add_remove", 4.12, 3.674), ("replace_one", 9.13, 8.022)]
)
def test_bounded_range_and_bits_are_cheaper_by_renyi(adjacency: str, alone: float, returned: float) -> None:
    """4.12 is what envelopes give; the smaller figure is returned."""
    aggregator = StableTopK(selection_scale=38.985, test_std=60.0, failure_prob=1e-9, adjacency=adjacency)
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    made = pa.PldAccountant().compose(event)
    assert made.get_epsilon(1e-6) == pytest.approx(returned, abs=1e-3)
    assert made._distribution().epsilon(4e-7) == pytest.approx(alone, rel=2e-3)


def test_gaussians_of_any_number_count_as_one() -> None:
    multipliers = np.random.default_rng(0).uniform(50.0, 500.0, size=2000)
    made = pa.PldAccountant().compose(pa.ComposedEvent(tuple(pa.GaussianEvent(float(z)) for z in multipliers)))
    exact = pa.gaussian_epsilon(math.sqrt(float(np.sum(multipliers**-2.0))), target_delta=1e-6)
    assert exact <= made.get_epsilon(1e-6) <= exact * 1.001


def test_where_rounding_could_hide_delta_renyi_answers() -> None:
    made = pa.PldAccountant().compose(pa.GaussianEvent(60.0), 600)
    assert made._distribution().epsilon(made._distribution().allowance) == math.inf
    assert made.get_epsilon(1e-13) == pa.RdpAccountant().compose(pa.GaussianEvent(60.0), 600).get_epsilon(1e-13)


def test_without_dp_accounting_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InvalidValue, match=r"expected the package dp_accounting: pip install '.*\[pld\]'"):
        pa.PldAccountant()
