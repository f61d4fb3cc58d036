"""What commands that train or compare share: headings, folders, stages, tables of sweeps, entries of `aggregators=`."""

import io
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import OmegaConf
from rich.console import Console

from pate.accounting import Event, GaussianEvent, Ledger, PrivacyUnit
from pate.accounting.ledger_entry import ChargeNote
from pate.aggregators import CenteredVotes
from pate.cli.compare import _entries, _numbers, _pate_method, _require_num_teachers_used, _seeds
from pate.cli.monitor import ConsoleMonitor
from pate.cli.run_settings import (
    default_folder,
    make_dataset_loader,
    plain_settings,
    run_heading,
)
from pate.cli.sweep import SweepTable, enter_folder
from pate.data import Dataset, DigitsGrid
from pate.models import KernelTeacher, LinearTeacher, LowRankStudent
from pate.progress import StageOpener, unwatched
from pate.run.random_streams import readable_seed_name
from pate.settings import names_with
from tests.e2e.commands import rows_of
from tests.refusals import ANY, Refusal, refused_parameter

CHANGEABLE_NAMES = names_with("may_change_when_continued", "train")
SETTINGS = {
    "aggregator": {"_target_": "pate.aggregators.StableTopK"},
    "data": {"_target_": "pate.data.WordNet40"},
    "teacher": {"_target_": "pate.teachers.LinearTeacher", "num_teachers": 400},
    "target_epsilon": 8.0,
    "seed": None,
}
CHOICES = {"aggregator": "stable_top_k_table", "data": "wordnet", "teacher": "linear"}


def test_heading_names_parts_and_overrides() -> None:
    """The heading of a run names its data, teacher and aggregator, and the overrides but those of folders and ledger.

    `is_public` says that the aggregator ships with the package, so that its name may be published.
    """
    overrides = ["target_epsilon=8", "+student.penalties=[1,2]", "output_dir=/a", "ledger=/b"]
    heading = run_heading(
        SETTINGS,
        overrides=overrides,
        chosen_member_of_group=CHOICES,
        changeable_names=CHANGEABLE_NAMES,
    )
    assert heading.aggregator_name == "stable_top_k_table"
    assert heading.is_public
    assert heading.overrides == "target_epsilon=8 student.penalties=[1,2]"
    compared = {
        "target_epsilon": 8.0,
        "seed": None,
        "num_teachers": 400,
        "student.penalties": "[1,2]",
    }
    assert heading.compared == CHOICES | compared
    heading = run_heading(
        SETTINGS,
        overrides=["aggregator._target_=my.StableTopK"],
        chosen_member_of_group=CHOICES,
        changeable_names=CHANGEABLE_NAMES,
    )
    assert (heading.aggregator_name, heading.is_public) == ("StableTopK", False)
    assert not run_heading(
        SETTINGS,
        overrides=[],
        chosen_member_of_group=CHOICES | {"aggregator": "patients_2024"},
        changeable_names=CHANGEABLE_NAMES,
    ).is_public


def test_default_folder_is_stable_and_within_outputs() -> None:
    """The default folder of a run is within outputs/, and its name begins with those of data and aggregator.

    Equal settings give the same folder, whatever the overrides are. Slashes in names are replaced.
    """

    def folder_of(aggregator: str, overrides: Sequence[str] = ()) -> str:
        heading = run_heading(
            SETTINGS,
            overrides=overrides,
            chosen_member_of_group=CHOICES | {"aggregator": aggregator},
            changeable_names=CHANGEABLE_NAMES,
        )
        return default_folder(
            str(heading.compared["data"]), heading.aggregator_name, settings=SETTINGS
        )

    name = "stable_top_k_table"
    assert folder_of(aggregator=name) == folder_of(aggregator=name, overrides=["seed=1"])
    assert folder_of(aggregator=name).startswith(f"outputs/wordnet-{name}-")
    assert folder_of(aggregator="../mine").startswith("outputs/wordnet-___mine-")


def test_settings_of_a_run_do_not_depend_on_its_folder() -> None:
    """The settings of two runs that differ in folder, cache and ledger are equal."""
    where = {"ledger": "c", "max_total_epsilon": 8.0, "redraw": True}
    runs = [
        {"output_dir": None, "data": {"cache": None}},
        {"output_dir": "a", "data": {"cache": "b"}} | where,
    ]
    first, second = (
        plain_settings(config=OmegaConf.create(run), excluded_settings=CHANGEABLE_NAMES)
        for run in runs
    )
    assert first == second == {"data": {"cache": None}}


