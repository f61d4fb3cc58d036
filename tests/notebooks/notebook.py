"""One notebook: run from a clean kernel, its code, and the names that it should not use."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

SECONDS_A_CELL = 240


def executed(
    notebook: nbformat.NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[nbformat.NotebookNode]:
    """The outputs of all cells, run one after the other in a new kernel in an empty folder.

    Raises:
        CellExecutionError: a cell failed.
    """
    work, home = folder / "work", folder / "ipython"
    work.mkdir()
    monkeypatch.setenv("IPYTHONDIR", str(home))  # no settings of whoever runs the tests
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    resources = {"metadata": {"path": str(work)}}
    NotebookClient(notebook, kernel_name="python3", timeout=SECONDS_A_CELL, resources=resources).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def code_of(notebook: nbformat.NotebookNode) -> str:
    """The code cells, without lines for the shell."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    lines = [line for cell in cells for line in cell.splitlines()]
    return "\n".join("pass" if line.startswith(("!", "%")) else line for line in lines)


def hidden_names(code: str) -> list[str]:
    """What code uses of `pate` that is not public: underscores, and names that a module only imports itself."""
    return sorted({name for node in ast.walk(ast.parse(code)) for name in _hidden_in(node)})


def _hidden_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
        yield node.attr
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _is_hidden_path(alias.name))
    elif isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if _is_hidden_path(name) or not _is_offered(node.module or "", alias.name):
                yield name


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "pate"


def _is_hidden_path(name: str) -> bool:
    return _is_ours(name) and any(part.startswith("_") for part in name.split("."))


def _is_offered(module: str, name: str) -> bool:
    """Whether a module lists the name, or, where it has no list, defines it."""
    found = import_module(module)
    if hasattr(found, "__all__"):
        return name in found.__all__
    return hasattr(found, name) and getattr(getattr(found, name), "__module__", module) == module
