"""Calibration fits the noise to the epsilon and the failure probability that a ledger has left."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pate.accounting import Adjacency, AutoAccountant, BudgetExceeded, Ledger, RdpAccountant
from pate.aggregators import Aggregator, CenteredVotes, GaussianVotes, StableTopK
from tests.refusals import ANY, Refusal, refused_parameter

DELTA = 1e-6
STABLE_TOP_K = StableTopK(selection_scale=10.0, test_std=10.0, selection_share=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    "uncalibrated",
    [
        pytest.param(GaussianVotes(noise_std=1.0), id="GaussianVotes"),
        pytest.param(CenteredVotes(noise_multiplier=1.0), id="CenteredVotes"),
        pytest.param(STABLE_TOP_K, id="StableTopK"),
    ],
)
def test_release_of_epsilon_three_fits_exactly_into_a_budget_of_three(
    uncalibrated: Aggregator, adjacency: Adjacency
) -> None:
    """Noise calibrated to epsilon 3 fits once into a ledger with a cap of 3, at the price of the auto accountant.

    With 2% less noise, the charge is refused; so is a second charge.
    """
    calibrated = replace(uncalibrated, adjacency=adjacency).calibrated(
        target_epsilon=3.0,
        target_delta=DELTA,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    event = calibrated.event_for(num_queries=8, num_labels=4, num_teachers=60)
    less_noisy = calibrated.scaled(noise_factor=0.98)
    less_noisy_event = less_noisy.event_for(num_queries=8, num_labels=4, num_teachers=60)
    ledger = Ledger(target_delta=DELTA, max_epsilon=3.0, adjacency=adjacency)
    with refused_parameter("max_epsilon", value=3.0, rule_words="at least 3.", kind=BudgetExceeded):
        ledger.charge(less_noisy_event, adjacency=adjacency)
    assert ledger.affords(event) >= 1
    ledger.charge(event, adjacency=adjacency)
    price = AutoAccountant().compose(event).get_epsilon(target_delta=DELTA)
    assert ledger.epsilon == ledger.spent_epsilon == ledger.entries[0].epsilon == price
    assert 2.98 < price <= 3.0
    with refused_parameter("max_epsilon", value=3.0, kind=BudgetExceeded):
        ledger.charge(event, adjacency=adjacency)


@pytest.mark.slow
def test_ledger_takes_a_release_at_the_tighter_price() -> None:
    """A release calibrated to 3 by the default accountant is admitted by a Renyi ledger with a cap of 3.

    The ledger's Renyi total then exceeds 3, but its `spent_epsilon` is 3, the cap.
    """
    calibrated = GaussianVotes(noise_std=1.0).calibrated(
        target_epsilon=3.0,
        target_delta=DELTA,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    ledger = Ledger(target_delta=DELTA, max_epsilon=3.0, accountant=RdpAccountant)
    unanimous_counts = np.full(shape=(8, 4), fill_value=60)
    calibrated.aggregate(
        unanimous_counts, num_teachers=60, rng=np.random.default_rng(0), ledger=ledger
    )
    assert ledger.epsilon > 3.0
    assert ledger.spent_epsilon == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("max_epsilon", [None, 12.0])
def test_failures_are_planned_for_several_releases(max_epsilon: float | None) -> None:
    """Each release after the first is calibrated to almost half of the failure probability that the ledger has left.

    Four releases are calibrated and charged to one ledger. Together they stay below delta and epsilon 8.
    """
    ledger = Ledger(target_delta=DELTA, max_epsilon=max_epsilon, accountant=RdpAccountant)
    failure_probs = []
    for _ in range(4):
        calibrated = STABLE_TOP_K.calibrated(
            target_epsilon=2.0,
            accountant=RdpAccountant,
            ledger=ledger,
            num_queries=600,
            num_labels=4,
            num_teachers=60,
        )
        event = calibrated.event_for(num_queries=600, num_labels=4, num_teachers=60)
        ledger.charge(event, adjacency=calibrated.adjacency)
        assert calibrated.failure_prob is not None
        failure_probs.append(600 * calibrated.failure_prob)
    # The first release has the failure probability of a release without a ledger.
    assert failure_probs[0] == pytest.approx(6e-7)
    remaining_failure_prob = 4e-7 if max_epsilon is None else 2e-7
    for failure_prob in failure_probs[1:]:
        assert 0.4 * remaining_failure_prob < failure_prob < 0.5 * remaining_failure_prob
        remaining_failure_prob -= failure_prob
    assert math.fsum(failure_probs) < DELTA
    assert ledger.epsilon < 8.0


def test_failure_prob_error_names_the_largest_allowed_value() -> None:
    """A second release whose failures exceed what delta leaves is refused, with and without a cap.

    With a cap, the error names the largest failure probability that is allowed.
    """
    capped_ledger = Ledger(target_delta=DELTA, max_epsilon=12.0, accountant=RdpAccountant)
    calibrated = STABLE_TOP_K.calibrated(
        target_epsilon=2.0,
        target_delta=DELTA,
        accountant=RdpAccountant,
        num_queries=600,
        num_labels=4,
        num_teachers=60,
    )
    event = calibrated.event_for(num_queries=600, num_labels=4, num_teachers=60)
    capped_ledger.charge(event, adjacency=calibrated.adjacency)
    with refused_parameter(
        "max_epsilon", value=ANY, rule_words="failures take at most 1.99e-07", kind=BudgetExceeded
    ):
        capped_ledger.charge(event, adjacency=calibrated.adjacency)
    uncapped_ledger = Ledger(target_delta=DELTA, accountant=RdpAccountant)
    uncapped_ledger.charge(event, adjacency=calibrated.adjacency)
    with refused_parameter("failure_prob", rule_words="this ledger"):
        uncapped_ledger.charge(event, adjacency=calibrated.adjacency)


@pytest.mark.slow
def test_noise_grows_until_the_ledger_has_room() -> None:
    """After a first release, calibration with the ledger gives the smallest noise for which the ledger has room.

    With 1% less noise, the ledger has no room.
    """
    uncalibrated = GaussianVotes(noise_std=1.0)
    ledger = Ledger(target_delta=DELTA, max_epsilon=4.0)
    first = uncalibrated.calibrated(
        target_epsilon=3.0,
        ledger=ledger,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    assert first == uncalibrated.calibrated(
        target_epsilon=3.0,
        target_delta=DELTA,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    ledger.charge(
        first.event_for(num_queries=8, num_labels=4, num_teachers=60),
        adjacency=first.adjacency,
    )
    # Without a target, the second release may spend everything that the first has not.
    second = uncalibrated.calibrated(ledger=ledger, num_queries=8, num_labels=4, num_teachers=60)
    assert second.noise_std > first.noise_std
    less_noisy = second.scaled(noise_factor=0.99)
    less_noisy_event = less_noisy.event_for(num_queries=8, num_labels=4, num_teachers=60)
    assert ledger.affords(less_noisy_event) == 0
    ledger.charge(
        second.event_for(num_queries=8, num_labels=4, num_teachers=60),
        adjacency=second.adjacency,
    )


@pytest.mark.slow
def test_a_full_ledger_refuses_a_calibration() -> None:
    """A calibration is refused if the ledger's whole cap is spent."""
    uncalibrated = GaussianVotes(noise_std=1.0)
    ledger = Ledger(target_delta=DELTA, max_epsilon=4.0)
    first = uncalibrated.calibrated(ledger=ledger, num_queries=8, num_labels=4, num_teachers=60)
    ledger.charge(
        first.event_for(num_queries=8, num_labels=4, num_teachers=60),
        adjacency=first.adjacency,
    )
    with refused_parameter("max_epsilon", value=4.0, kind=BudgetExceeded):
        uncalibrated.calibrated(
            target_epsilon=1.0,
            ledger=ledger,
            num_queries=8,
            num_labels=4,
            num_teachers=60,
        )


