"""The bounds on attacks that cards print: their values, their words, and rounding that never favors the release."""

import math

import pytest
from scipy.stats import norm

from pate import accounting
from pate.accounting.attack_bounds import AttackBounds, percent
from tests.refusals import refused_parameter


@pytest.fixture(scope="module")
def bounds() -> AttackBounds:
    """Returns the bounds of a Gaussian release with mu = 1.5."""
    return AttackBounds.from_accountant(
        accounting.AutoAccountant().compose(accounting.GaussianEvent(noise_multiplier=1 / 1.5))
    )


def test_bounds_are_closed_forms_rounded_up(bounds: AttackBounds) -> None:
    """Each bound for a Gaussian release lies between its closed form and 1% above it."""
    for alpha, share in {**bounds.found, **bounds.guessed}.items():
        exact = norm.sf(norm.isf(float(alpha)) - 1.5)
        assert exact <= share <= exact * 1.01
    advantage = 2 * norm.cdf(0.75) - 1
    assert advantage <= bounds.advantage <= advantage * 1.01
    assert 1.5 <= bounds.gdp_mu <= 1.51


def test_sentence_names_the_share_at_one_percent(bounds: AttackBounds) -> None:
    """The sentence for mu = 1.5 has "1% false alarms" and 20.5%, the share of members that an attack finds at most."""
    assert "1% false alarms" in bounds.sentence
    assert "20.5%" in bounds.sentence


def test_rows_say_that_no_mu_is_known() -> None:
    """For a release with a positive failure probability, the table's row for mu has the words "none is known"."""
    failing = accounting.ApproximateEvent(
        accounting.GaussianEvent(noise_multiplier=1.0), failure_prob=1e-7
    )
    rows = dict(AttackBounds.from_accountant(accounting.AutoAccountant().compose(failing)).rows)
    assert rows["mu of a Gaussian release that hides a member no better"] == "none is known"


def test_share_above_one_is_refused() -> None:
    """`AttackBounds` refuses a share of found members that is above 1."""
    with refused_parameter("attacks.0.01", value=1.5):
        AttackBounds(found={"0.01": 1.5}, advantage=0.5, gdp_mu=1.0)


def test_percentages_are_rounded_up() -> None:
    """`percent` rounds up: it prints 21.4% for 0.21301, and 1.1% for a probability just above 1%."""
    assert percent(probability=0.21301) == "21.4%"
    assert percent(probability=1.0) == "100%"
    assert percent(probability=0.0000125) == "0.00125%"
    assert percent(probability=math.nextafter(0.01, 1)) == "1.1%"
