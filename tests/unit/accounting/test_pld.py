"""Loss distributions against closed forms, and the error of the PLD accountant without dp-accounting."""

import sys

import pytest

from pate import accounting
from pate.accounting.events import LeafEvent
from pate.accounting.loss_distribution import LossDistribution
from tests.refusals import refused_parameter


def loss_distribution_of(*parts: tuple[LeafEvent, int]) -> LossDistribution:
    """Returns the loss distribution of events, each with its number of repetitions."""
    return LossDistribution(counted_events=list(parts))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_the_distribution_of_gaussians_is_a_close_upper_bound(epsilon: float) -> None:
    """The loss distribution of a Gaussian gives a delta between the closed form and 0.1% more.

    Negative control: 10% more noise gives less than the closed form.
    """
    for multiplier in (0.5, 2.0, 50.0):
        exact = accounting.gaussian_delta(mu=1 / multiplier, epsilon=epsilon)
        delta = loss_distribution_of(
            (accounting.GaussianEvent(noise_multiplier=multiplier), 1)
        ).delta(epsilon)
        assert exact <= delta <= exact * 1.001 + 1e-11
        if exact > 1e-9:  # the control: more noise is cheaper than this
            assert (
                loss_distribution_of(
                    (accounting.GaussianEvent(noise_multiplier=1.1 * multiplier), 1)
                ).delta(epsilon)
                < exact
            )


@pytest.mark.parametrize(("epsilon", "count"), [(0.05, 600), (1.0, 4), (0.3, 50), (0.001, 2000)])
def test_the_distribution_of_randomized_response_is_a_close_upper_bound(
    epsilon: float, count: int
) -> None:
    """The loss distribution of `count` pure-DP events gives a delta between the closed form and 5% more.

    The closed form is the delta of `count` randomized responses.
    """
    losses = loss_distribution_of((accounting.PureDpEvent(epsilon), count))
    for target in (0.1, 0.5, 2.0):
        exact = (
            accounting.PureDpAccountant()
            .compose(accounting.PureDpEvent(epsilon), count=count)
            .get_delta(target)
        )
        assert exact <= losses.delta(target) <= exact * 1.05 + losses.fourier_rounding_delta + 1e-9


@pytest.mark.parametrize(
    "event",
    [
        accounting.PureDpEvent(epsilon=120.0),
        accounting.BoundedRangeEvent(epsilon=150.0),
        accounting.OneBitEvent(logits=(-90.0, 80.0), reach=1),
    ],
)
def test_large_losses_do_not_cancel(event: LeafEvent) -> None:
    """An event whose outcomes reveal the neighbor almost surely has a delta near 1 at epsilons of 30 and 75."""
    losses = loss_distribution_of((event, 1))
    assert losses.delta(30.0) >= 1 - 1e-10
    assert losses.delta(75.0) >= 0.99


def test_without_dp_accounting_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """If dp-accounting is not installed, the PLD accountant refuses to be made; the error names the extra "pld"."""
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with refused_parameter("accountant", value="pld"):
        accounting.PldAccountant()
