"""Griffe extension: examples in docstrings, which stand there as plain `>>>` lines, are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # up to the next empty line


def fenced(text: str) -> str:
    """The docstring with a fence around each of its examples."""
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


class Doctests(griffe.Extension):
    """Without it Markdown takes `>>>` for a quotation and `[0.98, 0.93]` for a link."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
