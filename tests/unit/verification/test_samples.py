from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, GaussianEvent
from pate.validation import InvalidValue
from pate.verification import Claim, PriceRefuted, verify_samples

SHAPE: dict[str, Any] = {"num_labels": 2, "num_teachers": 2, "adjacency": "replace_one"}


def noisy_best(histogram: np.ndarray, count: int, rng: np.random.Generator, *, scale: float = 1.0) -> np.ndarray:
    """The label with the largest count after Gumbel noise: bounded range 2 / scale."""
    return (histogram + rng.gumbel(0.0, scale, (count, 2))).argmax(axis=1)


def verdict_of(scale: float, seed: int, **options: Any) -> Any:
    return verify_samples(
        lambda histogram, count, rng: noisy_best(histogram, count, rng, scale=scale),
        event=BoundedRangeEvent(2.0),
        rng=np.random.default_rng(seed),
        num_samples=4000,
        **SHAPE,
        **options,
    )


def test_the_right_scale_is_not_refuted() -> None:
    for seed in range(5):
        verdict = verdict_of(1.0, seed)
        assert not verdict.refuted
        assert verdict.require() is verdict
    assert str(verdict).startswith("not refuted at confidence 0.99, 8 tests")


def test_half_the_scale_is_refuted() -> None:
    verdict = verdict_of(0.5, 0)
    assert verdict.refuted
    assert verdict.worst.exact > verdict.worst.claimed
    with pytest.raises(PriceRefuted, match=r"price refuted at confidence 0\.99: delta at epsilon .* \(\d, \d\) -> \("):
        verdict.require()


def test_a_claim_that_is_attained_is_rarely_refuted() -> None:
    """The exact delta at epsilon 0 as the claim, at confidence 1/2: the bounds are conservative."""
    top = 1 / (1 + np.exp(-1.0))  # (1, 0) against (0, 1), scale 1
    claim = Claim(deltas=((0.0, 2 * top - 1),))
    refuted = 0
    for seed in range(40):
        verdict = verify_samples(
            noisy_best, event=claim, rng=np.random.default_rng(seed), num_samples=400, confidence=0.5, **SHAPE
        )
        refuted += verdict.refuted
    assert refuted <= 20


def test_chance_among_many_outcomes_refutes_nothing() -> None:
    """Outcomes that seem likelier in the half that chose them are not in the half that tests them."""
    for seed in range(5):
        verdict = verify_samples(
            lambda histogram, count, rng: rng.integers(300, size=count),
            event=Claim(deltas=((0.0, 0.05),)),
            rng=np.random.default_rng(seed),
            num_samples=2000,
            **SHAPE,
        )
        assert not verdict.refuted


def test_a_claim_10_percent_too_small_is_refuted_with_enough_samples() -> None:
    top = 1 / (1 + np.exp(-1.0))
    claim = Claim(deltas=((0.0, 0.9 * (2 * top - 1)),))
    rng = np.random.default_rng(0)
    assert verify_samples(noisy_best, event=claim, rng=rng, num_samples=40_000, **SHAPE).refuted


def test_outcomes_of_several_numbers_and_of_objects() -> None:
    def pair(histogram: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(histogram[None], count, axis=0)

    def names(histogram: np.ndarray, count: int, rng: np.random.Generator) -> list[str]:
        return [str(histogram)] * count

    for sampler in (pair, names):
        assert verify_samples(
            sampler, event=GaussianEvent(1.0), rng=np.random.default_rng(0), num_samples=400, **SHAPE
        ).refuted


def test_too_few_outcomes() -> None:
    with pytest.raises(InvalidValue, match="sampler=3 outcomes: expected 100"):
        verify_samples(
            lambda h, n, rng: [0, 1, 0],
            event=GaussianEvent(1.0),
            rng=np.random.default_rng(0),
            num_samples=100,
            **SHAPE,
        )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rng": 7}, "rng=7: expected a numpy.random.Generator"),
        ({"confidence": 1.0}, r"confidence=1\.0"),
        ({"num_samples": 1}, "num_samples=1: expected a whole number >= 2"),
        ({"event": Claim(renyi=((2.0, 1.0),))}, r"deltas=\(\): expected at least one point"),
        ({"num_labels": 1, "one_vote": True}, "num_labels=1: expected an instance with neighbors"),
    ],
)
def test_impossible_arguments(options: dict[str, Any], match: str) -> None:
    defaults = {"event": GaussianEvent(1.0), "rng": np.random.default_rng(0)} | SHAPE
    with pytest.raises(InvalidValue, match=match):
        verify_samples(noisy_best, **(defaults | options))
