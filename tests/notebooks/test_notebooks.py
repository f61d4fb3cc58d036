"""Notebooks run from a clean kernel, are stripped in git, and use public names only."""

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
MACHINE = re.compile(r"/(?:home|Users|work|tmp|root)/")
SECONDS_A_CELL = 240
FEWER = "num_queries=100 teacher.num_teachers=100 allow_useless=true"
FEWER_RECORDS = (
    "from dataclasses import replace\nwhole = WordNet40().load()\n"
    "data = replace(whole, private=whole.private.take(slice(12_000)), test=whole.test.take(slice(2_000)))"
)
SHORTER = {
    "1_quickstart": {
        "data = WordNet40().load()": FEWER_RECORDS,
        "NUM_TEACHERS, NUM_QUERIES = 400, 600": "NUM_TEACHERS, NUM_QUERIES = 200, 400",
        " output_dir=run": " output_dir=run all_records=false accountant=rdp " + FEWER,
    },
    "2_stable_top_k": {},
    "3_the_audit": {},
    "4_comparing_aggregators": {
        "full = WordNet40().load()": FEWER_RECORDS.replace("data = ", "full = "),
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
"""Replacements of settings that take minutes and decide nothing in a test."""

LINEAR = "\n\nimport pate.run.ceiling\npate.run.ceiling._MAX_NUMBERS = 0"
"""A limit by which the linear model alone is trained of the models of all private records."""


def executed(
    notebook: nbformat.NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[nbformat.NotebookNode]:
    """Returns the outputs of all cells, run one after the other in a new kernel in an empty folder."""
    work = folder / "work"
    work.mkdir()
    # the kernel reads no settings of the person who runs the tests
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    resources = {"metadata": {"path": str(work)}}
    NotebookClient(
        notebook, kernel_name="python3", timeout=SECONDS_A_CELL, resources=resources
    ).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def hidden_names(code: str) -> Iterator[str]:
    """Returns the names of `pate` in the code that no module lists as public."""
    # lines of the shell are left out
    lines = ["pass" if line.startswith(("!", "%")) else line for line in code.splitlines()]
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
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_a_clean_kernel(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for old, new in SHORTER[path.stem].items():
        assert any(old in cell.source for cell in cells), f"{old}: no cell has it"
        for cell in cells:
            cell.source = cell.source.replace(old, new)
    cells[0].source += LINEAR
    outputs = executed(notebook, folder=tmp_path, monkeypatch=monkeypatch)
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stripped_listed_and_of_public_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == stripped(text), "run `make notebooks`"
    nbformat.validate(json.loads(text))
    cells = nbformat.reads(text, as_version=4).cells
    assert (cells[0].cell_type, cells[0].source[:2]) == ("markdown", "# ")
    assert (
        list(hidden_names("\n".join(cell.source for cell in cells if cell.cell_type == "code")))
        == []
    )
    assert MACHINE.findall(text) == []
    assert f"`{path.name}`" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
