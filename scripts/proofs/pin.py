"""Pins each proof note to the code that it proves, so that nobody changes the code without reading the note again.

Code that a note proves names it: a module, class or function whose docstring has `docs/proofs/NAME.md` is pinned to
that note. `pins.json` beside this script holds the digests of all such code as of the last review. Docstrings,
comments, type annotations, imports and the layout of the source are not part of a digest.

`python scripts/proofs/pin.py` prints a line for each change since then, and exits with 1 if there is any.
`python scripts/proofs/pin.py NAME ...` records the present code of some notes as reviewed; `all` records every note.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTES = ROOT / "docs" / "proofs"
PINS = Path(__file__).with_name("pins.json")
SOURCES = ("pate", "packages/pate-federated/pate_federated")
_CITATION = re.compile(r"docs/proofs/(\w+)\.md")
_DIGITS = 16  # of a digest
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# fields of syntax trees that say nothing about what is computed, or that differ between versions of Python
_SKIPPED_FIELDS = {
    "annotation",
    "ctx",
    "kind",
    "returns",
    "type_comment",
    "type_ignores",
    "type_params",
}

Pins = dict[str, dict[str, str]]
"""The digest of each piece of code, by note and by the name of the piece, such as `pate/votes/clip.py:Clip.width`."""


def current_pins() -> Pins:
    """Returns the digests of all code that names a proof note, as it is now."""
    pins: Pins = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            for name, notes, digest in pinned_code(path.read_text(encoding="utf-8")):
                for note in notes:
                    pins.setdefault(note, {})[f"{file}:{name}" if name else file] = digest
    return {note: dict(sorted(code.items())) for note, code in sorted(pins.items())}


def pinned_code(source: str) -> Iterator[tuple[str, list[str], str]]:
    """Yields the qualified name, the notes and the digest of each module, class and function that names a note.

    The name of the module itself is empty.
    """
    tree = ast.parse(source)
    for name, node in _documented(tree, prefix=""):
        notes = sorted(set(_CITATION.findall(ast.get_docstring(node) or "")))
        if notes:
            yield name, notes, digest_of(node)


def _documented(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Documented]]:
    """Yields a module, and the classes and functions directly within it or one of them, with their qualified names."""
    if isinstance(node, ast.Module):
        yield "", node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{prefix}{child.name}"
            yield name, child
            yield from _documented(child, prefix=f"{name}.")


def digest_of(node: ast.AST) -> str:
    """Returns a digest of code that does not depend on words, annotations, imports or the version of Python."""
    text = json.dumps(_normalized(node), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _normalized(value: object) -> object:
    """Returns a syntax tree as lists and texts, without docstrings, imports, annotations and empty fields."""
    if isinstance(value, list):
        return [
            _normalized(item) for item in value if not _is_text_alone(item) and not _is_import(item)
        ]
    if not isinstance(value, ast.AST):
        return repr(value)
    parts: list[object] = [type(value).__name__]
    for field, content in ast.iter_fields(value):
        if field not in _SKIPPED_FIELDS and content not in (None, []):
            parts.append([field, _normalized(content)])
    return parts


def _is_text_alone(item: object) -> bool:
    """Returns True for a statement that is a text and nothing else, such as a docstring."""
    if not isinstance(item, ast.Expr) or not isinstance(item.value, ast.Constant):
        return False
    return isinstance(item.value.value, str)


def _is_import(item: object) -> bool:
    """Returns True for an import statement."""
    return isinstance(item, (ast.Import, ast.ImportFrom))


def changes(recorded: Pins, now: Pins) -> list[str]:
    """Returns a line for each note whose code is not as it was when somebody last read it beside the note."""
    lines = []
    for note in sorted(recorded.keys() | now.keys()):
        before = recorded.get(note, {})
        after = now.get(note, {})
        names = [
            name
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ]
        if names:
            lines.append(
                f"docs/proofs/{note}.md: {', '.join(names)} changed since the note was read. Read the note beside the "
                f"change, correct the one that is wrong, and run: python scripts/proofs/pin.py {note}"
            )
    return lines


def read_pins() -> Pins:
    """Returns the recorded digests."""
    pins: Pins = json.loads(PINS.read_text(encoding="utf-8"))
    return pins


def main(arguments: list[str]) -> int:
    """Prints what changed, or records notes as reviewed; returns the exit code."""
    now = current_pins()
    recorded = read_pins() if PINS.exists() else {}
    if not arguments:
        lines = changes(recorded, now)
        sys.stdout.write(
            "\n".join(lines or ["every proof note was read with the present code"]) + "\n"
        )
        return int(bool(lines))
    reviewed = sorted(recorded.keys() | now.keys()) if arguments == ["all"] else arguments
    for note in reviewed:
        note = Path(note).stem
        if note not in now and note not in recorded:
            sys.stderr.write(f"no code names docs/proofs/{note}.md\n")
            return 2
        recorded.pop(note, None)
        if note in now:
            recorded[note] = now[note]
    PINS.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
