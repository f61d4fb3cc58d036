"""Prose check of `make check`: long sentences, phrases, long lines, marks that begin lines, dead links.

`python scripts/prose/check.py [FILE ...]` prints one line per finding and exits with 1 if there are any. Without a file
it reads every page, every docstring and error of the sources but for the tests of the core, and the comments of YAML
files, which commands show as help.
`docs/contributing/style.md` has the rules.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / folder / "README.md" for folder in ("tests", "reproductions")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FOLDERS = (
    *("pate", "packages", "conf", "scripts"),
    *("reproductions", "benchmarks", "examples", "notebooks"),
)
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.*"))
    if "prose" not in path.parts
]
MAX_WORDS = {ROOT / "README.md": 25}
MAX_WORDS_ELSEWHERE = 35
MAX_COLUMNS = 120
PHRASES = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_text(encoding="utf-8"))
RULES = [(re.compile(phrase["find"]), phrase["write"]) for phrase in PHRASES]
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z0-9])")
WORD = re.compile(r"[^\W\d_]{2}")  # a symbol of one letter is no word
# where a part of a docstring begins
ENTRY = re.compile(r"\n\s*\n|\n\s*[*-] |\n\s*\d\. |\n\s*(?=\w+(?:, \w+)*(?: \([^()\n]*\))?: )")
# At the beginning of a line Markdown takes these for a quotation or a list, whatever the sentence means by them.
MARK = re.compile(r"(?P<indent>\s*)(?P<mark>>|[-+*](?=\s)|\d+[.)](?=\s))")
ITEM_END = re.compile(r"[.:;!?][\"')*`_]*$")  # behind it a list may begin without an empty line
NO_SENTENCE = ("|", "#", "<!--", "!!!")  # rows of tables, headings, comments and admonitions
SPOKEN = {"code_inline": "Code", "softbreak": " ", "hardbreak": " "}  # code counts as one word


class Finding(NamedTuple):
    """A fault of the prose and its place."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.text}"


def parsed(text: str) -> list[Token]:
    """Returns the tokens of a page."""
    return MarkdownIt().enable("table").parse(text)


def long_sentences(path: Path, tokens: list[Token]) -> Iterator[Finding]:
    """Yields sentences of more words than the page may have, outside tables."""
    limit = MAX_WORDS.get(path, MAX_WORDS_ELSEWHERE)
    in_table = False
    for token in tokens:
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        if token.type != "inline" or in_table:
            continue
        parts = [
            part.content if part.type == "text" else SPOKEN.get(part.type, "")
            for part in token.children or []
        ]
        yield from too_long(
            path, line=(token.map or [0])[0] + 1, paragraph="".join(parts), limit=limit
        )


def too_long(path: Path, line: int, paragraph: str, limit: int) -> Iterator[Finding]:
    """Yields the sentences of a paragraph that have more words than the limit."""
    for sentence in SENTENCE_END.split(" ".join(paragraph.split())):
        count = sum(bool(WORD.search(word)) for word in sentence.split())
        if count > limit:
            yield Finding(
                path, line, f"{count} words in a sentence, {limit} at most: {sentence[:60]} ..."
            )


def long_docstrings(path: Path, tree: ast.AST) -> Iterator[Finding]:
    """Yields sentences of docstrings that have too many words, examples left out."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for part in ENTRY.split(node.value.value.split(">>>")[0]):
                yield from too_long(
                    path, line=node.lineno, paragraph=part, limit=MAX_WORDS_ELSEWHERE
                )


def long_errors(path: Path, tree: ast.AST) -> Iterator[Finding]:
    """Yields texts of errors, raised or passed to `require`, that have too many words."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(call, ast.Call) and (
            call is not node or ast.unparse(call.func).startswith("require")
        ):
            for argument in call.args:
                pieces = [
                    piece.value for piece in ast.walk(argument) if isinstance(piece, ast.Constant)
                ]
                text = "".join(piece for piece in pieces if isinstance(piece, str))
                yield from too_long(
                    path, line=call.lineno, paragraph=text, limit=MAX_WORDS_ELSEWHERE
                )


def phrases(path: Path, text: str) -> Iterator[Finding]:
    """Yields phrases that the style guide replaces."""
    for number, line in enumerate(text.splitlines(), start=1):
        for rule, remedy in RULES:
            yield from (
                Finding(path, number, f"{match[0]!r}: write {remedy}")
                for match in rule.finditer(line)
            )


