"""Whole runs: their files, interruptions, and refusals of plans that are impossible or would tell nothing."""

import html
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

import pate
from pate import PATEClassifier
from pate.accounting import Ledger, PrivacyUnit, RdpAccountant
from pate.aggregators import GaussianVotes
from pate.classifier import DoubtfulPlan, RepeatedRelease
from pate.comparison import ComparisonPlan, PATEMethod, compare
from pate.files.manifest import Manifest
from pate.models import LinearStudent, StackedEngine
from pate.report.console import PlainConsole, print_report
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    charges_beside,
    ledger_beside,
    release_bytes_of_run,
    run_until,
    small_dataset,
    small_plan,
)
from tests.refusals import ANY, Refusal, refused_parameter

TRAINING = ["training teachers", "training the student", "training the majority"]
STAGES = ["reading", "casting", "releasing", "writing", *TRAINING]


def test_the_report_has_every_key_and_the_epsilon_of_the_event(
    finished_folder: Path,
) -> None:
    """report.json of a small run has the expected keys, and its epsilon is the price of the aggregator's event."""
    report = json.loads((finished_folder / "report.json").read_text())
    metrics = {"accuracy", "balanced_accuracy", "micro_f1", "macro_f1", "mean_average_precision"}
    expected_keys = {
        "privacy": {
            "epsilon",
            "delta",
            "adjacency",
            "unit",
            "accountant",
            "mechanism",
            "num_queries",
            "paper_epsilon",
        },
        "release": {"num_queries", "num_answered", "answer_rate", "label_accuracy", "micro_f1"},
        "teachers": {"num_teachers", "mean_accuracy", "records_per_teacher"},
        "student": metrics,
        "data": {
            "name",
            "real",
            "num_private",
            "num_public",
            "num_test",
            "num_labels",
            "label_cardinality",
        },
    }
    for section, keys in expected_keys.items():
        assert keys <= report[section].keys(), section
    for model in (
        "prior",
        "best_constant",
        "majority_vote_student",
        "true_label_student",
        "all_records_model",
    ):
        assert metrics <= report["baselines"][model].keys(), model
    assert {"share_of_reachable", "beats_constant", "beats_prior", "text"} == report[
        "verdict"
    ].keys()
    for metric, (low, high) in report["intervals"]["student"].items():
        assert low <= report["student"][metric] <= high, metric
    assert {"seed", "versions", "duration_s"} <= report.keys()
    assert (report["membership"]["num_private"], report["membership"]["num_test"]) == (960, 300)
    assert len(report["membership"]["tpr_by_reference"]) == len(report["membership"]["fpr"])
    assert report["privacy"]["adjacency"] == "replace_one"
    assert report["privacy"]["noise_seeded"] is True  # as the plan has a seed
    assert report["teachers"]["num_teachers"] == NUM_TEACHERS
    event = small_plan().aggregator.event_for(
        num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
    )
    assert report["privacy"]["epsilon"] == RdpAccountant().compose(event).get_epsilon(
        target_delta=1e-5
    )
    assert [entry.event for entry in Ledger.stored(ledger_beside(finished_folder)).entries] == [
        event
    ]


