"""Commands as a user types them: prices, audits, refusals in one line, sweeps, stopped and continued runs, loggers."""

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import time
from functools import partial
from importlib import reload
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from benchmarks.campaign import warm
from benchmarks.descendants import descendants
from pate.config.schema import names_in_config_group
from pate.report import page as page_module
from tests.e2e.commands import SMALL, Arguments, call, command, refused_command, rows_of, succeeded
from tests.e2e.small_run import contents

SIZE = ["num_queries=600", "num_labels=40", "num_teachers=800", "target_delta=1e-6", "format=json"]
WORDS = [*SMALL, "aggregator=gaussian_votes", "seed=1"]
QUICK = [*WORDS, "target_epsilon=200"]


def quote(arguments: Arguments) -> Any:
    """Returns the JSON that `pate-account` prints with these settings.

    There are 600 queries, 40 labels and 800 teachers, unless the settings say otherwise.
    """
    return json.loads(succeeded("account", arguments=[*SIZE, *arguments]).stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("adjacency", "epsilon", "by_renyi"), [("add_remove", 3.46, 3.67), ("replace_one", 7.59, 8.02)]
)
def test_price_of_the_papers_experiment_with_gumbel_noise(
    adjacency: str, epsilon: float, by_renyi: float
) -> None:
    """`pate-account` prices the paper's experiment with Gumbel noise by the exact accountant and by Renyi divergences.

    The paper has no formula for this noise, so `paper_epsilon` is None.
    """
    noise = [
        "aggregator.selection_scale=38.985",
        "aggregator.test_std=60",
        "aggregator.failure_prob=1e-9",
    ]
    settings = ["aggregator=stable_top_k_gumbel", *noise, f"adjacency={adjacency}"]
    answer = quote(arguments=settings)
    renyi = quote(arguments=[*settings, "accountant=rdp"])
    assert answer["epsilon"] == pytest.approx(epsilon, abs=0.02)
    assert renyi["epsilon"] == pytest.approx(by_renyi, abs=0.03)
    assert (answer["adjacency"], answer["accountant"], answer["won_by"]) == (
        adjacency,
        "auto",
        "exact",
    )
    assert answer["paper_epsilon"] is None


def test_accountants_side_by_side() -> None:
    """With `accountants=all`, each accountant gives either an epsilon or a reason why it has none.

    No epsilon is below that of the exact accountant, except those of `auto` and `joint_law`. With `accountant=rdp`, the
    printed page states the number of Renyi orders and the sum of the failure probabilities.
    """
    size = ["num_queries=30", "num_labels=8", "num_teachers=100"]
    arguments = ["aggregator=stable_top_k_gumbel", *size, "accountants=all", "allow_useless=true"]
    answer = quote(arguments=arguments)
    prices = {price["accountant"]: price for price in answer["accountants"]}
    assert set(prices) == set(names_in_config_group("accountant"))
    assert answer["accountants"][0]["accountant"] == answer["accountant"] == "auto"
    assert prices["auto"]["epsilon"] == answer["epsilon"] == prices["joint_law"]["epsilon"]
    assert prices["rdp"]["num_orders"] > 100
    for price in prices.values():
        assert (price["epsilon"] is None) == (price["reason"] is not None)
        # `joint_law` prices selection and test together, and `auto` takes the smallest price
        if price["epsilon"] is not None and price["accountant"] not in ("auto", "joint_law"):
            assert price["epsilon"] >= prices["exact"]["epsilon"]
        assert price["epsilon"] != 0
    page = call("account", arguments=[*arguments, "accountant=rdp"]).stdout
    assert all(said in page for said in ("the best of 461 orders is", "30 x 1e-9 = 3e-8", *prices))


