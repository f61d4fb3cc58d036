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

# The line of a page below which the composed configuration follows as YAML.
CONFIGURATION = "\nCurrent configuration"
# The widths of a page in columns: the smallest, the largest, and that of output into a pipe or file.
_MIN_WIDTH = 40
_MAX_WIDTH = 110
_PIPE_WIDTH = 80
# A name, at least two blanks, and the text that explains the name.
_ENTRY = re.compile(r"(?P<indent> *)(?P<name>\S+)(?P<gap> {2,})(?P<text>\S.*)")
# One or several names in a section `Attributes:`, and their text.
_ATTRIBUTE = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*(?:\n {6,}.*)*)", re.MULTILINE)
_COMMENT_BEHIND_CODE = re.compile(r"  # (?!noqa|type:)(?P<text>.*)$")
# A command of an example, with a remark behind two or more blanks.
_EXAMPLE = re.compile(r"(?P<command>\S.*?)(?: {2,}(?P<remark>\S.*))?")
# A word of a command line; blanks in single quotes separate no words.
_WORD = re.compile(r"(?:'[^']*'|\S)+")
# The largest indent, in columns, of a remark in the examples.
_MAX_REMARK_INDENT = 6
# Texts of settings that no class explains, or that all classes explain in the same words.
_TEXTS_OF_SETTINGS = {
    "adjacency": "replace_one or add_remove, as the setting of that name",
    "cache": "the folder where features are kept for later runs; null for pate_cache beside the runs' folders",
    "device": '"auto" (the GPU where there is one), "cpu" or "cuda"',
    "num_teachers": "how many teachers share the private records, each a part of its own",
    "padded": "whether no label and all labels are possible answers",
}


def page_width() -> int:
    """Returns the width for a help page, from 40 to 110 characters.

    This is the width of the terminal, or the variable COLUMNS. Output into a pipe or file has 80 characters.
    """
    terminal = shutil.get_terminal_size(fallback=(_PIPE_WIDTH, 24))
    return max(_MIN_WIDTH, min(_MAX_WIDTH, terminal.columns))


def settings_of_parts(config: DictConfig) -> str:
    """Returns a text with the settings of the chosen parts of a configuration and their descriptions.

    Each part, such as the aggregator, has a paragraph.
    """
    paragraphs = []
    for group in GROUPS_OF_CLASSES:
        node = config.get(group)
        if not isinstance(node, DictConfig) or OmegaConf.is_missing(node, "_target_"):
            continue
        class_path = str(node.get("_target_"))
        texts = comments_of(find_class(class_path))
        names = [str(name) for name in node if name != "_target_"]
        if not names:
            continue
        width = max(len(group) + 1 + len(name) for name in names) + 2
        lines = [f"  {group}: {class_path.rpartition('.')[2]}"]
        for name in names:
            text = texts.get(name) or _TEXTS_OF_SETTINGS.get(name, "")
            # YAML spells these values in another way than Python.
            text = re.sub(r"\bNone\b", "null", text)
            text = text.replace("True", "true").replace("False", "false")
            lines.append(f"    {f'{group}.{name}':<{width}}{text}".rstrip())
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def comments_of(cls: type | None) -> dict[str, str]:
    """Returns the descriptions of a class's fields by the fields' names, from comments and `Attributes:` sections.

    For None the result is empty. Base classes are included. If the docstring of a class names another class of its
    module, as in "of `ConfidentGNMax`", the descriptions of that class are used for fields without a description of
    their own.
    """
    if cls is None:
        return {}
    texts: dict[str, str] = {}
    bases = [base for base in reversed(cls.__mro__) if base is not object]
    # Later classes replace the descriptions of earlier ones.
    for described in (*_mentioned_classes(bases), *bases):
        try:
            source_code = inspect.getsource(described)
        except (OSError, TypeError):  # a built-in class, or one without a file
            continue
        texts |= dict(_comments_at_fields(source_code))
        texts |= _attributes(described)
    return texts


def _mentioned_classes(bases: list[type]) -> list[type]:
    """Returns the dataclasses that docstrings of `bases` name in backticks, without `bases` themselves.

    A class is found only in the module of the docstring that names it.
    """
    mentioned = [
        getattr(sys.modules[base.__module__], name, None)
        for base in bases
        for name in re.findall(r"`(\w+)`", vars(base).get("__doc__") or "")
    ]
    return [
        cls
        for cls in mentioned
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls) and cls not in bases
    ]