def test_published_files_and_the_price_that_load_reads(
    finished_folder: Path, tmp_path: Path
) -> None:
    """`release/` has the documented files, and none of them mentions the membership attack.

    `pate.load` reads the price that the card states, and refuses a privacy.json that was edited.
    """
    release = Path(shutil.copytree(finished_folder / "release", tmp_path / "release"))
    texts = {
        "README.md",
        "privacy_card.md",
        "config.yaml",
        "schema.json",
        "privacy.json",
        "manifest.json",
    }
    assert {path.name for path in release.iterdir()} == {"release.npz", "student", *texts}
    published = [path.read_bytes() for path in release.rglob("*") if path.is_file()]
    assert not any(
        word in text for text in published for word in (b"membership", b"attacker", b"by_reference")
    )
    stated = pate.load(release).privacy
    card = (release / "privacy_card.md").read_text()
    assert stated is not None
    assert f"| epsilon | {stated.epsilon:.2f} |" in card
    assert (stated.delta, stated.adjacency, stated.noise) == (1e-5, "replace_one", "seeded")
    assert all(
        f"mechanism.{name} | {value} |" in card.replace("\\", "")
        for name, value in stated.parameters.items()
    )
    (release / "privacy.json").write_text(
        (release / "privacy.json").read_text().replace("seeded", "system")
    )
    with refused_parameter("file", value=ANY, rule_words="was published"):
        pate.load(release)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (PrivacyUnit.of_column("mrn"), "one value of the column mrn, with all its rows"),
        (PrivacyUnit(words="one row"), "one row"),
        (PrivacyUnit.of_column("a_b|c"), "one value of the column a_b|c, with all its rows"),
    ],
)
def test_every_published_file_states_the_unit_of_privacy(
    unit: PrivacyUnit, words: str, tmp_path: Path
) -> None:
    """Report, privacy.json, privacy card, model card, page and console state the unit of privacy in the same words."""
    plan = replace(small_plan(), load_dataset=lambda: replace(small_dataset(), group_unit=unit))
    report = train(plan, output_dir=tmp_path / "run")
    assert (report.privacy.unit, report.privacy.unit_columns) == (words, unit.columns)
    release = tmp_path / "run" / "release"
    values = json.loads((release / "privacy.json").read_text())
    assert (values["unit"], values["unit_columns"]) == (words, list(unit.columns))
    stated = pate.load(release).privacy
    assert stated is not None and (stated.unit, stated.unit_columns) == (words, unit.columns)
    in_markdown = words.replace("|", "\\|")
    assert f"| unit of privacy | {in_markdown} |" in (release / "privacy_card.md").read_text()
    assert f"(replace_one, unit: {in_markdown})" in (release / "README.md").read_text()
    console = io.StringIO()
    print_report(report, console=PlainConsole(file=console, width=200))
    assert f"(replace_one, unit: {words})" in console.getvalue()
    assert html.escape(words) in (tmp_path / "run" / "report.html").read_text()


def test_a_bundle_of_an_earlier_version_is_read(finished_folder: Path, tmp_path: Path) -> None:
    """`pate.load` reads a privacy.json that does not list the columns of the unit, as earlier versions wrote it."""
    release = Path(shutil.copytree(finished_folder / "release", tmp_path / "release"))
    values = json.loads((release / "privacy.json").read_text())
    del values["unit_columns"]
    values["unit"] = "one private record, or group of records that belong together, replaced"
    (release / "privacy.json").write_text(json.dumps(values))
    names = [path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file()]
    Manifest.from_files(
        release,
        file_names=[name for name in names if name != "manifest.json"],
        missing_file_remedy="none",
    ).write(release)
    stated = pate.load(release).privacy
    assert stated is not None and (stated.unit, stated.unit_columns) == (values["unit"], ())


def test_a_finished_run_is_read_again_at_no_cost(finished_folder: Path) -> None:
    """A finished run that is started again returns its report, trains nothing and charges nothing.

    With other settings the run is refused.
    """
    before = ledger_beside(finished_folder).read_bytes()
    monitor = SilentMonitor()
    report = train(small_plan(), output_dir=finished_folder, monitor=monitor)
    assert monitor.stages == []
    assert monitor.lines == [
        f"output_dir={finished_folder}: this run is finished; nothing was trained, drawn or spent again"
    ]
    assert report.privacy.num_queries == NUM_QUERIES
    assert ledger_beside(finished_folder).read_bytes() == before
    with refused_parameter("output_dir", value=ANY, rule_words="new folder or this run's own"):
        train(replace(small_plan(), settings={"name": "other"}), output_dir=finished_folder)


