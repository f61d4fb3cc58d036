"""Runs with `score_epsilon` release scores on test records, which are charged to an account of these records."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, Budget, ComposedEvent, ScoresEvent, SharedLedger
from pate.aggregators import StableTopK
from pate.data import Table
from pate.report import PrivacyStatement, Report
from pate.run.folder import RunFolder
from pate.run.plan import Plan
from pate.run.score_release import account_of_test_records
from pate.run.train import train
from scripts import verify_release
from tests.e2e.small_run import (
    SilentMonitor,
    ledger_beside,
    run_until,
    small_dataset,
    small_plan,
    without_pictures,
)
from tests.refusals import refused_parameter

EPSILON = 2.0


def scored_plan() -> Plan:
    """Returns the small plan with scores, at an epsilon of their own."""
    return replace(small_plan(), score_epsilon=EPSILON)


def score_charges(folder: Path) -> list[Any]:
    """Returns the charges of scores in the ledger of a run."""
    entries = SharedLedger.stored(ledger_beside(folder)).entries
    return [entry for entry in entries if isinstance(entry.event, ScoresEvent)]


def statement_of(folder: Path) -> PrivacyStatement:
    """Returns the `privacy.json` that a run published."""
    return PrivacyStatement.read(folder / "release", remedy="")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """Returns the folder and the report of a run that released scores."""
    folder = tmp_path_factory.mktemp("scored") / "run"
    with without_pictures():
        return folder, train(scored_plan(), output_dir=folder)


def test_scores_are_charged_to_the_test_records(run: tuple[Path, Report]) -> None:
    """The ledger has one charge for scores, of at most their epsilon, in an account apart from the private records'."""
    folder, _ = run
    (score_charge,) = score_charges(folder)
    assert score_charge.epsilon <= EPSILON
    assert score_charge.data != small_dataset().private_digest()
    others = [
        entry
        for entry in SharedLedger.stored(ledger_beside(folder)).entries
        if entry != score_charge
    ]
    assert [entry.data for entry in others] == [small_dataset().private_digest()]


