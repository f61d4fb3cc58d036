"""What `--help` says about the groups of the configuration: each name with the first sentence of its file's comment."""

from __future__ import annotations

import re
from textwrap import wrap

from pate.config.location import file_of, members

_SENTENCE = re.compile(r".*?\.(?=\s|$)")
_WIDTH = 116


def choices(*groups: str) -> str:
    """The members of groups, a paragraph each."""
    return "\n\n".join(_paragraph(group) for group in groups)


def _paragraph(group: str) -> str:
    names = members(group)
    width = max(map(len, names)) + 4
    lines = [f"  {group}"]
    for name in names:
        text = wrap(_about(group, name), _WIDTH - width - 2, break_on_hyphens=False) or [""]
        lines.append(f"    {name:<{width - 2}}{text[0]}".rstrip())
        lines.extend(" " * (width + 2) + more for more in text[1:])
    return "\n".join(lines)


def _about(group: str, name: str) -> str:
    """The first sentence of the comment at the head of a file."""
    comment = []
    file = file_of(group, name)
    if file is None:
        raise TypeError("members are files")
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# @package"):
            continue
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    text = " ".join(comment)
    found = _SENTENCE.match(text)
    return found[0].rstrip(".") if found else text