def long_lines(path: Path, text: str) -> Iterator[Finding]:
    """Yields lines that are wider than a terminal, outside tables and code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        fenced ^= line.lstrip().startswith("```")
        if len(line) > MAX_COLUMNS and not fenced and not line.lstrip().startswith(("|", "```")):
            yield Finding(path, number, f"{len(line)} columns, {MAX_COLUMNS} at most")


def marks(path: Path, text: str, first_line: int = 1) -> Iterator[Finding]:
    """Yields lines within a sentence whose first sign Markdown takes for a quotation or a list.

    Code between fences and examples (`>>>`) are left out, as are the items of a list, which begin behind an empty line,
    behind the end of a sentence, or like another item of the same paragraph.
    """
    fenced = False
    before = ""  # the line above
    items: set[tuple[str, str]] = set()  # of this paragraph: the indentation and the mark of each
    for number, line in enumerate(text.splitlines(), start=first_line):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or not line.strip():
            before = ""
            items.clear()
            continue
        match = MARK.match(line)
        if match and not line.lstrip().startswith(">>>"):
            mark = match["mark"]
            item = (match["indent"], mark[-1])
            goes_on = bool(before) and not before.lstrip().startswith(NO_SENTENCE)
            if mark == ">":
                broken = goes_on and not before.lstrip().startswith(">")
            else:
                broken = goes_on and item not in items and not ITEM_END.search(before.rstrip())
            if broken:
                remedy = "break the line elsewhere, as Markdown makes a quotation or a list of it"
                yield Finding(path, number, f"{mark!r} begins a line within a sentence: {remedy}")
            items.add(item)
        before = line


def marks_of_docstrings(path: Path, tree: ast.AST) -> Iterator[Finding]:
    """Yields such lines of docstrings, which the site renders as Markdown."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node, clean=False)
        if text is not None:
            yield from marks(path, text, first_line=node.body[0].lineno)


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings."""
    names = set()
    for before, token in itertools.pairwise(parsed(page.read_text(encoding="utf-8"))):
        if before.type == "heading_open":
            text = "".join(
                part.content
                for part in token.children or []
                if part.type in ("text", "code_inline")
            )
            names.add(re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()))
    return names


def dead_links(path: Path, tokens: list[Token]) -> Iterator[Finding]:
    """Yields links and pictures within the repository that lead nowhere; makes no request to the web."""
    for token in tokens:
        for part in token.children or []:
            link = str(part.attrGet("href") or part.attrGet("src") or "")
            if not link or re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            page = (path.parent / target).resolve() if target else path
            line = (token.map or [0])[0] + 1
            if not page.exists():
                yield Finding(path, line, f"{link}: no such file")
            elif anchor and page.suffix == ".md" and anchor not in anchors(page):
                yield Finding(path, line, f"{link}: no such heading")


def cell_findings(path: Path, cell: dict[str, Any]) -> Iterator[Finding]:
    """Yields the findings in the prose of a notebook's cell, with lines counted in the cell."""
    if cell["cell_type"] == "markdown":
        text = "".join(cell["source"])
        yield from phrases(path, text)
        yield from marks(path, text)
        yield from long_sentences(path, tokens=parsed(text))


def findings(path: Path) -> Iterator[Finding]:
    """Yields all findings in one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        yield from (
            item for cell in json.loads(text)["cells"] for item in cell_findings(path, cell)
        )
        return
    yield from phrases(path, text)
    if path.suffix == ".md":
        tokens = parsed(text)
        yield from long_sentences(path, tokens)
        yield from long_lines(path, text)
        yield from marks(path, text)
        # a template's links are of the folder that it is written to
        if ROOT / "pate" not in path.parents:
            yield from dead_links(path, tokens)
    elif path.suffix == ".py":
        tree = ast.parse(text)
        yield from long_docstrings(path, tree)
        yield from marks_of_docstrings(path, tree)
        yield from long_errors(path, tree)
    elif path.suffix == ".yaml":
        for match in re.finditer(r"(?:^\s*#.*\n)+", text, re.MULTILINE):
            words = re.sub(r"^\s*#", "", match[0], flags=re.MULTILINE)
            yield from too_long(
                path,
                line=text.count("\n", 0, match.start()) + 1,
                paragraph=words,
                limit=MAX_WORDS_ELSEWHERE,
            )


def main(arguments: list[str]) -> int:
    """Prints the findings; returns the exit code."""
    paths = [Path(name).resolve() for name in arguments] or [*PAGES, *SOURCES]
    faults = [
        item
        for path in paths
        if path.suffix in {".md", ".py", ".yaml", ".ipynb"}
        for item in findings(path)
    ]
    sys.stdout.writelines(f"{item}\n" for item in faults)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
