"""Docstrings are shown on the site so that an entry which begins with a sign is text, and no quotation or list."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import markdown
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """Returns the module docs/_build/docstrings.py, loaded from its file."""
    spec = importlib.util.spec_from_file_location(
        "docstrings", ROOT / "docs" / "_build" / "docstrings.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "docstring_entry", ["> 0", ">= 0; infinity is allowed", "- 1 or less", "+ 1 at the end"]
)
def test_an_entry_that_begins_with_a_sign_is_text(hook: ModuleType, docstring_entry: str) -> None:
    """The text of an attribute that begins with >, - or + is shown as this text, and not as a quotation or list."""
    line = hook.escaped(f"Attributes:\n    order: {docstring_entry}").splitlines()[1]
    html = markdown.markdown(line.partition(": ")[2])
    assert re.sub(r"</?p>", "", html) == docstring_entry.replace(">", "&gt;")


def test_other_lines_are_left_as_they_are(hook: ModuleType) -> None:
    """The hook does not change entries that begin with a word or with emphasis, or code blocks with `>>>`."""
    text = "A line.\n\nAttributes:\n    order: a number > 1.\n    name: a *name*.\n\n```pycon\n>>> 1\n1\n```"
    assert hook.escaped(text) == text
