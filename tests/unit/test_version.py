"""The version and the name stand in several places, and say the same."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import pate
from pate.validation import DISTRIBUTION, PUBLISHED, VERSION

ROOT = Path(__file__).parents[2]


def test_all_places_say_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
    assert recipe["context"]["version"] == VERSION
    core, train = ([line.replace(" ", "") for line in output["requirements"]["run"]] for output in recipe["outputs"])
    assert core == [f"python{project['requires-python']}", *project["dependencies"]]
    theirs = [line.replace("pytorch", "torch").replace("-base", "") for line in train[1:]]
    assert theirs == project["optional-dependencies"]["train"]
    points = [f"{name} = {where}" for name, where in project["scripts"].items()]
    assert recipe["outputs"][0]["build"]["python"]["entry_points"] == points
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert project["version"] == pate.__version__ == VERSION == cited[1]


COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_says_whose_it_is(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, _, function = COMMANDS[command].partition(":")
    monkeypatch.setattr("sys.argv", [command, "--version"])
    with pytest.raises(SystemExit, match="0"):
        getattr(importlib.import_module(module), function)()
    assert capsys.readouterr().out == f"{command} of {DISTRIBUTION} {pate.__version__}, imported as pate\n"


def test_the_distribution_has_one_name_everywhere() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION
    folders = ("pate", "conf", "docs", "scripts", "examples")
    suffixes = (".py", ".md", ".yaml")
    pages = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in suffixes]
    unowned = "" if PUBLISHED else "|-multilabel"  # whoever registers that name says what is installed by it
    other = re.compile(rf"pip install ['\"]?pate(?:\[|['\"]|${unowned})", re.MULTILINE)
    texts = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *pages]}
    assert [str(path) for path, text in texts.items() if other.search(text)] == []
    assert other.search("pip install 'pate" + "[yeast]'") and other.search('pip install "pate' + '"')
