"""The install line of the README names this wheel, and its shell commands lead from a table to predictions."""

import csv
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.commands import call

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"pip install '(?P<wheel>[^'\[]+\.whl)\[(?P<extras>[^\]]+)\]'")
NUM_PATIENTS = 1500


def commands_of(block: str) -> list[list[str]]:
    """Returns the commands of a block as their words, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def write_patients(path: Path) -> None:
    """Writes a table of patients with two records each, whose labels depend on fever and age."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        write = csv.writer(file).writerow
        write(["patient", "age", "fever", "ward", "flu", "cough"])
        for row in range(2 * NUM_PATIENTS):
            age = int(rng.integers(low=1, high=95))
            has_fever = int(rng.random() < 0.4)
            write([row // 2, age, has_fever, "ab"[row % 2], has_fever, int(age > 60)])


@pytest.mark.parametrize("page", [README, START], ids=["README.md", "start.md"])
def test_the_install_line_names_this_wheel_and_its_extras(page: str) -> None:
    """The line `pip install` names the wheel of this version, and extras that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    match = INSTALL.search(page)
    assert match is not None
    name = project["name"].replace("-", "_")
    assert match["wheel"] == f"{name}-{project['version']}-py3-none-any.whl"
    assert set(match["extras"].split(",")) <= project["optional-dependencies"].keys()


@pytest.mark.slow
def test_the_shell_commands_of_the_readme_run(tmp_path: Path) -> None:
    """The commands of the quick start train on a table, and the published student predicts both labels of two rows."""
    pytest.importorskip("pyarrow")
    install, quickstart = SHELL_BLOCK.findall(README)
    assert INSTALL.search(install)
    write_patients(path=tmp_path / "patients.csv")
    (tmp_path / "new.csv").write_text("age,fever,ward\n80,1,a\n20,0,b\n")
    for program, *arguments in commands_of(quickstart):
        ended = call(program.removeprefix("pate-"), arguments=arguments, cwd=tmp_path)
        assert ended.returncode == 0, (program, ended.stderr)
    with (tmp_path / "predictions.csv").open() as file:
        predicted = [(row["flu"], row["cough"]) for row in csv.DictReader(file)]
    assert predicted == [("1", "1"), ("0", "0")]
    assert (tmp_path / "run" / "release" / "privacy_card.md").is_file()


def test_the_readme_has_one_way_for_python_and_one_for_the_shell() -> None:
    """README has one Python block and two shell blocks, the install line and the quick start."""
    assert len(SHELL_BLOCK.findall(README)) == 2
    assert README.count("```python\n") == 1
    assert README.index("pip install") < README.index("make run")
