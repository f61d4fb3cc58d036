"""Calibrations and runs in files are read back and priced again, and refused if they are too cheap or damaged."""

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
from tests.e2e.damage import WAYS, Way, remove
from tests.e2e.small_run import NUM_LABELS, NUM_QUERIES, NUM_TEACHERS
from tests.refusals import ANY, refused_parameter
from tests.unit.comparison.conftest import pate_method, small_bench

BUDGET = Budget(epsilon=2.0, delta=1e-6)
TABLE_TEST = StableTopK(selection_scale=40.0, test="table", table_order=5.0, table_budget=0.01)


def calibrated_contender(aggregator: Aggregator, calibration_path: Path) -> Contender:
    """Returns a method with the aggregator, calibrated to epsilon 2.

    Args:
        aggregator: the aggregator, whose noise is replaced.
        calibration_path: the file of the calibration, which is written, or read if it exists.
    """
    return calibrate_method(
        pate_method(name="votes", aggregator=aggregator),
        budget=BUDGET,
        bench=small_bench(comparison_folder=calibration_path.parent),
        calibration_file=calibration_path,
    )


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", [GaussianVotes(noise_std=1.0), TABLE_TEST])
def test_calibrated_contender_costs_at_most_the_epsilon(aggregator: Any, tmp_path: Path) -> None:
    """A method that is calibrated to epsilon 2 costs between 1.99 and 2, and has the noise of `Aggregator.calibrated`.

    A second call reads the same values from the file of the calibration.
    """
    contender = calibrated_contender(aggregator=aggregator, calibration_path=tmp_path / "t.json")
    calibrated_aggregator = aggregator.calibrated(
        target_epsilon=2.0,
        target_delta=1e-6,
        num_queries=NUM_QUERIES,
        num_labels=NUM_LABELS,
        num_teachers=NUM_TEACHERS,
    )
    contender_aggregator = with_failure_prob_for(
        aggregator=replace(aggregator, **contender.parameters),
        delta=1e-6,
        num_queries=NUM_QUERIES,
    )
    assert contender_aggregator == calibrated_aggregator
    assert 1.99 < contender.epsilon <= 2.0
    assert set(contender.parameters) <= {
        "noise_std",
        "selection_scale",
        "table_order",
        "table_budget",
    }
    stored_contender = calibrated_contender(
        aggregator=aggregator, calibration_path=tmp_path / "t.json"
    )
    assert stored_contender.epsilon == contender.epsilon
    assert stored_contender.parameters == contender.parameters


@pytest.mark.slow
def test_edited_calibration_file_makes_no_release_cheaper(tmp_path: Path) -> None:
    """A calibration is priced again when it is read, and refused if the noise in its file was lowered by 10%."""
    calibration_path = tmp_path / "t.json"
    calibrated_contender(aggregator=GaussianVotes(noise_std=1.0), calibration_path=calibration_path)
    calibration = json.loads(calibration_path.read_text())
    calibration["parameters"]["noise_std"] *= 0.9
    calibration_path.write_text(json.dumps(calibration))
    with refused_parameter("epsilon", value="2.24535"):
        calibrated_contender(
            aggregator=GaussianVotes(noise_std=1.0), calibration_path=calibration_path
        )


@dataclass(frozen=True, kw_only=True)
class Overshooting(GaussianVotes):
    """Gaussian votes whose calibrated noise is 1% too small for the budget."""

    def fitted(self, budget: accounting.Budget, shape: VoteShape) -> Self:
        """Returns the aggregator with 1% less noise than the budget needs."""
        return replace(self, noise_std=0.99 * super().fitted(budget, shape).noise_std)


@pytest.mark.slow
def test_a_calibrator_that_overshoots_is_refused(tmp_path: Path) -> None:
    """A user's aggregator whose calibrated noise is 1% too small is refused, at the first and at the second call.

    The first call stores its refusal in the file of the calibration, from which the second call reads it.
    """
    contender = calibrated_contender(
        aggregator=GaussianVotes(noise_std=1.0), calibration_path=tmp_path / "a.json"
    )
    assert contender.epsilon <= 2
    with refused_parameter("epsilon", value=ANY, rule_words="at most 2 once calibrated"):
        calibrated_contender(
            aggregator=Overshooting(noise_std=1.0), calibration_path=tmp_path / "b.json"
        )
    with pytest.raises(NotTrained, match=r"epsilon.*: expected at most 2 once calibrated"):
        calibrated_contender(
            aggregator=Overshooting(noise_std=1.0), calibration_path=tmp_path / "b.json"
        )


RUN = Run(
    aggregator="gaussian_votes",
    epsilon=2.0,
    seed=3,
    num_queries=40,
    accuracy=1,
    mean_average_precision=0.25,
)
# All ways of damage but a removed file, whose run or calibration is made anew.
DAMAGES = [damage_file for damage_file in WAYS if damage_file is not remove]


@pytest.mark.parametrize("damage_file", DAMAGES, ids=lambda damage_file: damage_file.__name__)
def test_a_damaged_run_or_calibration_is_refused(tmp_path: Path, damage_file: Way) -> None:
    """A run and a calibration in damaged files are refused with the advice to repeat the command.

    Before the damage they are read back equal, and only the owner of the files may read them.
    """
    calibration_path = tmp_path / "calibrations" / "a.json"
    run_path = tmp_path / "runs" / "a.json"
    calibration = Calibration(parameters={"noise_std": 2.5, "steps": (1, 2)}, epsilon=1.9)

    def fail_if_calibrated() -> Contender:
        pytest.fail("the method was calibrated, although no run was missing")

    trial = Trial(
        bench=small_bench(),
        unscored_run=RUN,
        result_file_by_seed={3: run_path},
        make_contender=fail_if_calibrated,
    )
    assert trial.read(seed=3) is None
    assert Calibration.read(calibration_path) is None
    trial.write(seed=3, comparison_run=RUN)
    calibration.write(calibration_path)
    assert trial.read(seed=3) == RUN
    assert Calibration.read(calibration_path) == calibration
    for path in (run_path, calibration_path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    damage_file(run_path)
    with refused_parameter("file", value=ANY, rule_words="the same command", kind=DamagedFile):
        trial.read(seed=3)
    damage_file(calibration_path)
    with refused_parameter("file", value=ANY, rule_words="the same command", kind=DamagedFile):
        Calibration.read(calibration_path)