def test_a_table_is_written_and_used_and_its_place_stays_unpublished(
    tmp_path: Path,
) -> None:
    """`pate-account` writes the table of a stability test to a file, and states the same price if it reads that file.

    The table has the probability that the test passes for each gap. A run with the table publishes the file's digest,
    but neither its path nor the seed. A changed table is refused.
    """
    path = tmp_path / "private-place" / "table.json"
    release = tmp_path / "private-place" / "run" / "release"
    size = [
        "num_queries=20",
        "num_teachers=60",
        "num_labels=10",
        "target_delta=1e-6",
        "accountant=rdp",
        "format=json",
    ]
    answer = quote(arguments=[*size, "target_epsilon=100", f"write_table={path}"])
    noise = f"aggregator.selection_scale={answer['aggregator']['selection_scale']}"
    assert (
        quote(arguments=[*size, noise, f"aggregator.table={path}"])["epsilon"] == answer["epsilon"]
    )
    settings = [
        *SMALL,
        "teacher.num_teachers=60",
        "target_epsilon=100",
        "seed=424242",
        f"aggregator.table={path}",
    ]
    succeeded("train", arguments=[*settings, f"output_dir={release.parent}"])
    assert json.loads((release.parent / "report.json").read_text())["privacy"]["epsilon"] <= 100
    texts = contents(release).values()
    assert not any(word in text for text in texts for word in (b"424242", b"private-place"))
    config = OmegaConf.load(release / "config.yaml")
    card = (release / "privacy_card.md").read_text()
    assert config.aggregator.table_sha256 == answer["table"]["sha256"]
    assert str(config.aggregator.selection_scale) in card, (
        "the noise that was used, not the one before calibration"
    )
    with np.load(release / "release.npz") as arrays:
        assert set(arrays.files) == {"labels", "answered", "record_ids", "label_names"}
    table_values = json.loads(path.read_text())
    rdp_of_test = table_values["rdp"]
    path.write_text(json.dumps(table_values | {"rdp": 0.9 * rdp_of_test}))
    line = refused_command("account", arguments=[*size, f"aggregator.table={path}"])
    assert "what the table costs at order" in line and "\n" not in line


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            ["target_epsilon=3", "max_epsilon=3"],
            "max_epsilon=3.0: expected no target_epsilon beside it",
        ),
        (["max_epsilon=0.001"], "max_epsilon=0.001: expected at least"),
        (["accountants=[rpd]"], "accountants=rpd: expected one of"),
        (["num_teachers=0"], "num_teachers=0: expected a whole number >= 1"),
        (["target_delta=1e-30"], "target_delta=1e-30: expected at least 2.67e-12"),
        (
            ["aggregator.failure_prob=1e-5"],
            "in all uses up target_delta=1e-06; what works: aggregator.failure_prob=",
        ),
        ([f"num_queries={10**400}"], "num_queries"),
        (
            ["aggregator.test=gaussian", "target_epsilon=-3"],
            "target_epsilon=-3.0: expected a number > 0",
        ),
    ],
)
def test_a_mistake_gives_one_line_and_exit_code_2(settings: list[str], line: str) -> None:
    """`pate-account` refuses each impossible setting with one line, which names the setting, and with exit code 2."""
    said = refused_command(
        "account", arguments=["aggregator=stable_top_k_gumbel", *SIZE, *settings]
    )
    assert line in said and "\n" not in said


