"""A tuned release is the best of a secret random number of runs, all of which are charged before the first begins."""

import json
import os
import stat
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate import accounting
from pate.accounting.event_tree import nodes
from pate.aggregators import CenteredVotes
from pate.models import LinearStudent
from pate.report import PrivacyStatement, Report, format_epsilon
from pate.run import tuning
from pate.run.places import group_epsilon
from pate.run.plan import Plan
from pate.run.tuning import dominating_event, tune
from pate.teachers import KernelTeacher
from scripts import verify_release
from tests.e2e.commands import SMALL, refused_command, succeeded
from tests.e2e.small_run import (
    SilentMonitor,
    ledger_beside,
    run_until_released,
    small_plan,
    without_pictures,
)
from tests.refusals import ANY, refused_parameter

EPSILON = 20.0
SCORE_EPSILON = 8.0
DISTRIBUTION = accounting.TruncatedNegativeBinomial(eta=1.0, gamma=0.25)
SEED_OF_THREE_RUNS = 13
CLIP_FACTORS = (0.5, 1.0, 2.0)


def competing_plans(seed: int | None = None) -> list[Plan]:
    """Returns three plans that differ in the clip of their votes."""
    return [
        replace(
            small_plan(),
            teacher=KernelTeacher(),
            num_teachers=None,
            aggregator=CenteredVotes(noise_multiplier=1.0, clip_factor=clip_factor, rounds=2),
            student=LinearStudent(penalties=(1.0,)),
            accountant=accounting.AutoAccountant,
            target_epsilon=EPSILON,
            score_epsilon=SCORE_EPSILON,
            seed=seed,
            tensorboard=False,
            settings={"clip_factor": clip_factor},
        )
        for clip_factor in CLIP_FACTORS
    ]


def tune_quickly(
    folder: Path, plans: Sequence[Plan] | None = None, monitor: SilentMonitor | None = None
) -> Report:
    """Tunes in a folder and returns the report, which has no pictures.

    Args:
        folder: the folder of the tuned release.
        plans: the plans that compete; None for `competing_plans()`.
        monitor: the monitor of the tuning, if any.
    """
    with without_pictures():
        return tune(
            competing_plans() if plans is None else plans,
            output_dir=folder,
            distribution=DISTRIBUTION,
            monitor=monitor,
        )


def charges(folder: Path) -> list[Any]:
    """Returns the charges in the ledger beside a folder."""
    if not ledger_beside(folder).exists():
        return []
    return list(accounting.SharedLedger.stored(ledger_beside(folder)).entries)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report, SilentMonitor]:
    """Returns the folder, the report and the monitor of a tuned release."""
    folder = tmp_path_factory.mktemp("tuned") / "run"
    monitor = SilentMonitor()
    return folder, tune_quickly(folder, monitor=monitor), monitor


def test_tuning_is_charged_once_for_each_kind_of_people(
    run: tuple[Path, Report, SilentMonitor],
) -> None:
    """A tuning has two charges: `EPSILON` for the private records, and `SCORE_EPSILON` for the test records.

    The first is for all runs together, the second for all their scores.
    """
    folder, report, _ = run
    of_release, of_scores = charges(folder)
    assert of_release.data != of_scores.data
    [event] = [
        node for node, _ in nodes(of_release.event) if isinstance(node, accounting.TuningEvent)
    ]
    assert event.distribution == DISTRIBUTION
    assert event.score == accounting.NoOpEvent()
    assert isinstance(of_scores.event, accounting.TuningEvent)
    assert of_scores.event.base == accounting.NoOpEvent()
    assert of_release.epsilon == pytest.approx(EPSILON, rel=1e-3) and of_release.epsilon <= EPSILON
    assert of_scores.epsilon == pytest.approx(SCORE_EPSILON, rel=1e-3)
    assert report.privacy.epsilon == of_release.epsilon


def test_published_price_is_that_of_the_tuning(run: tuple[Path, Report, SilentMonitor]) -> None:
    """privacy.json has the epsilon of the tuning, and the numbers it is computed from; no score is published."""
    folder, _, _ = run
    statement = PrivacyStatement.read(folder / "release", remedy="")
    assert statement.epsilon == pytest.approx(EPSILON, rel=1e-2)
    assert statement.scores is None
    assert statement.tuning is not None
    assert statement.tuning.num_candidates == len(CLIP_FACTORS)
    assert statement.tuning.run_epsilon < EPSILON
    card = (folder / "release" / "privacy_card.md").read_text()
    assert "a secret random number, 4 expected" in card


