"""The PLD accountant against exact distributions, and what it takes from the Renyi accountant."""

import math
import sys

import pytest

import pate.accounting as pa
from pate.accounting.events import LeafEvent
from pate.accounting.pld import LossDistribution
from pate.accounting.pure_dp import pure_dp_composition_delta
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


def test_without_dp_accounting_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InvalidValue, match=r"expected the package dp_accounting: pip install '.*\[pld\]'"):
        pa.PldAccountant()
