"""Whoever supplies a file of a configuration runs no code by it: Hydra's own settings are the command line's."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from omegaconf import OmegaConf

from pate.config import CONFIG_FOLDER
from pate.config.loader import FileGuard
from tests.e2e.commands import call, refused, succeeded

CODE = "open(r'{mark}', 'w').close()"
RUNS = {"_target_": "pate.validation.np.testing.runstring", "_args_": [CODE, {}]}
LOGGED = {"version": 1, "root": {"handlers": ["a"]}}
HYDRA: dict[str, Any] = {
    "callbacks": {"mine": RUNS},
    "launcher": {"inner": RUNS},
    "sweeper": {"params": {"seed": "1,2"}},
    "job_logging": LOGGED | {"handlers": {"a": {"()": "numpy.testing.runstring", "astr": CODE, "dict": {}}}},
    "hydra_logging": LOGGED | {"handlers": {"a": {"class": "logging.FileHandler", "filename": "{mark}"}}},
    "job": {"env_set": {"PYTHONPATH": "/tmp"}},
    "run": {"dir": "{mark}"},
    "help": {"template": "$CONFIG"},
    "mode": "MULTIRUN",
}
HEAD = "# @package _global_\n"


def folder_of(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (tmp_path / "given" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "given" / name).write_text(text.replace("{mark}", str(tmp_path / "ran")))
    return tmp_path / "given"


def refuse(tmp_path: Path, files: dict[str, str], start: str, *words: str, module: str = "train") -> None:
    """The command refuses the files in one line that begins so, and nothing has run."""
    said = call(module, "--config-dir", str(folder_of(tmp_path, files)), *words)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith(start), said.stderr
    assert said.stderr.count("\n") == 1
    assert "expected it on the command line alone, found it in " in said.stderr
    assert {entry.name for entry in tmp_path.iterdir()} == {"given"}


def test_an_experiment_sets_nothing_of_hydras(tmp_path: Path) -> None:
    for key, value in HYDRA.items():
        text = HEAD + OmegaConf.to_yaml({"hydra": {key: value}})
        refuse(tmp_path, {"experiment/shared.yaml": text}, f"hydra.{key}: ", "experiment=shared")


RUN = HEAD + "hydra: {mode: RUN}\n"
WAYS: list[tuple[dict[str, str], list[str]]] = [
    ({"hydra/launcher/mine.yaml": "n_jobs: 2\n"}, ["hydra/launcher=mine"]),
    ({"hydra/job_logging/mine.yaml": "root: {}\n"}, ["hydra/job_logging=mine"]),
    ({"data/mine.yaml": HEAD + OmegaConf.to_yaml({"hydra": {"callbacks": {"a": RUNS}}})}, ["data=mine"]),
    ({"data/mine.yaml": "# @package hydra.callbacks\n" + OmegaConf.to_yaml({"a": RUNS})}, ["data=mine"]),
    (
        {"experiment/s.yaml": HEAD + "defaults: [/parts@hydra.callbacks: a]", "parts/a.yaml": "b: {c: 1}"},
        ["experiment=s"],
    ),
    ({"experiment/s.yaml": HEAD + "defaults: [deep]\n", "experiment/deep.yaml": RUN}, ["experiment=s"]),
    ({"mine.yaml": "defaults: [train, _self_]\nhydra: {searchpath: ['pkg://this']}\n"}, ["--config-name", "mine"]),
    ({"mine.yaml": "defaults: [train, _self_]\nhydra: {mode: RUN}\n"}, ["--config-name", "mine", "--cfg", "job"]),
    ({"experiment/s.yaml": RUN}, ["experiment=s", "--help"]),
    ({"experiment/s.yaml": HEAD + "hydra: {callbacks: {}}\n"}, ["-m", "experiment=s", "seed=1"]),
]


@pytest.mark.parametrize(("files", "words"), WAYS)
def test_no_other_way_leads_there(files: dict[str, str], words: list[str], tmp_path: Path) -> None:
    refuse(tmp_path, files, "hydra", *words)


def test_a_path_that_leaves_our_folder_leads_to_no_file_of_ours(tmp_path: Path) -> None:
    folder_of(tmp_path, {"experiment/s.yaml": RUN})
    up = "../" * (len(CONFIG_FOLDER.parts) + 1)
    said = refused("train", f"experiment='{up}{str(tmp_path / 'given/experiment/s').removeprefix('/')}'")
    assert said.startswith("hydra.mode: expected it on the command line alone, found it in ")


def test_a_file_does_not_say_which_modules_are_loaded_or_where_records_are_sent(tmp_path: Path) -> None:
    for allowed in ("[os.]", "['']", "antigravity."):
        text = HEAD + f"allowed_targets: {allowed}\ndata: {{_target_: antigravity.Data}}\n"
        for module, word in (("train", "experiment=s"), ("compare", "aggregators=[s]")):
            refuse(tmp_path, {"experiment/s.yaml": text}, "allowed_targets=[", word, module=module)
    for address in ("ray://elsewhere:10001", "${oc.env:HOME}"):
        text = HEAD + f"engine: {{_target_: pate.teachers.RayEngine, address: '{address}'}}\n"
        refuse(tmp_path, {"experiment/s.yaml": text}, f"engine.address={address}: ", "experiment=s")


def test_files_say_all_else_and_the_command_line_everything(tmp_path: Path) -> None:
    files = {
        "engine/mine.yaml": "_target_: pate.teachers.RayEngine\naddress: auto\n",
        "experiment/s.yaml": HEAD + "defaults: [override /engine: mine]\nallowed_targets: []\nnum_queries: 33\n",
    }
    words = ["experiment=s", "+hydra.job.env_set.X=1", "engine.address='a:1'", "allowed_targets=[mine.]"]
    words += ["--config-dir", str(folder_of(tmp_path, files)), "--cfg", "all"]
    shown = OmegaConf.create(succeeded("train", *words).stdout)
    assert (shown.num_queries, shown.engine.address, shown.hydra.job.env_set.X) == (33, "a:1", "1")
    assert shown.allowed_targets == ["mine."]


def test_a_pickled_configuration_is_not_read(tmp_path: Path) -> None:
    for word in ("--experimental-rerun=FILE", "--exp", "--e"):
        said = refused("train", word, str(tmp_path / "config.pickle"))
        assert said.startswith(f"{word}: expected another option: a pickled configuration is code")
        assert "\n" not in said


def test_a_line_names_a_setting_and_is_none_of_thousands_of_letters() -> None:
    for word, start in (
        ("+accountant.orders=[{_target_:os.system}]", ("accountant", "_target_=")),
        ("+hydra.callbacks.a._target_=os.system", "hydra.callbacks.a: Target 'os.system' is block"),
        ("accountant._target_=" + "x" * 6000, ("accountant", "_target_=")),
        ("+accountant.x=" + "y" * 6000, ("accountant", "_target_=")),
    ):
        said = refused("account", word)
        assert said.startswith(start) and "\n" not in said and len(said) < 1100
        assert "ALLOWLIST" not in said.partition(":")[0]


def test_a_launcher_sends_the_guard_along() -> None:
    """A launcher's job composes in a process of its own, with the loader that it was sent."""
    sent = FileGuard(ConfigSearchPathImpl())
    assert type(pickle.loads(pickle.dumps(sent))) is FileGuard