@pytest.mark.process
def test_missing_data_setting_is_refused_before_torch_loads() -> None:
    """pate-train without a public table is refused with code 2, before torch is imported."""
    program = "import sys; from pate.cli.train import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    words = ["data=table", "data.private=a.csv", "data.test=c.csv", "data.labels=[flu]"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (2, "False")
    chosen, refusal_line = done.stderr.splitlines()
    assert chosen.startswith("no teacher is named: teacher=kernel aggregator=centered_votes")
    assert refusal_line.startswith("data.public=None: expected data.private=, data.public= and")


def test_nested_stage_is_shown_before_its_parent() -> None:
    """The line of an inner stage of work is printed before the line of the outer one, each with its seconds."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monitor = ConsoleMonitor(console)
    with monitor.stage("outer"), monitor.stage("inner", total=3) as advance:
        advance(3, note="done")
    with monitor.stage("next", total=1) as advance:
        advance(1)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    places = [
        re.search(line, text).start()
        for line in (r"inner: \d+\.\d s \(done\)", r"outer: \d", r"next: \d")
    ]
    assert places == sorted(places)


DIGITS = DigitsGrid(num_private=120, num_public=3, num_test=2)


class StagedDigits:
    """A reader of a data set that reports a stage of its work."""

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        with stage("composing digits", 1) as advance:
            advance(1)
        return DIGITS.load()


def test_stages_of_a_data_set_are_shown() -> None:
    """The console shows the stage that a reader of a data set reports."""
    console = Console(file=io.StringIO(), width=100)
    load = make_dataset_loader(data_reader=StagedDigits(), monitor=ConsoleMonitor(console))
    assert load().digest() == DIGITS.load().digest()
    assert "composing digits: " in console.file.getvalue()


def test_stages_are_silent_in_the_worker_of_a_comparison() -> None:
    """A loader that is pickled for a worker of a comparison loads the data and prints no stage."""
    console = Console(file=io.StringIO(), width=100)
    load = pickle.loads(
        pickle.dumps(
            make_dataset_loader(data_reader=StagedDigits(), monitor=ConsoleMonitor(console))
        )
    )
    assert load().digest() == DIGITS.load().digest()
    assert console.file.getvalue() == ""


def test_reader_without_stages_is_loaded() -> None:
    """A reader whose `load` takes no `stage` argument is also loaded with a monitor."""
    load = make_dataset_loader(
        data_reader=DIGITS, monitor=ConsoleMonitor(Console(file=io.StringIO()))
    )
    assert load().digest() == DIGITS.load().digest()


def hydra_config(folder: Path, num: int = 0, arguments: Sequence[str] = ()) -> Any:
    """Returns the part of Hydra's configuration that the table of a sweep reads.

    Args:
        folder: the folder of the sweep.
        num: the number of the job.
        arguments: the overrides of the job.
    """
    of_job = {"job": {"num": num}, "overrides": {"task": list(arguments)}}
    return OmegaConf.create(
        {"hydra": {"mode": RunMode.MULTIRUN, "sweep": {"dir": str(folder)}, **of_job}}
    )


def rows_of_sweep(
    sweep_folder: Path,
    results_by_overrides: Sequence[tuple[str, dict[str, Any] | None]],
    folders_of_releases: Sequence[Path] = (),
) -> list[dict[str, str]]:
    """Simulates the jobs of a sweep, and returns the rows of its sweep.csv.

    Args:
        sweep_folder: the folder of the sweep.
        results_by_overrides: the overrides and the result of each job; None as the result of a job that failed.
        folders_of_releases: the folders of the first jobs, with what these jobs released.
    """
    table = SweepTable()
    table.on_multirun_start(hydra_config(folder=sweep_folder))
    for num, run_folder in enumerate(folders_of_releases):
        enter_folder(sweep_folder, job_number=num, output_dir=run_folder)
    for num, (words, job_result) in enumerate(results_by_overrides):
        job = JobReturn()
        job.status = JobStatus.FAILED if job_result is None else JobStatus.COMPLETED
        job.return_value = job_result
        table.on_job_end(
            hydra_config(folder=sweep_folder, num=num, arguments=words.split()), job_return=job
        )
    table.on_multirun_end(hydra_config(folder=sweep_folder))
    return rows_of(sweep_folder / "sweep.csv")


def job_result(score: float, epsilon: float = 8.004) -> dict[str, Any]:
    """Returns what a job of a sweep returns: its price, answers and mean average precision, and if that beats 0.2."""
    return {
        "epsilon": epsilon,
        "answered": "3/6",
        "mean_average_precision": score,
        "beats_constant": score > 0.2,
    }


def test_sweep_table_sorts_runs_and_explains_refusals(tmp_path: Path, capsys: Any) -> None:
    """sweep.csv has the jobs in their order, with notes; the printed table is sorted by score, with refusals below."""
    refused_row = {"note": "no [b]gap[/b]"}
    rows = rows_of_sweep(
        sweep_folder=tmp_path,
        results_by_overrides=[
            ("aggregator=a seed=0", job_result(score=0.1)),
            ("aggregator=b seed=0", job_result(score=0.27)),
            ("aggregator=c seed=0", refused_row),
            ("aggregator=d seed=0", None),
        ],
    )
    assert [row["aggregator"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["note"] for row in rows] == ["", "", "no [b]gap[/b]", "failed"]
    assert rows[1]["epsilon"] == "8.004"
    text = capsys.readouterr().out
    shown = [line.split() for line in text.splitlines()]
    assert ["b", "8.01", "3/6", "0.270", "-", "-", "-", "-", "yes"] in shown
    assert [cells[0] for cells in shown if cells and cells[0] in "abcd"] == ["b", "a", "c", "d"]
    assert "aggregator=c seed=0: no [b]gap[/b]" in text
    assert text.splitlines()[-1] == f"written: {tmp_path / 'sweep.csv'}"


def test_new_sweep_forgets_the_jobs_of_an_earlier_one(tmp_path: Path, capsys: Any) -> None:
    """The table of a second sweep has only its own job, and not the two jobs of the first sweep."""
    rows_of_sweep(
        sweep_folder=tmp_path,
        results_by_overrides=[
            ("seed=0", job_result(score=0.1)),
            ("seed=1", job_result(score=0.2, epsilon=float("inf"))),
        ],
    )
    assert "inf" in capsys.readouterr().out
    assert (
        len(
            rows_of_sweep(
                sweep_folder=tmp_path, results_by_overrides=[("seed=2", job_result(score=0.3))]
            )
        )
        == 1
    )


def test_refusal_of_a_job_is_printed_below_its_heading(tmp_path: Path, capsys: Any) -> None:
    """The note of a refused job is printed below the heading of this job, before the next job."""
    table = SweepTable()
    for num, note in enumerate(({}, {"note": "teachers=9: expected at most 3"}, {})):
        job = JobReturn()
        job.status = JobStatus.COMPLETED
        job.return_value = note
        table.on_job_start(hydra_config(folder=tmp_path, num=num, arguments=[f"seed={num}"]))
        table.on_job_end(
            hydra_config(folder=tmp_path, num=num, arguments=[f"seed={num}"]), job_return=job
        )
    printed = "[1] seed=0 [2] seed=1 teachers=9: expected at most 3 [3] seed=2"
    assert capsys.readouterr().out.split() == printed.split()


def test_sweep_table_shows_names_baselines_and_cost(tmp_path: Path, capsys: Any) -> None:
    """The printed table of a sweep has the names of runs and baselines; without a release it has no total price."""
    ends = {"all-records model": {"micro_f1": 0.7}, "best constant": {"micro_f1": 0.4}}
    row = {"delta": 1e-6, "data": "cases", "beside": ends}
    words_of_jobs = "experiment=first", "experiment=centered_votes"
    rows_of_sweep(
        sweep_folder=tmp_path,
        results_by_overrides=[
            (words_of_job, job_result(score=0.2) | row | {"run": name})
            for words_of_job, name in zip(words_of_jobs, "ab", strict=True)
        ],
    )
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    assert ["a", "8.01", "3/6", "0.200", "-", "-", "-", "-", "no"] in rows
    assert ["best", "constant", "0.400"] in rows
    assert "together" not in text, "nothing was released"


def test_releases_of_a_sweep_are_added_up_for_each_adjacency(tmp_path: Path, capsys: Any) -> None:
    """A sweep prints the total epsilon of its releases for each adjacency; a folder that is listed twice counts once.

    Two of four runs are under each adjacency. Two Gaussian releases of noise multiplier 4 equal one of 4 / sqrt(2),
    whose epsilon is 1.5436 at delta 1e-6.
    """
    gaussian = GaussianEvent(noise_multiplier=4.0)
    folders = [write_paid_run(folder=tmp_path / name, event=gaussian) for name in ("a", "b")]
    folders += [
        write_paid_run(folder=tmp_path / name, event=gaussian, adjacency="add_remove")
        for name in ("c", "d")
    ]
    failed: tuple[str, None] = ("seed=0", None)
    rows_of_sweep(
        sweep_folder=tmp_path / "sweep",
        results_by_overrides=[("seed=1", job_result(score=0.2)), failed, failed, failed],
        folders_of_releases=[*folders, folders[0]],
    )
    text = " ".join(capsys.readouterr().out.split())
    total = "2 releases of one private data set cost together at most epsilon 1.55 at delta 1e-6"
    of_teachers = "one teacher of each release, with all its records; to replace one row, counts as two such changes in"
    assert f"{total}, replace_one, for one row, if all prices were fixed beforehand" in text
    assert (
        f"{total}, add_remove, for {of_teachers} each, if all prices were fixed beforehand" in text
    )
    assert text.count("together") == 2


def test_a_total_names_what_its_ledger_counts_in_all(tmp_path: Path, capsys: Any) -> None:
    """If a ledger counts more releases than the sweep made, a total of the sweep and one of the ledger are printed.

    The sweep has two releases of three. Three Gaussian releases of noise multiplier 4 equal one of 4 / sqrt(3), whose
    epsilon is 1.9254 at delta 1e-6.
    """
    gaussian = GaussianEvent(noise_multiplier=4.0)
    folder = write_paid_run(folder=tmp_path / "a", event=gaussian)
    run = (folder / "run.id").read_text().strip()
    unit = PrivacyUnit(words="one row")
    ledger = Ledger(folder / "ledger.db", target_delta=1e-6, data="records", unit=unit)
    for key in (f"{run}:redrawn", f"{'f' * 32}:release"):
        ledger.commit(
            key,
            event=gaussian,
            content=b"",
            charge_note=ChargeNote(seed_name=""),
            adjacency=ledger.adjacency,
        )
    rows_of_sweep(
        sweep_folder=tmp_path / "sweep",
        results_by_overrides=[("seed=1", job_result(score=0.2))],
        folders_of_releases=[folder],
    )
    text = " ".join(capsys.readouterr().out.split())
    assert "2 releases of one private data set cost together at most epsilon 1.55" in text
    assert (
        f"; {folder / 'ledger.db'} counts 3 of these records, together at most epsilon 1.93" in text
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "are_shared"), [((3, 3), True), ((3, 4), False), ((None, None), False)]
)
def test_releases_with_one_seed_have_no_finite_total(
    seeds: tuple[int | None, int | None], are_shared: bool, tmp_path: Path, capsys: Any
) -> None:
    """Two releases with the same seed have no finite total epsilon, for their noise cancels in their difference.

    With different seeds, or without seeds, they have a total. Both facts hold for equal releases, for different
    adjacencies and for different records.
    """
    terms = (("replace_one", "records"), ("add_remove", "records"), ("replace_one", "other"))
    for number, (adjacency, data_digest) in enumerate(terms):
        folders = [
            write_paid_run(
                folder=tmp_path / f"{number}a",
                event=GaussianEvent(noise_multiplier=4.0),
                seed=seeds[0],
            ),
            write_paid_run(
                folder=tmp_path / f"{number}b",
                event=GaussianEvent(noise_multiplier=4.0),
                seed=seeds[1],
                adjacency=adjacency,
                data_digest=data_digest,
            ),
            write_paid_run(
                folder=tmp_path / f"{number}c", event=GaussianEvent(noise_multiplier=4.0)
            ),
        ]
        rows_of_sweep(
            sweep_folder=tmp_path / "sweep",
            results_by_overrides=[("seed=0", job_result(score=0.2))],
            folders_of_releases=folders,
        )
        text = " ".join(capsys.readouterr().out.split())
        assert ("no epsilon covers these releases together: two of them drew" in text) is are_shared
        assert ("together at most epsilon" in text) is not are_shared


def write_paid_run(
    folder: Path,
    event: Event,
    *,
    seed: int | None = None,
    data_digest: str = "records",
    adjacency: str = "replace_one",
) -> Path:
    """Creates the folder of a run with one paid release, and with its own ledger as in earlier versions.

    Args:
        folder: the folder, which is made and returned.
        event: the event of the release.
        seed: the seed of its noise; None for fresh noise.
        data_digest: the digest of the private records.
        adjacency: the adjacency of the ledger.
    """
    folder.mkdir(parents=True)
    (folder / "private.sha256").write_text(data_digest)
    unit = PrivacyUnit(words="one row")
    ledger = Ledger(
        folder / "ledger.db", target_delta=1e-6, data=data_digest, unit=unit, adjacency=adjacency
    )
    run = f"{hash(folder) % 2**64:032x}"
    (folder / "run.id").write_text(f"{run}\n")
    key = f"{run}:release"
    charge_note = ChargeNote(seed_name=readable_seed_name(seed))
    ledger.commit(
        key, event=event, content=b"", charge_note=charge_note, adjacency=ledger.adjacency
    )
    return folder


def test_shares_of_different_reference_scores_are_not_mixed(tmp_path: Path, capsys: Any) -> None:
    """The column `reached` shows only shares of the reference score that most runs of the sweep have.

    Two runs have the all-records model as reference, and one the true-label student: only the shares of the first two
    are shown, with a note. If all runs have the student, their shares are shown.
    """

    def result_of_job(share_of_reachable: float, ceiling: str) -> dict[str, Any]:
        return job_result(score=0.2) | {
            "share_of_reachable": share_of_reachable,
            "ceiling": ceiling,
        }

    rows = rows_of_sweep(
        sweep_folder=tmp_path,
        results_by_overrides=[
            ("seed=0", result_of_job(share_of_reachable=0.439, ceiling="all_records_model")),
            ("seed=1", result_of_job(share_of_reachable=1.109, ceiling="true_label_student")),
            ("seed=2", result_of_job(share_of_reachable=0.451, ceiling="all_records_model")),
        ],
    )
    text = capsys.readouterr().out
    assert "43.9%" in text and "45.1%" in text
    assert "110.9%" not in text
    note = "reached: 100% is the all-records model; empty for runs that had the true-label student instead"
    assert f"{note}; all_records=true trains one in every run" in text
    assert [row["ceiling"] for row in rows] == [
        "all_records_model",
        "true_label_student",
        "all_records_model",
    ]
    by_student = result_of_job(share_of_reachable=1.109, ceiling="true_label_student")
    rows_of_sweep(
        sweep_folder=tmp_path, results_by_overrides=[("seed=0", by_student), ("seed=1", by_student)]
    )
    text = capsys.readouterr().out
    assert text.count("110.9%") == 2 and "reached: 100%" not in text


def hydra_list(entries: Sequence[Any]) -> Any:
    """Returns a list as Hydra passes a list from the command line."""
    return OmegaConf.create(list(entries))


def test_comparison_settings_are_parsed() -> None:
    """Names, epsilons and seeds of a comparison may be a list or a single value; a number n means seeds 0 to n - 1."""
    entries = ("gaussian_votes", "gaussian_votes@2000", "centered_votes_400")
    assert _entries(hydra_list(entries=entries)) == entries
    assert _entries("peeling@7") == ("peeling@7",)
    assert _numbers(hydra_list(entries=[1, 0.5]), setting_name="epsilons") == (1.0, 0.5)
    assert _numbers(3, setting_name="epsilons") == (3.0,)
    assert _seeds(3) == (0, 1, 2)
    assert _seeds(hydra_list(entries=[7, 5])) == (7, 5)


@pytest.mark.parametrize(
    ("setting_value", "refusal"),
    [
        pytest.param(
            ["gausian_votes"],
            refused_parameter(
                "aggregators", value="gausian_votes", rule_words="did you mean gaussian_votes"
            ),
            id="an unknown name",
        ),
        pytest.param(
            ["peeling@many"],
            refused_parameter("aggregators", value="peeling@many"),
            id="a number in words",
        ),
        pytest.param(
            ["peeling@"], refused_parameter("aggregators", value="peeling@"), id="no number"
        ),
        pytest.param(
            ["method:peeling"],
            refused_parameter("aggregators", value="method:peeling"),
            id="a group that is not compared",
        ),
        pytest.param(
            ["experiment:peeling"],
            refused_parameter("aggregators", value="peeling"),
            id="an aggregator as an experiment",
        ),
        pytest.param(
            [],
            refused_parameter("aggregators", value="[]", rule_words="--help lists them"),
            id="an empty list",
        ),
        pytest.param(7, refused_parameter("aggregators", value=7), id="a number"),
    ],
)
def test_invalid_entries_of_a_comparison_are_refused(
    setting_value: list[str] | int, refusal: Refusal
) -> None:
    """`aggregators=` refuses a wrong name or group, a wrong number of teachers, an empty list, and a number."""
    if isinstance(setting_value, list):
        setting_value = hydra_list(entries=setting_value)
    with refusal:
        _entries(setting_value)


def test_a_number_of_teachers_that_no_entry_uses_is_refused() -> None:
    """`teacher.num_teachers=` is refused if every entry of `aggregators=` has its own number or is an experiment."""
    model_overrides = ["teacher=mlp", "teacher.num_teachers=800"]
    _require_num_teachers_used(model_overrides, entries=("peeling@7", "gaussian_votes"))
    _require_num_teachers_used(model_overrides[:1], entries=("peeling@7",))
    with refused_parameter("teacher.num_teachers", value=800):
        _require_num_teachers_used(model_overrides, entries=("peeling@7", "centered_votes"))


def test_epsilons_in_words_are_refused() -> None:
    """A text in the list of epsilons is refused by the name of the setting."""
    with refused_parameter("epsilons", value="['little']"):
        _numbers(hydra_list(entries=["little"]), setting_name="epsilons")


@pytest.mark.parametrize("setting_value", [[1.5], "five", True, None])
def test_seeds_that_are_no_whole_numbers_are_refused(setting_value: Any) -> None:
    """`seeds=` refuses a list with a fraction, a text, a truth value, and None."""
    if isinstance(setting_value, list):
        setting_value = hydra_list(entries=setting_value)
    with refused_parameter("seeds", value=ANY, rule_words="a whole number >= 1"):
        _seeds(setting_value)


@pytest.mark.slow
def test_defaults_compare_at_least_ten_aggregators(composed: Callable[..., Any]) -> None:
    """Without arguments, pate-compare compares at least ten aggregators under replace_one.

    The comparison has seven epsilons, five seeds and 600 queries.
    """
    config = composed(command="compare")
    entrants = [
        _pate_method(name, config=config, model_overrides=[])
        for name in _entries(config.aggregators)
    ]
    assert len({entrant.name for entrant in entrants}) >= 10
    assert len({entrant.key for entrant in entrants}) == len(entrants)
    assert {str(entrant.aggregator.adjacency) for entrant in entrants} == {"replace_one"}
    assert _numbers(config.epsilons, setting_name="epsilons") == (
        0.1,
        0.25,
        0.5,
        1,
        2,
        3.6,
        8,
    )
    assert (config.num_queries, config.target_delta, len(_seeds(config.seeds))) == (
        600,
        1e-6,
        5,
    )


@pytest.mark.slow
def test_experiment_brings_its_teachers_and_aggregator_takes_given_ones(
    composed: Callable[..., Any],
) -> None:
    """An entry of `aggregators=` that names an experiment has the teachers and the student of this experiment.

    An entry that names an aggregator has the teachers of the settings, or as many as the number after @ says.
    """
    config = composed(arguments=["adjacency=add_remove"], command="compare")
    model_overrides = ["teacher.num_teachers=50", "teacher.penalty=2"]
    method_of_experiment, method_of_400_teachers = (
        _pate_method(name, config=config, model_overrides=model_overrides)
        for name in ("centered_votes", "centered_votes@400")
    )
    assert isinstance(method_of_experiment.teacher, KernelTeacher)
    assert isinstance(method_of_experiment.student, LowRankStudent)
    assert (method_of_experiment.num_teachers, method_of_400_teachers.num_teachers) == (None, 400)
    plain_method, numbered_method = (
        _pate_method(name, config=config, model_overrides=model_overrides)
        for name in ("peeling", "peeling@7")
    )
    assert plain_method.teacher == numbered_method.teacher == LinearTeacher(penalty=2)
    assert (plain_method.num_teachers, numbered_method.num_teachers) == (50, 7)
    assert str(plain_method.aggregator.adjacency) == "add_remove"
    prefixed_method = _pate_method(
        "aggregator:centered_votes@50",
        config=config,
        model_overrides=model_overrides,
    )
    assert isinstance(prefixed_method.aggregator, CenteredVotes)
    assert (prefixed_method.name, prefixed_method.teacher, prefixed_method.num_teachers) == (
        "aggregator-centered_votes",
        plain_method.teacher,
        50,
    )
    assert (
        _pate_method("aggregator:peeling", config=config, model_overrides=model_overrides).name
        == "peeling"
    )
    assert (
        _pate_method(
            "experiment:centered_votes",
            config=config,
            model_overrides=model_overrides,
        ).teacher
        == method_of_experiment.teacher
    )
