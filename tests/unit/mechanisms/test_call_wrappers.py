"""Wrappers of calls under target charging: the boundary wrapper, two runs of a call, and conditional release.

A session of target charging makes many calls and is charged for its hits, which are outcomes in a target set.
"""

from collections import Counter
from collections.abc import Callable
from itertools import product
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
from tests.refusals import ANY, refused_parameter
from tests.statistical.chi_square import chi_square_p_value

DRAWS = 20_000
VOTE_COUNTS = np.array([9, 6, 1])


def selection(noise: str = "gumbel", adjacency: Adjacency = Adjacency.REPLACE_ONE) -> GapSelection:
    """Returns a padded gap selection, which may choose any k from 0 to 3, of noise scale 4 for 9 teachers."""
    return GapSelection(
        noise_scale=4.0, noise=noise, num_labels=3, num_teachers=9, padded=True, adjacency=adjacency
    )


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "exponential"])
def test_the_boundary_takes_its_probability_from_every_outcome(noise: str) -> None:
    """The weight of the boundary outcome is the total probability of all outcomes but the likeliest, and at most 1/2.

    The weights of the other outcomes are their probabilities. The wrapper's probabilities, of one histogram and of a
    batch, are all weights divided by their sum.
    """
    wrapper = BoundaryWrapper(selection(noise=noise))
    probs_of_selection = wrapper.mechanism.probabilities(VOTE_COUNTS)
    boundary_weight = min(1 - probs_of_selection.max(), 0.5)
    expected = np.append(probs_of_selection, boundary_weight) / (1 + boundary_weight)
    np.testing.assert_allclose(wrapper.probabilities(VOTE_COUNTS), expected, rtol=1e-12)
    batch = wrapper.probabilities(np.stack([VOTE_COUNTS, [9, 9, 9], [0, 0, 0]]))
    assert batch.shape == (3, 5)
    np.testing.assert_allclose(batch[0], expected, rtol=1e-12)
    assert (batch[:, -1] <= 1 / 3 + 1e-12).all()


def test_a_tiny_boundary_probability_keeps_its_digits() -> None:
    """A boundary outcome of probability e^-78 has a probability that is accurate to 9 digits.

    A single histogram gives a single outcome, for the boundary wrapper and for running twice.
    """
    wrapper = BoundaryWrapper(GapSelection(noise_scale=10.0, num_labels=3, num_teachers=800))
    distribution = wrapper.probabilities(np.array([800, 10, 0]))
    boundary_prob = distribution[-1]
    assert 0 < boundary_prob == pytest.approx(np.exp(-(790 - 10) / 10.0), rel=1e-9)
    outcome = BoundaryWrapper(selection())(VOTE_COUNTS, rng=rng())
    assert outcome.indices.shape == outcome.in_target.shape == ()
    assert RunTwice(selection())(VOTE_COUNTS, rng=rng()).in_target.shape == ()


@pytest.mark.parametrize(
    ("adjacency", "sensitivity"), [(Adjacency.REPLACE_ONE, 2), (Adjacency.ADD_REMOVE, 1)]
)
def test_the_price_is_that_of_the_wrapped_call(adjacency: Adjacency, sensitivity: int) -> None:
    """The target and the event of both wrappers follow from the epsilon of a call, 2 `sensitivity` / scale.

    A target describes the hits, which a session charges. The boundary wrapper has one pure-DP event. With Laplace
    noise, whose distribution is a numerical integral, the event also has a small failure probability. The wrapper that
    runs a call twice has the call's event twice.
    """
    call_epsilon = 2 * sensitivity / 4.0
    for noise in ("gumbel", "laplace", "exponential"):
        wrapped = selection(noise=noise, adjacency=adjacency)
        assert BoundaryWrapper(wrapped).target == tight_boundary(call_epsilon)
        pure = PureDpEvent(tight_boundary(call_epsilon).epsilon)
        if noise == "laplace":
            failure_prob = BoundaryWrapper(wrapped).failure_prob
            assert 2.0**-40 < failure_prob < 1e-11
            assert BoundaryWrapper(wrapped).event == ApproximateEvent(pure, failure_prob)
        else:
            assert BoundaryWrapper(wrapped).event == pure
        assert boundary(call_epsilon).covers(BoundaryWrapper(wrapped).target)
        assert RunTwice(wrapped).target == run_twice(call_epsilon)
        assert RunTwice(wrapped).event == SelfComposedEvent(wrapped.event, count=2)


