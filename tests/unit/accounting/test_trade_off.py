"""Trade-off curves of attacks, which give the least share of missed members at each share alpha of false alarms."""

import math

import pytest
from scipy.stats import norm

from pate import accounting
from pate.accounting.attack_bounds import AttackBounds
from pate.accounting.trade_off import gaussian_trade_off
from tests.refusals import refused_parameter

ACCOUNTANTS = [accounting.AutoAccountant, accounting.ExactAccountant, accounting.RdpAccountant]


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("noise_multiplier", [0.2, 0.5, 1.0, 3.0, 100.0])
def test_gaussian_has_its_closed_form(
    accountant: type[accounting.Accountant], noise_multiplier: float
) -> None:
    """Curve, advantage and mu of a Gaussian are within 1e-6 of their closed forms, and never understate the attack."""
    composed_accountant = accountant().compose(accounting.GaussianEvent(noise_multiplier))
    mu = 1 / noise_multiplier
    assert 0 <= composed_accountant.gdp_mu() - mu < 1e-6 * mu
    for alpha in (1e-9, 1e-3, 0.01, 0.1, 0.5, 0.9):
        exact = norm.cdf(norm.isf(alpha) - mu)
        assert exact - 1e-6 <= composed_accountant.trade_off(alpha) <= exact
    assert 0 <= composed_accountant.advantage() - (2 * norm.cdf(mu / 2) - 1) < 1e-6


def test_recorded_values_of_other_libraries() -> None:
    """An attack on a Gaussian release finds at most about 21.3% of members at 1% false alarms if epsilon is 8.

    At epsilon 1 this share is about 1.8%. Delta is 1e-6 in both cases. The bounds agree within 1e-6 with those of
    gdpnum and riskcal.
    """
    # mu of (8, 1e-6) and of (1, 1e-6), from the definition of delta by Balle & Wang in mpmath
    for mu, share in ((1.531545, 0.213364), (0.236704, 0.018325)):
        composed_accountant = accounting.AutoAccountant().compose(
            accounting.GaussianEvent(noise_multiplier=1 / mu)
        )
        assert 1 - composed_accountant.trade_off(alpha=0.01) == pytest.approx(share, abs=1e-6)


def test_mu_of_gaussians_adds_in_squares() -> None:
    """The mu of two Gaussians with mu 3 and mu 4 is 5 together."""
    composed_accountant = (
        accounting.RdpAccountant()
        .compose(accounting.GaussianEvent(noise_multiplier=1 / 3))
        .compose(accounting.GaussianEvent(noise_multiplier=0.25))
    )
    assert composed_accountant.gdp_mu() == pytest.approx(5.0, rel=1e-9)


def test_lines_of_a_gaussian_profile_reach_its_closed_form() -> None:
    """The search over lines, which other events need, gives a Gaussian's trade-off curve within 1e-9.

    The advantage is within 1e-6 of its closed form.
    """
    # A failure probability hides that the release is Gaussian, so the accountant searches over lines.
    composed_accountant = accounting.AutoAccountant().compose(
        accounting.GaussianEvent(noise_multiplier=1.0)
    )
    bounds = accounting.RdpAccountant()._delta_free_bounds().with_failures(1e-9)
    composed_accountant._delta_free_bounds = lambda: bounds  # type: ignore[method-assign]
    for alpha in (1e-3, 0.01, 0.1, 0.5, 0.9):
        exact = norm.cdf(norm.isf(alpha) - 1.0)
        assert exact - 1e-9 <= composed_accountant.trade_off(alpha) <= exact
    assert 0 <= composed_accountant.advantage() - (2 * norm.cdf(0.5) - 1) < 1e-6


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_nothing_composed_is_perfectly_private(accountant: type[accounting.Accountant]) -> None:
    """Before the first event, an attack can only guess: at alpha 0.25 it misses 0.75; its advantage and mu are 0."""
    empty_accountant = accountant()
    assert empty_accountant.trade_off(alpha=0.25) == pytest.approx(0.75)
    assert empty_accountant.advantage() == 0
    assert empty_accountant.gdp_mu() == 0


@pytest.mark.parametrize(
    "event", [accounting.NonPrivateEvent(), accounting.GaussianEvent(noise_multiplier=0.0)]
)
def test_release_without_noise_shows_everything(event: accounting.Event) -> None:
    """For a release without noise, the share of missed members is 0, the advantage is 1, and mu is infinite."""
    composed_accountant = accounting.AutoAccountant().compose(event)
    assert composed_accountant.trade_off(alpha=0.01) == 0
    assert composed_accountant.advantage() == 1
    assert composed_accountant.gdp_mu() == math.inf


