"""The boundary wrapper and running twice: distributions, draws, prices and messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import boundary, run_twice, tight_boundary
from pate.mechanisms import (
    BoundaryWrapper,
    GapSelection,
    LimitedDomainTopK,
    OneShotTopK,
    RunTwice,
    StabilityTest,
)
from pate.mechanisms.call_wrappers import pure_epsilon
from pate.validation import InvalidValue
from tests.statistical.chi_square import p_value

DRAWS = 20_000
VOTES = np.array([9, 6, 1])


def selection(noise: str = "gumbel", scale: float = 4.0, **options: Any) -> GapSelection:
    return GapSelection(noise_scale=scale, noise=noise, num_labels=3, num_teachers=9, padded=True, **options)


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "exponential"])
def test_the_distribution_by_hand_and_in_batches(noise: str) -> None:
    wrapper = BoundaryWrapper(selection(noise))
    plain = wrapper.mechanism.probabilities(VOTES)
    rest = min(1 - plain.max(), 0.5)
    expected = np.append(plain / (1 + rest), rest / (1 + rest))
    np.testing.assert_allclose(wrapper.probabilities(VOTES), expected, rtol=1e-12)
    batch = wrapper.probabilities(np.stack([VOTES, [9, 9, 9], [0, 0, 0]]))
    assert batch.shape == (3, 5)
    np.testing.assert_allclose(batch[0], expected, rtol=1e-12)
    assert (batch[:, -1] <= 1 / 3 + 1e-12).all()


def test_a_near_certain_outcome_keeps_the_digits_of_the_boundary() -> None:
    votes = np.array([800, 10, 0])
    wrapper = BoundaryWrapper(GapSelection(noise_scale=10.0, num_labels=3, num_teachers=800))
    distribution = wrapper.probabilities(votes)
    assert 0 < distribution[-1] == pytest.approx(np.exp(-(790 - 10) / 10.0), rel=1e-9)


def test_draws_follow_the_distribution() -> None:
    wrapper = BoundaryWrapper(selection())
    distribution = wrapper.probabilities(VOTES)
    names = [0, 1, 2, 3, -1]
    drawn = Counter(wrapper(np.tile(VOTES, (DRAWS, 1)), rng=np.random.default_rng(4)).indices.tolist())
    assert p_value(drawn, dict(zip(names, distribution.tolist(), strict=True))) > 1e-4
    wrong = BoundaryWrapper(selection(scale=4.6)).probabilities(VOTES)
    assert p_value(drawn, dict(zip(names, wrong.tolist(), strict=True))) < 1e-4


def test_one_histogram_gives_one_outcome() -> None:
    outcome = BoundaryWrapper(selection())(VOTES, rng=np.random.default_rng(0))
    assert outcome.indices.shape == outcome.in_target.shape == ()
    twice = RunTwice(selection())(VOTES, rng=np.random.default_rng(0))
    assert twice.in_target.shape == ()


@pytest.mark.parametrize(("adjacency", "sensitivity"), [(Adjacency.REPLACE_ONE, 2), (Adjacency.ADD_REMOVE, 1)])
def test_the_price_is_that_of_the_wrapped_call(adjacency: Adjacency, sensitivity: int) -> None:
    epsilon = 2 * sensitivity / 4.0
    for noise in ("gumbel", "laplace", "exponential"):
        wrapped = selection(noise, adjacency=adjacency)
        assert BoundaryWrapper(wrapped).target == tight_boundary(epsilon)
        pure = PureDpEvent(tight_boundary(epsilon).epsilon)
        if noise == "laplace":  # its distribution is an integral, known to some digits
            failure_prob = BoundaryWrapper(wrapped).failure_prob
            assert 2.0**-40 < failure_prob < 1e-11
            assert BoundaryWrapper(wrapped).event == ApproximateEvent(pure, failure_prob)
        else:
            assert BoundaryWrapper(wrapped).event == pure
        assert boundary(epsilon).covers(BoundaryWrapper(wrapped).target)
        assert RunTwice(wrapped).target == run_twice(epsilon)
        assert RunTwice(wrapped).event == SelfComposedEvent(wrapped.event, 2)


def test_prices_of_several_parts_add_up() -> None:
    assert pure_epsilon(OneShotTopK(k=3, epsilon=0.6).event) == pytest.approx(0.6)
    assert RunTwice(OneShotTopK(k=3, epsilon=0.6)).target.epsilon == pytest.approx(1.2)


def test_two_runs_are_independent_and_compared_in_order() -> None:
    twice = RunTwice(selection())(np.tile(VOTES, (DRAWS, 1)), rng=np.random.default_rng(6))
    distribution = selection().probabilities(VOTES)
    pairs = Counter(zip(twice.first.tolist(), twice.second.tolist(), strict=True))
    joint = {(i, j): float(distribution[i] * distribution[j]) for i in range(4) for j in range(4)}
    assert p_value(pairs, joint) > 1e-4
    np.testing.assert_array_equal(twice.in_target, twice.first != twice.second)
    ranked = RunTwice(OneShotTopK(k=2, epsilon=1.0))(np.tile(VOTES, (500, 1)), rng=np.random.default_rng(7))
    expected = [a != b for a, b in zip(ranked.first.indices.tolist(), ranked.second.indices.tolist(), strict=True)]
    assert ranked.in_target.tolist() == expected
    assert 0 < sum(expected) < 500


class Oddity:
    """A mechanism whose outcome cannot be compared."""

    event = PureDpEvent(0.1)

    def __call__(self, votes: Any, /, *, rng: np.random.Generator) -> str:
        return "y"


def test_mechanisms_without_pure_privacy_are_refused() -> None:
    stability = StabilityTest(pass_probs=(0.0, 0.0, 0.0, 0.5), failure_prob=1e-6)
    for wrapped, name in (
        (selection("gaussian"), "OpposedMaximaEvent"),
        (LimitedDomainTopK(k=1, domain_size=2, epsilon=1.0, failure_prob=1e-6), "PureDpEvent"),
        (stability, "OneBitEvent"),
        (GapSelection(noise_scale=1.0, num_labels=2, num_teachers=9), "NoOpEvent"),
    ):
        for make in (BoundaryWrapper, RunTwice):
            with pytest.raises(InvalidValue, match=f"mechanism.event={name}: expected a mechanism of pure DP"):
                make(wrapped)
    with pytest.raises(InvalidValue, match=r"mechanism=str: expected one whose outcome is an array \[Q\] or a TopK"):
        RunTwice(Oddity())(VOTES, rng=np.random.default_rng(0))


def test_a_seed_is_no_generator() -> None:
    for make in (BoundaryWrapper, RunTwice):
        with pytest.raises(InvalidValue, match="rng=0: expected a numpy"):
            make(selection())(VOTES, rng=0)


def test_a_wrapper_of_no_mechanism_is_refused() -> None:
    with pytest.raises(InvalidValue, match="mechanism=tuple: expected a mechanism with a probability oracle"):
        BoundaryWrapper(mechanism=())  # type: ignore[arg-type]
