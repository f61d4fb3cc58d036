"""The notebooks run from a clean kernel, have no outputs in git, and use public names only."""

import ast
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from scripts.strip_notebooks import stripped

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# The beginnings of paths that exist on the machine of an author alone.
PATH_OF_A_MACHINE = re.compile(r"/(?:home|Users|work|tmp|root)/")
# The time that one cell may take.
MAX_SECONDS_OF_CELL = 240
# Settings of `pate-train` for a quick run.
QUICK_SETTINGS = "num_queries=100 teacher.num_teachers=100 allow_useless=true"
# Code that loads a part of the records.
LOAD_FEWER_RECORDS = (
    "from dataclasses import replace\nwhole = WordNet40().load()\n"
    "data = replace(whole, private=whole.private.take(slice(2_500)), test=whole.test.take(slice(1_000)))"
)
SHORTER_CODE = {
    "1_quickstart": {
        "data = WordNet40().load()": LOAD_FEWER_RECORDS,
        "NUM_TEACHERS, NUM_QUERIES = 400, 600": "NUM_TEACHERS, NUM_QUERIES = 200, 400",
        " output_dir=run": " output_dir=run all_records=false accountant=rdp " + QUICK_SETTINGS,
    },
    "2_stable_top_k": {},
    "3_the_audit": {},
    "4_comparing_aggregators": {
        "full = WordNet40().load()": LOAD_FEWER_RECORDS.replace("data = ", "full = "),
        "seeds=(0, 1, 2)": "seeds=(0, 1)",
        "NUM_QUERIES, DELTA = 1_000, 300": "NUM_QUERIES, DELTA = 500, 200",
        "(0.5, 1, 2, 8)": "(2, 8)",
        "(0.5, 2, 8)": "(2,)",
        "slice(2_000)": "slice(500)",
        "target_delta=DELTA, **shape)": "target_delta=DELTA, **shape, accountant=RdpAccountant)",
    },
    "5_celeba": {
        "count=6_000": "count=1_200",
        "limit=5_000": "limit=900",
        "data.limit=5000": "data.limit=900",
        "NUM_TEACHERS = 100": "NUM_TEACHERS = 10",
        "teacher.epochs=8": "teacher.epochs=1",
        "target_epsilon=8": "target_epsilon=80 all_records=false student.epochs=1 accountant=rdp",
    },
}
"""The code that replaces code of a notebook, which would take minutes and decide nothing in a test."""

LIMIT_TO_LINEAR_MODEL = """

from pate.run import ceiling
assert ceiling._MAX_INPUT_SIZE > 0
ceiling._MAX_INPUT_SIZE = 0"""
"""Code that sets a limit by which no model of all private records but the linear one is trained."""


def outputs_of_notebook(
    notebook: nbformat.NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[nbformat.NotebookNode]:
    """Runs a notebook in a new kernel and an empty folder, and returns the outputs of all cells."""
    working_folder = folder / "work"
    working_folder.mkdir()
    # The kernel reads no settings of the person who runs the tests.
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    resources = {"metadata": {"path": str(working_folder)}}
    client = NotebookClient(
        notebook, kernel_name="python3", timeout=MAX_SECONDS_OF_CELL, resources=resources
    )
    client.execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def private_names(source_code: str) -> Iterator[str]:
    """Yields the names in the code that are private, or that a module of `pate` does not list as public."""
    # Lines for the shell and for IPython are no Python.
    lines = ["pass" if line.startswith(("!", "%")) else line for line in source_code.splitlines()]
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("pate"):
            module = import_module(str(node.module))
            public_names = getattr(
                module, "__all__", [name for name in vars(module) if not name.startswith("_")]
            )
            yield from (alias.name for alias in node.names if alias.name not in public_names)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_from_a_clean_kernel(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook runs, with shorter settings, shows a picture, and writes nothing to standard error."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for old_code, new_code in SHORTER_CODE[path.stem].items():
        assert any(old_code in cell.source for cell in cells), f"{old_code}: no cell has it"
        for cell in cells:
            cell.source = cell.source.replace(old_code, new_code)
    cells[0].source += LIMIT_TO_LINEAR_MODEL
    outputs = outputs_of_notebook(notebook, folder=tmp_path, monkeypatch=monkeypatch)
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_stripped_listed_and_of_public_names(path: Path) -> None:
    """A notebook has no outputs and begins with a heading, uses public names only, and is listed in docs/index.md."""
    text = path.read_text(encoding="utf-8")
    assert text == stripped(text), "run `make notebooks`"
    nbformat.validate(json.loads(text))
    cells = nbformat.reads(text, as_version=4).cells
    assert (cells[0].cell_type, cells[0].source[:2]) == ("markdown", "# ")
    assert (
        list(private_names("\n".join(cell.source for cell in cells if cell.cell_type == "code")))
        == []
    )
    assert PATH_OF_A_MACHINE.findall(text) == []
    assert f"`{path.name}`" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