@pytest.mark.parametrize("stage", STAGES)
def test_interrupted_run_ends_with_the_same_release(
    finished_folder: Path, tmp_path: Path, stage: str
) -> None:
    """A run that is interrupted at one of seven stages and continued has the release and charges of a whole run."""
    folder = tmp_path / "run"
    run_until(small_plan(), folder, stage=stage)
    assert not (folder / "report.json").exists()
    train(small_plan(), output_dir=folder)
    assert release_bytes_of_run(folder) == release_bytes_of_run(finished_folder)
    assert charges_beside(folder) == charges_beside(finished_folder)


def test_a_name_in_place_of_an_object_is_refused() -> None:
    """A plan refuses a text as its teacher, aggregator, engine, student or accountant, and names field and class."""
    class_by_field = {
        "teacher": "Voter",
        "aggregator": "Aggregator",
        "engine": "Engine",
        "student": "Student",
    }
    for field, class_name in class_by_field.items():
        with refused_parameter(
            field, value="linear", rule_words=f"an object of a subclass of {class_name}"
        ):
            replace(small_plan(), **{field: "linear"})  # type: ignore[arg-type]
    with refused_parameter("accountant", value="rdp"):
        replace(small_plan(), accountant="rdp")


def test_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A run refuses an output folder with a file that is not a run's, and does not touch the folder."""
    (tmp_path / "mine.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with refused_parameter(
        "output_dir", value=tmp_path, rule_words="a new folder or a run's own, found mine.txt in it"
    ):
        train(small_plan(), output_dir=tmp_path)
    assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_changed_data_and_a_second_process_are_refused(tmp_path: Path) -> None:
    """A run is refused if one private label has changed since it began, or if another run uses its folder."""
    folder = tmp_path / "run"
    data = small_dataset()
    changed_labels = data.private.labels.copy()
    changed_labels[0] ^= True
    changed_data = replace(data, private=replace(data.private, labels=changed_labels))
    run_until(small_plan(), folder, stage="casting")
    with refused_parameter("data", value="another", rule_words="the data that this run began with"):
        train(replace(small_plan(), load_dataset=lambda: changed_data), output_dir=folder)

    class StartsTheSameRun(SilentMonitor):
        def stage(self, name: str, total: int | None = None):
            train(small_plan(), output_dir=folder)
            raise AssertionError("the folder was not locked")

    with refused_parameter("output_dir", value=ANY, rule_words="folder that"):
        train(small_plan(), output_dir=folder, monitor=StartsTheSameRun())


def test_partition_of_another_run_is_refused(tmp_path: Path) -> None:
    """A run is refused if its partition.json, which deals records to teachers, is that of another run.

    If `training.secret` and `run.json` are copied from the other run as well, the teachers that were trained in this
    folder are refused, as another secret signed them.
    """
    folder = tmp_path / "run"
    folder_of_other_run = tmp_path / "other"
    for path in (folder, folder_of_other_run):
        run_until(replace(small_plan(), seed=None), folder=path, stage="casting votes")
    (folder / "partition.json").write_bytes((folder_of_other_run / "partition.json").read_bytes())
    with refused_parameter(
        "file",
        value=folder / "partition.json",
        rule_words="the partition of this run's private records",
    ):
        train(replace(small_plan(), seed=None), output_dir=folder)
    (folder / "training.secret").write_bytes((folder_of_other_run / "training.secret").read_bytes())
    (folder / "run.json").write_bytes((folder_of_other_run / "run.json").read_bytes())
    with refused_parameter("file", value=ANY, rule_words="teachers that this run signed"):
        train(replace(small_plan(), seed=None), output_dir=folder)


def test_budget_stops_the_queries(tmp_path: Path) -> None:
    """With `max_epsilon=30` and given noise, a run asks the largest number of queries that this epsilon allows."""
    folder = tmp_path / "run"
    report = train(replace(small_plan(), max_epsilon=30.0), output_dir=folder)
    assert 0 < report.privacy.num_queries < NUM_QUERIES
    assert report.privacy.epsilon <= 30.0
    one_more = small_plan().aggregator.event_for(
        num_queries=report.privacy.num_queries + 1, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
    )
    assert RdpAccountant().compose(one_more).get_epsilon(target_delta=1e-5) > 30.0


