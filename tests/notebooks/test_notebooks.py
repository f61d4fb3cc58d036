"""Every notebook: it runs from a clean kernel, is stripped in git, and uses public names only."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from scripts.strip_notebooks import stripped
from tests.notebooks.notebook import code_of, executed, hidden_names

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MACHINE = re.compile(r"/(?:home|Users|work|tmp|root)/")

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


@pytest.mark.slow
def test_it_runs_from_a_clean_kernel(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed(read(path), tmp_path, monkeypatch)
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_it_is_stripped(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == stripped(text), "run `make notebooks`"


def test_it_is_valid_and_each_cell_has_an_id_of_its_own(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


def test_it_begins_with_a_title_and_names_no_machine(path: Path) -> None:
    first = read(path).cells[0]
    assert (first.cell_type, first.source[:2]) == ("markdown", "# ")
    assert MACHINE.findall(path.read_text(encoding="utf-8")) == []


def test_it_uses_public_names_only(path: Path) -> None:
    assert hidden_names(code_of(read(path))) == []


def test_it_is_listed(path: Path) -> None:
    assert f"`{path.name}`" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