@pytest.mark.parametrize("settings", [{}, {"id": "id"}, {"id": "id", "group": "family"}])
def test_the_account_of_test_records_is_the_same_beside_other_records(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    """A test file has one account for scores, in any order of its rows, whatever private and public files are used.

    The account does not depend on the columns that are read as labels or groups. Fewer test records have another
    account.
    """
    rng = np.random.default_rng(0)

    def table(name: str, num_rows: int) -> str:
        """Writes a table, and returns its path."""
        lines = [
            f"{name}-{row},{name}-{row // 3},{rng.random():.3f},{row % 2},{row % 5 % 2}"
            for row in range(num_rows)
        ]
        return written(f"{name}.csv", lines=lines)

    def written(file_name: str, lines: list[str]) -> str:
        text = "\n".join(["id,family,size,flu,rash", *lines]) + "\n"
        (tmp_path / file_name).write_text(text)
        return str(tmp_path / file_name)

    def account(
        private: str,
        public: str,
        test: str,
        *,
        labels: tuple[str, ...] = ("flu", "rash"),
        columns_by_role: Mapping[str, str] = settings,
    ) -> str:
        dropped = {"id", "family"} - set(columns_by_role.values())
        data = Table(
            private=private,
            public=public,
            test=test,
            labels=labels,
            drop=tuple(sorted(dropped)),
            **columns_by_role,
        )
        return account_of_test_records(data.load())

    test = table("test", num_rows=90)
    first = account(private=table("a", 300), public=table("b", 60), test=test)
    assert account(private=table("x", 450), public=table("y", 30), test=test) == first
    head, *lines = (tmp_path / "test.csv").read_text().splitlines()
    assert head.startswith("id")
    private = str(tmp_path / "a.csv")
    public = str(tmp_path / "b.csv")
    assert account(private, public, test=written("reverse.csv", lines=lines[::-1])) == first
    assert account(private, public, test=written("fewer.csv", lines=lines[3:])) != first
    assert account(private, public, test=test, labels=("rash",)) == first
    assert account(private, public, test=test, columns_by_role={"group": "family"}) == first


def test_scores_stand_in_all_published_files(run: tuple[Path, Report]) -> None:
    """privacy.json and the report have the same scores, and the model card and the privacy card state them.

    The model card does not say of any score that it is not published.
    """
    folder, report = run
    scores = statement_of(folder).scores
    assert scores is not None and scores == report.privacy.scores
    assert report.student is not None
    assert scores.micro_f1.low <= report.student.micro_f1 <= scores.micro_f1.high
    readme = (folder / "release" / "README.md").read_text()
    card = (folder / "release" / "privacy_card.md").read_text()
    assert "not published" not in readme
    assert "type: mean_average_precision" in readme
    for score in scores.by_name.values():
        assert str(score) in readme and str(score) in card
    assert "Nobody in this data set is in both" in card


def test_report_shows_true_and_released_scores(run: tuple[Path, Report]) -> None:
    """The owner's page shows the true micro-F1 and the released one."""
    folder, report = run
    assert report.student is not None and report.privacy.scores is not None
    page = (folder / "report.html").read_text()
    assert f"{report.student.micro_f1:.3f}" in page
    assert str(report.privacy.scores.micro_f1) in page


def test_release_with_scores_is_verified(
    run: tuple[Path, Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verifier finds no fault in a release with scores, whose votes it cannot price.

    A changed score and a smaller epsilon of the scores are found, although the digests in the manifest were written
    again.
    """
    folder, _ = run
    release = folder / "release"
    assert verify_release.main([str(release)]) == 3  # the epsilon of its votes is not recomputed
    original = json.loads((release / "privacy.json").read_text())
    for change in ("score", "price"):
        statement = json.loads(json.dumps(original))
        if change == "score":
            statement["scores"]["micro_f1"] = {"value": 0.99, "low": 0.98, "high": 1.0}
        else:
            statement["scores"]["epsilon"] = 0.1
        copy = tmp_path / change
        copy.mkdir()
        for path in release.rglob("*"):
            if path.is_file():
                target = copy / path.relative_to(release)
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(path.read_bytes())
        (copy / "privacy.json").write_text(json.dumps(statement))
        manifest = json.loads((copy / "manifest.json").read_text())
        content = (copy / "privacy.json").read_bytes()
        manifest["sha256"]["privacy.json"] = hashlib.sha256(content).hexdigest()
        (copy / "manifest.json").write_text(json.dumps(manifest))
        capsys.readouterr()
        assert verify_release.main([str(copy)]) == 1
        assert "scores" in capsys.readouterr().out, change


def test_run_without_a_price_has_no_scores(tmp_path: Path) -> None:
    """Without `score_epsilon`, neither privacy.json nor report.json has a key `scores`, and none are charged."""
    with without_pictures():
        train(small_plan(), output_dir=tmp_path / "run")
    assert "scores" not in json.loads((tmp_path / "run" / "release" / "privacy.json").read_text())
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert "scores" not in report["privacy"]
    assert score_charges(folder=tmp_path / "run") == []


def test_kill_before_the_draw_costs_nothing(tmp_path: Path) -> None:
    """A run that is killed as the stage of releasing scores begins has charged no scores."""
    run_until(scored_plan(), folder=tmp_path / "run", stage="releasing scores")
    assert score_charges(folder=tmp_path / "run") == []


def test_continued_run_draws_scores_once(tmp_path: Path) -> None:
    """A run without a seed, killed after its scores were drawn, keeps them when continued, and charges no more."""
    plan = replace(scored_plan(), seed=None)
    run_until(plan, folder=tmp_path / "run", stage="training the majority")
    (score_charge,) = score_charges(folder=tmp_path / "run")
    sums = (
        SharedLedger.stored(ledger_beside(run_folder=tmp_path / "run"))
        .account(data=score_charge.data)
        .read(score_charge.key)
    )
    with without_pictures():
        train(plan, output_dir=tmp_path / "run")
    assert score_charges(folder=tmp_path / "run") == [score_charge]
    account = SharedLedger.stored(ledger_beside(run_folder=tmp_path / "run")).account(
        data=score_charge.data
    )
    assert account.read(score_charge.key) == sums


def test_scores_move_to_another_ledger_with_their_charge(tmp_path: Path) -> None:
    """A run that is continued with another ledger copies its scores there, with their charge, and draws no others."""
    plan = replace(scored_plan(), seed=None)
    run_until(plan, folder=tmp_path / "run", stage="training the majority")
    (score_charge,) = score_charges(folder=tmp_path / "run")
    sums = (
        SharedLedger.stored(ledger_beside(run_folder=tmp_path / "run"))
        .account(data=score_charge.data)
        .read(score_charge.key)
    )
    with without_pictures():
        train(replace(plan, ledger=tmp_path / "other.db"), output_dir=tmp_path / "run")
    other_ledger = SharedLedger.stored(path=tmp_path / "other.db")
    assert score_charge.event in [entry.event for entry in other_ledger.entries]
    assert other_ledger.account(data=score_charge.data).read(score_charge.key) == sums


def test_published_price_of_scores_has_all_draws(tmp_path: Path) -> None:
    """A run that drew its release twice, each time with scores, publishes the price of both scores together."""
    folder = tmp_path / "run"
    plan = replace(scored_plan(), seed=None)
    run_until(plan, folder=folder, stage="training the majority")
    RunFolder(folder).release_file.unlink()
    with without_pictures():
        train(replace(plan, redraw=True), output_dir=folder)
    events = [charge.event for charge in score_charges(folder=folder)]
    assert len(events) == 2
    scores = statement_of(folder).scores
    assert scores is not None
    price_of_both = Budget(delta=scores.delta).epsilon_of(ComposedEvent(tuple(events)))
    assert EPSILON < price_of_both <= scores.epsilon <= 1.01 * price_of_both
    assert verify_release.main([str(folder / "release")]) == 3  # no fault is found


def test_scores_of_a_lost_draw_move_to_another_ledger_too(tmp_path: Path) -> None:
    """A run that drew its release twice, each time with scores, has two charges of scores in another ledger, too."""
    plan = replace(scored_plan(), seed=None)
    for redraw in (False, True):
        run_until(
            replace(plan, redraw=redraw), folder=tmp_path / "run", stage="training the majority"
        )
        RunFolder(tmp_path / "run").release_file.unlink()
    assert len(score_charges(folder=tmp_path / "run")) == 2
    with without_pictures():
        train(replace(plan, ledger=tmp_path / "other.db"), output_dir=tmp_path / "run")
    other_entries = SharedLedger.stored(path=tmp_path / "other.db").entries
    assert sum(isinstance(entry.event, ScoresEvent) for entry in other_entries) == 2


def test_scores_of_two_copies_of_a_run_are_two_charges_in_one_ledger(tmp_path: Path) -> None:
    """A copy of a run draws a release and scores in another ledger, and then goes on with the ledger of the run.

    Its scores stay the same, and are charged there beside those of the run.
    """
    plan = replace(scored_plan(), seed=None)
    folder, copy = (tmp_path / letter / "run" for letter in "ab")
    run_until(plan, folder=folder, stage="releasing labels")
    shutil.copytree(folder, copy)
    with without_pictures():
        train(replace(plan, ledger=ledger_beside(run_folder=copy)), output_dir=copy)
        train(plan, output_dir=folder)
        scores = statement_of(copy).scores
        (copy / "report.json").unlink()
        train(replace(plan, ledger=ledger_beside(run_folder=folder)), output_dir=copy)
    assert statement_of(copy).scores == scores != statement_of(folder).scores
    assert len(score_charges(folder=folder)) == 2


def test_cap_without_room_refuses_before_training(tmp_path: Path) -> None:
    """A run is refused before training if the cap on the total epsilon has no room for the scores.

    Nothing is charged.
    """
    monitor = SilentMonitor()
    plan = replace(
        scored_plan(), target_epsilon=0.5, max_total_epsilon=1.0, ledger=tmp_path / "capped.db"
    )
    with refused_parameter("max_epsilon", value=1.0):
        train(plan, output_dir=tmp_path / "run", monitor=monitor)
    assert "training teachers" not in monitor.stages
    assert SharedLedger.stored(path=tmp_path / "capped.db").entries == []


def test_scores_need_replaced_groups(tmp_path: Path) -> None:
    """Scores are refused under add/remove adjacency.

    Scores of subgroups are refused without `score_epsilon`, and for data that are not a table.
    """
    add_remove_aggregator = StableTopK(
        selection_scale=2.0, test_std=1.0, failure_prob=1e-8, adjacency=Adjacency.ADD_REMOVE
    )
    with refused_parameter("score_epsilon", value=EPSILON, rule_words="replace_one"):
        train(
            replace(scored_plan(), aggregator=add_remove_aggregator), output_dir=tmp_path / "added"
        )
    with refused_parameter("score_groups", value="['sex']", rule_words="score_epsilon="):
        train(replace(small_plan(), score_groups=["sex"]), output_dir=tmp_path / "unpriced")
    with refused_parameter("score_groups", value="['sex']", rule_words="without a table"):
        train(replace(scored_plan(), score_groups=["sex"]), output_dir=tmp_path / "no table")