def test_mu_is_infinite_where_none_is_known() -> None:
    """A release that may fail and a release by smooth sensitivity have a trade-off curve, but an infinite mu."""
    for event in (
        accounting.ApproximateEvent(
            accounting.GaussianEvent(noise_multiplier=2.0), failure_prob=1e-7
        ),
        accounting.SmoothSensitivityEvent(noise_multiplier=20.0, beta=1e-3),
    ):
        composed_accountant = accounting.AutoAccountant().compose(event)
        assert 0 < composed_accountant.trade_off(alpha=0.01) < 0.99
        assert composed_accountant.gdp_mu() == math.inf


def test_zcdp_mu_is_above_that_of_a_gaussian() -> None:
    """A release that is 1/2-zCDP has a mu between 1 and 1.6; a Gaussian that is 1/2-zCDP has mu 1."""
    mu = accounting.AutoAccountant().compose(accounting.ZCdpEvent(rho=0.5)).gdp_mu()
    assert 1 < mu < 1.6


@pytest.mark.parametrize("impossible_alpha", [0.0, 1.0, -0.1, math.nan])
def test_alpha_is_a_probability(impossible_alpha: float) -> None:
    """An alpha outside (0, 1) is refused with an error about `alpha`."""
    with refused_parameter("alpha", value=impossible_alpha):
        accounting.RdpAccountant().trade_off(impossible_alpha)
    with refused_parameter("alpha", value=impossible_alpha):
        gaussian_trade_off(mu=1.0, alpha=impossible_alpha)


@pytest.mark.slow
def test_curve_falls_with_alpha_and_with_more_releases() -> None:
    """The share of missed members falls as alpha grows, and as five more releases are composed."""
    accountant_of_five_releases = accounting.AutoAccountant().compose(
        accounting.BoundedRangeEvent(epsilon=0.3), count=5
    )
    accountant_of_ten_releases = accountant_of_five_releases.copy().compose(
        accounting.BoundedRangeEvent(epsilon=0.3), count=5
    )
    alphas = (0.001, 0.01, 0.1, 0.5, 0.9)
    curve = [accountant_of_five_releases.trade_off(alpha) for alpha in alphas]
    assert curve == sorted(curve, reverse=True)
    assert all(
        accountant_of_ten_releases.trade_off(alpha) < beta
        for alpha, beta in zip(alphas, curve, strict=True)
    )
    assert accountant_of_ten_releases.gdp_mu() > accountant_of_five_releases.gdp_mu()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("event", "mu"),
    [
        (accounting.PureDpEvent(epsilon=0.0), 0.0),
        (accounting.PureDpEvent(epsilon=1e-17), 1e-17 * math.sqrt(math.pi / 2)),
        (accounting.PureDpEvent(epsilon=9.9e-5), 9.9e-5 * math.sqrt(math.pi / 2)),
        (accounting.PureDpEvent(epsilon=800.0), math.inf),
    ],
)
@pytest.mark.parametrize("accountant", [*ACCOUNTANTS, accounting.PureDpAccountant])
def test_extreme_epsilons_have_a_mu_that_is_not_below_the_exact_one(
    accountant: type[accounting.Accountant], event: accounting.Event, mu: float
) -> None:
    """The mu of a pure-DP event is between the exact `mu` and a billionth more, for epsilons of 0, 1e-17 and 9.9e-5.

    The exact mu of a tiny epsilon is epsilon * sqrt(pi / 2). For epsilon 800, mu is infinite in double precision.
    """
    actual_mu = accountant().compose(event).gdp_mu()
    if mu == math.inf:
        assert actual_mu == math.inf
    else:
        assert mu <= actual_mu <= mu * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_hardly_any_noise_beside_pure_dp_has_the_mu_of_both(
    accountant: type[accounting.Accountant],
) -> None:
    """A Gaussian with hardly any noise and a pure-DP event have a finite mu together, just above that of the Gaussian.

    The bounds on attacks can be made from it, with an advantage of 1.
    """
    composed_accountant = accountant().compose(accounting.GaussianEvent(noise_multiplier=1e-3))
    composed_accountant.compose(accounting.PureDpEvent(epsilon=0.1))
    assert 1000.0 < composed_accountant.gdp_mu() < 1000.01
    assert AttackBounds.from_accountant(composed_accountant).advantage == 1.0