def test_two_runs_are_independent_and_compared_in_order() -> None:
    """The pairs of outcomes of a selection that is run twice follow the product of its distribution.

    An outcome is a hit if both runs differ. Two rankings also differ if only the order of their labels differs.
    """
    equal_queries = np.tile(VOTE_COUNTS, (DRAWS, 1))
    selected_k_of_two_runs = RunTwice(selection())(equal_queries, rng=np.random.default_rng(6))
    distribution = selection().probabilities(VOTE_COUNTS)
    num_draws_of_pair = Counter(
        zip(
            selected_k_of_two_runs.first.tolist(),
            selected_k_of_two_runs.second.tolist(),
            strict=True,
        )
    )
    prob_of_pair = {
        (first, second): float(distribution[first] * distribution[second])
        for first, second in product(range(4), repeat=2)
    }
    assert (
        chi_square_p_value(count_by_outcome=num_draws_of_pair, prob_by_outcome=prob_of_pair) > 1e-4
    )
    np.testing.assert_array_equal(
        selected_k_of_two_runs.in_target,
        selected_k_of_two_runs.first != selected_k_of_two_runs.second,
    )

    rankings_of_two_runs = RunTwice(OneShotTopK(k=2, epsilon=1.0))(
        equal_queries[:500], rng=np.random.default_rng(7)
    )
    rankings_differ = (
        rankings_of_two_runs.first.indices != rankings_of_two_runs.second.indices
    ).any(axis=1)
    np.testing.assert_array_equal(rankings_of_two_runs.in_target, rankings_differ)
    assert 0 < rankings_differ.sum() < 500


class TextMechanism:
    """A mechanism whose outcome is a text."""

    event = PureDpEvent(epsilon=0.1)

    def __call__(self, votes: Any, *, rng: np.random.Generator) -> str:
        return "text"


def test_mechanisms_without_pure_privacy_are_refused() -> None:
    """The boundary wrapper and `RunTwice` refuse mechanisms without a pure epsilon, which target charging needs.

    A mechanism whose outcomes cannot be compared, and an object that is no mechanism, are refused too.
    """
    stability = StabilityTest(pass_probs=(0.0, 0.0, 0.0, 0.5), failure_prob=1e-6)
    for wrapped, refusal in (
        (
            selection(noise="gaussian"),
            refused_parameter("mechanism.event", value="OpposedMaximaEvent"),
        ),
        (
            LimitedDomainTopK(k=1, domain_size=2, epsilon=1.0, failure_prob=1e-6),
            refused_parameter("mechanism.event", value="PureDpEvent"),
        ),
        (stability, refused_parameter("mechanism.event", value="OneBitEvent")),
        (
            GapSelection(noise_scale=1.0, num_labels=2, num_teachers=9),
            refused_parameter("mechanism.event", value="NoOpEvent"),
        ),
    ):
        for make_wrapper in (BoundaryWrapper, RunTwice):
            with refusal:
                make_wrapper(wrapped)
    with refused_parameter("mechanism", value="str"):
        RunTwice(mechanism=TextMechanism())(VOTE_COUNTS, rng=rng())
    with refused_parameter("mechanism", value="tuple"):
        BoundaryWrapper(mechanism=())


EPSILON = 0.1  # of each call


def conditional_release(
    target_hits: int = 2, failure_prob_of_session: float = 0.0
) -> ConditionalRelease:
    """Returns a conditional release in a session for calls of epsilon `EPSILON`.

    The stored outcome of a call may be revised, that is, tested again for publication.
    """
    session = TargetCharging.of_targets(
        [revise(EPSILON)],
        target_hits=target_hits,
        target_delta=1e-6,
        failure_prob=failure_prob_of_session,
    )
    return ConditionalRelease(session)


def draw_always(outcome: int) -> Callable[[np.random.Generator], int]:
    """Returns a function that draws `outcome`, whatever the random generator."""

    def draw(_rng: np.random.Generator) -> int:
        return outcome

    return draw


def accept_above(threshold: int) -> Callable[[int], bool]:
    """Returns a function that accepts outcomes above a threshold."""

    def accept(outcome: int) -> bool:
        return outcome > threshold

    return accept


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
    """A stored outcome is charged as a hit once, when a revision publishes it.

    The outcome 5 is revised with falling thresholds, and the first threshold below 5 publishes it. A further revision
    of the published outcome, or of an unknown key, is refused without a charge.
    """
    releases = conditional_release()
    first = releases.release(
        draw=draw_always(outcome=5), accept=accept_above(threshold=9), epsilon=EPSILON, rng=rng()
    )
    assert (first.published, first.outcome) == (False, None)
    answers = [
        releases.revise(first.key, accept=accept_above(threshold=threshold))
        for threshold in (8, 6, 4)
    ]
    assert [answer.published for answer in answers] == [False, False, True]
    assert answers[-1].outcome == 5
    assert (releases.session.hits, releases.session.num_calls) == ([1], 4)
    for key in (first.key, 7):
        with refused_parameter("key", value=key):
            releases.revise(key, accept=accept_all)
    assert releases.session.num_calls == 4


