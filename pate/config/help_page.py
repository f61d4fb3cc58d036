"""Help pages: the settings of the chosen parts with their comments, and lines as wide as the terminal.

The texts lie in `conf/hydra/help/`. What a part's setting means is what its class says of the field: in the section
`Attributes:` of its docstring, or in the comment behind the field or above it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from textwrap import wrap

from omegaconf import DictConfig, OmegaConf

from pate.config.classes import GROUPS_OF_CLASSES, find_class

CONFIGURATION = "\nCurrent configuration"  # the line from which on a page is YAML
# columns
_NARROWEST = 40
_WIDEST = 110
_IN_A_PIPE = 80
_ENTRY = re.compile(r"(?P<indent> *)(?P<name>\S+)(?P<gap> {2,})(?P<text>\S.*)")
_ATTRIBUTE = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*(?:\n {6,}.*)*)", re.MULTILINE)
_BEHIND = re.compile(r"  # (?!noqa|type:)(?P<text>.*)$")
_WORD = re.compile(r"(?:'[^']*'|\S)+")  # of a command line
_DEEPEST = 6  # columns before a remark below an example
# Of settings that no class explains, or that each explains in the same words.
_SET_BESIDE = {
    "adjacency": "replace_one or add_remove, as the setting of that name",
    "cache": "the folder where features are kept for later runs; null for pate_cache beside the runs' folders",
    "device": '"auto" (the GPU where there is one), "cpu" or "cuda"',
    "num_teachers": "how many teachers share the private records, each a part of its own",
    "padded": "whether no label and all labels are possible answers",
}


def page_width() -> int:
    """Measures the terminal, or takes the variable COLUMNS: 80 columns in a pipe or a file without it, 110 at most."""
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_IN_A_PIPE, 24)).columns))


def settings_of_parts(config: DictConfig) -> str:
    """Lists the settings of the chosen parts of a configuration, `GROUP.NAME` and what it means, a part a paragraph."""
    paragraphs = []
    for group in GROUPS_OF_CLASSES:
        node = config.get(group)
        if not isinstance(node, DictConfig) or OmegaConf.is_missing(node, "_target_"):
            continue
        target = str(node.get("_target_"))
        texts = comments_of(find_class(target))
        names = [str(name) for name in node if name != "_target_"]
        if not names:
            continue
        width = max(len(group) + 1 + len(name) for name in names) + 2
        lines = [f"  {group}: {target.rpartition('.')[2]}"]
        for name in names:
            text = texts.get(name) or _SET_BESIDE.get(name, "")
            text = (
                re.sub(r"\bNone\b", "null", text).replace("True", "true").replace("False", "false")
            )
            lines.append(f"    {f'{group}.{name}':<{width}}{text}".rstrip())
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def comments_of(cls: type | None) -> dict[str, str]:
    """Reads what a class and its bases say of their fields, by the fields' names.

    A class whose docstring names another of its module, as in "of `ConfidentGNMax`", has its words for what it does not
    explain itself.
    """
    texts: dict[str, str] = {}
    bases = [
        base for base in reversed(cls.__mro__ if cls is not None else ()) if base is not object
    ]
    named = [
        getattr(sys.modules[base.__module__], name, None)
        for base in bases
        for name in re.findall(r"`(\w+)`", vars(base).get("__doc__") or "")
    ]
    others = [
        other for other in named if inspect.isclass(other) and dataclasses.is_dataclass(other)
    ]
    for base in (*(other for other in others if other not in bases), *bases):
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):  # of a built-in, or without a file
            continue
        texts |= dict(_comments_at_fields(source))
        for match in _ATTRIBUTE.finditer(
            _attributes(inspect.getdoc(base) if "__doc__" in vars(base) else None)
        ):
            text = " ".join(match["text"].split())
            texts |= dict.fromkeys(match["names"].split(", "), text)
    return texts


def _attributes(docstring: str | None) -> str:
    """Takes the section `Attributes:` out of a docstring."""
    _, heading, rest = (docstring or "").partition("\nAttributes:\n")
    return re.split(r"\n(?=\S)", rest, maxsplit=1)[0] if heading else ""


def _comments_at_fields(source: str) -> Iterator[tuple[str, str]]:
    """Finds the comments behind the fields of a class, or in the lines above them."""
    lines = inspect.cleandoc(source).splitlines()
    try:
        tree = ast.parse("\n".join(lines)).body[0]
    except (SyntaxError, IndexError):
        return
    for node in tree.body if isinstance(tree, ast.ClassDef) else ():
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above = []
        for line in reversed(lines[: node.lineno - 1]):
            if not line.lstrip().startswith("#"):
                break
            above.append(line.strip().lstrip("# "))
        behind = _BEHIND.search(lines[node.end_lineno - 1 if node.end_lineno else node.lineno - 1])
        text = behind["text"] if behind else " ".join(reversed(above))
        if text:
            yield node.target.id, text


def folded(text: str, width: int) -> str:
    """Folds a help page to a width: paragraphs and entries (a name, blanks, a text) are joined and wrapped again.

    Examples keep their lines, as people copy them; one that is too long goes on behind a backslash. Everything from the
    line `Current configuration` on is YAML and stays as it is.
    """
    page, configuration, yaml = text.partition(CONFIGURATION)
    lines = page.split("\n")
    folds: list[str] = []
    place = 0
    examples = False
    while place < len(lines):
        line = lines[place]
        place += 1
        if not line.strip():
            folds.append("")
            examples = False
            continue
        examples = examples or line.strip() == "Examples"
        if examples:
            folds += _folded_example(line, width)
            continue
        match = _ENTRY.fullmatch(line)
        indent = len(line) - len(line.lstrip())
        column = match.start("text") if match else indent
        words = [match["text"] if match else line.strip()]
        # a name that is alone in its line has its text in the next ones
        alone = (
            not match
            and place < len(lines)
            and " " not in line.strip()
            and _indent(lines[place]) > indent
        )
        while (
            not alone
            and place < len(lines)
            and lines[place].strip()
            and _indent(lines[place]) == column
        ):
            if _ENTRY.fullmatch(lines[place]) or (match is None and _starts_block(lines, place)):
                break
            words.append(lines[place].strip())
            place += 1
        folds += _folded_entry(match, indent, " ".join(words), width)
    settings, gap, footer = yaml.rpartition("\n\n")
    end = "\n".join(wrap(footer, width, break_long_words=False, break_on_hyphens=False))
    return "\n".join(folds) + configuration + settings + gap + end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _starts_block(lines: list[str], place: int) -> bool:
    """Checks whether a line is a name or a heading above lines that are indented further."""
    return (
        place + 1 < len(lines)
        and bool(lines[place + 1].strip())
        and _indent(lines[place + 1]) > _indent(lines[place])
    )


def _folded_example(line: str, width: int) -> list[str]:
    """Folds a line of the examples: a command goes on behind a backslash, and what is said of it comes below."""
    if len(line) <= width:
        return [line]
    text = line.strip()
    indent = _indent(line)
    if not text.startswith("pate-"):
        margin = " " * min(indent, _DEEPEST)
        return wrap(
            text, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
        )
    command, gap, remark = re.fullmatch(r"(\S.*?)(?:( {2,})(\S.*))?", text).groups()  # type: ignore[union-attr]
    folds: list[str] = []
    row = " " * indent
    for word in _WORD.findall(command):
        if row.strip() and len(row) + len(word) > width - len(" \\"):
            folds.append(f"{row}\\")
            row = " " * (indent + 4)
        row += f"{word} "
    folds.append(row.rstrip())
    if gap is not None:
        margin = " " * (indent + 4)
        folds += wrap(
            remark, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
        )
    return folds


def _folded_entry(match: re.Match[str] | None, indent: int, text: str, width: int) -> list[str]:
    """Wraps a paragraph, or an entry with its name before it."""
    if match is None:
        return wrap(
            text,
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    head = f"{match['indent']}{match['name']}{match['gap']}"
    hanging = " " * len(head)
    if len(head) > width // 2:  # no room beside the name
        hanging = " " * (indent + 4)
        return [
            head.rstrip(),
            *wrap(text, width, initial_indent=hanging, subsequent_indent=hanging),
        ]
    return wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )
