"""The prevalence: its accuracy, its bounds, and what is refused before anything is drawn."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, BudgetExceeded, Ledger
from pate.aggregators import Prevalence
from pate.votes.label_shares import RecordShares
from tests.refusals import Refusal, refused


def labels_of_records(num_teachers: int) -> Any:
    """Returns the labels of one record for each teacher, bool `[num_teachers, 3]`."""
    return np.random.default_rng(0).random(size=(num_teachers, 3)) < np.array([0.5, 0.3, 0.05])


def release_prevalence(
    label_shares: Any,
    *,
    noise_multiplier: float = 1.0,
    num_teachers: int | None = None,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    records_per_teacher: float = 1.0,
    rng: np.random.Generator | None = None,
    ledger: Ledger | None = None,
) -> Any:
    """Returns the prevalence `[num_labels]` that is released from the teachers' shares of records
    with each label.
    """
    return Prevalence(noise_multiplier=noise_multiplier, adjacency=adjacency).release(
        label_shares,
        num_teachers=num_teachers or len(label_shares),
        rng=rng or np.random.default_rng(0),
        records_per_teacher=records_per_teacher,
        ledger=ledger,
    )


@pytest.mark.parametrize("num_labels", [1, 3, 40])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_error_is_small_for_any_number_of_labels(
    num_labels: int, share: float, adjacency: Adjacency
) -> None:
    """1000 teachers have one record each: the released prevalence has a root mean square error below 0.02.

    `share` is the share of teachers that have a given label.
    """
    shares = (np.random.default_rng(1).random(size=(1000, num_labels)) < share).astype(float)
    prevalence = release_prevalence(label_shares=shares, noise_multiplier=2.6, adjacency=adjacency)
    assert np.sqrt(((prevalence - shares.mean(axis=0)) ** 2).mean()) < 0.02


def test_prevalence_stays_within_its_bounds_under_any_noise() -> None:
    """With a noise multiplier of 10,000, every released prevalence lies between 0.005 and 0.995."""
    prevalence = release_prevalence(
        label_shares=labels_of_records(num_teachers=5), noise_multiplier=1e4
    )
    assert ((prevalence >= 0.005) & (prevalence <= 0.995)).all()


def test_labels_without_records_get_a_low_prevalence() -> None:
    """No record of 50 teachers has a label: each released prevalence is below 0.2."""
    assert (release_prevalence(label_shares=np.zeros((50, 3))) < 0.2).all()


def test_noise_of_a_million_is_drawn() -> None:
    """A noise multiplier of a million raises no error."""
    release_prevalence(label_shares=labels_of_records(num_teachers=5), noise_multiplier=1e6)


@pytest.mark.parametrize(
    ("release", "refusal"),
    [
        (
            partial(release_prevalence, label_shares=np.full((2, 3), 1.5)),
            refused("label_shares[0, 0]", rule="[0, 1]"),
        ),
        (
            partial(release_prevalence, label_shares=np.full((2, 3), np.nan)),
            refused("label_shares[0, 0]", rule="[0, 1]"),
        ),
        (
            partial(release_prevalence, label_shares=np.zeros(3)),
            refused("label_shares.shape", value="float64 (3,)"),
        ),
        (
            partial(release_prevalence, label_shares=np.zeros((3, 2)), num_teachers=2),
            refused("num_teachers", value=2, rule="3, the shares'"),
        ),
        (
            partial(
                release_prevalence,
                label_shares=labels_of_records(num_teachers=5),
                records_per_teacher=0.5,
            ),
            refused("records_per_teacher", value=0.5),
        ),
        (
            partial(
                release_prevalence,
                label_shares=labels_of_records(num_teachers=5),
                noise_multiplier=1e10,
            ),
            refused("noise_multiplier", value=1e10),
        ),
    ],
)
def test_impossible_shares_or_settings_are_refused_before_a_charge(
    release: Callable[..., object], refusal: Refusal
) -> None:
    """Shares outside of [0, 1], a wrong shape or number of teachers, or impossible settings are
    refused, and nothing is charged.
    """
    ledger = Ledger(target_delta=1e-5)
    with refusal:
        release(ledger=ledger)
    assert ledger.entries == []


def test_a_refused_charge_draws_nothing() -> None:
    """The ledger's cap refuses the charge: the random generator is in the same state as before."""
    rng = np.random.default_rng(0)
    ledger = Ledger(target_delta=1e-5, max_epsilon=0.01)
    state = rng.bit_generator.state
    with refused("max_epsilon", value=0.01, kind=BudgetExceeded):
        release_prevalence(label_shares=labels_of_records(num_teachers=50), rng=rng, ledger=ledger)
    assert rng.bit_generator.state == state


@pytest.mark.parametrize("known_share", [0.3, 1.0])
def test_the_prevalence_of_labels_with_gaps_is_that_of_known_ones(known_share: float) -> None:
    """Two labels of 30% and 5% of the records: released are both, and the share for which labels are known."""
    rng = np.random.default_rng(0)
    num_records = 20_000
    known = rng.random((num_records, 2)) < known_share
    labels = (rng.random((num_records, 2)) < (0.3, 0.05)) & known
    shares = RecordShares(
        labels=labels,
        teacher_of=np.arange(num_records),
        num_teachers=num_records,
        known=known,
    )
    released = Prevalence(noise_multiplier=5.0).release_shares(
        shares, num_teachers=num_records, rng=rng
    )
    np.testing.assert_allclose(released.prevalence, (0.3, 0.05), atol=0.02)
    assert released.known is not None
    np.testing.assert_allclose(released.known, known_share, atol=0.02)
