"""What several files of runs share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pate.aggregators import GaussianVotes
from pate.run.train import train
from tests.e2e.small_run import small_plan
from tests.e2e.stages_of_run import HOLDERS, Votes, cast, holder_plan, seeded_plan

FORMS: dict[str, dict[str, Any]] = {
    "bits": {},
    "confidences": {"cast": "confidences"},
    "clipped": {"vote_clip": 2},
}


@contextmanager
def without_pictures() -> Iterator[None]:
    """The pictures of a report take longer than the rest of so small a run and decide nothing; processes draw them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pate.report.page.pictures", lambda *_, **__: {})
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_pictures() -> Iterator[None]:
    with without_pictures():
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small run, to be read and shown again; nobody changes it."""
    folder = tmp_path_factory.mktemp("run") / "out"
    with without_pictures():
        train(small_plan(all_records=True), folder)
    return folder


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Votes:
    """The vote files of all holders of the small run, of each form; nothing of them depends on an aggregator."""
    plan = seeded_plan(GaussianVotes(noise_std=1.0))
    made = Votes()
    for name, changes in FORMS.items():
        plans = (holder_plan(plan, number, **changes) for number in range(1, HOLDERS + 1))
        folder = tmp_path_factory.mktemp(name)
        made[name] = [cast(each, folder) for each in plans]
    return made