def test_a_pool_smaller_than_num_queries_is_used_whole_or_refused(tmp_path: Path) -> None:
    """A run that asks for more queries than there are public samples asks all 140, and publishes that number.

    With `fewer_queries=False` it is refused.
    """
    folder = tmp_path / "run"

    def make_config_text(_: object, *, num_queries: int | None = None) -> str:
        return f"num_queries: {num_queries}\n"

    # the refusal leaves the folder free for a better plan
    with refused_parameter("num_queries", value=1000):
        train(
            replace(
                small_plan(), num_queries=1000, fewer_queries=False, settings={"name": "wrong"}
            ),
            output_dir=folder,
        )
    plan = replace(small_plan(), num_queries=600, make_release_config_text=make_config_text)
    assert train(plan, output_dir=folder).privacy.num_queries == 140
    assert (folder / "release" / "config.yaml").read_text() == "num_queries: 140\n"
    assert plan.for_dataset(small_dataset(), SilentMonitor()).num_queries == 140
    assert (
        replace(plan, num_queries=140).for_dataset(small_dataset(), SilentMonitor()).num_queries
        == 140
    )


# Gaussian votes have no failure probability, which would exceed a delta as small as that of the last case.
HUGE_NOISE = GaussianVotes(noise_std=1e9)
REFUSED: dict[str, tuple[Callable[[Plan], Plan], Refusal]] = {
    "no data set": (
        partial(replace, load_dataset=list),
        refused_parameter("load()", value="list", rule_words="a pate.data.Dataset"),
    ),
    "too many queries": (
        partial(replace, num_queries=1000, fewer_queries=False),
        refused_parameter("num_queries", value=1000, rule_words="at most 140, the public pool"),
    ),
    "too many teachers": (
        partial(replace, num_teachers=961),
        refused_parameter("num_teachers", value=961, rule_words="at most 960"),
    ),
    "no query is affordable": (
        partial(replace, max_epsilon=1e-6),
        refused_parameter("max_epsilon", value=1e-6, rule_words="at least"),
    ),
    "a delta below the grid of draws": (
        partial(replace, aggregator=HUGE_NOISE, target_delta=1e-15),
        refused_parameter("target_delta", value=1e-15, rule_words="at least 2.23e-14"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_spent_before_a_refusal(case: str, tmp_path: Path) -> None:
    """An impossible plan is refused with the name of the field, and no ledger is made."""
    change_plan, refusal = REFUSED[case]
    with refusal:
        train(change_plan(small_plan()), output_dir=tmp_path / "run")
    assert not list(tmp_path.rglob("ledger.db"))


def test_run_without_an_answer_still_reports(tmp_path: Path) -> None:
    """The report of a run that answers no query, at epsilon 0.01, has a student but no accuracy of labels."""
    folder = tmp_path / "run"
    report = train(replace(small_plan(), target_epsilon=0.01), output_dir=folder)
    assert report.release.num_answered == 0
    assert report.release.label_accuracy is None
    assert report.student is not None


def useless_plan() -> Plan:
    """Returns a plan whose epsilon is so small that its labels are no better than guesses."""
    return replace(
        small_plan(),
        aggregator=GaussianVotes(noise_std=1.0),
        target_epsilon=2.0,
        allow_useless=False,
    )


def suggested(error: InvalidValue, setting: str) -> float:
    """Returns the value of a setting that the message of a refusal suggests."""
    match = re.search(setting + r"=([\d.]*\d)", str(error).partition("what works: ")[2])
    assert match is not None, error
    return float(match.group(1))


@pytest.mark.slow
def test_a_useless_plan_is_refused_with_a_suggestion_that_works(
    tmp_path: Path,
) -> None:
    """A plan whose labels would be guesses is refused before anything is trained, and suggests an epsilon.

    At that epsilon over 75% of the labels are right. With `allow_useless` the plan runs.
    """
    with refused_parameter("num_teachers", value=24) as no:
        train(useless_plan(), output_dir=tmp_path / "no")
    assert not [path for path in (tmp_path / "no").rglob("*") if path.name != "run.lock"]
    epsilon = suggested(no.value, setting="target_epsilon")
    monitor = SilentMonitor()
    report = train(
        replace(useless_plan(), target_epsilon=epsilon),
        output_dir=tmp_path / "yes",
        monitor=monitor,
    )
    assert report.privacy.epsilon <= epsilon
    assert not [line for line in monitor.lines if "90% or 70%" in line and "in 8" in line]
    assert report.release.label_accuracy > 0.75
    report = train(
        replace(useless_plan(), allow_useless=True),
        output_dir=tmp_path / "allowed",
        monitor=monitor,
    )
    assert report.privacy.epsilon <= 2.0
    assert any(line.endswith("allowed by allow_useless=true") for line in monitor.lines)


@pytest.mark.slow
def test_the_classifier_refuses_before_its_ledger_exists_and_the_suggestion_works(
    tmp_path: Path,
) -> None:
    """`PATEClassifier` refuses an epsilon of 0.1 before it makes a ledger, and suggests another.

    At that epsilon the accuracy is above 85%. With `allow_useless` the classifier fits, with warnings.
    """
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((2400, 5))
    labels = inputs[:, :3] > 0
    public_inputs = inputs[2000:]

    def fitted(classifier: PATEClassifier) -> PATEClassifier:
        return classifier.fit(inputs[:2000], labels[:2000], X_public=public_inputs)

    def classifier_with_ledger(epsilon: float) -> PATEClassifier:
        path = tmp_path / "ledger"
        return PATEClassifier(RidgeClassifier(), n_teachers=20, ledger=path, epsilon=epsilon)

    with refused_parameter("num_teachers", value=20, waiver="allow_useless") as caught:
        fitted(classifier_with_ledger(epsilon=0.1))
    assert not (tmp_path / "ledger").exists()
    epsilon = suggested(caught.value, setting="epsilon")
    model = fitted(classifier_with_ledger(epsilon))
    assert (model.predict(public_inputs) == labels[2000:]).mean() > 0.85
    with (
        pytest.warns(RepeatedRelease, match="fit 2 of this process on the same records"),
        pytest.warns(DoubtfulPlan, match="allowed by allow_useless=True"),
    ):
        fitted(PATEClassifier(RidgeClassifier(), n_teachers=20, epsilon=0.1, allow_useless=True))


@pytest.mark.slow
def test_a_useless_method_is_a_row_with_its_reason(tmp_path: Path) -> None:
    """A comparison has a row with the reason, and no scores, for an epsilon at which labels would be guesses.

    With `allow_useless` the row has scores. Called again without, it has the reason again.
    """
    usual_plan = small_plan()
    method = PATEMethod(
        name="votes",
        aggregator=GaussianVotes(noise_std=1.0),
        teacher=usual_plan.teacher,
        num_teachers=usual_plan.num_teachers,
        student=usual_plan.student,
    )
    plan = ComparisonPlan(
        load_dataset=small_dataset,
        methods=(method,),
        engine=StackedEngine(),
        student=LinearStudent(),
        num_queries=40,
        target_delta=1e-5,
        epsilons=(2.0, 50.0),
        seeds=(0,),
        num_workers=1,
    )

    def compared(allow_useless: bool = False) -> list[Any]:
        frontier = compare(
            replace(plan, allow_useless=allow_useless), output_dir=tmp_path, monitor=SilentMonitor()
        )
        return [run for run in frontier.runs if run.epsilon is not None]

    first = compared()
    assert "'aggregators=[votes@24]': expected a release that tells something" in first[0].note
    assert "epsilons=[" in first[0].note
    assert (first[0].micro_f1, first[1].note) == (None, "")
    assert compared() == first
    allowed = compared(allow_useless=True)
    assert allowed[0].micro_f1 is not None and allowed[1] == first[1]
    assert compared() == first, "what was trained when it was allowed is not shown where it is not"
