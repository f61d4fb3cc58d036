"""The prevalence, the share of records with each label: its accuracy, its bounds, and refusals before a draw."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from pate.accounting import Adjacency, BudgetExceeded, Ledger
from pate.aggregators import Prevalence
from pate.array_types import BoolArray, FloatArray
from pate.votes.label_shares import RecordShares
from tests.refusals import Refusal, refused_parameter


def draw_labels(num_teachers: int) -> BoolArray:
    """Returns random labels of one record for each teacher, bool `[num_teachers, 3]`."""
    prevalence = np.array([0.5, 0.3, 0.05])
    return np.random.default_rng(0).random(size=(num_teachers, 3)) < prevalence


def release_prevalence(
    label_shares: FloatArray | BoolArray,
    *,
    noise_multiplier: float = 1.0,
    num_teachers: int | None = None,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    records_per_teacher: float = 1.0,
    rng: np.random.Generator | None = None,
    ledger: Ledger | None = None,
) -> FloatArray:
    """Returns the released prevalence `[num_labels]`.

    Args:
        label_shares: the share of each teacher's records that have each label, `[num_teachers, num_labels]`.
        noise_multiplier: the standard deviation of the noise over the sensitivity.
        num_teachers: the declared number of teachers; None for that of `label_shares`.
        adjacency: how two neighboring ensembles differ.
        records_per_teacher: the approximate number of records of each teacher.
        rng: the source of the noise; None for a generator with the seed 0.
        ledger: the ledger that is charged; None for no charge.
    """
    return Prevalence(noise_multiplier=noise_multiplier, adjacency=adjacency).release(
        label_shares,
        num_teachers=num_teachers or len(label_shares),
        rng=rng or np.random.default_rng(0),
        records_per_teacher=records_per_teacher,
        ledger=ledger,
    )


@pytest.mark.parametrize("num_labels", [1, 3, 40])
@pytest.mark.parametrize("true_share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_error_is_small_for_any_number_of_labels(
    num_labels: int, true_share: float, adjacency: Adjacency
) -> None:
    """1000 teachers have one record each: the released prevalence has a root mean square error below 0.02.

    `true_share` is the share of teachers that have a given label.
    """
    labels = np.random.default_rng(1).random(size=(1000, num_labels)) < true_share
    prevalence = release_prevalence(
        label_shares=labels.astype(float), noise_multiplier=2.6, adjacency=adjacency
    )
    errors = prevalence - labels.mean(axis=0)
    assert np.sqrt((errors**2).mean()) < 0.02


def test_prevalence_stays_within_its_bounds_under_any_noise() -> None:
    """With a noise multiplier of 10,000, every released prevalence lies between 0.005 and 0.995."""
    prevalence = release_prevalence(label_shares=draw_labels(num_teachers=5), noise_multiplier=1e4)
    assert ((prevalence >= 0.005) & (prevalence <= 0.995)).all()


def test_labels_without_records_get_a_low_prevalence() -> None:
    """No record of 50 teachers has a label: each released prevalence is below 0.2."""
    prevalence = release_prevalence(label_shares=np.zeros((50, 3)))
    assert (prevalence < 0.2).all()


def test_noise_of_a_million_is_drawn() -> None:
    """A noise multiplier of a million raises no error."""
    release_prevalence(label_shares=draw_labels(num_teachers=5), noise_multiplier=1e6)


@pytest.mark.parametrize(
    ("release_with", "refusal"),
    [
        pytest.param(
            partial(release_prevalence, label_shares=np.full((2, 3), 1.5)),
            refused_parameter("label_shares[0, 0]", rule_words="[0, 1]"),
            id="shares above 1",
        ),
        pytest.param(
            partial(release_prevalence, label_shares=np.full((2, 3), np.nan)),
            refused_parameter("label_shares[0, 0]", rule_words="[0, 1]"),
            id="shares that are NaN",
        ),
        pytest.param(
            partial(release_prevalence, label_shares=np.zeros(3)),
            refused_parameter("label_shares.shape", value="float64 (3,)"),
            id="shares of no teachers",
        ),
        pytest.param(
            partial(release_prevalence, label_shares=np.zeros((3, 2)), num_teachers=2),
            refused_parameter("num_teachers", value=2, rule_words="3, the shares'"),
            id="another number of teachers",
        ),
        pytest.param(
            partial(
                release_prevalence,
                label_shares=draw_labels(num_teachers=5),
                records_per_teacher=0.5,
            ),
            refused_parameter("records_per_teacher", value=0.5),
            id="half a record for each teacher",
        ),
        pytest.param(
            partial(
                release_prevalence,
                label_shares=draw_labels(num_teachers=5),
                noise_multiplier=1e10,
            ),
            refused_parameter("noise_multiplier", value=1e10),
            id="too much noise",
        ),
    ],
)
def test_impossible_shares_or_settings_are_refused_before_a_charge(
    release_with: Callable[..., object], refusal: Refusal
) -> None:
    """Impossible shares or settings are refused, and nothing is charged.

    `release_with` releases a prevalence from shares or settings of which one is impossible.
    """
    ledger = Ledger(target_delta=1e-5)
    with refusal:
        release_with(ledger=ledger)
    assert ledger.entries == []


def test_a_refused_charge_draws_nothing() -> None:
    """The ledger's cap refuses the charge: the random generator is in the same state as before."""
    rng = np.random.default_rng(0)
    ledger = Ledger(target_delta=1e-5, max_epsilon=0.01)
    state_before = rng.bit_generator.state
    with refused_parameter("max_epsilon", value=0.01, kind=BudgetExceeded):
        release_prevalence(label_shares=draw_labels(num_teachers=50), rng=rng, ledger=ledger)
    assert rng.bit_generator.state == state_before


@pytest.mark.parametrize("known_share", [0.3, 1.0])
def test_prevalence_with_unknown_labels_is_that_of_the_known_ones(known_share: float) -> None:
    """Two labels belong to 30% and 5% of the records, and `known_share` of the labels is known.

    The release has the prevalence of both labels within 0.02, and the shares that are known.
    """
    rng = np.random.default_rng(0)
    num_records = 20_000
    known = rng.random(size=(num_records, 2)) < known_share
    labels = (rng.random(size=(num_records, 2)) < (0.3, 0.05)) & known
    source_of_shares = RecordShares(
        labels=labels,
        teacher_of=np.arange(num_records),
        num_teachers=num_records,
        known_label_mask=known,
    )
    released = Prevalence(noise_multiplier=5.0).release_shares(
        source_of_shares, num_teachers=num_records, rng=rng
    )
    np.testing.assert_allclose(released.prevalence, desired=(0.3, 0.05), atol=0.02)
    assert released.known_shares is not None
    np.testing.assert_allclose(released.known_shares, desired=known_share, atol=0.02)
