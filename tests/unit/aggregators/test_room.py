"""What is calibrated with the defaults fits into a ledger with the defaults, and takes the room that is left."""

import math

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting import Adjacency, BudgetExceeded, Ledger
from pate.aggregators import Aggregator, CenteredVotes, GaussianVotes, StableTopK
from tests.refusals import ANY, Refusal, refused

DELTA = 1e-6
STABLE = StableTopK(selection_scale=10.0, test_std=10.0, selection_share=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    "kind", [GaussianVotes(noise_std=1.0), CenteredVotes(noise_multiplier=1.0), STABLE]
)
def test_release_of_epsilon_three_fits_exactly_into_a_budget_of_three(
    kind: Aggregator, adjacency: Adjacency
) -> None:
    """Noise calibrated to epsilon 3 fits once into a ledger with a cap of 3, at the price of the
    auto accountant.

    With 2% less noise, the charge is refused; so is a second charge.
    """
    kind = type(kind)(**vars(kind) | {"adjacency": adjacency})
    fitted = kind.calibrated(
        target_epsilon=3.0,
        target_delta=DELTA,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    event = fitted.event_for(num_queries=8, num_labels=4, num_teachers=60)
    ledger = Ledger(target_delta=DELTA, max_epsilon=3.0, adjacency=adjacency)
    with refused("max_epsilon", value=3.0, rule="at least 3.", kind=BudgetExceeded):
        ledger.charge(
            fitted.scaled(noise_factor=0.98).event_for(
                num_queries=8, num_labels=4, num_teachers=60
            ),
            adjacency=adjacency,
        )
    assert ledger.affords(event) >= 1
    ledger.charge(event, adjacency=adjacency)
    price = pa.AutoAccountant().compose(event).get_epsilon(target_delta=DELTA)
    assert ledger.epsilon == ledger.spent_epsilon == ledger.entries[0].epsilon == price
    assert 2.98 < price <= 3.0
    with refused("max_epsilon", value=3.0, kind=BudgetExceeded):
        ledger.charge(event, adjacency=adjacency)


@pytest.mark.slow
def test_ledger_takes_a_release_at_the_tighter_price() -> None:
    """A release calibrated to 3 by the default accountant is charged to a ledger with a cap of 3
    and the Renyi accountant.

    The Renyi total exceeds 3, but the spent epsilon is 3: the cap, fixed before the release, is a
    bound too.
    """
    fitted = GaussianVotes(noise_std=1.0).calibrated(
        target_epsilon=3.0,
        target_delta=DELTA,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    ledger = Ledger(target_delta=DELTA, max_epsilon=3.0, accountant=pa.RdpAccountant)
    votes = np.full(shape=(8, 4), fill_value=60)
    fitted.aggregate(votes, num_teachers=60, rng=np.random.default_rng(0), ledger=ledger)
    assert ledger.epsilon > 3.0, "by its own accountant"
    assert ledger.spent_epsilon == 3.0, (
        "the cap of the file, fixed before the first release, is a bound too"
    )


@pytest.mark.slow
@pytest.mark.parametrize("max_epsilon", [None, 12.0])
def test_failures_are_planned_for_several_releases(max_epsilon: float | None) -> None:
    """Four releases are calibrated and charged to one ledger: each later one uses just below half
    of the failure probability that is left.

    All four together stay below delta and epsilon 8.
    """
    ledger = Ledger(target_delta=DELTA, max_epsilon=max_epsilon, accountant=pa.RdpAccountant)
    failures = []
    for _ in range(4):
        fitted = STABLE.calibrated(
            target_epsilon=2.0,
            accountant=pa.RdpAccountant,
            ledger=ledger,
            num_queries=600,
            num_labels=4,
            num_teachers=60,
        )
        event = fitted.event_for(num_queries=600, num_labels=4, num_teachers=60)
        ledger.charge(event, adjacency=fitted.adjacency)
        failures.append(600 * float(fitted.failure_prob or 0.0))
    assert failures[0] == pytest.approx(6e-7)  # as without a ledger
    left = 4e-7 if max_epsilon is None else 2e-7
    for failure in failures[1:]:
        assert 0.4 * left < failure < 0.5 * left
        left -= failure
    assert math.fsum(failures) < DELTA
    assert ledger.epsilon < 8.0


def test_failure_prob_error_names_the_largest_allowed_value() -> None:
    """A second release whose failures exceed what delta leaves is refused, with and without a cap.

    With a cap, the error names the largest failure probability that is allowed.
    """
    ledger = Ledger(target_delta=DELTA, max_epsilon=12.0, accountant=pa.RdpAccountant)
    fitted = STABLE.calibrated(
        target_epsilon=2.0,
        target_delta=DELTA,
        accountant=pa.RdpAccountant,
        num_queries=600,
        num_labels=4,
        num_teachers=60,
    )
    ledger.charge(
        fitted.event_for(num_queries=600, num_labels=4, num_teachers=60),
        adjacency=fitted.adjacency,
    )
    with refused(
        "max_epsilon", value=ANY, rule="failures take at most 1.99e-07", kind=BudgetExceeded
    ):
        ledger.charge(
            fitted.event_for(num_queries=600, num_labels=4, num_teachers=60),
            adjacency=fitted.adjacency,
        )
    plain = Ledger(target_delta=DELTA, accountant=pa.RdpAccountant)
    plain.charge(
        fitted.event_for(num_queries=600, num_labels=4, num_teachers=60),
        adjacency=fitted.adjacency,
    )
    with refused("failure_prob", rule="this ledger"):
        plain.charge(
            fitted.event_for(num_queries=600, num_labels=4, num_teachers=60),
            adjacency=fitted.adjacency,
        )


@pytest.mark.slow
def test_noise_grows_until_the_ledger_has_room() -> None:
    """After a first release, calibration with the ledger gives the smallest noise for which the
    ledger has room.

    With 1% less noise there is none. A full ledger refuses the calibration.
    """
    votes = GaussianVotes(noise_std=1.0)
    ledger = Ledger(target_delta=DELTA, max_epsilon=4.0)
    first = votes.calibrated(
        target_epsilon=3.0,
        ledger=ledger,
        num_queries=8,
        num_labels=4,
        num_teachers=60,
    )
    assert first == votes.calibrated(
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
    second = votes.calibrated(
        ledger=ledger, num_queries=8, num_labels=4, num_teachers=60
    )  # all that is left
    assert second.noise_std > first.noise_std
    assert (
        ledger.affords(
            second.scaled(noise_factor=0.99).event_for(num_queries=8, num_labels=4, num_teachers=60)
        )
        == 0
    ), "not more than is needed"
    ledger.charge(
        second.event_for(num_queries=8, num_labels=4, num_teachers=60),
        adjacency=second.adjacency,
    )
    full = Ledger(target_delta=DELTA, max_epsilon=4.0)
    full.charge(
        votes.calibrated(ledger=full, num_queries=8, num_labels=4, num_teachers=60).event_for(
            num_queries=8, num_labels=4, num_teachers=60
        ),
        adjacency="replace_one",
    )
    with refused("max_epsilon", value=4.0, kind=BudgetExceeded):
        votes.calibrated(
            target_epsilon=1.0,
            ledger=full,
            num_queries=8,
            num_labels=4,
            num_teachers=60,
        )


@pytest.mark.parametrize(
    ("target_epsilon", "target_delta", "ledger", "refusal"),
    [
        (3.0, None, None, refused("target_delta", value=None)),
        (None, DELTA, None, refused("target_epsilon", value=None, rule="> 0, or")),
        (
            None,
            None,
            Ledger(target_delta=DELTA),
            refused("target_epsilon", value=None, rule="> 0, as"),
        ),
        (
            None,
            1e-5,
            Ledger(target_delta=DELTA, max_epsilon=1.0),
            refused("target_delta", value=1e-05),
        ),
        (
            None,
            None,
            Ledger(target_delta=DELTA, max_epsilon=1.0, adjacency="add_remove"),
            refused("ledger.adjacency", value="add_remove"),
        ),
    ],
)
def test_settings_that_determine_no_noise_are_refused(
    target_epsilon: float | None,
    target_delta: float | None,
    ledger: Ledger | None,
    refusal: Refusal,
) -> None:
    """A target epsilon or delta is missing, or the ledger has another delta or adjacency:
    calibration is refused.
    """
    with refusal:
        GaussianVotes(noise_std=1.0).calibrated(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            ledger=ledger,
            num_queries=8,
            num_labels=4,
            num_teachers=60,
        )
