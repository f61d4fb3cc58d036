"""Every Python block of the README and the documentation runs and prints what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.code_blocks import code_blocks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_in_order_in_one_namespace(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in code_blocks(page):
        block.run(namespace)


def test_there_are_blocks_to_run() -> None:
    assert sum(len(code_blocks(page)) for page in PAGES) >= 5


def page_of(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def test_blocks_are_found_with_their_lines_also_where_indented(tmp_path: Path) -> None:
    plain = "# A\n\n```python\nx = 1\n```\n\n"
    indented = "- item\n\n    ```python\n    if x:\n        y = 2\n    ```\n\n"
    text = plain + indented + "```text\nnot me\n```\n"
    blocks = code_blocks(page_of(tmp_path, text))
    assert [(block.line, block.code) for block in blocks] == [(4, "x = 1\n"), (10, "if x:\n    y = 2\n")]


@pytest.mark.parametrize(
    "code",
    ["print(1)\n#> 2\n", "print(1)\n", "#> 1\n", "print(1)\nprint(2)\n#> 2\n#> 1\n"],
    ids=["wrong", "unannounced", "missing", "order"],
)
def test_output_that_differs_from_the_page_fails(tmp_path: Path, code: str) -> None:
    (block,) = code_blocks(page_of(tmp_path, f"```python\n{code}```\n"))
    with pytest.raises(AssertionError, match=r"page\.md:2 printed"):
        block.run({})


def test_an_error_names_the_page_and_its_line(tmp_path: Path) -> None:
    (block,) = code_blocks(page_of(tmp_path, "text\n\n```python\na = 1\nb = a / 0\n```\n"))
    with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
        block.run({})
    assert caught.traceback[-1].lineno == 4  # counted from 0
    assert caught.traceback[-1].path.name == "page.md"
