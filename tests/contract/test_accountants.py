"""Tests that every accountant passes. A new accountant joins `ACCOUNTANTS`, or `test_list_is_complete` fails."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pate import accounting
from pate.accounting.event_tree import leaves
from pate.accounting.events import LeafEvent
from pate.accounting.trade_off import gaussian_trade_off
from pate.validation import InvalidValue
from tests.refusals import refused_parameter

ACCOUNTANTS = (
    accounting.RdpAccountant,
    accounting.ExactAccountant,
    accounting.PldAccountant,
    accounting.PureDpAccountant,
    accounting.JointLawAccountant,
    accounting.AutoAccountant,
)
BIT = accounting.OneBitEvent(logits=(-6.0, -4.0, -1.0, 0.0, 2.0, 5.0), reach=1)
SELECT_THEN_TEST = accounting.SelectThenTestEvent(
    events=(
        accounting.BoundedRangeEvent(epsilon=0.4),
        accounting.ApproximateEvent(BIT, failure_prob=1e-7),
    ),
    num_candidates=6,
)
SAMPLED_OF_ADD_REMOVE = accounting.SampledGaussianEvent(
    noise_multiplier=20.0, sampling_prob=0.3, adjacency=accounting.Adjacency.ADD_REMOVE
)
EVENTS: tuple[accounting.Event, ...] = (
    accounting.GaussianEvent(noise_multiplier=5.0),
    accounting.ScoresEvent(noise_multiplier=5.0),
    accounting.BoundedRangeEvent(epsilon=0.4),
    accounting.PureDpEvent(epsilon=0.3),
    BIT,
    accounting.ApproximateEvent(BIT, failure_prob=1e-7),
    accounting.SelfComposedEvent(
        accounting.ComposedEvent(
            (
                accounting.BoundedRangeEvent(epsilon=0.1),
                accounting.ApproximateEvent(
                    accounting.GaussianEvent(noise_multiplier=20.0), failure_prob=1e-8
                ),
            )
        ),
        count=3,
    ),
    accounting.NoisyMaxGaussianEvent(noise_multiplier=20.0, num_candidates=3),
    accounting.OpposedMaximaEvent(noise_multiplier=20.0, num_candidates=2),
    accounting.WinnerEvent(noise_multiplier=20.0, num_moving=1),
    accounting.WinnerEvent(noise_multiplier=8.0, num_moving=2),
    accounting.ZCdpEvent(rho=0.01),
    accounting.SessionEvent(
        epsilon=0.3,
        hit_prob=0.4,
        target_hits=2,
        num_calls=9,
        accesses=accounting.SelfComposedEvent(accounting.PureDpEvent(epsilon=0.3), count=9),
    ),
    accounting.BoundarySessionEvent(
        epsilon=0.3,
        hit_prob=0.27,
        target_hits=2,
        num_calls=9,
        accesses=accounting.SelfComposedEvent(accounting.PureDpEvent(epsilon=0.3), count=9),
        call_epsilon=0.2,
        bounded_range=False,
    ),
    SELECT_THEN_TEST,
    accounting.SmoothSensitivityEvent(noise_multiplier=20.0, beta=1e-3),
    accounting.SampledGaussianEvent(noise_multiplier=20.0, sampling_prob=0.3),
    SAMPLED_OF_ADD_REMOVE,
    accounting.TuningEvent(
        base=accounting.GaussianEvent(noise_multiplier=20.0),
        score=accounting.GaussianEvent(noise_multiplier=20.0),
        distribution=accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.1),
    ),
    accounting.TuningEvent(
        base=accounting.BoundedRangeEvent(epsilon=0.4),
        score=accounting.NoOpEvent(),
        distribution=accounting.Poisson(mean=3.0),
    ),
)
# Kinds of events that an accountant has no price for, and refuses.
REFUSED_EVENTS: dict[type[accounting.Accountant], tuple[type[LeafEvent], ...]] = {
    accounting.ExactAccountant: (accounting.ZCdpEvent, accounting.SmoothSensitivityEvent),
    accounting.PureDpAccountant: (
        accounting.GaussianEvent,
        accounting.ScoresEvent,
        accounting.NoisyMaxGaussianEvent,
        accounting.OpposedMaximaEvent,
        accounting.WinnerEvent,
        accounting.ZCdpEvent,
        accounting.SmoothSensitivityEvent,
        accounting.SampledGaussianEvent,
        accounting.TuningEvent,
    ),
}
DELTA = 1e-5

every_accountant = pytest.mark.parametrize(
    "accountant", ACCOUNTANTS, ids=[kind.name for kind in ACCOUNTANTS]
)
AccountantKind = type[accounting.Accountant]


def refuses(accountant: AccountantKind, event: accounting.Event) -> bool:
    """Returns whether an accountant has no price for some part of an event."""
    return any(isinstance(leaf, REFUSED_EVENTS.get(accountant, ())) for leaf, _ in leaves(event))


PRICED = [
    (accountant, event)
    for accountant in ACCOUNTANTS
    for event in EVENTS
    if not refuses(accountant, event)
]
# Events and accountants whose price takes a tenth of a second or more.
SLOW_EVENTS = (
    accounting.WinnerEvent(noise_multiplier=8.0, num_moving=2),
    SELECT_THEN_TEST,
    SAMPLED_OF_ADD_REMOVE,
)
SLOW_ACCOUNTANTS = (
    accounting.ExactAccountant,
    accounting.JointLawAccountant,
    accounting.AutoAccountant,
)


def price_parameters(accountant: AccountantKind, event: accounting.Event) -> Any:
    """Returns an accountant and an event as parameters of a test, marked as slow where the price takes long."""
    is_slow = accountant in SLOW_ACCOUNTANTS and event in SLOW_EVENTS
    return pytest.param(
        accountant,
        event,
        id=f"{accountant.name}-{type(event).__name__}",
        marks=[pytest.mark.slow] if is_slow else [],
    )


every_price = pytest.mark.parametrize(
    ("accountant", "event"),
    [price_parameters(accountant, event=event) for accountant, event in PRICED],
)


@dataclass(frozen=True)
class UnknownEvent(LeafEvent):
    """An event that no accountant knows."""


def account_of(
    accountant: AccountantKind, events: Sequence[accounting.Event]
) -> accounting.Accountant:
    """Returns an accountant of a kind that has composed the events."""
    account = accountant()
    for event in events:
        account.compose(event)
    return account


def test_list_is_complete() -> None:
    """Every accountant that the package exports is tested here."""
    kinds = {value for value in vars(accounting).values() if isinstance(value, type)}
    exported = {
        kind
        for kind in kinds
        if issubclass(kind, accounting.Accountant) and not inspect.isabstract(kind)
    }
    assert set(ACCOUNTANTS) == exported
    assert len({accountant.name for accountant in ACCOUNTANTS}) == len(ACCOUNTANTS)


@every_accountant
def test_nothing_costs_nothing(accountant: AccountantKind) -> None:
    """An accountant without events, or with events that do nothing, has epsilon 0.

    Such events are a no-op, an empty composition and zero repetitions. `compose` returns the accountant itself.
    """
    for events in (
        (),
        (accounting.NoOpEvent(),),
        (accounting.ComposedEvent(()),),
        (accounting.SelfComposedEvent(accounting.PureDpEvent(epsilon=1.0), count=0),),
    ):
        account = account_of(accountant, events=events)
        assert account.get_epsilon(target_delta=DELTA) == account.failure_prob == 0
        assert account.get_delta(target_epsilon=1.0) <= 1e-9
    assert account.compose(accounting.PureDpEvent(epsilon=1.0)) is account
    assert account.compose(accounting.PureDpEvent(epsilon=1.0), count=0) is account


@every_price
@pytest.mark.slow
def test_trade_off_curve_agrees_with_its_price(
    accountant: AccountantKind, event: accounting.Event
) -> None:
    """A trade-off curve lies above the lines of three epsilons and their deltas, and above the curve of `gdp_mu`.

    The largest distance of the curve from a blind guess is at most the advantage.
    """
    account = account_of(accountant, events=[event])
    alphas = (1e-3, 0.05, 0.3, 0.7)
    betas_of_alphas = [account.trade_off(alpha) for alpha in alphas]
    mu = account.gdp_mu()
    for alpha, beta in zip(alphas, betas_of_alphas, strict=True):
        assert 0 <= beta <= 1 - alpha
        assert beta >= gaussian_trade_off(mu=mu, alpha=alpha) - 1e-6
        for epsilon in (0.0, 0.2, 1.0):
            line = 1 - account.get_delta(target_epsilon=epsilon) - math.exp(epsilon) * alpha
            # An accountant of joint laws computes its curve at few points.
            assert beta >= line - (0.02 if account.resolution(target_delta=0.01) else 1e-6)
    assert betas_of_alphas == sorted(betas_of_alphas, reverse=True)
    distances_from_guess = [
        1 - alpha - beta for alpha, beta in zip(alphas, betas_of_alphas, strict=True)
    ]
    assert max(distances_from_guess) <= account.advantage() + 1e-9
    assert (mu == math.inf) or account.failure_prob == 0


@every_accountant
def test_no_noise_costs_infinity(accountant: AccountantKind) -> None:
    """An event without noise, composed with a private one, has infinite epsilon and delta 1."""
    for event in (
        accounting.GaussianEvent(noise_multiplier=0.0),
        accounting.PureDpEvent(epsilon=math.inf),
        accounting.BoundedRangeEvent(epsilon=math.inf),
        accounting.NonPrivateEvent(),
    ):
        if not refuses(accountant, event):
            account = account_of(accountant, events=[accounting.PureDpEvent(epsilon=0.3), event])
            assert account.get_epsilon(target_delta=DELTA) == math.inf
            assert account.get_delta(target_epsilon=10.0) == 1


@every_price
def test_a_price_is_positive_finite_and_adds_up(
    accountant: AccountantKind, event: accounting.Event
) -> None:
    """The epsilon of an event is positive and finite, and that of the same event twice is larger.

    The delta of the event twice is not smaller, and the failure probability is doubled.
    """
    once = account_of(accountant, events=[event])
    twice = account_of(accountant, events=[event] * 2)
    epsilon_of_two = twice.get_epsilon(target_delta=DELTA)
    assert 0 < once.get_epsilon(target_delta=DELTA) < epsilon_of_two < math.inf
    assert 0 < once.get_delta(target_epsilon=0.2) <= twice.get_delta(target_epsilon=0.2) <= 1
    assert twice.failure_prob == pytest.approx(2 * once.failure_prob, rel=1e-12)


@every_price
def test_ways_to_compose_the_same_agree(
    accountant: AccountantKind, event: accounting.Event
) -> None:
    """An event three times has one price, whether composed one by one, by a count, or as a composed event."""
    one_by_one = account_of(accountant, events=[event] * 3)
    expected_epsilon = one_by_one.get_epsilon(target_delta=DELTA)
    for account in (
        accountant().compose(event, count=3),
        accountant().compose(event).compose(event, count=2),
        accountant().compose(accounting.SelfComposedEvent(event, count=3)),
        accountant().compose(
            accounting.ComposedEvent(
                (event, accounting.SelfComposedEvent(event, count=2), accounting.NoOpEvent())
            )
        ),
    ):
        assert account.get_epsilon(target_delta=DELTA) == pytest.approx(expected_epsilon, rel=1e-9)
        assert account.failure_prob == pytest.approx(one_by_one.failure_prob, rel=1e-12)


@every_price
def test_epsilon_falls_as_delta_grows_and_the_other_way_round(
    accountant: AccountantKind, event: accounting.Event
) -> None:
    """The epsilon of a composed event does not rise as delta grows, and the delta does not rise as epsilon grows.

    The same epsilon is returned if it is asked for again.
    """
    account = account_of(accountant, events=[accounting.SelfComposedEvent(event, count=2)])
    epsilons = [account.get_epsilon(target_delta=delta) for delta in (1e-5, 1e-3, 0.1)]
    assert epsilons == sorted(epsilons, reverse=True)
    deltas = [account.get_delta(target_epsilon=epsilon) for epsilon in (0.0, 0.1, 1.0)]
    assert deltas == sorted(deltas, reverse=True)
    assert all(account.failure_prob <= delta <= 1 for delta in deltas)
    epsilons_again = [account.get_epsilon(target_delta=delta) for delta in (1e-5, 1e-3, 0.1)]
    assert epsilons_again == epsilons


@every_price
def test_epsilon_and_delta_are_two_readings_of_one_curve(
    accountant: AccountantKind, event: accounting.Event
) -> None:
    """The delta at the epsilon for a target delta is that target delta, within 2%, if this epsilon is above 0."""
    account = account_of(accountant, events=[accounting.SelfComposedEvent(event, count=2)])
    for delta in (1e-5, 1e-3):
        epsilon = account.get_epsilon(target_delta=delta)
        if epsilon > 0:
            assert account.get_delta(target_epsilon=epsilon) == pytest.approx(delta, rel=0.02)


@pytest.mark.parametrize(
    "accountant",
    [
        kind
        for kind in ACCOUNTANTS
        if not refuses(kind, event=accounting.GaussianEvent(noise_multiplier=1.0))
    ],
)
def test_figures_are_upper_bounds_for_gaussians(accountant: AccountantKind) -> None:
    """Epsilon and delta of composed Gaussians are at least those of the exact profile (Balle & Wang 2018)."""
    for multiplier, count in ((1.0, 1), (10.0, 40), (60.0, 600), (0.5, 2)):
        account = accountant().compose(
            accounting.GaussianEvent(noise_multiplier=multiplier), count=count
        )
        mu = math.sqrt(count) / multiplier
        exact_epsilon = accounting.gaussian_epsilon(mu=mu, target_delta=1e-6)
        assert account.get_epsilon(target_delta=1e-6) >= exact_epsilon * (1 - 1e-9)
        for epsilon in (0.5, 2.0, 5.0):
            exact_delta = accounting.gaussian_delta(mu=mu, epsilon=epsilon)
            assert account.get_delta(target_epsilon=epsilon) >= exact_delta * (1 - 1e-9)


@every_accountant
def test_figures_are_upper_bounds_for_randomized_response(accountant: AccountantKind) -> None:
    """The delta of composed pure-DP events is at least the exact one of repeated randomized response."""
    for epsilon, count in ((0.5, 1), (0.2, 10), (1.0, 4)):
        account = accountant().compose(accounting.PureDpEvent(epsilon), count=count)
        for target_epsilon in (0.1, 0.7, 1.5):
            exact_delta = delta_of_randomized_response(
                epsilon=epsilon, num_answers=count, target_epsilon=target_epsilon
            )
            delta = account.get_delta(target_epsilon=target_epsilon)
            assert delta >= exact_delta * (1 - 1e-9)


def delta_of_randomized_response(epsilon: float, num_answers: int, target_epsilon: float) -> float:
    """Returns the exact delta of randomized responses to one question.

    Args:
        epsilon: the epsilon of each answer, which is true with probability 1 / (1 + exp(-epsilon)).
        num_answers: the number of answers.
        target_epsilon: the epsilon of the guarantee.
    """
    truth_prob = 1 / (1 + math.exp(-epsilon))
    lie_prob = 1 - truth_prob
    delta = 0.0
    for num_true in range(num_answers + 1):
        num_false = num_answers - num_true
        # The probability of one sequence of answers, where the truth is yes and where it is no.
        prob_of_yes = truth_prob**num_true * lie_prob**num_false
        prob_of_no = truth_prob**num_false * lie_prob**num_true
        excess = max(0.0, prob_of_yes - math.exp(target_epsilon) * prob_of_no)
        delta += math.comb(num_answers, num_true) * excess
    return delta


EXTREME_EVENTS = (
    accounting.ZCdpEvent(rho=5e-324),
    accounting.ZCdpEvent(rho=1e-200),
    accounting.BoundedRangeEvent(epsilon=5e-324),
    accounting.BoundedRangeEvent(epsilon=1e308),
    accounting.PureDpEvent(epsilon=1e308),
    accounting.GaussianEvent(noise_multiplier=1e308),
    accounting.NoisyMaxGaussianEvent(noise_multiplier=1e308, num_candidates=3),
    accounting.WinnerEvent(noise_multiplier=1e308, num_moving=2),
    accounting.WinnerEvent(noise_multiplier=1e-3, num_moving=2),
    accounting.NoisyMaxGaussianEvent(noise_multiplier=3.0, num_candidates=2**40),
    accounting.NoisyMaxGaussianEvent(noise_multiplier=1e154, num_candidates=2**62),
    accounting.SmoothSensitivityEvent(noise_multiplier=1.0, beta=800.0),
    accounting.OneBitEvent(logits=(-1e308, 1e308), reach=1),
    accounting.OneBitEvent(logits=(0.0, 5e-324), reach=1),
    accounting.GaussianEvent(noise_multiplier=1e-200),
    accounting.PureDpEvent(epsilon=1e-300),
    accounting.BoundedRangeEvent(epsilon=1e-12),
    accounting.OneBitEvent(logits=(-math.inf, 0.0, math.inf), reach=1),
    accounting.OneBitEvent(logits=(3.0,), reach=5),
)


@pytest.mark.slow
@every_accountant
@pytest.mark.parametrize("event", EXTREME_EVENTS, ids=repr)
def test_the_smallest_and_the_largest_numbers_have_prices(
    accountant: AccountantKind, event: accounting.Event
) -> None:
    """An event with extreme parameters has a price without error or NaN.

    Epsilon does not rise as delta grows, delta does not rise as epsilon grows, and both stay in their ranges.
    """
    if refuses(accountant, event):
        return
    account = accountant().compose(event, count=7)
    epsilons = [account.get_epsilon(target_delta=delta) for delta in (1e-12, 1e-6, 0.3)]
    deltas = [account.get_delta(target_epsilon=epsilon) for epsilon in (0.0, 1e-300, 5.0, 1e300)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert deltas == sorted(deltas, reverse=True)
    assert epsilons[-1] >= 0
    assert 0 <= deltas[-1] <= deltas[0] <= 1


@every_accountant
def test_an_event_without_a_price_raises_and_adds_nothing(accountant: AccountantKind) -> None:
    """An accountant refuses unknown events and events it cannot price, alone or in a composition.

    A refusal does not change its epsilon.
    """
    account = account_of(accountant, events=[accounting.PureDpEvent(epsilon=0.3)])
    before = account.get_epsilon(target_delta=DELTA)
    for event in (
        UnknownEvent(),
        accounting.ComposedEvent(
            (
                accounting.ApproximateEvent(accounting.PureDpEvent(epsilon=1.0), failure_prob=1e-6),
                UnknownEvent(),
            )
        ),
    ):
        with refused_parameter("event", value="UnknownEvent"):
            account.compose(event)
    with refused_parameter("event", value="str"):
        account.compose("gaussian")
    for event in EVENTS:
        if refuses(accountant, event):
            kinds = "|".join(kind.__name__ for kind in REFUSED_EVENTS[accountant])
            with pytest.raises(InvalidValue, match=rf"event=({kinds}): expected an event"):
                account.compose(
                    accounting.ComposedEvent((accounting.PureDpEvent(epsilon=1.0), event))
                )
    assert account.get_epsilon(target_delta=DELTA) == before
    assert account.failure_prob == 0


@every_accountant
def test_failure_probabilities_are_taken_from_delta(accountant: AccountantKind) -> None:
    """An event with failure probability 4e-6 costs at delta 1e-5 what it costs without failures at delta 6e-6.

    At a given epsilon its delta is larger by 4e-6. An epsilon is refused if the failures use up delta.
    """
    plain = account_of(accountant, events=[accounting.PureDpEvent(epsilon=0.3)])
    failing_event = accounting.ApproximateEvent(
        accounting.PureDpEvent(epsilon=0.3), failure_prob=4e-6
    )
    failing = account_of(accountant, events=[failing_event])
    assert failing.failure_prob == 4e-6
    assert failing.get_epsilon(target_delta=1e-5) == pytest.approx(
        plain.get_epsilon(target_delta=6e-6), rel=1e-6
    )
    assert failing.get_epsilon(target_delta=1e-5) > plain.get_epsilon(target_delta=1e-5)
    assert failing.get_delta(target_epsilon=0.5) == pytest.approx(
        plain.get_delta(target_epsilon=0.5) + 4e-6, rel=1e-6
    )
    account = accountant().compose(
        accounting.ApproximateEvent(accounting.PureDpEvent(epsilon=0.3), failure_prob=2e-6),
        count=10,
    )
    for delta in (1e-5, 1e-6):
        with pytest.raises(
            InvalidValue,
            match=rf"failure_prob: expected .*, and 2e-05 in all uses up target_delta={delta}",
        ):
            account.get_epsilon(target_delta=delta)


@every_accountant
def test_impossible_figures_are_refused_and_add_nothing(accountant: AccountantKind) -> None:
    """An accountant refuses counts that are not whole numbers >= 0, deltas outside (0, 1), and epsilons below 0 or NaN.

    A refusal does not change its price.
    """
    event = accounting.ApproximateEvent(accounting.PureDpEvent(epsilon=0.3), failure_prob=1e-6)
    account = account_of(accountant, events=[event])
    before = account.get_epsilon(target_delta=DELTA)
    figures: list[Any] = [-1, 1.5, True]
    for count in figures:
        with refused_parameter("count", value=count, rule_words="a whole number >= 0"):
            account.compose(
                accounting.ApproximateEvent(accounting.PureDpEvent(epsilon=0.3), failure_prob=0.5),
                count=count,
            )
    assert account.get_epsilon(target_delta=DELTA) == before
    assert account.failure_prob == 1e-6
    figures = [0.0, 1.0, -1e-5, 2.0, math.nan, None]
    for delta in figures:
        with refused_parameter("target_delta", value=delta, rule_words="a number in (0"):
            account.get_epsilon(target_delta=delta)
    for epsilon in (-1.0, math.nan):
        with refused_parameter("target_epsilon", value=epsilon, rule_words="a number >= 0"):
            account.get_delta(target_epsilon=epsilon)