def test_card_prices_several_teachers_by_the_whole_tuning(tmp_path: Path) -> None:
    """With `holders`, the card's price for a person at two holders follows from the charge, not from one run."""
    plans = [replace(plan, holders=2) for plan in competing_plans()]
    folder = tmp_path / "run"
    tune_quickly(folder, plans=plans)
    charged_event = charges(folder)[0].event
    price = group_epsilon(charged_event, group_size=2, budget=plans[0].budget)
    card = (folder / "release" / "privacy_card.md").read_text()
    assert f"group size 2: epsilon {format_epsilon(price)}." in card


def test_release_of_a_tuning_is_verified(
    run: tuple[Path, Report, SilentMonitor], tmp_path: Path
) -> None:
    """The verifier accepts a tuned release, and finds a fault if the stated epsilon is that of a single run."""
    folder, _, _ = run
    release = folder / "release"
    assert verify_release.main([str(release)]) == 0
    statement = json.loads((release / "privacy.json").read_text())
    statement["epsilon"] = statement["tuning"]["run_epsilon"]
    [line] = verify_release._price(statement)
    assert line.startswith("privacy.json: epsilon is") and "the noise gives" in line


def test_nothing_tells_the_number_of_runs(run: tuple[Path, Report, SilentMonitor]) -> None:
    """A tuned release leaves no folder of runs, publishes no file of secret choices, and shows one stage for all runs.

    The secret choices are how many runs there were, and with which settings.
    Only the owner can read folder and ledger.
    """
    folder, _, monitor = run
    assert not (folder / "runs").exists()
    assert monitor.notes == []
    assert sum(stage.startswith("training runs") for stage in monitor.stages) == 1
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(ledger_beside(folder)).st_mode) == 0o600
    assert not any("choices" in path.name for path in (folder / "release").rglob("*"))


def test_a_finished_tuning_costs_nothing_more(run: tuple[Path, Report, SilentMonitor]) -> None:
    """A second call of a finished tuning returns the same report and charges nothing."""
    folder, report, _ = run
    assert tune_quickly(folder) == report
    assert len(charges(folder)) == 2


def test_tuning_is_charged_before_the_first_run_and_goes_on_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuning that is killed in its first run has been charged as a whole.

    The same call then begins again with the setting of the killed run, and charges nothing more.
    """
    folder = tmp_path / "run"
    clip_factors_before: list[object] = []

    def record_and_interrupt(plan: Plan, output_dir: Path) -> Report:
        clip_factors_before.append(plan.settings["clip_factor"])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tuning, "train", record_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            tune_quickly(folder)
    assert len(charges(folder)) == 2
    clip_factors_after: list[object] = []
    train = tuning.train

    def record_and_train(plan: Plan, output_dir: Path) -> Report:
        clip_factors_after.append(plan.settings["clip_factor"])
        return train(plan, output_dir=output_dir)

    monkeypatch.setattr(tuning, "train", record_and_train)
    report = tune_quickly(folder)
    assert clip_factors_after[0] == clip_factors_before[0]
    assert len(charges(folder)) == 2
    assert report.privacy.tuning is not None


def test_best_score_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published release is that of the run with the highest micro-F1, as measured with noise."""
    folder = tmp_path / "run"
    scores: dict[str, float] = {}
    train = tuning.train

    def train_and_record(plan: Plan, output_dir: Path) -> Report:
        report = train(plan, output_dir=output_dir)
        assert report.privacy.scores is not None
        release = (output_dir / "release" / "release.npz").read_bytes()
        scores[release.hex()] = report.privacy.scores.micro_f1.value
        return report

    monkeypatch.setattr(tuning, "train", train_and_record)
    tune_quickly(folder, plans=competing_plans(seed=SEED_OF_THREE_RUNS))
    assert len(scores) > 1
    published = (folder / "release" / "release.npz").read_bytes().hex()
    assert scores[published] == max(scores.values())


