"""A run, its files, and what happens when it is stopped: the pipeline on a small data set."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pate
from pate.accounting import Ledger, RdpAccountant
from pate.aggregators import GaussianVotes
from pate.data import Dataset, Split
from pate.pipeline import train
from pate.validation import InvalidValue
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    charges,
    released,
    small_dataset,
    small_plan,
    stopped,
)

TRAINING = ["training teachers", "training the student", "training the majority"]
STAGES = ["reading", "casting", "releasing", "writing", *TRAINING]


def test_report_has_every_key_of_the_design(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    metrics = {"accuracy", "balanced_accuracy", "micro_f1", "macro_f1", "mean_average_precision"}
    wanted = {
        "privacy": {"epsilon", "delta", "adjacency", "unit", "accountant", "mechanism", "num_queries", "paper_epsilon"},
        "release": {"num_queries", "num_answered", "answer_rate", "label_accuracy", "micro_f1"},
        "teachers": {"num_teachers", "mean_accuracy", "records_per_teacher"},
        "student": metrics,
        "data": {"name", "real", "num_private", "num_public", "num_test", "num_labels", "label_cardinality"},
    }
    for section, keys in wanted.items():
        assert keys <= report[section].keys(), section
    for model in ("prior", "best_constant", "majority_vote_student", "true_label_student", "all_records_model"):
        assert metrics <= report["baselines"][model].keys(), model
    assert {"share_of_reachable", "beats_constant", "beats_prior", "text"} == report["verdict"].keys()
    for metric, (low, high) in report["intervals"]["student"].items():
        assert low <= report["student"][metric] <= high, metric
    assert {"seed", "versions", "duration_s"} <= report.keys()
    assert (report["membership"]["num_private"], report["membership"]["num_test"]) == (960, 300)
    assert len(report["membership"]["tpr_by_reference"]) == len(report["membership"]["fpr"])
    assert report["privacy"]["adjacency"] == "replace_one"
    assert report["privacy"]["noise_seeded"] is True  # as the plan has a seed
    assert report["teachers"]["num_teachers"] == NUM_TEACHERS


def test_epsilon_of_the_report_is_that_of_the_ledger_and_of_the_event(finished: Path) -> None:
    event = small_plan().aggregator.event_for(num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
    epsilon = json.loads((finished / "report.json").read_text())["privacy"]["epsilon"]
    assert epsilon == RdpAccountant().compose(event).get_epsilon(1e-5)
    ledger = Ledger.stored(finished / "ledger.db")
    assert [entry.event for entry in ledger.entries] == [event]


def test_release_folder_holds_what_may_be_published_and_nothing_else(finished: Path) -> None:
    names = {path.name for path in (finished / "release").iterdir()}
    texts = {"README.md", "privacy_card.md", "config.yaml", "schema.json", "privacy.json", "manifest.json"}
    assert names == {"release.npz", "student", *texts}
    published = [path.read_bytes() for path in (finished / "release").rglob("*") if path.is_file()]
    assert not any(word in text for text in published for word in (b"membership", b"attacker", b"by_reference"))


def test_programs_read_the_price_as_people_do_and_an_altered_one_is_refused(finished: Path, tmp_path: Path) -> None:
    release = shutil.copytree(finished / "release", tmp_path / "release")
    stated, card = pate.load(release).privacy, (release / "privacy_card.md").read_text()
    assert stated is not None
    assert f"| epsilon | {stated.epsilon:.2f} |" in card
    assert (stated.delta, stated.adjacency, stated.noise) == (1e-5, "replace_one", "seeded")
    assert all(f"mechanism.{name} | {value} |" in card.replace("\\", "") for name, value in stated.parameters.items())
    (release / "privacy.json").write_text((release / "privacy.json").read_text().replace("seeded", "system"))
    with pytest.raises(InvalidValue, match=r"privacy\.json: expected the file as it was published"):
        pate.load(release)


def test_finished_run_is_shown_again_and_costs_nothing(finished: Path) -> None:
    before = (finished / "ledger.db").read_bytes()
    monitor = SilentMonitor()
    report = train(small_plan(), finished, monitor)
    assert monitor.stages == []
    said = f"output_dir={finished}: this run is finished; nothing was trained, drawn or spent again"
    assert monitor.lines == [said]
    assert report.privacy.num_queries == NUM_QUERIES
    assert (finished / "ledger.db").read_bytes() == before


@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_run_ends_with_the_same_release(finished: Path, tmp_path: Path, stage: str) -> None:
    stopped(small_plan(), tmp_path, stage)
    assert not (tmp_path / "report.json").exists()
    train(small_plan(), tmp_path, SilentMonitor())
    assert released(tmp_path) == released(finished)
    assert charges(tmp_path) == charges(finished)


def test_folder_of_another_run_is_refused(finished: Path) -> None:
    with pytest.raises(InvalidValue, match=r"output_dir=.*: expected a new folder or this run's own.*name=small"):
        train(small_plan(settings={"name": "other"}), finished, SilentMonitor())


@pytest.mark.parametrize("name", ["teacher", "aggregator", "engine", "student"])
def test_a_name_is_not_yet_the_object(name: str) -> None:
    with pytest.raises(InvalidValue, match=rf"^{name}=linear: expected an object of a subclass of {name.title()}$"):
        small_plan(**{name: "linear"})
    with pytest.raises(
        InvalidValue, match=r"^accountant=rdp: expected a class such as pate\.accounting\.RdpAccountant"
    ):
        small_plan(accountant="rdp")


def test_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with pytest.raises(InvalidValue, match=r"expected a new folder or a run's own, found mine\.txt in it"):
        train(small_plan(), tmp_path, SilentMonitor())
    assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_refused_plan_leaves_the_folder_free_for_a_better_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="num_queries=1000"):
        train(small_plan(num_queries=1000, settings={"name": "wrong"}), tmp_path, SilentMonitor())
    assert train(small_plan(), tmp_path, SilentMonitor()).privacy.num_queries == NUM_QUERIES


def test_changed_data_are_refused(tmp_path: Path) -> None:
    def other_dataset() -> Dataset:
        data = small_dataset()
        labels = data.private.labels.copy()
        labels[0] ^= True
        private = Split(data.private.inputs, labels, data.private.record_ids, data.private.group_ids)
        return replace(data, private=private)

    stopped(small_plan(), tmp_path, "casting")
    with pytest.raises(InvalidValue, match=r"data=\w+: expected the data that this run began with"):
        train(small_plan(load_dataset=other_dataset), tmp_path, SilentMonitor())


def test_folder_that_another_process_works_on_is_refused(tmp_path: Path) -> None:
    class Nested(SilentMonitor):
        def stage(self, name: str, total: int | None = None):
            train(small_plan(), tmp_path, SilentMonitor())
            raise AssertionError("the folder was not locked")

    with pytest.raises(InvalidValue, match="expected a folder that no other run works on"):
        train(small_plan(), tmp_path, Nested())


def test_partition_of_another_run_is_refused(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    for path in (folder, other):
        stopped(small_plan(seed=None), path, "casting votes")
    (folder / "partition.json").write_bytes((other / "partition.json").read_bytes())
    with pytest.raises(InvalidValue, match=r"file=.*partition\.json: expected the partition of this run's private"):
        train(small_plan(seed=None), folder, SilentMonitor())
    (folder / "training.secret").write_bytes((other / "training.secret").read_bytes())
    (folder / "run.json").write_bytes((other / "run.json").read_bytes())
    with pytest.raises(InvalidValue, match=r"file=.*: expected teachers that this run signed"):
        train(small_plan(seed=None), folder, SilentMonitor())


def test_budget_stops_the_queries(tmp_path: Path) -> None:
    report = train(small_plan(max_epsilon=30.0), tmp_path, SilentMonitor())
    assert 0 < report.privacy.num_queries < NUM_QUERIES
    assert report.privacy.epsilon <= 30.0
    one_more = small_plan().aggregator.event_for(
        num_queries=report.privacy.num_queries + 1, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
    )
    assert RdpAccountant().compose(one_more).get_epsilon(1e-5) > 30.0


def test_a_smaller_pool_is_asked_whole_where_nobody_named_a_number(tmp_path: Path) -> None:
    def published(_: object, *, num_queries: int | None = None) -> str:
        return f"num_queries: {num_queries}\n"

    plan = small_plan(num_queries=600, fewer_queries=True, public_settings=published)
    assert train(plan, tmp_path, SilentMonitor()).privacy.num_queries == 140
    assert (tmp_path / "release" / "config.yaml").read_text() == "num_queries: 140\n"
    assert plan.fitted(small_dataset()).num_queries == 140
    assert replace(plan, num_queries=140).fitted(small_dataset()).num_queries == 140


QUIET = GaussianVotes(noise_std=1e9)  # no failure that would use up a delta below what draws can keep
REFUSED: dict[str, dict[str, Any]] = {
    r"^load\(\)=list: expected a pate\.data\.Dataset$": {"load_dataset": list},
    r"num_queries=1000: expected at most 140, the public pool": {"num_queries": 1000},
    r"num_teachers=961: expected at most 960": {"num_teachers": 961},
    r"max_epsilon=1e-06: expected at least": {"max_epsilon": 1e-6},
    r"target_delta=1e-15: expected at least 2\.23e-14": {"aggregator": QUIET, "target_delta": 1e-15},
}


@pytest.mark.parametrize("message", REFUSED)
def test_nothing_is_spent_before_a_refusal(message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=message):
        train(small_plan(**REFUSED[message]), tmp_path / "run", SilentMonitor())
    assert not list(tmp_path.rglob("ledger.db"))


def test_run_without_an_answer_still_reports(tmp_path: Path) -> None:
    plan = small_plan(target_epsilon=0.01)
    report = train(plan, tmp_path, SilentMonitor())
    assert report.release.num_answered == 0
    assert report.release.label_accuracy is None
    assert report.student is not None
