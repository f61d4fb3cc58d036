"""The harness can fail: cells that raise, outputs that stayed, names that are not public."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from scripts.strip_notebooks import main, stripped
from tests.notebooks.notebook import code_of, executed, hidden_names


def notebook_of(*sources: str) -> nbformat.NotebookNode:
    return new_notebook(cells=[new_code_cell(source) for source in sources])


def used_notebook() -> nbformat.NotebookNode:
    """One that somebody ran and saved."""
    cell = new_code_cell("1 + 1", execution_count=3, metadata={"collapsed": True}, id="sum")
    cell.outputs = [new_output("execute_result", data={"text/plain": "2"}, execution_count=3)]
    return new_notebook(cells=[new_markdown_cell("# A title", id="title"), cell], metadata={"widgets": {}})


def test_a_cell_that_fails_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed(notebook_of("a = 1", "a / 0"), tmp_path, monkeypatch)


def test_a_run_begins_clean_and_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import os, sys\nprint(sorted(os.listdir()), 'pate' in sys.modules)\nprint('late', file=sys.stderr)"
    outputs = executed(notebook_of(source), tmp_path, monkeypatch)
    assert {(output.name, output.text) for output in outputs} == {("stdout", "[] False\n"), ("stderr", "late\n")}


def test_stripping_keeps_sources_and_ids_alone() -> None:
    text = stripped(nbformat.writes(used_notebook()))
    title, cell = json.loads(text)["cells"]
    assert title == {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# A title"]}
    assert (cell["id"], cell["source"]) == ("sum", ["1 + 1"])
    assert (cell["outputs"], cell["execution_count"], cell["metadata"]) == ([], None, {})
    assert "widgets" not in text
    assert stripped(text) == text


def test_cells_without_ids_get_distinct_ones_that_stay() -> None:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "twice"}] * 2
    text = stripped(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    ids = [cell["id"] for cell in json.loads(text)["cells"]]
    assert len(set(ids)) == 2
    assert stripped(text) == text


def test_the_command_checks_and_strips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.ipynb"
    nbformat.write(used_notebook(), path)
    before = path.read_text()
    assert main(["--check", str(path)]) == 1
    assert "a.ipynb: not stripped" in capsys.readouterr().out
    assert path.read_text() == before
    assert main([str(path)]) == 0
    assert path.read_text() == stripped(before)
    assert main(["--check", str(path)]) == 0


@pytest.mark.parametrize(
    ("code", "hidden"),
    [
        ("from pate.aggregators import StableTopK", []),
        ("from pate.accounting.paper_epsilons import converted", []),
        ("from pate import PATEClassifier", []),
        ("import pate.accounting\nrow.__class__", []),
        ("from pate.accounting.paper_epsilons import _ORDERS", ["pate.accounting.paper_epsilons._ORDERS"]),
        ("from pate.run.plan import RdpAccountant", ["pate.run.plan.RdpAccountant"]),
        ("from pate.accounting import leaves", ["pate.accounting.leaves"]),
        ("import pate._secret", ["pate._secret"]),
        ("aggregator._draw(votes)", ["_draw"]),
        ("from numpy import _core", []),
    ],
)
def test_names_that_are_not_public_are_found(code: str, hidden: list[str]) -> None:
    assert hidden_names(code_of(notebook_of(f"!echo hello\n{code}"))) == hidden