def test_a_tuning_beyond_the_cap_is_refused(tmp_path: Path) -> None:
    """A tuning is refused, and nothing charged, if its epsilon exceeds the cap on the total."""
    folder = tmp_path / "run"
    plans = [replace(plan, max_total_epsilon=EPSILON / 2) for plan in competing_plans()]
    with refused_parameter("max_epsilon", value=EPSILON / 2):
        tune_quickly(folder, plans=plans)
    assert charges(folder) == []


@pytest.mark.parametrize(
    "change_plan",
    [
        pytest.param(partial(replace, score_epsilon=None), id="no price of comparing"),
        pytest.param(partial(replace, target_epsilon=None), id="no solved noise"),
        pytest.param(partial(replace, redraw=True), id="drawn again"),
    ],
)
def test_plans_that_cannot_compete_are_refused(
    change_plan: Callable[[Plan], Plan], tmp_path: Path
) -> None:
    """Plans without `score_epsilon`, without `target_epsilon`, or with `redraw` cannot be tuned."""
    plans = [change_plan(plan) for plan in competing_plans()]
    with refused_parameter("tune", value="true"):
        tune_quickly(folder=tmp_path / "run", plans=plans)


def test_plans_with_different_terms_are_refused(tmp_path: Path) -> None:
    """Plans with different epsilons cannot be tuned together, and neither can a single plan."""
    first, second, _ = competing_plans()
    with refused_parameter("tune", value="true"):
        tune_quickly(
            folder=tmp_path / "run", plans=[first, replace(second, target_epsilon=EPSILON + 1)]
        )
    with refused_parameter("tune", value="1 settings"):
        tune_quickly(folder=tmp_path / "run", plans=[first])


def test_plans_for_other_people_are_refused(tmp_path: Path) -> None:
    """Plans whose data sets have other test records or another unit of privacy cannot be tuned together.

    The reason is that the ledger is charged for the people of the first plan, whichever run wins.
    """
    first, second, _ = competing_plans()
    dataset = first.load_dataset()
    other_test = replace(dataset, test=dataset.test.take(slice(0, len(dataset.test) - 1)))
    other_unit = replace(dataset, group_unit=accounting.PrivacyUnit(words="one patient"))
    for other_dataset in (other_test, other_unit):
        assert other_dataset.private_digest() == dataset.private_digest()
        other_plan = replace(second, load_dataset=partial(deepcopy, other_dataset))
        with refused_parameter("tune", value="true"):
            tune_quickly(folder=tmp_path / "run", plans=[first, other_plan])
    assert charges(tmp_path / "run") == []


def test_people_with_budgets_of_their_own_are_refused(tmp_path: Path) -> None:
    """A data set with budget classes cannot be tuned, and the error says so, for whichever plan reads them."""
    first, second, _ = competing_plans()
    dataset = first.load_dataset()
    with_budgets = replace(dataset, budgets=np.full(len(dataset.private), "cautious"))
    other_plan = replace(second, load_dataset=partial(deepcopy, with_budgets))
    with refused_parameter("tune", value="true", rule_words="no data.budget"):
        tune_quickly(folder=tmp_path / "run", plans=[first, other_plan])
    assert charges(tmp_path / "run") == []


