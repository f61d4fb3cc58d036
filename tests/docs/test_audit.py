"""The audit says no figure that its own blocks do not print: the blocks themselves run in `test_code_blocks.py`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.code_blocks import code_blocks

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"\d+\.\d+")
QUESTIONED = {"3.6"}  # the one figure that is copied


def unsupported(prose: str) -> set[str]:
    """Figures with a decimal point in the text that no block of the audit prints."""
    printed = {figure for block in code_blocks(PAGE) for line in block.expected for figure in FIGURE.findall(line)}
    return set(FIGURE.findall(FENCED.sub("", prose))) - printed - QUESTIONED


def test_every_figure_of_the_audit_is_printed_by_one_of_its_blocks() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(FIGURE.findall(FENCED.sub("", text))) > 10
    assert unsupported(text) == set()


@pytest.mark.parametrize("false", ["It costs 7.82.", "| a claim | 4.87 times |"])
def test_a_figure_that_no_block_prints_is_found(false: str) -> None:
    assert len(unsupported(PAGE.read_text(encoding="utf-8") + false)) == 1
