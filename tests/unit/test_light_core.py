"""The core works with numpy, scipy and randomgen alone; what needs more says in a line which command installs it.

With `--noconftest` this file runs where nothing but the core and pytest is installed, on Windows as well.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from pate import extras
from pate.extras import how_to_install, require_extra
from pate.validation import MissingPackage
from tests.refusals import refused_parameter

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS = [name.partition(":")[0] for name in PROJECT["scripts"].values()]
# The packages that need numpy, scipy and randomgen alone.
CORE = [
    "accounting",
    "aggregators",
    "auditing",
    "data",
    "mechanisms",
    "pricing",
    "report",
    "testing",
    "votes",
]
# The packages and modules that need an extra.
WITH_EXTRA = [
    "auditing.attack",
    "classifier",
    "cli",
    "comparison",
    "config",
    "features",
    "models",
    "pipeline",
    "run",
    "student",
    "teachers",
]
# Names that ask for the extra `predict`; others ask for `train`, `cli` or `pld`.
PREDICTING = ["pate.load", "pate.features", "pate.models", "pate.run"]
PACKAGES_OF_EXTRAS = sorted({name for text in extras._PACKAGES.values() for name in text.split()})
# Public names that import what an extra brings when they are first used.
LAZY_NAMES = [
    "pate.PATEClassifier",
    "pate.load",
    "pate.data.Table",
    "pate.data.CelebA",
    "pate.data.HuggingFace",
]

# The beginning of a program in which no package of an extra can be imported.
HIDE = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {PACKAGES_OF_EXTRAS}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Hidden())
"""
# Uses each name that needs an extra, and prints "NAME | MESSAGE" for each that is refused. Then imports the core.
WITHOUT_EXTRAS = f"""{HIDE}
import importlib
from pate.accounting import GaussianEvent, PldAccountant

def use_name(name):
    module, _, attribute = name.rpartition(".")
    return lambda: getattr(importlib.import_module(module), attribute)

calls = {{name: use_name(name) for name in {LAZY_NAMES}}}
for name in {COMMANDS} + ["pate." + name for name in {WITH_EXTRA}]:
    calls[name] = lambda name=name: importlib.import_module(name)
calls["to_dp_event"] = GaussianEvent(1.0).to_dp_event
calls["accountant=pld"] = lambda: PldAccountant().compose(GaussianEvent(1.0)).get_epsilon(1e-6)
for name, call in calls.items():
    try:
        call()
    except ImportError as error:
        print(name, "|", error)
import pydoc
pydoc.render_doc("pate")
for name in {CORE}:
    print(len(dir(importlib.import_module("pate." + name))))
"""
# Removes what only POSIX has, uses the core, then imports a command.
WITHOUT_POSIX = """
import os, signal, sys
sys.modules |= dict.fromkeys(("fcntl", "pwd", "grp", "resource", "termios"))
for name in "O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_CLOEXEC getuid geteuid fork register_at_fork fchmod mkfifo".split():
    vars(os).pop(name, None)
for name in "SIGHUP SIGUSR1 pthread_sigmask".split():
    vars(signal).pop(name, None)
from pathlib import Path
import numpy as np
from pate.accounting import AutoAccountant, Ledger
from pate.aggregators import GaussianVotes
from pate.mechanisms import secret_generator
ledger = Ledger(target_delta=1e-6, max_epsilon=1.0)
votes = np.array([[90, 3], [10, 80]])
release = GaussianVotes(noise_std=20.0).aggregate(votes, num_teachers=100, rng=secret_generator(), ledger=ledger)
assert 0 < AutoAccountant().compose(release.event).get_epsilon(1e-6) <= ledger.spent_epsilon < 1
release.save(Path(sys.argv[1], "release.npz"))
assert np.load(Path(sys.argv[1], "release.npz"))["labels"].shape == (2, 2)
try:
    Ledger(sys.argv[1] + "/ledger.db", target_delta=1e-6)
except ValueError as error:
    print(error)
import pate.cli.account
"""


