"""Imports of a fresh interpreter are light; public names and versions are in agreement."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import pate
from pate.extras import VERSION

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pate"
HEAVY = {
    "torch",
    "hydra",
    "omegaconf",
    "sklearn",
    "matplotlib",
    "tensorboard",
    "rich",
    "joblib",
    "dp_accounting",
}
# parts of SciPy that take a fifth of a second or more to load
SLOW = {"scipy.special", "scipy.stats", "scipy.optimize", "scipy.integrate"}
PROBE = "import sys; {statement}; print(*sorted(sys.modules))"


def modules_after(statement: str) -> set[str]:
    """Returns the modules that a fresh interpreter has loaded after one statement."""
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.process
def test_importing_the_core_loads_nothing_heavy() -> None:
    """Six packages of the core, imported together, load neither torch, scikit-learn nor slow parts of scipy."""
    core = [
        f"pate.{name}"
        for name in ("accounting", "mechanisms", "testing", "aggregators", "votes", "pricing")
    ]
    loaded = modules_after(statement="; ".join(f"from {name} import *" for name in core))
    assert {*core, "pate.aggregators.centered_votes"} <= loaded
    assert not loaded & (HEAVY | SLOW)


@pytest.mark.process
def test_the_cipher_is_loaded_when_secret_noise_is_asked_for() -> None:
    """randomgen is loaded if secret noise is drawn, and not if seeded noise is drawn."""
    statement = (
        "import numpy as np, sys; from pate.accounting import Ledger; from pate.aggregators import GaussianVotes; "
        "from pate.mechanisms import secret_generator; draw = lambda rng: GaussianVotes(noise_std=9.0).aggregate("
        "np.array([[9, 1, 0]]), num_teachers=9, rng=rng, ledger=Ledger(target_delta=1e-6)); "
        "draw(np.random.default_rng(0)); assert not any(name.startswith('randomgen') for name in sys.modules)"
    )
    assert "randomgen" not in modules_after(statement=statement)
    assert "randomgen" in modules_after(statement=f"{statement}; draw(secret_generator())")


@pytest.mark.process
def test_the_classifier_is_loaded_when_asked_for_and_needs_no_torch() -> None:
    """Importing the classifier loads scikit-learn, and neither torch nor hydra."""
    loaded = modules_after(statement="from pate import PATEClassifier")
    assert "sklearn" in loaded
    assert not loaded & {"torch", "hydra", "omegaconf", "matplotlib", "tensorboard"}


COMMANDS = (  # in one interpreter, the plainest first
    "account aggregator=gaussian_votes",
    "account",
    "account aggregator=centered_votes",
    "predict --help",
    "train --help",
    "train agregator=peeling",
    "train teacher.num_techers=3",
    "train teacher=mlp student=mlp typo=1",
    "compare --help",
)
CALLS = f"""
import contextlib, importlib, io, sys
for words in {[line.split() for line in COMMANDS]}:
    sys.argv = ["pate-" + words[0], *words[1:]]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module("pate.cli." + words[0]).main()
    print(*sorted(sys.modules))
"""


@pytest.mark.process
def test_commands_load_what_they_use() -> None:
    """Commands that print prices or help, or that refuse a typo, load no package of training, such as torch.

    Loading such a package would take seconds.
    """
    answer = subprocess.run(
        [sys.executable, "-c", CALLS], capture_output=True, text=True, check=True
    )
    loaded = [set(line.split()) for line in answer.stdout.splitlines()]
    for command, names in zip(COMMANDS, loaded, strict=True):
        assert {"hydra", f"pate.cli.{command.split()[0]}"} <= names
        heavy = names & {
            "torch",
            "sklearn",
            "matplotlib",
            "tensorboard",
            "pandas",
            "joblib",
            "dp_accounting",
            *SLOW,
        }
        assert not heavy, command
    assert "pate.aggregators.gaussian_votes" in loaded[0]
    other_modules = {
        "pate.aggregators.stable_top_k",
        "pate.aggregators.centered_votes",
        "pate.accounting.ledger",
    }
    assert not loaded[0] & other_modules


def test_no_name_of_a_package_is_also_that_of_its_module() -> None:
    """In packages that load names lazily, no public name is that of a module.

    Once such a module is loaded, Python would find the module under the name.
    """
    packages = [
        path for path in sorted(PACKAGE.rglob("__init__.py")) if "__getattr__" in path.read_text()
    ]
    assert len(packages) > 5
    for path in packages:
        name = ".".join(path.parent.relative_to(ROOT).parts)
        names = set(importlib.import_module(name).__all__)
        assert names and not names & {each.stem for each in path.parent.iterdir()}, name


def test_all_files_state_the_same_version() -> None:
    """pyproject.toml, the conda recipe, the package and CITATION.cff have the same version.

    Requirements and commands of the recipe are those of pyproject.toml.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
    assert recipe["context"]["version"] == VERSION
    core_packages, train_packages = (
        [line.replace(" ", "") for line in output["requirements"]["run"]]
        for output in recipe["outputs"]
    )
    assert core_packages == [f"python{project['requires-python']}", *project["dependencies"]]
    extra_packages = train_packages[1:]
    names_on_pypi = [
        line.replace("pytorch", "torch").replace("-base", "") for line in extra_packages
    ]
    assert names_on_pypi == project["optional-dependencies"]["train"]
    points = [f"{name} = {where}" for name, where in project["scripts"].items()]
    assert recipe["outputs"][0]["build"]["python"]["entry_points"] == points
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert project["version"] == pate.__version__ == VERSION == cited[1]