@pytest.mark.parametrize(
    ("target_epsilon", "target_delta", "ledger", "refusal"),
    [
        pytest.param(3.0, None, None, refused_parameter("target_delta", value=None), id="no delta"),
        pytest.param(
            None,
            DELTA,
            None,
            refused_parameter("target_epsilon", value=None, rule_words="> 0, or"),
            id="neither epsilon nor ledger",
        ),
        pytest.param(
            None,
            None,
            Ledger(target_delta=DELTA),
            refused_parameter("target_epsilon", value=None, rule_words="> 0, as"),
            id="neither epsilon nor cap",
        ),
        pytest.param(
            None,
            1e-5,
            Ledger(target_delta=DELTA, max_epsilon=1.0),
            refused_parameter("target_delta", value=1e-05),
            id="another delta than the ledger",
        ),
        pytest.param(
            None,
            None,
            Ledger(target_delta=DELTA, max_epsilon=1.0, adjacency="add_remove"),
            refused_parameter("ledger.adjacency", value="add_remove"),
            id="another adjacency than the ledger",
        ),
    ],
)
def test_settings_that_determine_no_noise_are_refused(
    target_epsilon: float | None,
    target_delta: float | None,
    ledger: Ledger | None,
    refusal: Refusal,
) -> None:
    """A target epsilon or delta is missing, or the ledger has another delta or adjacency: calibration is refused."""
    with refusal:
        GaussianVotes(noise_std=1.0).calibrated(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            ledger=ledger,
            num_queries=8,
            num_labels=4,
            num_teachers=60,
        )
