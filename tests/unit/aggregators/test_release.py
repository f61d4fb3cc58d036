"""What a release shows of itself: one line, whatever its size, and its own price."""

import numpy as np
import pytest

from pate.accounting import (
    AutoAccountant,
    ExactAccountant,
    GaussianEvent,
    JointLawAccountant,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    ZCdpEvent,
    gaussian_delta,
)
from pate.aggregators import BoundaryMax, CenteredVotes, GaussianVotes, GNMax, Release
from tests.refusals import refused

VOTE_COUNTS = np.random.default_rng(0).integers(low=0, high=100, size=(200, 4))


def release_of_votes(aggregator: GaussianVotes | BoundaryMax) -> Release:
    """Returns the release of an aggregator on `VOTE_COUNTS`."""
    return aggregator.aggregate(VOTE_COUNTS, num_teachers=100, rng=np.random.default_rng(0))


def test_a_release_is_shown_in_one_line() -> None:
    """The repr of a release is one line with the numbers of queries, answers and labels and the
    event, and no array.

    That of a session also has its hits.
    """
    text = repr(release_of_votes(aggregator=GaussianVotes(noise_std=50.0)))
    assert text.startswith(
        "Release(num_queries=200, num_answered=200, num_labels=4, event=SelfComposedEvent("
    )
    assert "\n" not in text and "array" not in text
    charged = repr(release_of_votes(aggregator=BoundaryMax(selection_scale=20.0)))
    assert charged.startswith("ChargedRelease(num_queries=200, ")
    assert "hits=bool[200]" in charged and "target_hits=10" in charged


def test_the_release_of_scores_names_their_shape() -> None:
    """The repr of a release with scores is one line with the type and shape of the scores."""
    votes = np.random.default_rng(0).random(size=(10, 200, 4)) < 0.5
    release = CenteredVotes(noise_multiplier=5.0).aggregate(
        votes, num_teachers=10, rng=np.random.default_rng(0)
    )
    assert "scores=float64[200, 4]" in repr(release) and "\n" not in repr(release)


def test_release_computes_its_epsilon() -> None:
    """A release of a Gaussian event has, by default, the exact epsilon: the Gaussian's delta there
    is 1e-6.

    With the Renyi accountant, `get_epsilon` returns this accountant's larger epsilon.
    """
    labels = np.ones((3, 2), dtype=bool)
    release = Release(
        labels,
        answered=labels[:, 0],
        event=GaussianEvent(noise_multiplier=2.0),
        adjacency=release_of_votes(aggregator=GaussianVotes(noise_std=50.0)).adjacency,
    )
    assert gaussian_delta(mu=0.5, epsilon=release.get_epsilon(target_delta=1e-6)) == pytest.approx(
        1e-6, rel=1e-3
    )
    renyi = release.get_epsilon(target_delta=1e-6, accountant=RdpAccountant)
    assert (
        renyi
        == RdpAccountant()
        .compose(GaussianEvent(noise_multiplier=2.0))
        .get_epsilon(target_delta=1e-6)
        > release.get_epsilon(target_delta=1e-6)
    )


@pytest.mark.parametrize(
    "maker", [RdpAccountant, AutoAccountant, ExactAccountant, JointLawAccountant, PureDpAccountant]
)
def test_repr_of_an_accountant_has_its_number_of_events(maker: type[RdpAccountant]) -> None:
    """The repr of an accountant has its class, the number of composed events, and the failure
    probability.
    """
    accountant = maker()
    assert repr(accountant) == f"{maker.__name__}(num_events=0, failure_prob=0)"
    assert (
        repr(accountant.compose(PureDpEvent(epsilon=0.1), count=7))
        == f"{maker.__name__}(num_events=7, failure_prob=0)"
    )


def test_other_accountants_show_their_settings_and_their_sum() -> None:
    """The repr of a Renyi accountant shows its own Renyi orders, shortened if they are many, but no
    default ones.
    """
    assert (
        repr(RdpAccountant(orders=[2.0, 3.0]))
        == "RdpAccountant(orders=[2.0, 3.0], num_events=0, failure_prob=0)"
    )
    assert len(repr(RdpAccountant(orders=np.linspace(2, 90, 500)))) < 200
    assert (
        repr(RdpAccountant().compose(ZCdpEvent(rho=0.25), count=2))
        == "RdpAccountant(num_events=2, failure_prob=0)"
    )


def test_gnmax_on_counts_of_several_labels_names_the_aggregator_for_them() -> None:
    """GNMax refuses counts that sum to more than the teachers, and its error names GaussianVotes,
    which takes such counts.
    """
    with refused("votes[0]", rule="GaussianVotes (aggregator=gaussian_votes) takes"):
        GNMax(noise_std=5.0).aggregate(
            np.full((3, 4), 60), num_teachers=100, rng=np.random.default_rng(0)
        )
