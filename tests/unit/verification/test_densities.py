from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import laplace, norm

from pate.accounting import ExactAccountant, GaussianEvent, PureDpEvent
from pate.validation import InvalidValue
from pate.verification import Claim, verify_densities

LIMITS = {"low": -400.0, "high": 400.0}


def gaussians(std: float) -> tuple:
    return (lambda x: norm.logpdf(x, 0.0, std)), (lambda x: norm.logpdf(x, 1.0, std))


def test_a_gaussian_attains_its_renyi_curve() -> None:
    verdict = verify_densities(*gaussians(3.0), event=Claim.of(GaussianEvent(3.0), orders=(1.5, 4.0, 16.0)), **LIMITS)
    assert verdict.sound
    assert verdict.renyi.ratio == pytest.approx(1, rel=1e-9)


def test_a_gaussian_attains_what_the_exact_accountant_prints() -> None:
    event = Claim.of(GaussianEvent(1.0), accountant=ExactAccountant, orders=(), epsilons=(), deltas=(1e-3, 1e-6))
    verdict = verify_densities(*gaussians(1.0), num_panels=40_000, event=event, **LIMITS)
    assert verdict.ratio == pytest.approx(1, rel=1e-5)


def test_too_little_noise_is_refuted_in_either_order() -> None:
    for distributions in (gaussians(2.7), gaussians(2.7)[::-1]):
        assert verify_densities(*distributions, event=Claim.of(GaussianEvent(3.0), orders=(2.0,)), **LIMITS).refuted


def test_laplace_noise_by_panels_that_end_at_the_kinks() -> None:
    distributions = [lambda x, at=at: laplace.logpdf(x, at, 2.0) for at in (0.0, 1.0)]
    verdict = verify_densities(*distributions, event=PureDpEvent(0.5), low=-100.0, high=100.0)
    assert verdict.sound
    assert verdict.ratio > 0.5


def test_limits_that_cut_off_mass() -> None:
    with pytest.raises(InvalidValue, match=r"first integral=0\.6\d+: expected 1 within 1e-9"):
        verify_densities(*gaussians(1.0), event=GaussianEvent(1.0), low=-1.0, high=1.0)


def test_limits_in_the_wrong_order() -> None:
    with pytest.raises(InvalidValue, match="low=1: expected a number below high=0"):
        verify_densities(np.zeros_like, np.zeros_like, event=GaussianEvent(1.0), low=1, high=0)
