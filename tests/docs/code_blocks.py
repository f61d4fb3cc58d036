"""Python code blocks of Markdown pages: found, run, and held to what they say they print."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_EXPECTED = re.compile(r"^ *#> ?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class CodeBlock:
    """One block.

    Attributes:
        page: the file it is in.
        line: where its code begins, from 1.
        code: without the page's indentation.
    """

    page: Path
    line: int
    code: str

    @property
    def expected(self) -> list[str]:
        """The lines that its `#>` comments promise."""
        return _EXPECTED.findall(self.code)

    def run(self, namespace: dict[str, Any]) -> None:
        """Runs the block in a namespace and compares its output with its `#>` comments.

        Raises:
            AssertionError: it printed something else.
        """
        output = io.StringIO()
        code = compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")
        with redirect_stdout(output):
            exec(code, namespace)
        printed = output.getvalue().splitlines()
        assert printed == self.expected, f"{self.page}:{self.line} printed {printed}, says {self.expected}"


def code_blocks(page: Path) -> list[CodeBlock]:
    """The ```python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        indent, line = match["indent"], text.count("\n", 0, match.start("code")) + 1
        code = "".join(part.removeprefix(indent) for part in match["code"].splitlines(keepends=True))
        found.append(CodeBlock(page, line, code))
    return found