def _attributes(cls: type) -> dict[str, str]:
    """Returns the texts in the section `Attributes:` of a class's own docstring, by the name of the attribute."""
    docstring = inspect.getdoc(cls) if "__doc__" in vars(cls) else None
    _, _, behind_heading = (docstring or "").partition("\nAttributes:\n")
    section = re.split(r"\n(?=\S)", behind_heading, maxsplit=1)[0]
    texts: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(section):
        text = " ".join(match["text"].split())
        texts |= dict.fromkeys(match["names"].split(", "), text)
    return texts


def _comments_at_fields(source_code: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the comment of each field in a class's source code.

    The comment stands behind the field or in the lines above.
    """
    lines = inspect.cleandoc(source_code).splitlines()
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
        last_line = lines[(node.end_lineno or node.lineno) - 1]
        comment_behind = _COMMENT_BEHIND_CODE.search(last_line)
        text = comment_behind["text"] if comment_behind else " ".join(comment_above)
        if text:
            yield node.target.id, text


def fold_page(text: str, line_width: int) -> str:
    """Returns a help page, wrapped to at most `line_width` characters a line.

    Paragraphs and entries (a name, blanks, a text) are wrapped anew. Lines of examples are kept, because users copy
    them; a line that is too long is continued after a backslash. All lines from `Current configuration` on are YAML and
    are kept, apart from the last paragraph, which is wrapped anew.
    """
    page, configuration, yaml = text.partition(CONFIGURATION)
    lines = page.split("\n")
    folds: list[str] = []
    index = 0
    in_examples = False
    while index < len(lines):
        line = lines[index]
        num_lines = 1
        if not line.strip():
            folds.append("")
            in_examples = False
        elif in_examples or line.strip() == "Examples":
            folds += _fold_example(line, line_width)
            in_examples = True
        else:
            num_lines = _paragraph_length(lines[index:])
            folds += _fold_paragraph(lines[index : index + num_lines], line_width)
        index += num_lines
    settings, gap, footer = yaml.rpartition("\n\n")
    end = "\n".join(wrap(footer, line_width, break_long_words=False, break_on_hyphens=False))
    return "\n".join(folds) + configuration + settings + gap + end


def _paragraph_length(lines: list[str]) -> int:
    """Returns the number of lines at the beginning of `lines` that are one paragraph or one entry.

    An entry is a name, blanks and a text, which may continue in further lines below the text.
    """
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
    """Returns the number of blanks at the beginning of a line."""
    return len(line) - len(line.lstrip())


def _begins_block(lines: list[str]) -> bool:
    """Returns True if the first of some lines is a heading: the second line is not empty and has more indentation."""
    return (
        len(lines) > 1
        and bool(lines[1].strip())
        and _indent(line=lines[1]) > _indent(line=lines[0])
    )


def _fold_example(line: str, line_width: int) -> list[str]:
    """Returns a line of a help page's examples as lines of at most `line_width` characters; a short line is kept.

    A command is continued after a backslash, and its remark is put below. Another line is wrapped as a text.
    """
    if len(line) <= line_width:
        return [line]
    text = line.strip()
    indent = _indent(line)
    if not text.startswith("pate-"):
        margin = " " * min(indent, _MAX_REMARK_INDENT)
        return wrap(
            text,
            line_width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    example = _EXAMPLE.fullmatch(text)
    if example is None:
        return [line]
    folds: list[str] = []
    row = " " * indent
    margin = " " * (indent + 4)
    for word in _WORD.findall(example["command"]):
        if row.strip() and len(row) + len(word) > line_width - len(" \\"):
            folds.append(f"{row}\\")
            row = margin
        row += f"{word} "
    folds.append(row.rstrip())
    remark = example["remark"]
    if remark is not None:
        folds += wrap(
            remark,
            line_width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    return folds


def _fold_paragraph(lines: list[str], line_width: int) -> list[str]:
    """Returns the lines of one paragraph or entry (a name, blanks, a text), wrapped anew to `line_width` characters.

    The text of an entry stands beside the name, or below it if the name takes more than half of the line.
    """
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
    has_room_beside_name = len(head) <= line_width // 2
    if not has_room_beside_name:
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
