"""The prose check finds lines that Markdown would render as a quotation or list in the middle of a sentence."""

import json
from pathlib import Path

import pytest

from scripts.prose import check


@pytest.mark.parametrize(
    "text",
    [
        "So `P'(S) <= P[A + D\n> B]`, A and B independent.",
        "The loss is `(1\n- gamma) A - gamma m`.",
        "The count of rank h\n+ 1 is the largest.",
        "A count times\n* another.",
        "The price for weight\n1. Adaptive parts compose.",
        "The limit is\n500) and more.",
        "- If r <= 1/2, then `2 r (1\n  - r)`; else less.",
        "  1. First h\n     + 1, then\n  2. the second.",
        "Behind a quotation.\n\n> It says\n> this.\n\nA number\n> 0.",
    ],
)
def test_a_mark_within_a_sentence_is_found(text: str) -> None:
    """The check finds a line in a sentence that begins with the sign of a list or quotation."""
    assert len([*check.marks(Path("page.md"), text)]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "These are:\n- one\n- two\n- three",
        "A sentence ends.\n- An item goes on\n  here.\n- Another.",
        "1. one\n2. two\n3. three",
        "- outer:\n  - inner\n  - inner again\n- outer",
        "> A quotation\n> of two lines.",
        "```text\na\n> b\n- c\n```",
        "An example:\n\n>>> 1 + 1\n2",
        "| a | b |\n| --- | --- |\n\n- item",
        "It is -1\nor +1 and 0.5\nor *more* of\n**that**.",
    ],
)
def test_lists_quotations_and_code_are_left_alone(text: str) -> None:
    """The check finds nothing in true lists, quotations, code, tables and numbers."""
    assert [*check.marks(Path("page.md"), text)] == []


def test_docstrings_and_cells_of_notebooks_are_read(tmp_path: Path) -> None:
    """The check finds a sentence with a line that begins with `+`, in a docstring and in a cell of a notebook.

    The finding has the number of the line in the file or cell.
    """
    source = tmp_path / "module.py"
    source.write_text(
        'def loss():\n    """A loss of h\n    + 1 counts.\n\n    >>> 1\n    1\n    """\n',
        encoding="utf-8",
    )
    notebook = tmp_path / "page.ipynb"
    cell = {"cell_type": "markdown", "source": ["A loss of h\n", "+ 1 counts."]}
    notebook.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    for path, line in ((source, 3), (notebook, 2)):
        (finding,) = check.findings(path)
        assert finding.line == line
        assert "begins a line within a sentence" in finding.text
