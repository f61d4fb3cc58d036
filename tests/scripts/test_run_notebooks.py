"""`run_notebooks` runs notebooks for the site, which shows their outputs."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from mkdocs.structure.files import Files

from scripts import run_notebooks

HOOK = run_notebooks.ROOT / "docs" / "_build" / "notebooks.py"


@pytest.mark.process
@pytest.mark.slow
def test_a_notebook_is_kept_with_its_outputs(tmp_path: Path) -> None:
    """A notebook that prints 2 has this output in the file that is written."""
    source = tmp_path / "sum.ipynb"
    cells = [nbformat.v4.new_code_cell("print(1 + 1)")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), source)
    run_notebooks.run(source, output=tmp_path / "executed" / "sum.ipynb")
    (cell,) = nbformat.read(tmp_path / "executed" / "sum.ipynb", as_version=4).cells
    assert cell.outputs[0].text == "2\n"


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The script refuses an unknown notebook with exit code 2, and lists the names."""
    assert run_notebooks.main(["no_such_notebook"]) == 2
    assert capsys.readouterr().err.startswith("NAME=no_such_notebook: expected one of 1_quickstart")


def test_the_site_prefers_a_notebook_with_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site shows the file in the folder of outputs for a notebook that was run, and else that in the repository."""
    specification = importlib.util.spec_from_file_location("notebook_hook", HOOK)
    assert specification is not None and specification.loader is not None
    hook = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hook)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "3_the_audit.ipynb").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(hook, "WITH_OUTPUTS", tmp_path)
    config = SimpleNamespace(site_dir="site", use_directory_urls=True)
    files = hook.on_files(Files([]), config)
    sources = {file.src_uri: Path(str(file.src_dir)) for file in files}
    assert sources["notebooks/3_the_audit.ipynb"] == tmp_path
    assert sources["notebooks/1_quickstart.ipynb"] == run_notebooks.ROOT