def test_people_of_an_earlier_release_are_refused_whichever_plan_starts_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one of the plans starts from an earlier release, people whom another account lists are refused."""
    dataset = competing_plans()[0].load_dataset()

    def plan_for(digest_letter: str, plan: Plan) -> Plan:
        owners = {"id": frozenset({b"7"})}
        table = replace(dataset, private_cells=digest_letter * 64, owners=owners)
        return replace(plan, load_dataset=partial(deepcopy, table))

    run_until_released(
        replace(plan_for(digest_letter="a", plan=small_plan()), seed=None), folder=tmp_path / "a"
    )
    monkeypatch.setattr(Plan, "_with_start_at_earlier_release", lambda plan, dataset: plan)
    first, second, _ = (plan_for(digest_letter="b", plan=plan) for plan in competing_plans())
    with refused_parameter("ledger", value=ANY, rule_words="knows 1 of these 1 ids and groups"):
        tune_quickly(folder=tmp_path / "run", plans=[first, replace(second, start="release")])
    assert len(charges(tmp_path / "run")) == 1


def test_prices_that_differ_need_a_common_bound() -> None:
    """Plans that are tuned together have one price: that of the most expensive of their Gaussian events.

    Events that are not Gaussian, or that may fail, must be equal: a Gaussian event would not count the failures.
    """
    pure = accounting.PureDpEvent(epsilon=0.1)
    assert dominating_event([pure, pure]) == pure
    several = accounting.SelfComposedEvent(accounting.GaussianEvent(noise_multiplier=4.0), count=16)
    bound = dominating_event([accounting.GaussianEvent(noise_multiplier=2.0), several])
    assert isinstance(bound, accounting.GaussianEvent)
    assert bound.noise_multiplier == pytest.approx(1.0) and bound.noise_multiplier <= 1
    with refused_parameter("tune", value="true"):
        dominating_event([pure, accounting.PureDpEvent(epsilon=0.2)])
    failing = accounting.ApproximateEvent(several, failure_prob=1e-6)
    assert dominating_event([failing, failing]) == failing
    with refused_parameter("tune", value="true"):
        dominating_event([accounting.GaussianEvent(noise_multiplier=2.0), failing])


WORDS = (
    *SMALL,
    "aggregator=gaussian_votes",
    "teacher.penalty=0.5,2",
    "target_epsilon=200",
    "score_epsilon=500",
    "tune=true",
    "tune_runs=2",
    "logger=none",
    "seed=4",
)


def test_a_sweep_that_tunes_makes_one_release(tmp_path: Path) -> None:
    """`pate-train -m ... tune=true` writes one release and no table, and prints the epsilon of the tuning."""
    done = succeeded("train", arguments=["-m", *WORDS], cwd=tmp_path)
    [release] = (tmp_path / "outputs").glob("*/release")
    assert release.parent.name.startswith("digits_grid-gaussian_votes-tuned-")
    assert not list(tmp_path.rglob("sweep.csv"))
    assert "epsilon <= 200.0" in done.stdout
    assert "the best of a secret number of runs" in done.stdout + done.stderr
    assert PrivacyStatement.read(release, remedy="").tuning is not None


def test_tuning_without_a_sweep_is_refused(tmp_path: Path) -> None:
    """`tune=true` without `-m`, where there is nothing to choose from, is refused, and no ledger is made."""
    words = [word.replace("0.5,2", "2") for word in WORDS]
    line = refused_command("train", arguments=words, cwd=tmp_path)
    assert line.splitlines()[-1].startswith("tune=true: expected a sweep")
    assert not list(tmp_path.rglob("ledger.db"))


def test_a_setting_that_fails_ends_the_tuning(tmp_path: Path) -> None:
    """If one of the competing settings is impossible, the command is refused, and no ledger is made."""
    words = [word.replace("0.5,2", "0.5,-2") for word in WORDS]
    line = refused_command("train", arguments=["-m", *words], cwd=tmp_path)
    assert "penalty" in line
    assert not list(tmp_path.rglob("ledger.db"))


def test_a_failed_tuning_does_not_go_on_in_the_next_command(tmp_path: Path) -> None:
    """After a tuning was refused, the next command of the same process tunes nothing."""
    words = [word.replace("0.5,2", "0.5,-2") for word in WORDS]
    refused_command("train", arguments=["-m", *words], cwd=tmp_path)
    printed = succeeded("train", arguments=["data=digits_grid", "--cfg", "job"], cwd=tmp_path)
    assert "target_epsilon:" in printed.stdout
    assert not list(tmp_path.rglob("ledger.db"))


def test_account_prices_the_best_of_secret_runs(tmp_path: Path) -> None:
    """`pate-account tune_runs=5` prints the epsilon of one run, and the larger one of the best of 5 expected runs."""
    words = ("aggregator=centered_votes", "target_epsilon=1", "tune_runs=5", "format=json")
    quote = json.loads(succeeded("account", arguments=words, cwd=tmp_path).stdout.splitlines()[-1])
    assert quote["epsilon"] <= 1 < quote["best_of_runs"] < 1.6
    page = succeeded("account", arguments=words[:-1], cwd=tmp_path).stdout
    assert "best of secret runs" in page
