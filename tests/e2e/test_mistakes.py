"""What commands print about mistakes, and files of other people, whose settings must not run code."""

import logging
import os
import re
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.e2e.commands import Arguments, call, refused_command, run, succeeded


def test_members_of_a_folder_of_ones_own_are_known(tmp_path: Path) -> None:
    """A command suggests the experiment `mine` of a user's folder if it is misspelled, and `--help` lists it."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\n# My own: with a folder. More.\n"
    )
    mistyped, helped = (
        call("train", arguments=["--config-dir", str(tmp_path), setting])
        for setting in ("experiment=mien", "--help")
    )
    assert mistyped.returncode == 2
    assert mistyped.stderr.endswith(" (did you mean mine?)\n")
    assert re.search(r"^    mine +My own: with a folder$", helped.stdout, re.MULTILINE)


def one_line_refusal(command: str, arguments: Arguments) -> str:
    """Returns the refusal that a command prints, and fails if it has more than one line."""
    line = refused_command(command, arguments)
    assert "\n" not in line
    return line


def test_unknown_and_misplaced_settings_are_refused_in_one_line() -> None:
    """`pate-account` refuses `aggregator=null` and an unknown key in one line, which begins with the setting's name."""
    for setting in ("aggregator=null", "++num_query=5"):
        assert one_line_refusal(command="account", arguments=[setting]).startswith(
            setting.strip("+").partition("=")[0]
        )


def test_a_called_command_closes_no_handler_of_the_process_that_calls_it() -> None:
    """A command that is called in a process with a logging handler leaves the handler open.

    A handler that is closed may close its stream, such as the file in which pytest captures output.
    """
    closed: list[str] = []

    class Kept(logging.NullHandler):
        def close(self) -> None:
            closed.append("closed")

    handler = Kept()
    assert call("account", arguments=["num_teachers=0"]).returncode == 2
    assert closed == []
    assert handler in [reference() for reference in logging._handlerList]


COMMANDS = (
    "train",
    "compare",
    "account",
    "audit",
    "predict",
    "schema",
    "release",
    "attack",
    "dossier",
)
NO_SETTINGS: dict[str, bytes] = {
    "not YAML": b"defaults: [train\n  - x",
    "a list": b"- a\n- b\n",
    "defaults are a number": b"defaults: 3\n",
    "defaults of numbers": b"defaults: [1, 2]\n",
    "defaults without a name": b"defaults: [{}]\n",
    "a member is a mapping": b"defaults: [{teacher: {a: b}}]\n",
    "a file that is not there": b"defaults: [no_file]\n",
    "itself": b"defaults: [mine]\n",
    "an unknown key": b"defaults: [train, _self_]\nno_such_key: 3\n",
    "not UTF-8": b"a: \xff\xfe\n",
    "a zero byte": b"a: \x00\n",
    "a broken interpolation": b"a: ${x\n",
    "a key twice": b"a: 1\na: 2\n",
    "a tag that is code": b"a: !!python/object/apply:os.system ['true']\n",
    "a header without a value": b"# @package\na: 1\n",
    "a number of 5000 digits": b"a: " + b"9" * 5000 + b"\n",
    "too deep": b"a: " + b"[" * 1000 + b"]" * 1000 + b"\n",
    "a part is a word": b"defaults: [train, _self_]\naccountant: hello\n",
    "a path with a zero byte": b'defaults: [train, _self_]\noutput_dir: "a\\0b"\n',
}


@pytest.mark.parametrize("name", NO_SETTINGS)
def test_a_file_without_settings_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """A YAML file without valid settings is refused in one line, as the whole configuration and as an experiment."""
    for file_path, setting in (
        ("mine.yaml", "--config-name=mine"),
        ("experiment/mine.yaml", "experiment=mine"),
    ):
        (tmp_path / file_path).parent.mkdir(exist_ok=True)
        (tmp_path / file_path).write_bytes(NO_SETTINGS[name])
        one_line_refusal(
            command="train",
            arguments=[
                f"--config-dir={tmp_path}",
                setting,
                f"+output_dir={tmp_path / 'run'}",
                "ledger=/dev/null/x",
            ],
        )
    assert not (tmp_path / "run").exists()


def test_every_command_refuses_a_broken_configuration_in_one_line(tmp_path: Path) -> None:
    """Each command refuses a configuration file that is not UTF-8 or not YAML, in one line.

    If the file is not YAML, the line has the path and the number of a line. `pate-train` refuses an empty file, and
    prints the `defaults` to write.
    """
    mine = tmp_path / "mine.yaml"
    for name in COMMANDS:
        for content in (b"a: \xff\n", b"a: 1\nb: [\nc: 2\n"):
            mine.write_bytes(content)
            line = one_line_refusal(
                command=name, arguments=["--config-dir", str(tmp_path), "--config-name", "mine"]
            )
        assert line.startswith(f"file={mine}: expected settings in YAML (line 4: ")
    mine.write_bytes(b"")
    begun = run(
        "train", arguments=["--config-dir", str(tmp_path), "--config-name", "mine"], cwd=tmp_path
    )
    assert begun.returncode == 2
    assert (
        begun.stderr.startswith("data: expected a value")
        and "defaults: [train, _self_]" in begun.stderr
    )


def test_arguments_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    """An argument that is not valid UTF-8 is refused in one line, and no file is made."""
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    for setting in (
        f"output_dir={strange}",
        f"ledger={strange}",
        f"data.private={strange}",
        f"--config-dir={strange}",
    ):
        assert re.search(
            r"/\\udcff\"?: expected NAME=VALUE, text in UTF-8$",
            one_line_refusal(command="train", arguments=[setting]),
        )
    assert not any(tmp_path.iterdir())


