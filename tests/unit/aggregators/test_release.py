"""The repr and the epsilon of a release, and the repr of an accountant."""

import numpy as np
import pytest

from pate.accounting import (
    Adjacency,
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
from tests.refusals import refused_parameter

VOTE_COUNTS = np.random.default_rng(0).integers(low=0, high=100, size=(200, 4))


def release_of_votes(aggregator: GaussianVotes | BoundaryMax) -> Release:
    """Returns the release of an aggregator on `VOTE_COUNTS`."""
    return aggregator.aggregate(VOTE_COUNTS, num_teachers=100, rng=np.random.default_rng(0))


def test_repr_of_a_release_is_one_line() -> None:
    """The repr of a release is one line with the numbers of queries, answers and labels and the event, and no array.

    The repr of a session also has its hits.
    """
    release_repr = repr(release_of_votes(aggregator=GaussianVotes(noise_std=50.0)))
    assert release_repr.startswith(
        "Release(num_queries=200, num_answered=200, num_labels=4, event=SelfComposedEvent("
    )
    assert "\n" not in release_repr and "array" not in release_repr
    session_repr = repr(release_of_votes(aggregator=BoundaryMax(selection_scale=20.0)))
    assert session_repr.startswith("ChargedRelease(num_queries=200, ")
    assert "hits=bool[200]" in session_repr and "target_hits=10" in session_repr


def test_repr_of_a_release_has_the_shape_of_its_scores() -> None:
    """The repr of a release with scores is one line with the type and shape of the scores."""
    votes = np.random.default_rng(0).random(size=(10, 200, 4)) < 0.5
    release = CenteredVotes(noise_multiplier=5.0).aggregate(
        votes, num_teachers=10, rng=np.random.default_rng(0)
    )
    assert "scores=float64[200, 4]" in repr(release) and "\n" not in repr(release)


def test_release_computes_its_epsilon() -> None:
    """By default, a release has the exact epsilon of its event: at this epsilon, the delta of the Gaussian is 1e-6.

    With the Renyi accountant, `get_epsilon` returns this accountant's larger epsilon.
    """
    event = GaussianEvent(noise_multiplier=2.0)
    release = Release(
        labels=np.ones((3, 2), dtype=bool),
        answered=np.ones(3, dtype=bool),
        event=event,
        adjacency=Adjacency.REPLACE_ONE,
    )
    exact_epsilon = release.get_epsilon(target_delta=1e-6)
    assert gaussian_delta(mu=0.5, epsilon=exact_epsilon) == pytest.approx(1e-6, rel=1e-3)
    renyi_epsilon = release.get_epsilon(target_delta=1e-6, accountant=RdpAccountant)
    assert renyi_epsilon == RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)
    assert renyi_epsilon > exact_epsilon


@pytest.mark.parametrize(
    "accountant_class",
    [RdpAccountant, AutoAccountant, ExactAccountant, JointLawAccountant, PureDpAccountant],
)
def test_repr_of_an_accountant_has_its_number_of_events(
    accountant_class: type[RdpAccountant],
) -> None:
    """The repr of an accountant has its class, the number of composed events, and the failure probability."""
    class_name = accountant_class.__name__
    accountant = accountant_class()
    assert repr(accountant) == f"{class_name}(num_events=0, failure_prob=0)"
    composed = accountant.compose(PureDpEvent(epsilon=0.1), count=7)
    assert repr(composed) == f"{class_name}(num_events=7, failure_prob=0)"


def test_repr_of_a_renyi_accountant_has_its_own_orders() -> None:
    """The repr of a Renyi accountant shows its own Renyi orders, shortened if they are many, but no default ones."""
    with_two_orders = RdpAccountant(orders=[2.0, 3.0])
    assert repr(with_two_orders) == "RdpAccountant(orders=[2.0, 3.0], num_events=0, failure_prob=0)"
    with_many_orders = RdpAccountant(orders=np.linspace(start=2, stop=90, num=500))
    assert len(repr(with_many_orders)) < 200
    with_default_orders = RdpAccountant().compose(ZCdpEvent(rho=0.25), count=2)
    assert repr(with_default_orders) == "RdpAccountant(num_events=2, failure_prob=0)"


def test_gnmax_on_counts_of_several_labels_names_the_aggregator_for_them() -> None:
    """GNMax refuses counts that sum to more than the teachers, and its error names GaussianVotes, which takes them."""
    counts_of_several_labels = np.full(shape=(3, 4), fill_value=60)
    with refused_parameter(
        "votes[0]", rule_words="GaussianVotes (aggregator=gaussian_votes) takes"
    ):
        GNMax(noise_std=5.0).aggregate(
            counts_of_several_labels, num_teachers=100, rng=np.random.default_rng(0)
        )