def test_the_outcome_is_drawn_once_from_the_generator_given() -> None:
    """`release` draws the outcome once from its generator, and `revise` publishes it without a second draw."""
    releases = conditional_release()
    drawn_outcomes = []

    def draw(generator: np.random.Generator) -> int:
        drawn_outcomes.append(int(generator.integers(1000)))
        return drawn_outcomes[-1]

    first = releases.release(
        draw=draw, accept=reject_all, epsilon=EPSILON, rng=np.random.default_rng(3)
    )
    answer = releases.revise(first.key, accept=accept_all)
    expected_outcome = int(np.random.default_rng(3).integers(1000))
    assert drawn_outcomes == [answer.outcome] == [expected_outcome]


def test_after_the_last_hit_nothing_is_drawn_or_looked_at() -> None:
    """Once the session's only hit is used up, `release` and `revise` are refused, and call neither callback."""
    releases = conditional_release(target_hits=1)
    arguments_of_calls = []
    waiting = releases.release(
        draw=draw_always(outcome=1), accept=reject_all, epsilon=EPSILON, rng=rng()
    )
    releases.release(draw=draw_always(outcome=2), accept=accept_all, epsilon=EPSILON, rng=rng())

    def record_call(argument: Any) -> bool:
        arguments_of_calls.append(argument)
        return True

    with refused_parameter("hits", value=1, rule_words="fewer than target_hits=1"):
        releases.release(draw=record_call, accept=record_call, epsilon=EPSILON, rng=rng())
    with refused_parameter("hits", value=1, rule_words="fewer than target_hits=1"):
        releases.revise(waiting.key, accept=record_call)
    assert arguments_of_calls == []


def test_a_session_that_covers_no_second_question_refuses_it() -> None:
    """If the session's target allows only one test of each outcome for publication, `revise` is refused.

    The refused revisions do not count as calls of the session.
    """
    session = TargetCharging.of_targets([not_prior(EPSILON)], target_hits=2, target_delta=1e-6)
    releases = ConditionalRelease(session)
    first = releases.release(
        draw=draw_always(outcome=1), accept=reject_all, epsilon=EPSILON, rng=rng()
    )
    for _ in range(2):
        with refused_parameter("target", value=ANY, rule_words="no larger epsilon"):
            releases.revise(first.key, accept=accept_all)
    assert session.num_calls == 1


def test_a_delta_is_charged_with_the_first_question_alone() -> None:
    """The failure probability of a call is charged when its outcome is drawn, and `revise` charges none.

    A second draw that would exceed the session's failure probability is refused.
    """
    releases = conditional_release(target_hits=2, failure_prob_of_session=2e-7)
    first = releases.release(
        draw=draw_always(outcome=1),
        accept=reject_all,
        epsilon=EPSILON,
        failure_prob=1.5e-7,
        rng=rng(),
    )
    releases.revise(first.key, accept=reject_all)
    assert releases.session.state["spent_failure_prob"] == 1.5e-7
    with refused_parameter("failure_prob", value=3e-07, rule_words="at most 2e-07"):
        releases.release(
            draw=draw_always(outcome=1),
            accept=reject_all,
            epsilon=EPSILON,
            failure_prob=1.5e-7,
            rng=rng(),
        )


def test_an_error_in_a_question_is_charged_as_a_hit() -> None:
    """An exception in `accept` or `draw`, which may depend on the private outcome, counts as a hit.

    The stored outcome cannot be revised again.
    """
    releases = conditional_release()
    waiting = releases.release(
        draw=draw_always(outcome=0), accept=reject_all, epsilon=EPSILON, rng=rng()
    )

    def divide_by_zero(_generator_or_outcome: Any) -> Any:
        return 1 // 0

    with pytest.raises(ZeroDivisionError):
        releases.revise(waiting.key, accept=divide_by_zero)
    with pytest.raises(ZeroDivisionError):
        releases.release(draw=divide_by_zero, accept=accept_all, epsilon=EPSILON, rng=rng())
    assert releases.session.hits == [2]
    with refused_parameter("key", value=0):
        releases.revise(waiting.key, accept=accept_all)