def test_refusals_in_a_sweep_are_printed_together_by_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep of four jobs, of which two are refused, prints the price of the other two.

    At the end it prints a line for each refused job, with its number and setting, and the first refusal once more
    without a number.
    """
    monkeypatch.chdir(tmp_path)
    outcome = call(
        "account",
        arguments=["-m", "num_queries=10", "num_labels=3,-1,???,2", "aggregator=gaussian_votes"],
    )
    lines = outcome.stderr.splitlines()
    assert outcome.returncode == 2
    assert [line.partition(":")[0] for line in lines] == [
        "[2] num_labels=-1",
        "[3] num_labels",
        "num_labels=-1",
    ]
    assert outcome.stdout.count("epsilon <= ") == 2


HEAD = "# @package _global_\n"


def folder_of(tmp_path: Path, files: dict[str, str]) -> Path:
    """Writes files with these texts into a folder, and returns the folder.

    Args:
        tmp_path: the parent of the folder.
        files: the text of each file by its path.
    """
    for name, text in files.items():
        (tmp_path / "given" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "given" / name).write_text(text)
    return tmp_path / "given"


def test_the_command_line_overrides_files(tmp_path: Path) -> None:
    """Settings of the command line replace those of the files in a user's folder."""
    files = {
        "engine/mine.yaml": "_target_: pate.teachers.RayEngine\naddress: auto\n",
        "experiment/s.yaml": HEAD
        + "defaults: [override /engine: mine]\nallowed_targets: []\nnum_queries: 33\n",
    }
    words = [
        "experiment=s",
        "+hydra.job.env_set.X=1",
        "engine.address='a:1'",
        "allowed_targets=[mine.]",
        "--config-dir",
        str(folder_of(tmp_path, files)),
        "--cfg",
        "all",
    ]
    config = OmegaConf.create(succeeded("train", arguments=words).stdout)
    assert (config.num_queries, config.engine.address, config.hydra.job.env_set.X) == (
        33,
        "a:1",
        "1",
    )
    assert config.allowed_targets == ["mine."]


def test_a_pickled_configuration_is_not_read(tmp_path: Path) -> None:
    """Hydra's option to run again from a pickle is refused in one line, in full and abbreviated."""
    for setting in ("--experimental-rerun=FILE", "--exp", "--e"):
        line = one_line_refusal(
            command="train", arguments=[setting, str(tmp_path / "config.pickle")]
        )
        assert line.startswith(
            f"{setting}: expected another option: a pickled configuration is code"
        )


def test_an_error_line_is_short_and_names_its_setting() -> None:
    """Long or forbidden settings are refused in one line of under 1,100 characters.

    The line begins with the name of the setting.
    """
    for setting, start in (
        ("+accountant.orders=[{_target_:os.system}]", ("accountant", "_target_=")),
        ("+hydra.callbacks.a._target_=os.system", "hydra.callbacks.a: Target 'os.system' is block"),
        ("accountant._target_=" + "x" * 6000, ("accountant", "_target_=")),
        ("+accountant.x=" + "y" * 6000, ("accountant", "_target_=")),
    ):
        line = one_line_refusal(command="account", arguments=[setting])
        assert line.startswith(start) and len(line) < 1100
        assert "ALLOWLIST" not in line.partition(":")[0]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Writes arrays with 2,000 private records, and returns the settings that name the files."""
    folder = tmp_path_factory.mktemp("arrays")
    rng = np.random.default_rng(0)
    for split, num_rows in (("private", 2000), ("public", 200), ("test", 100)):
        inputs = rng.standard_normal((num_rows, 6)).astype(np.float32)
        labels = {} if split == "public" else {"labels": inputs[:, :4] > 0}
        np.savez(folder / f"{split}.npz", inputs=inputs, **labels)
    files = [f"data.{split}={folder / split}.npz" for split in ("private", "public", "test")]
    return ["data=arrays", *files, f"output_dir={folder / 'run'}", "accountant=rdp"]


def test_a_plan_refused_for_noise_names_centered_votes_first(arrays: list[str]) -> None:
    """A plan of 100 teachers at epsilon 1, whose votes would drown in noise, is refused.

    The first remedy is `experiment=centered_votes`.
    """
    words = ["aggregator=gaussian_votes", "teacher.num_teachers=100", "target_epsilon=1"]
    line = refused_command("train", arguments=[*arrays, *words])
    assert "\nteacher.num_teachers=100: expected a release that tells something" in line
    assert (
        "what works: target_epsilon=1 experiment=centered_votes in place of aggregator= and "
        "teacher.num_teachers=, or target_epsilon="
    ) in line


def test_centered_votes_are_no_remedy_under_another_adjacency(arrays: list[str]) -> None:
    """The refusal of a plan with `adjacency=add_remove` does not suggest centered votes.

    The price of centered votes in a run is for replaced records.
    """
    words = ["aggregator=gaussian_votes", "adjacency=add_remove", "teacher.num_teachers=100"]
    line = refused_command("train", arguments=[*arrays, *words, "target_epsilon=1"])
    assert "what works: " in line
    assert "centered_votes" not in line


def test_a_small_epsilon_is_named_where_the_data_set_the_number_of_teachers(
    arrays: list[str],
) -> None:
    """A refusal begins with the epsilon, and not with the number of teachers, if each group is a teacher."""
    words = ["experiment=centered_votes", "target_epsilon=.001"]
    line = refused_command("train", arguments=[*arrays, *words])
    assert "\ntarget_epsilon=0.001: expected a release that tells something" in line
    assert "teacher.num_teachers=" not in line
