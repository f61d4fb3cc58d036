"""Fixtures that several files of end-to-end tests between holders share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from pate.aggregators import GaussianVotes
from small_federation.stages import Votes, cast_votes, holder_plan
from tests.e2e.small_run import NUM_HOLDERS, seeded_plan, without_pictures


@dataclass(frozen=True)
class Form:
    """The form of holders' votes: bits or confidences, and the most labels a teacher may vote for, if limited."""

    cast: str = "bits"
    vote_clip: int | None = None


FORMS = {
    "bits": Form(),
    "confidences": Form(cast="confidences"),
    "clipped": Form(vote_clip=2),
}


@pytest.fixture(scope="module", autouse=True)
def _no_pictures() -> Iterator[None]:
    """Leaves pictures out of the reports while the tests of a module run."""
    with without_pictures():
        yield


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Votes:
    """Returns the vote files of all holders of the small run, for each form of votes.

    The votes do not depend on the aggregator.
    """
    plan = seeded_plan(GaussianVotes(noise_std=1.0))
    votes_of_forms = Votes()
    for name, form in FORMS.items():
        plans = (
            replace(holder_plan(plan, holder=number), cast=form.cast, vote_clip=form.vote_clip)
            for number in range(1, NUM_HOLDERS + 1)
        )
        folder = tmp_path_factory.mktemp(name)
        votes_of_forms[name] = [
            cast_votes(plan_of_holder, vote_folder=folder) for plan_of_holder in plans
        ]
    return votes_of_forms
