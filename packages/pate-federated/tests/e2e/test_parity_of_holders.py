"""With equal seeds, holders, an aggregator and a student in separate steps give the release and student of one run."""

from pathlib import Path

import pytest

from pate.config.schema import names_in_config_group
from small_federation.stages import Votes, release, release_plan, require_the_same, train_student
from tests.e2e.shipped_aggregators import form_for, shipped_aggregator
from tests.e2e.small_run import charges_beside, run_until, seeded_plan


@pytest.mark.parametrize(
    "name", [*names_in_config_group("aggregator"), "clipped_votes aggregator.norm=l1"]
)
def test_every_aggregator_gives_equal_releases_with_holders(
    name: str, votes: Votes, tmp_path: Path
) -> None:
    """For each shipped aggregator, votes of four holders give the same release, student and charge as `train`."""
    plan = seeded_plan(shipped_aggregator(name))
    run_until(plan, folder=tmp_path / "train", stage="training the majority")
    release_folder = tmp_path / "holders" / "apart"  # one seed draws once in a ledger
    release(
        release_plan(plan),
        vote_paths=votes[form_for(plan.aggregator)],
        output_folder=release_folder,
    )
    train_student(plan, release_folder=release_folder)
    require_the_same(train=tmp_path / "train", apart=release_folder)
    assert (
        charges_beside(tmp_path / "train")[0]["event"] == charges_beside(release_folder)[0]["event"]
    )
