"""The version and the name stand in several places, and say the same."""

import re
import tomllib
from pathlib import Path

import yaml

import pate
from pate.validation import VERSION

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
