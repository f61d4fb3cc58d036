"""What is known of a release, and what is assumed."""

from __future__ import annotations

import pytest

from pate.aggregators import ClippedVotes, StableTopK
from pate.pricing import ReleaseParameters
from pate.validation import InvalidValue


def test_what_is_known_replaces_what_an_aggregator_has() -> None:
    parameters = ReleaseParameters(noise_std=40.0, vote_clip=3, max_size=4)
    clipped, bare = parameters.applied(ClippedVotes(noise_std=1.0, vote_clip=1, threshold_share=0.4))
    assert (clipped, bare) == (ClippedVotes(noise_std=40.0, vote_clip=3, threshold_share=0.4), False)
    assert parameters.known == {"noise_std": 40.0, "vote_clip": 3, "max_size": 4}
    assert parameters.assumed == {"screening_std": 50.0, "threshold_share": 0.6}


def test_noise_goes_by_the_aggregators_own_names() -> None:
    start = StableTopK(selection_scale=1.0, test_std=2.0)
    stable, bare = ReleaseParameters(noise_std=40.0, screening_std=60.0).applied(start)
    assert (stable, bare) == (StableTopK(selection_scale=40.0, test_std=60.0), False)
    assert ReleaseParameters().applied(start) == (start, False)


def test_no_noise_is_told_apart() -> None:
    assert ReleaseParameters(screening_std=0.0).applied(StableTopK(selection_scale=1.0, test_std=2.0))[1]
    assert not ReleaseParameters(screening_std=0.0).applied(ClippedVotes(noise_std=1.0, vote_clip=1))[1]


@pytest.mark.parametrize("name", ["noise_std", "screening_std"])
def test_negative_noise_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"{name}=-1.0: expected a number >= 0"):
        ReleaseParameters(**{name: -1.0})  # type: ignore[arg-type]
