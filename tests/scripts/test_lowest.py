"""`lowest` lists the lowest versions of the requirements, with which they are tested."""

from pathlib import Path

import pytest

from scripts.lowest import lowest

PYPROJECT_TEXT = """
[project]
dependencies = ["numpy>=1.26"]
[project.optional-dependencies]
train = ["torch>=2.4", "numpy>=1.26"]
table = ["pate-multilabel[train]", "pyarrow>=15"]
dev = ["pate-multilabel[train,table]", "ruff>=0.6"]
"""


def test_what_an_extra_brings_is_written_out_once(tmp_path: Path) -> None:
    """`lowest` lists each requirement of a project, of its extras and of extras within these once.

    An unknown extra raises `KeyError`.
    """
    pyproject_path = tmp_path / "pyproject.toml"
    pyproject_path.write_text(PYPROJECT_TEXT)
    assert lowest(pyproject_path, extras=[]) == ["numpy>=1.26"]
    assert lowest(pyproject_path, extras=["dev"]) == [
        "numpy>=1.26",
        "torch>=2.4",
        "pyarrow>=15",
        "ruff>=0.6",
    ]
    with pytest.raises(KeyError, match="tables"):
        lowest(pyproject_path, extras=["tables"])


def test_every_requirement_of_this_project_has_a_lowest_version() -> None:
    """Each requirement of this project and its extras has a lower bound."""
    pyproject_path = Path(__file__).parents[2] / "pyproject.toml"
    for requirement in lowest(pyproject_path, extras=["dev", "text", "ray", "slurm"]):
        assert ">=" in requirement, requirement
