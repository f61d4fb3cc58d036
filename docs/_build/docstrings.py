"""Griffe extension: docstrings as the pages show them, with the comments at fields and examples as code."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # up to the next empty line
# What an entry of a docstring says, such as `order: > 1`: at its beginning Markdown takes the sign for a quotation or a
# list, and not for itself.
_ENTRY_MARK = re.compile(r"^(\s+\w+(?: \([^)]*\))?: )([>+*-])(?=[\s=])", re.MULTILINE)
_BEHIND = re.compile(r"  # (?!noqa|type:)(.*)$")


def fenced(text: str) -> str:
    """The docstring with a fence around each of its examples."""
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


def escaped(text: str) -> str:
    """The docstring with its entries as text also where they begin with a sign."""
    return _ENTRY_MARK.sub(r"\1\\\2", text)


def with_fields(text: str, lines: list[str], numbers: dict[str, int]) -> str:
    """The docstring of a class, with what comments say of its fields, behind them or above.

    Args:
        text: the docstring.
        lines: of the class.
        numbers: the line of each field, from 0, by its name.
    """
    told = []
    for name, number in numbers.items():
        above = takewhile(
            lambda line: line.startswith("#"), map(str.strip, reversed(lines[:number]))
        )
        said = " ".join(line.lstrip("# ") for line in reversed([*above]))
        if found := _BEHIND.search(lines[number]):
            said = found[1]
        told += [f"    {name}: {said}"] if said else []
    if not told:
        return text
    head, heading, rest = text.partition("\nAttributes:\n")
    return "\n".join([head, "Attributes:" if heading else "\nAttributes:", *told, rest])


class Docstrings(griffe.Extension):
    """Without it Markdown takes `>>>` for a quotation and `[0.98, 0.93]` for a link."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is None:
            return
        obj.docstring.value = fenced(obj.docstring.value)
        if isinstance(obj, griffe.Class) and obj.lineno is not None:
            known = {
                name: each
                for name, each in obj.members.items()
                if each.is_attribute and not each.is_alias
            }
            placed = {
                name: each.lineno for name, each in known.items() if each.lineno and each.annotation
            }
            numbers = {
                name: line - obj.lineno for name, line in placed.items() if not name.startswith("_")
            }
            obj.docstring.value = with_fields(obj.docstring.value, obj.lines, numbers)
        obj.docstring.value = escaped(obj.docstring.value)