def test_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A run that cannot make its output folder ends with one line that names the folder.

    The exit code is 2 if a file is in the way, and 1 if the system refuses to make the folder.
    """
    (tmp_path / "file").write_text("")
    for folder, status in ((tmp_path / "file" / "run", 2), (Path("/proc/run"), 1)):
        done = call("train", arguments=[*QUICK, f"output_dir={folder}"])
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
        assert str(folder) in done.stderr and "Traceback" not in done.stderr


def test_help_shows_examples_and_choices() -> None:
    """`--help` shows examples, and `gaussian_votes` as a choice of the group `aggregator` with a sentence.

    No line is wider than 120 columns.
    """
    for module in ("train", "attack"):
        help_page = succeeded(module, arguments=["--help"]).stdout
        assert "Examples" in help_page and "schema" not in help_page
        assert re.search(
            r"^  aggregator$(\n {4}.*)*\n    gaussian_votes +Plain PATE: for each",
            help_page,
            re.MULTILINE,
        )
        assert max(map(len, help_page.splitlines())) <= 120


def test_closed_output_streams_are_no_error() -> None:
    """A command whose standard streams are closed ends with exit code 0.

    If only the reader of its output has gone, the command writes nothing to standard error and ends with 141, as by
    SIGPIPE.
    """
    command_line = " ".join(map(shlex.quote, command("audit", arguments=["--help"])))
    done = subprocess.run(
        ["bash", "-c", f"{command_line} <&- >&- 2>&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with subprocess.Popen(
        command("audit", arguments=["--help"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_sweep_runs_each_job_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """A sweep over three epsilons, of which the second is invalid, runs the other two in folders of their own.

    sweep.csv has three rows, with the error as the note of the second. The exit code is 2.
    """
    # one seed draws one release in the ledger of all jobs
    settings = [word for word in WORDS if not word.startswith("seed=")]
    done = call("train", arguments=["-m", *settings, "target_epsilon=50,-1,100"], cwd=tmp_path)
    assert done.returncode == 2
    message = "target_epsilon=-1.0: expected a number > 0"
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr
    reports = list((tmp_path / "outputs").rglob("report.json"))
    epsilons = sorted(json.loads(path.read_text())["privacy"]["epsilon"] for path in reports)
    assert epsilons == pytest.approx([50, 100], rel=0.01)
    (table_path,) = (tmp_path / "outputs" / "sweeps").glob("*/sweep.csv")
    assert done.stdout.splitlines()[-1] == f"written: {table_path.relative_to(tmp_path)}"
    rows = rows_of(table_path)
    assert [row["target_epsilon"] for row in rows] == ["50", "-1", "100"]
    usable_rows = [rows[0], rows[2]]
    assert {path.parent for path in reports} == {tmp_path / row["folder"] for row in usable_rows}
    assert all(
        row["folder"].startswith("outputs/digits_grid-gaussian_votes-") for row in usable_rows
    )
    assert rows[1]["note"].startswith(message)
    assert all(
        (row["note"], row["answered"].partition("/")[2]) == ("", "20") for row in usable_rows
    )


def test_a_sweep_that_is_interrupted_has_the_table_of_what_is_done(tmp_path: Path) -> None:
    """A sweep of four runs that is interrupted leaves a table of the finished runs.

    The last printed line says that the same command continues.
    """
    warm.warm_up()
    settings = [
        "-m",
        *(word for word in QUICK if "num_teachers" not in word),
        "teacher.num_teachers=8,7,6,5",
    ]
    child = warm.command(module="train", arguments=settings, prepare=partial(os.chdir, tmp_path))
    while (
        not (table_paths := list(tmp_path.glob("outputs/sweeps/*/sweep.csv"))) and not child.ended()
    ):
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    ended = child.wait()
    assert ended.code == 130, ended.err
    assert ended.err.endswith("interrupted; the same command continues where it stopped\n")
    rows = rows_of(table_paths[0])
    assert rows[0]["teacher.num_teachers"] == "8" and len(rows) < 4


def test_a_run_in_processes_ends_by_a_signal_with_its_workers(tmp_path: Path) -> None:
    """A run that trains in worker processes ends all of them when it receives SIGTERM.

    The run prints a last line on how to continue, and the exit code is 143.
    """
    command_words = command(
        "train",
        arguments=[
            *QUICK,
            "engine=processes",
            "teacher=mlp",
            "teacher.epochs=4000",
            f"output_dir={tmp_path / 'run'}",
        ],
    )
    process = subprocess.Popen(
        command_words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (workers := descendants(process.pid)) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert errors.endswith("ended by SIGTERM; the same command continues where it stopped\n")
    assert "Traceback" not in errors
    until = time.monotonic() + 60
    while any(Path(f"/proc/{worker}/task").exists() for worker in workers):
        assert time.monotonic() < until, "workers train on"
        time.sleep(0.05)


def limit_file_size(max_file_bytes: int) -> None:
    """Limits the size of each file that this process writes, in bytes."""
    reload(page_module)  # with its pictures, which make it a large file
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, resource.RLIM_INFINITY))


def test_a_run_on_a_full_disk_continues_and_pays_once(tmp_path: Path) -> None:
    """A run that cannot write a file ends with one line that names the file, and continues when called again.

    Three runs fail, at the ledger, a teacher and the page. The fourth finishes, and leaves release, ledger and votes as
    they are. A limit on the size of files stands for a full disk.
    """
    warm.warm_up()
    folder = tmp_path / "run"

    def train(max_file_bytes: int = resource.RLIM_INFINITY) -> warm.Ended:
        settings = [*SMALL, "target_epsilon=200", "seed=1", f"output_dir={folder}"]
        return warm.command(
            module="train", arguments=settings, prepare=partial(limit_file_size, max_file_bytes)
        ).wait()

    for max_file_bytes, stopped_at in (
        (8_000, "ledger.db"),
        (50_000, "teachers-"),
        (90_000, "report.html"),
    ):
        stopped = train(max_file_bytes)
        assert stopped.code == 1 and "Traceback" not in stopped.err, stopped.err
        assert re.match(
            r"OSError: \[Errno \d+\] (Input/output error|File too large): ", stopped.line
        )
        assert stopped_at in stopped.line
        assert stopped.line.endswith("; the same command continues once that is mended")
    before = {
        name: (folder / name).read_bytes()
        for name in ("release/release.npz", "../ledger.db", "votes.npz")
    }
    assert train().code == 0
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_runs_are_readable_by_their_owner_alone_for_any_umask(tmp_path: Path) -> None:
    """A sweep of one run writes its files with mode 0600 and its folders with mode 0700, even with umask 0."""
    output_settings = (
        f"output_dir={tmp_path}/outputs/${{seed}}",
        f"hydra.sweep.dir={tmp_path}/sweeps",
    )
    warm.warm_up()
    ended = warm.command(
        module="train", arguments=[*QUICK, *output_settings, "-m"], prepare=partial(os.umask, 0)
    ).wait()
    assert ended.code == 0, ended.err
    kinds = {0o600: Path.is_file, 0o700: Path.is_dir}
    odd = [
        path
        for path in tmp_path.rglob("*")
        if not kinds.get(path.stat().st_mode & 0o777, Path.is_socket)(path)
    ]
    assert odd == []
    assert (tmp_path / "sweeps" / "multirun.yaml").exists()
    assert (tmp_path / "outputs" / "1" / "tensorboard").is_dir()


def test_audit_reads_csv_and_npy_and_says_whose_noise_it_priced(tmp_path: Path) -> None:
    """`pate-audit` prints the same for votes in CSV as in NumPy format.

    The output says whether the noise was given or assumed. A cell that is not a number is refused, and the line names
    the row.
    """
    counts = np.random.default_rng(0).integers(low=0, high=50, size=(20, 3))
    rows = [";".join(map(str, row)) for row in counts.tolist()]
    (tmp_path / "votes.csv").write_text("\n".join(["flu;cough;old", *rows]) + "\n")
    np.save(tmp_path / "votes.npy", counts)
    lines = [
        call(
            "audit",
            arguments=[
                f"votes={tmp_path / name}",
                "num_teachers=50",
                "noise_std=10",
                "accountant=rdp",
            ],
        ).stdout
        for name in ("votes.csv", "votes.npy")
    ]
    assert lines[0] == lines[1]
    assert "noise_std 10 (given)" in lines[0]
    assert "clipped_votes" not in lines[0]
    assumed = call(
        "audit", arguments=[f"votes={tmp_path / 'votes.csv'}", "num_teachers=50", "accountant=rdp"]
    ).stdout
    assert "noise_std 50 (assumed)" in assumed
    assert "is no bound for yours" in assumed
    (tmp_path / "votes.csv").write_text("\n".join([*rows, "1;secret;3"]))
    line = "expected a number in each cell, as many in each row, row 21 below the heading holds something else"
    said = refused_command(
        "audit",
        arguments=[
            f"votes={tmp_path / 'votes.csv'}",
            "num_teachers=50",
            "noise_std=10",
            "accountant=rdp",
        ],
    )
    assert said == f"votes={tmp_path / 'votes.csv'}: {line}"


@pytest.mark.slow
def test_a_server_gets_only_the_content_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `logger=mlflow`, the server gets five metrics, published parameters and the files of the release.

    The name of the output folder and the student's accuracy are in no file of the server.
    """
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "server").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    settings = (*QUICK, "logger=mlflow", f"output_dir={tmp_path / 'a_canary'}")
    for _ in range(2):  # a finished run that is shown again is not logged again
        succeeded("train", arguments=settings)
    assert not (tmp_path / "a_canary" / "tensorboard").exists()
    client = tracking.MlflowClient(tracking_uri=(tmp_path / "server").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("pate").experiment_id])
    report = json.loads((tmp_path / "a_canary" / "report.json").read_text())
    release = tmp_path / "a_canary" / "release"
    assert set(run.data.metrics) == {
        "epsilon",
        "delta",
        "answer_rate",
        "num_queries",
        "num_answered",
    }
    assert run.data.metrics["epsilon"] == report["privacy"]["epsilon"]
    assert run.data.params["teacher.num_teachers"] == "8"
    assert set(run.data.tags) <= {"pate.release", "mlflow.runName"}
    logged = (
        tmp_path / "server" / run.info.experiment_id / run.info.run_id / "artifacts" / "release"
    )
    assert contents(logged) == contents(release)
    succeeded("train", arguments=[*QUICK, "logger=none", f"output_dir={tmp_path / 'none'}"])
    assert not (tmp_path / "none" / "tensorboard").exists()
    assert (tmp_path / "none/release/release.npz").read_bytes() == (
        release / "release.npz"
    ).read_bytes()
    for name, content in contents(folder=tmp_path / "server").items():
        assert (
            b"a_canary" not in content
            and str(report["student"]["accuracy"]).encode() not in content
        ), name
    line = refused_command("train", arguments=["logger=wandb", f"output_dir={tmp_path / 'run'}"])
    assert line == "logger=wandb: expected one of tensorboard, mlflow, none"
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "typed", "completed"),
    [
        ("train", "aggregator=centered", "aggregator=centered_votes"),
        ("train", "target_ep", "target_epsilon="),
        ("account", "accountant=ex", "accountant=exact"),
        ("schema", "outp", "output="),
    ],
)
def test_the_shell_completes_groups_and_settings(
    module: str, typed: str, completed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"pate-{module} {typed}"
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert succeeded(module, arguments=["-sc", "query=bash"]).stdout.split() == [completed]
    for shell in ("bash", "fish"):
        assert "completion" in succeeded(module, arguments=["-sc", f"install={shell}"]).stdout