def run_program(
    code: str, *, arguments: Sequence[str | Path] = (), folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter that finds `pate` in a folder, and returns the finished process.

    Args:
        code: the source text of the program.
        arguments: the arguments of the program.
        folder: the folder that `pate` lies in, in which the program runs.
    """
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "PYTHONWARNINGS": "default",
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        cwd=folder,
        check=False,
    )


@pytest.mark.process
def test_a_missing_extra_is_refused_with_its_install_command() -> None:
    """Without the packages of an extra, each module and name that needs them is refused with the install command."""
    done = run_program(WITHOUT_EXTRAS)
    assert done.returncode == 0, done.stderr
    refusals = dict(line.split(" | ") for line in done.stdout.splitlines() if "|" in line)
    expected_names = {f"pate.{name}" for name in WITH_EXTRA} | {*LAZY_NAMES, *COMMANDS}
    assert refusals.keys() == expected_names | {"to_dp_event", "accountant=pld"}
    for name, line in refusals.items():
        if name in ("to_dp_event", "accountant=pld"):
            extra = "pld"
        elif name.startswith(("pate.cli", "pate.config")):
            extra = "cli"
        else:
            extra = "predict" if name in PREDICTING else "train"
        assert re.fullmatch(
            rf"[\w.=]+: expected the package \w+: pip install '.*\[{extra}\]'", line
        ), (name, line)


@pytest.mark.process
def test_a_command_without_its_packages_exits_with_2() -> None:
    """Without hydra, importing a command exits with code 2 and one line."""
    done = run_program(f"{HIDE}import pate.cli.account")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr == f"pate.cli: expected the package hydra: {how_to_install(extra='cli')}\n"


def hide_all_but(extra: str) -> str:
    """Returns the beginning of a program in which only the packages of one extra can be imported."""
    installed_packages = extras._PACKAGES[extra].split()
    hidden_packages = [name for name in PACKAGES_OF_EXTRAS if name not in installed_packages]
    return HIDE.replace(repr(PACKAGES_OF_EXTRAS), repr(hidden_packages))


def call_command(command: str, words: Sequence[str] = ()) -> str:
    """Returns the end of a program, which runs a command with the words of its command line."""
    return f"""
sys.argv = {["pate-" + command, *words]}
import importlib
importlib.import_module("pate.cli.{command}").main()
"""


@pytest.mark.process
def test_prices_need_the_extra_cli_alone() -> None:
    """With the extra `cli` alone, pate-account prints prices; pate-train and pate-predict name the extra they need."""
    pytest.importorskip("hydra")
    words = [
        "aggregator=gaussian_votes",
        "num_queries=600",
        "num_labels=40",
        "num_teachers=800",
        "target_epsilon=3.6",
        "format=json",
    ]
    done = run_program(hide_all_but(extra="cli") + call_command("account", words=words))
    assert done.returncode == 0, done.stderr
    assert 3.5 < json.loads(done.stdout.splitlines()[-1])["epsilon"] <= 3.6
    for command, extra in (("train", "train"), ("predict", "predict")):
        done = run_program(hide_all_but(extra="cli") + call_command(command))
        assert done.returncode == 2
        assert re.fullmatch(
            rf"pate-{command}: expected the package \w+: pip install '.*\[{extra}\]'\n", done.stderr
        )


@pytest.mark.process
def test_a_linear_model_predicts_without_torch_and_scikit_learn(tmp_path: Path) -> None:
    """With the extra `predict` alone, a published linear model predicts the numbers that are computed by hand."""
    pytest.importorskip("safetensors")
    import numpy as np

    from pate.bundle import ModelForm
    from pate.files.manifest import Manifest
    from pate.models.linear_model import LinearModel

    weights = np.array([[0.25, -1.0], [0.5, 0.0]], np.float32)
    bias = np.array([0.5, 1.0], np.float32)
    LinearModel(
        arrays={"weights": weights, "bias": bias},
        threshold=0.5,
        input_shape=(2,),
        num_rows=10,
        choices={},
    ).save(tmp_path / "student")
    ModelForm(
        name="two numbers",
        kind="features",
        labels=("flu", "cough"),
        input_shape=(2,),
        features=("a", "b"),
        preprocessing=None,
        threshold=0.5,
        model="linear",
    ).write(tmp_path)
    names = ["schema.json", "student/student.json", "student/student.safetensors"]
    Manifest.from_files(tmp_path, names, missing_file_remedy="").write(tmp_path)
    program = """
import numpy as np
import pate
bundle = pate.load(sys.argv[1])
inputs = np.array([[1.0, 0.0], [0.0, 8.0], [-1.0, 0.25]], np.float32)
print(bundle.predict_proba(inputs).tolist())
print(bundle.predict(inputs).astype(int).tolist())
"""
    done = run_program(hide_all_but(extra="predict") + program, arguments=[tmp_path])
    assert done.returncode == 0, done.stderr
    # The probabilities are inputs times weights plus bias, cut to [0, 1].
    assert done.stdout.splitlines() == [
        "[[0.75, 0.0], [1.0, 1.0], [0.375, 1.0]]",
        "[[1, 0], [1, 1], [0, 1]]",
    ]


@pytest.mark.process
def test_without_posix_the_core_works_and_runs_are_refused(tmp_path: Path) -> None:
    """Without POSIX, aggregators and accountants work, but a ledger's file and the commands are refused in a line."""
    done = run_program(WITHOUT_POSIX, arguments=[tmp_path])
    rule = "expected a POSIX system, such as Linux or macOS"
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith(f"ledger={tmp_path}")
    assert rule in done.stdout
    assert "Ledger(target_delta" in done.stdout
    assert done.stderr == f"pate.cli: {rule}; aggregators and accountants work here, too\n"


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="makes links")
def test_the_other_distribution_is_named_and_takes_only_two_names_along(tmp_path: Path) -> None:
    """If another project's distribution `pate` is installed as well, importing warns once.

    If that distribution has replaced `pate/__init__.py`, or if the file is missing, all other modules work, and one
    warning names the file. `PATE` 0.1.1 brings an empty `pate/__init__.py`.
    """
    (tmp_path / "PATE-0.1.1.dist-info").mkdir()
    done = run_program(
        "import sys; sys.path.append(sys.argv[1]); import pate", arguments=[tmp_path]
    )
    assert done.returncode == 0
    warning = "another project's distribution `pate` is beside pate-multilabel"
    assert done.stderr.count(warning) == 1
    assert run_program("import pate").stderr == ""
    (tmp_path / "PATE-0.1.1.dist-info").rmdir()
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    (tmp_path / "pate").mkdir()
    for path in (ROOT / "pate").iterdir():
        if path.name != "__init__.py":
            (tmp_path / "pate" / path.name).symlink_to(path)
    statement = (
        "import sys; sys.path = [each for each in sys.path if each != sys.argv[1]]; import pate.aggregators as ours; "
        "print(ours.__file__, ours.GaussianVotes); sys.argv = ['pate-account', '--version']; "
        "from pate.cli.account import main; main()"
    )
    warning = "pate/__init__.py is not that of pate-multilabel: uninstall `pate`"
    for _ in ("a missing file", "an empty file"):
        done = run_program(statement, arguments=[ROOT], folder=tmp_path)
        assert done.stdout.endswith("imported as pate\n")
        assert done.stdout.startswith(str(tmp_path)), done.stderr
        assert done.stderr.count(warning) == 1
        (tmp_path / "pate" / "__init__.py").touch()


def test_the_install_command_names_the_source_of_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command that installs an extra names the file of the package, its wheel by version, or its published name."""
    wheel = f"pate_multilabel-{extras.VERSION}-py3-none-any.whl[ray]"
    assert how_to_install(extra="ray", on_any_machine=True) == f"pip install '{wheel}'"
    monkeypatch.setattr(extras, "_origin", lambda: "/a b/x.whl")
    assert how_to_install(extra="ray") == "pip install '/a b/x.whl[ray]'"
    monkeypatch.setattr(extras, "_origin", lambda: None)
    assert how_to_install(extra="ray") == f"pip install '{wheel}'"
    monkeypatch.setattr(extras, "PACKAGE_IS_PUBLISHED", True)
    published_command = "pip install 'pate-multilabel[ray]'"
    assert how_to_install(extra="ray") == published_command
    assert how_to_install(extra="ray", on_any_machine=True) == published_command
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused_parameter("engine=ray", rule_words="package ray", kind=MissingPackage):
        require_extra("engine=ray", extra="ray")
