"""Calibrations and results on disk: read back, priced again, refused where they are too cheap or damaged."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pytest

from pate import accounting
from pate.accounting import Budget
from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from pate.aggregators.failures import with_failure_prob_for
from pate.comparison import Contender
from pate.comparison.calibration import Calibration, NotTrained, calibrate_method
from pate.comparison.runs import Run
from pate.comparison.trial import Trial
from pate.files.reading import DamagedFile
from pate.votes import VoteShape
from tests.e2e.damage import WAYS, Way, flip_one_bit, remove
from tests.e2e.small_run import NUM_LABELS, NUM_QUERIES, NUM_TEACHERS
from tests.refusals import ANY, refused
from tests.unit.comparison.conftest import method, small_bench

BUDGET = Budget(epsilon=2.0, delta=1e-6)
SHAPE = {"num_queries": NUM_QUERIES, "num_labels": NUM_LABELS, "num_teachers": NUM_TEACHERS}
TABLE = StableTopK(selection_scale=40.0, test="table", table_order=5.0, table_budget=0.01)


def calibrated_contender(aggregator: Aggregator, path: Path) -> Contender:
    """Returns the aggregator fitted to epsilon 2, with a calibration that is kept in a file."""
    return calibrate_method(
        method(name="m", aggregator=aggregator),
        budget=BUDGET,
        bench=small_bench(path.parent),
        file_path=path,
    )


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", [GaussianVotes(noise_std=1.0), TABLE])
def test_calibrated_contender_costs_at_most_the_epsilon(aggregator: Any, tmp_path: Path) -> None:
    """A method calibrated to epsilon 2 has the noise of `calibrated` and costs between 1.99 and 2.

    A second call reads the same values from its file.
    """
    contender = calibrated_contender(aggregator=aggregator, path=tmp_path / "t.json")
    wanted = aggregator.calibrated(
        target_epsilon=2.0,
        target_delta=1e-6,
        num_queries=NUM_QUERIES,
        num_labels=NUM_LABELS,
        num_teachers=NUM_TEACHERS,
    )
    solved = with_failure_prob_for(
        aggregator=replace(aggregator, **contender.parameters),
        delta=1e-6,
        num_queries=SHAPE["num_queries"],
    )
    assert solved == wanted
    assert 1.99 < contender.epsilon <= 2.0
    assert set(contender.parameters) <= {
        "noise_std",
        "selection_scale",
        "table_order",
        "table_budget",
    }
    again = calibrated_contender(aggregator=aggregator, path=tmp_path / "t.json")
    assert (again.epsilon, again.parameters) == (contender.epsilon, contender.parameters)


@pytest.mark.slow
def test_edited_calibration_file_makes_no_release_cheaper(tmp_path: Path) -> None:
    """The noise in a calibration file is lowered by 10%: it is priced again and refused, because it
    costs more than epsilon 2.
    """
    path = tmp_path / "t.json"
    calibrated_contender(aggregator=GaussianVotes(noise_std=1.0), path=path)
    kept = json.loads(path.read_text())
    kept["parameters"]["noise_std"] *= 0.9
    path.write_text(json.dumps(kept))
    with refused("epsilon", value="2.24535"):
        calibrated_contender(aggregator=GaussianVotes(noise_std=1.0), path=path)


@dataclass(frozen=True, kw_only=True)
class Overshooting(GaussianVotes):
    """A calibrator whose noise does not quite meet the budget."""

    def fitted(self, budget: accounting.Budget, shape: VoteShape) -> Self:
        """Returns the aggregator with 1% less noise than the budget needs."""
        return replace(self, noise_std=0.99 * super().fitted(budget, shape).noise_std)


@pytest.mark.slow
def test_a_calibrator_that_overshoots_is_refused(tmp_path: Path) -> None:
    """A user's aggregator whose fitted noise is 1% too small is refused.

    The refusal is stored, and a second call raises it again.
    """
    assert (
        calibrated_contender(
            aggregator=GaussianVotes(noise_std=1.0), path=tmp_path / "a.json"
        ).epsilon
        <= 2
    )
    with refused("epsilon", value=ANY, rule="at most 2 once calibrated"):
        calibrated_contender(aggregator=Overshooting(noise_std=1.0), path=tmp_path / "b.json")
    with pytest.raises(NotTrained, match="expected at most 2 once"):  # as the file says
        calibrated_contender(aggregator=Overshooting(noise_std=1.0), path=tmp_path / "b.json")


RUN = Run(
    aggregator="gaussian_votes",
    epsilon=2.0,
    seed=3,
    num_queries=40,
    accuracy=1,
    mean_average_precision=0.25,
)
DAMAGE = [way for way in WAYS if way not in (remove, flip_one_bit)]


@pytest.mark.parametrize("way", DAMAGE, ids=lambda way: way.__name__)
def test_damaged_calibration_is_refused_in_one_line(tmp_path: Path, way: Way) -> None:
    """A stored run and a stored calibration are read back equal, and only their owner may read
    them.

    After their file is damaged in one `way`, reading it is refused with advice to repeat the
    command.
    """
    calibration = tmp_path / "calibrations" / "a.json"

    def fail_if_trained() -> Contender:
        pytest.fail("the method was calibrated, although no result was asked for")

    cached = Trial(
        bench=small_bench(),
        blank=RUN,
        paths={3: tmp_path / "runs" / "a.json"},
        contender=fail_if_trained,
    )
    assert cached.read(3) is None
    assert Calibration.read(calibration) is None
    cached.write(3, run=RUN)
    Calibration(parameters={"noise_std": 2.5}, epsilon=1.9).write(calibration)
    assert cached.read(3) == RUN
    assert Calibration.read(calibration) == Calibration(parameters={"noise_std": 2.5}, epsilon=1.9)
    assert [path.stat().st_mode & 0o777 for path in (calibration, calibration.parent)] == [
        0o600,
        0o700,
    ]
    for path, read in (
        (cached.paths[3], lambda: cached.read(3)),
        (calibration, lambda: Calibration.read(calibration)),
    ):
        way(path)
        with refused("file", value=ANY, rule="the same command", kind=DamagedFile):
            read()
