"""Griffe extension: docstrings as the pages show them, with the comments at fields and examples as code."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # up to the next empty line
_BEHIND = re.compile(r"  # (?!noqa|type:)(.*)$")


def fenced(text: str) -> str:
    """The docstring with a fence around each of its examples."""
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


def fields_of(lines: list[str], numbers: dict[str, int]) -> str:
    """A section on the fields of a class with comments, behind a field or above it, from its lines.

    Args:
        lines: of the class.
        numbers: the line of each field, from 0, by its name.
    """
    told = []
    for name, number in numbers.items():
        above = takewhile(lambda line: line.startswith("#"), map(str.strip, reversed(lines[:number])))
        said = " ".join(line.lstrip("# ") for line in reversed([*above]))
        if found := _BEHIND.search(lines[number]):
            said = found[1]
        told += [f"    {name}: {said}"] if said else []
    return "\n".join(["Attributes:", *told]) if told else ""


class Docstrings(griffe.Extension):
    """Without it Markdown takes `>>>` for a quotation and `[0.98, 0.93]` for a link."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is None:
            return
        obj.docstring.value = fenced(obj.docstring.value)
        if isinstance(obj, griffe.Class) and obj.lineno is not None and "\nAttributes:\n" not in obj.docstring.value:
            known = {name: each for name, each in obj.members.items() if each.is_attribute and not each.is_alias}
            numbers = {
                name: each.lineno - obj.lineno for name, each in known.items() if each.lineno and each.annotation
            }
            section = fields_of(obj.lines, numbers)
            obj.docstring.value += f"\n\n{section}" if section else ""
