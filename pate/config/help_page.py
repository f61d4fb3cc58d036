"""Help pages: the settings of the chosen parts with their descriptions, in lines as wide as the terminal.

The texts lie in `conf/hydra/help/`. The description of a part's setting comes from its class: from the section
`Attributes:` of the docstring, or from the comment behind the field or above it.
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
# settings that no class explains, or that all explain in the same words
_SET_BESIDE = {
    "adjacency": "replace_one or add_remove, as the setting of that name",
    "cache": "the folder where features are kept for later runs; null for pate_cache beside the runs' folders",
    "device": '"auto" (the GPU where there is one), "cpu" or "cuda"',
    "num_teachers": "how many teachers share the private records, each a part of its own",
    "padded": "whether no label and all labels are possible answers",
}


def page_width() -> int:
    """Returns the width for a help page, at most 110 characters.

    This is the width of the terminal, or the variable COLUMNS. Output into a pipe or file has 80 characters.
    """
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_IN_A_PIPE, 24)).columns))


def settings_of_parts(config: DictConfig) -> str:
    """Returns the settings of the chosen parts of a configuration with their descriptions.

    Each part has a paragraph.
    """
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
            text = re.sub(r"\bNone\b", "null", text)  # as YAML spells these values
            text = text.replace("True", "true").replace("False", "false")
            lines.append(f"    {f'{group}.{name}':<{width}}{text}".rstrip())
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def comments_of(cls: type | None) -> dict[str, str]:
    """Returns the descriptions of a class's fields by the fields' names, from comments and `Attributes:` sections.

    Base classes are included. If the docstring of a class names another class of its module, as in "of
    `ConfidentGNMax`", the descriptions of that class are used for fields without a description of their own.
    """
    texts: dict[str, str] = {}
    bases = [
        base for base in reversed(cls.__mro__ if cls is not None else ()) if base is not object
    ]
    mentioned = [
        getattr(sys.modules[base.__module__], name, None)
        for base in bases
        for name in re.findall(r"`(\w+)`", vars(base).get("__doc__") or "")
    ]
    related = [
        cls
        for cls in mentioned
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls) and cls not in bases
    ]
    for base in (*related, *bases):
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):  # a built-in class, or one without a file
            continue
        texts |= dict(_comments_at_fields(source))
        for match in _ATTRIBUTE.finditer(
            _attributes(inspect.getdoc(base) if "__doc__" in vars(base) else None)
        ):
            text = " ".join(match["text"].split())
            texts |= dict.fromkeys(match["names"].split(", "), text)
    return texts


def _attributes(docstring: str | None) -> str:
    """Returns the section `Attributes:` of a docstring; an empty text if there is none."""
    _, heading, text = (docstring or "").partition("\nAttributes:\n")
    return re.split(r"\n(?=\S)", text, maxsplit=1)[0] if heading else ""


def _comments_at_fields(source: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the comment of each field in a class's source code.

    The comment stands behind the field or in the lines above.
    """
    lines = inspect.cleandoc(source).splitlines()
    try:
        tree = ast.parse("\n".join(lines)).body[0]
    except (SyntaxError, IndexError):
        return
    for node in tree.body if isinstance(tree, ast.ClassDef) else ():
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        comment_above: list[str] = []
        for line in reversed(lines[: node.lineno - 1]):
            if not line.lstrip().startswith("#"):
                break
            comment_above.insert(0, line.strip().lstrip("# "))
        comment_behind = _BEHIND.search(lines[(node.end_lineno or node.lineno) - 1])
        text = comment_behind["text"] if comment_behind else " ".join(comment_above)
        if text:
            yield node.target.id, text


def folded(text: str, line_width: int) -> str:
    """Returns a help page whose lines have at most the given width.

    Paragraphs and entries (a name, blanks, a text) are wrapped anew. Lines of examples are kept, because users copy
    them; a line that is too long is continued after a backslash. All lines from `Current configuration` on are YAML and
    are kept.
    """
    page, configuration, yaml = text.partition(CONFIGURATION)
    lines = page.split("\n")
    folds: list[str] = []
    index = 0
    in_examples = False
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            folds.append("")
            in_examples = False
            index += 1
            continue
        in_examples = in_examples or line.strip() == "Examples"
        if in_examples:
            folds += _folded_example(line, line_width)
            index += 1
            continue
        num_lines = _paragraph_length(lines[index:])
        folds += _folded_paragraph(lines[index : index + num_lines], line_width)
        index += num_lines
    settings, gap, footer = yaml.rpartition("\n\n")
    end = "\n".join(wrap(footer, line_width, break_long_words=False, break_on_hyphens=False))
    return "\n".join(folds) + configuration + settings + gap + end


def _paragraph_length(lines: list[str]) -> int:
    """Returns the number of lines that belong to the paragraph or entry that begins with the first line."""
    entry = _ENTRY.fullmatch(lines[0])
    column = entry.start("text") if entry else _indent(line=lines[0])
    is_name = entry is None and " " not in lines[0].strip()
    if is_name and len(lines) > 1 and _indent(line=lines[1]) > column:
        return 1  # a name that is alone in its line, with its text in the next ones
    num_lines = 1
    while (
        num_lines < len(lines)
        and lines[num_lines].strip()
        and _indent(line=lines[num_lines]) == column
    ):
        begins_entry = _ENTRY.fullmatch(lines[num_lines]) is not None
        begins_block = entry is None and _begins_block(lines[num_lines:])
        if begins_entry or begins_block:
            break
        num_lines += 1
    return num_lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _begins_block(lines: list[str]) -> bool:
    """Returns True if the first line is a name or heading, followed by a line with more indentation."""
    return (
        len(lines) > 1
        and bool(lines[1].strip())
        and _indent(line=lines[1]) > _indent(line=lines[0])
    )


def _folded_example(line: str, line_width: int) -> list[str]:
    """Returns a line of the examples, wrapped: a command is continued after a backslash, its remark is put below."""
    if len(line) <= line_width:
        return [line]
    text = line.strip()
    indent = _indent(line)
    if not text.startswith("pate-"):
        margin = " " * min(indent, _DEEPEST)
        return wrap(
            text,
            line_width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    command, gap, remark = re.fullmatch(r"(\S.*?)(?:( {2,})(\S.*))?", text).groups()  # type: ignore[union-attr]
    folds: list[str] = []
    row = " " * indent
    for word in _WORD.findall(command):
        if row.strip() and len(row) + len(word) > line_width - len(" \\"):
            folds.append(f"{row}\\")
            row = " " * (indent + 4)
        row += f"{word} "
    folds.append(row.rstrip())
    if gap is not None:
        margin = " " * (indent + 4)
        folds += wrap(
            remark,
            line_width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    return folds


def _folded_paragraph(lines: list[str], line_width: int) -> list[str]:
    """Returns the lines of a paragraph or entry, wrapped anew."""
    entry = _ENTRY.fullmatch(lines[0])
    indent = _indent(line=lines[0])
    words = [entry["text"] if entry else lines[0].strip(), *(line.strip() for line in lines[1:])]
    text = " ".join(words)
    if entry is None:
        return wrap(
            text,
            line_width,
            initial_indent=" " * indent,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    head = f"{entry['indent']}{entry['name']}{entry['gap']}"
    hanging = " " * len(head)
    if len(head) > line_width // 2:  # no room beside the name
        hanging = " " * (indent + 4)
        return [
            head.rstrip(),
            *wrap(text, line_width, initial_indent=hanging, subsequent_indent=hanging),
        ]
    return wrap(
        text,
        line_width,
        initial_indent=head,
        subsequent_indent=hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )
