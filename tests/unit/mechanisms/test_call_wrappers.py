"""The boundary wrapper, running twice and conditional release: distributions, draws, prices and messages."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent, SelfComposedEvent
from pate.accounting.target_charging import (
    TargetCharging,
    boundary,
    not_prior,
    revise,
    run_twice,
    tight_boundary,
)
from pate.mechanisms import (
    BoundaryWrapper,
    ConditionalRelease,
    GapSelection,
    LimitedDomainTopK,
    OneShotTopK,
    RunTwice,
    StabilityTest,
)
from tests.refusals import ANY, refused
from tests.statistical.chi_square import p_value

DRAWS = 20_000
VOTES = np.array([9, 6, 1])


def selection(noise: str = "gumbel", adjacency: Adjacency = Adjacency.REPLACE_ONE) -> GapSelection:
    """Returns a padded gap selection of noise scale 4 for 3 labels and 9 teachers."""
    return GapSelection(
        noise_scale=4.0, noise=noise, num_labels=3, num_teachers=9, padded=True, adjacency=adjacency
    )


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "exponential"])
def test_the_boundary_takes_its_probability_from_every_outcome(noise: str) -> None:
    """The boundary wrapper adds one outcome to a selection, whose weight is that of all outcomes
    but the likeliest, at most 1/2.

    The probabilities of one histogram and of a batch are all weights divided by their sum.
    """
    wrapper = BoundaryWrapper(selection(noise=noise))
    plain = wrapper.mechanism.probabilities(VOTES)
    rest = min(1 - plain.max(), 0.5)
    expected = np.append(plain / (1 + rest), rest / (1 + rest))
    np.testing.assert_allclose(wrapper.probabilities(VOTES), expected, rtol=1e-12)
    batch = wrapper.probabilities(np.stack([VOTES, [9, 9, 9], [0, 0, 0]]))
    assert batch.shape == (3, 5)
    np.testing.assert_allclose(batch[0], expected, rtol=1e-12)
    assert (batch[:, -1] <= 1 / 3 + 1e-12).all()


def test_a_tiny_boundary_probability_keeps_its_digits() -> None:
    """The boundary outcome has probability e^-78, which is accurate to 9 digits.

    A single histogram gives a single outcome, for the boundary wrapper and for running twice.
    """
    wrapper = BoundaryWrapper(GapSelection(noise_scale=10.0, num_labels=3, num_teachers=800))
    distribution = wrapper.probabilities(np.array([800, 10, 0]))
    assert 0 < distribution[-1] == pytest.approx(np.exp(-(790 - 10) / 10.0), rel=1e-9)
    outcome = BoundaryWrapper(selection())(VOTES, rng=rng())
    assert (
        outcome.indices.shape
        == outcome.in_target.shape
        == RunTwice(selection())(VOTES, rng=rng()).in_target.shape
    )
    assert outcome.in_target.shape == ()


@pytest.mark.parametrize(
    ("adjacency", "sensitivity"), [(Adjacency.REPLACE_ONE, 2), (Adjacency.ADD_REMOVE, 1)]
)
def test_the_price_is_that_of_the_wrapped_call(adjacency: Adjacency, sensitivity: int) -> None:
    """A boundary wrapper and a pair of runs have the target and event of a call of epsilon 2 *
    `sensitivity` / noise scale.

    With Laplace noise, whose distribution is a numerical integral, the event also has a small
    failure probability.
    """
    epsilon = 2 * sensitivity / 4.0
    for noise in ("gumbel", "laplace", "exponential"):
        wrapped = selection(noise=noise, adjacency=adjacency)
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
        assert RunTwice(wrapped).event == SelfComposedEvent(wrapped.event, count=2)


def test_two_runs_are_independent_and_compared_in_order() -> None:
    """A selection is run twice: the pairs of outcomes follow the product of their distribution.

    An outcome is a hit if both runs differ; two rankings also differ if only the order of their
    labels differs.
    """
    twice = RunTwice(selection())(np.tile(VOTES, (DRAWS, 1)), rng=np.random.default_rng(6))
    distribution = selection().probabilities(VOTES)
    pairs = Counter(zip(twice.first.tolist(), twice.second.tolist(), strict=True))
    joint = {(i, j): float(distribution[i] * distribution[j]) for i in range(4) for j in range(4)}
    assert p_value(outcome_counts=pairs, distribution=joint) > 1e-4
    np.testing.assert_array_equal(twice.in_target, twice.first != twice.second)
    ranked = RunTwice(OneShotTopK(k=2, epsilon=1.0))(
        np.tile(VOTES, (500, 1)), rng=np.random.default_rng(7)
    )
    expected = [
        a != b
        for a, b in zip(ranked.first.indices.tolist(), ranked.second.indices.tolist(), strict=True)
    ]
    assert ranked.in_target.tolist() == expected
    assert 0 < sum(expected) < 500


def test_mechanisms_without_pure_privacy_are_refused() -> None:
    """Target charging needs a pure epsilon of each call: both wrappers refuse mechanisms with other
    events.

    A mechanism whose outcomes cannot be compared, or an object that is no mechanism, is refused
    too.
    """
    stability = StabilityTest(pass_probs=(0.0, 0.0, 0.0, 0.5), failure_prob=1e-6)
    for wrapped, refusal in (
        (selection(noise="gaussian"), refused("mechanism.event", value="OpposedMaximaEvent")),
        (
            LimitedDomainTopK(k=1, domain_size=2, epsilon=1.0, failure_prob=1e-6),
            refused("mechanism.event", value="PureDpEvent"),
        ),
        (stability, refused("mechanism.event", value="OneBitEvent")),
        (
            GapSelection(noise_scale=1.0, num_labels=2, num_teachers=9),
            refused("mechanism.event", value="NoOpEvent"),
        ),
    ):
        for make in (BoundaryWrapper, RunTwice):
            with refusal:
                make(wrapped)
    text_mechanism = type(
        "Odd", (), {"event": PureDpEvent(epsilon=0.1), "__call__": lambda self, votes, *, rng: "y"}
    )()
    with refused("mechanism", value="str"):
        RunTwice(mechanism=text_mechanism)(VOTES, rng=rng())
    with refused("mechanism", value="tuple"):
        BoundaryWrapper(mechanism=())


EPSILON = 0.1


def stored(target_hits: int = 2, failure_prob: float = 0.0) -> ConditionalRelease:
    """Returns a conditional release in a session for revised calls of epsilon `EPSILON`."""
    session = TargetCharging.of_targets(
        [revise(EPSILON)], target_hits, target_delta=1e-6, failure_prob=failure_prob
    )
    return ConditionalRelease(session)


def always(value: Any) -> Any:
    """Returns a function that draws `value`, whatever the random generator."""
    return lambda rng: value


def accept_all(outcome: Any) -> bool:
    """Accepts every outcome for publication."""
    return True


def reject_all(outcome: Any) -> bool:
    """Rejects every outcome, which stays stored."""
    return False


def rng() -> np.random.Generator:
    """Returns a random generator with the seed 0."""
    return np.random.default_rng(0)


def test_an_outcome_is_published_once_and_only_then_charged_as_a_hit() -> None:
    """A stored outcome 5 is revised with falling thresholds until the outcome exceeds the
    threshold: only this call is a hit.

    A further revision of the published outcome, or of an unknown key, is refused without a charge.
    """
    released = stored()
    first = released.release(
        draw=always(value=5), accept=lambda y: y > 9, epsilon=EPSILON, rng=rng()
    )
    assert (first.published, first.outcome) == (False, None)
    again = [released.revise(first.key, accept=lambda y, low=low: y > low) for low in (8, 6, 4)]
    assert [answer.published for answer in again] == [False, False, True]
    assert again[-1].outcome == 5
    assert (released.session.hits, released.session.num_calls) == ([1], 4)
    for key in (first.key, 7):
        with refused("key", value=key):
            released.revise(key, accept=accept_all)
    assert released.session.num_calls == 4


def test_the_outcome_is_drawn_once_from_the_generator_given() -> None:
    """`release` draws the outcome once from its generator; `revise` publishes the same outcome
    without a second draw.
    """
    released = stored()
    drawn = []

    def draw(generator: np.random.Generator) -> int:
        drawn.append(int(generator.integers(1000)))
        return drawn[-1]

    first = released.release(
        draw=draw, accept=reject_all, epsilon=EPSILON, rng=np.random.default_rng(3)
    )
    again = released.revise(first.key, accept=accept_all)
    assert drawn == [again.outcome] == [int(np.random.default_rng(3).integers(1000))]


def test_after_the_last_hit_nothing_is_drawn_or_looked_at() -> None:
    """The session's only hit is used up: `release` and `revise` are refused before `draw` or
    `accept` is called.
    """
    released = stored(target_hits=1)
    asked = []
    waiting = released.release(draw=always(value=1), accept=reject_all, epsilon=EPSILON, rng=rng())
    released.release(draw=always(value=2), accept=accept_all, epsilon=EPSILON, rng=rng())

    def never(argument: Any) -> bool:
        asked.append(argument)
        return True

    for ask in (
        lambda: released.release(draw=never, accept=never, epsilon=EPSILON, rng=rng()),
        lambda: released.revise(waiting.key, accept=never),
    ):
        with refused("hits", value=1, rule="fewer than target_hits=1"):
            ask()
    assert asked == []


def test_a_session_that_covers_no_second_question_refuses_it() -> None:
    """The session's target allows one question for each outcome: `revise` is refused and not
    counted as a call.
    """
    session = TargetCharging.of_targets([not_prior(EPSILON)], target_hits=2, target_delta=1e-6)
    released = ConditionalRelease(session)
    first = released.release(draw=always(value=1), accept=reject_all, epsilon=EPSILON, rng=rng())
    for _ in range(2):
        with refused("target", value=ANY, rule="no larger epsilon"):
            released.revise(first.key, accept=accept_all)
    assert session.num_calls == 1


def test_a_delta_is_charged_with_the_first_question_alone() -> None:
    """The failure probability of a call is charged when its outcome is drawn, and not again by
    `revise`.

    A second draw that would exceed the session's failure probability is refused.
    """
    released = stored(target_hits=2, failure_prob=2e-7)
    first = released.release(
        draw=always(value=1), accept=reject_all, epsilon=EPSILON, failure_prob=1.5e-7, rng=rng()
    )
    released.revise(first.key, accept=reject_all)
    assert released.session.state["spent_failure_prob"] == 1.5e-7
    with refused("failure_prob", value=3e-07, rule="at most 2e-07"):
        released.release(
            draw=always(value=1), accept=reject_all, epsilon=EPSILON, failure_prob=1.5e-7, rng=rng()
        )


def test_an_error_in_a_question_is_charged_as_a_hit() -> None:
    """An exception in `accept` or `draw`, which may depend on the private outcome, counts as a hit.

    The stored outcome cannot be revised again.
    """
    released = stored()
    waiting = released.release(draw=always(value=0), accept=reject_all, epsilon=EPSILON, rng=rng())

    def fail(generator: np.random.Generator) -> int:
        return 1 // 0

    with pytest.raises(ZeroDivisionError):
        released.revise(waiting.key, accept=lambda y: 1 / y > 0)
    with pytest.raises(ZeroDivisionError):
        released.release(draw=fail, accept=accept_all, epsilon=EPSILON, rng=rng())
    assert released.session.hits == [2]
    with refused("key", value=0):
        released.revise(waiting.key, accept=accept_all)
