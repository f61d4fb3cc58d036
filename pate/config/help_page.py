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
# An entry of a help page: a name, at least two blanks, and the text that explains the name.
_HELP_ENTRY = re.compile(r"(?P<indent> *)(?P<name>\S+)(?P<gap> {2,})(?P<text>\S.*)")
# One or several names in a section `Attributes:`, and their text.
_ATTRIBUTE = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*(?:\n {6,}.*)*)", re.MULTILINE)
_COMMENT_BEHIND_CODE = re.compile(r"  # (?!noqa|type:)(?P<text>.*)$")
# A command of an example, with a remark behind two or more blanks.
_EXAMPLE = re.compile(r"(?P<command>\S.*?)(?: {2,}(?P<remark>\S.*))?")
# A word of a command line; blanks in single quotes separate no words.
_WORD = re.compile(r"(?:'[^']*'|\S)+")
# The largest indent, in columns, of a wrapped line of the examples that is no command.
_MAX_REMARK_INDENT = 6
# Texts of settings, for classes that do not explain them.
_TEXTS_OF_SETTINGS = {
    "adjacency": "replace_one or add_remove, as the setting of that name",
    "cache": "the folder where features are kept for later runs; null for pate_cache beside the runs' folders",
    "device": '"auto" (the GPU where there is one), "cpu" or "cuda"',
    "num_teachers": "how many teachers share the private records, each a part of its own",
    "padded": "whether no label and all labels are possible answers",
}


def page_width() -> int:
    """Returns the width for a help page, from 40 to 110 characters.

    This is the variable COLUMNS if it is set, or else the width of the terminal, and 80 for output into a pipe or file.
    """
    terminal_size = shutil.get_terminal_size(fallback=(_PIPE_WIDTH, 24))
    return max(_MIN_WIDTH, min(_MAX_WIDTH, terminal_size.columns))


def settings_of_parts(config: DictConfig) -> str:
    """Returns a text with the settings of the chosen parts of a configuration and their descriptions.

    Each part, such as the aggregator, has a paragraph.
    """
    paragraphs = []
    for group in GROUPS_OF_CLASSES:
        part_node = config.get(group)
        if not isinstance(part_node, DictConfig) or OmegaConf.is_missing(part_node, "_target_"):
            continue
        class_path = str(part_node.get("_target_"))
        description_by_setting = comments_of(find_class(class_path))
        setting_names = [
            str(setting_name) for setting_name in part_node if setting_name != "_target_"
        ]
        if not setting_names:
            continue
        name_width = max(len(group) + 1 + len(setting_name) for setting_name in setting_names) + 2
        paragraph_lines = [f"  {group}: {class_path.rpartition('.')[2]}"]
        for setting_name in setting_names:
            description = description_by_setting.get(setting_name) or _TEXTS_OF_SETTINGS.get(
                setting_name, ""
            )
            # YAML spells these values in another way than Python.
            description = re.sub(r"\bNone\b", "null", description)
            description = description.replace("True", "true").replace("False", "false")
            paragraph_lines.append(
                f"    {f'{group}.{setting_name}':<{name_width}}{description}".rstrip()
            )
        paragraphs.append("\n".join(paragraph_lines))
    return "\n\n".join(paragraphs)


def comments_of(cls: type | None) -> dict[str, str]:
    """Returns the descriptions of a class's fields by the fields' names, from comments and `Attributes:` sections.

    For None the result is empty. Base classes are included. If the docstring of a class names another class of its
    module, as in "of `ConfidentGNMax`", the descriptions of that class are used for fields without a description of
    their own.
    """
    if cls is None:
        return {}
    description_by_field: dict[str, str] = {}
    base_classes = [base for base in reversed(cls.__mro__) if base is not object]
    # Later classes replace the descriptions of earlier ones.
    for described_class in (*_mentioned_classes(base_classes), *base_classes):
        try:
            class_source = inspect.getsource(described_class)
        except (OSError, TypeError):  # a built-in class, or one without a file
            continue
        description_by_field |= dict(_comments_at_fields(class_source))
        description_by_field |= _attributes(described_class)
    return description_by_field


def _mentioned_classes(base_classes: list[type]) -> list[type]:
    """Returns the dataclasses that docstrings of `base_classes` name in backticks, without `base_classes` themselves.

    A class is found only in the module of the docstring that names it.
    """
    objects_named_in_docstrings = [
        getattr(sys.modules[base_class.__module__], mentioned_name, None)
        for base_class in base_classes
        for mentioned_name in re.findall(r"`(\w+)`", vars(base_class).get("__doc__") or "")
    ]
    return [
        cls
        for cls in objects_named_in_docstrings
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls) and cls not in base_classes
    ]


def _attributes(cls: type) -> dict[str, str]:
    """Returns the texts in the section `Attributes:` of a class's own docstring, by the name of the attribute."""
    docstring = inspect.getdoc(cls) if "__doc__" in vars(cls) else None
    _, _, behind_heading = (docstring or "").partition("\nAttributes:\n")
    docstring_section = re.split(r"\n(?=\S)", behind_heading, maxsplit=1)[0]
    description_by_attribute: dict[str, str] = {}
    for attribute_match in _ATTRIBUTE.finditer(docstring_section):
        description = " ".join(attribute_match["text"].split())
        description_by_attribute |= dict.fromkeys(attribute_match["names"].split(", "), description)
    return description_by_attribute


def _comments_at_fields(class_source: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the comment of each field in a class's source code.

    The comment stands behind the field or in the lines above.
    """
    source_lines = inspect.cleandoc(class_source).splitlines()
    try:
        class_definition = ast.parse("\n".join(source_lines)).body[0]
    except (SyntaxError, IndexError):
        return
    for statement in class_definition.body if isinstance(class_definition, ast.ClassDef) else ():
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        comment_above: list[str] = []
        for source_line in reversed(source_lines[: statement.lineno - 1]):
            if not source_line.lstrip().startswith("#"):
                break
            comment_above.insert(0, source_line.strip().lstrip("# "))
        last_source_line = source_lines[(statement.end_lineno or statement.lineno) - 1]
        comment_behind = _COMMENT_BEHIND_CODE.search(last_source_line)
        comment = comment_behind["text"] if comment_behind else " ".join(comment_above)
        if comment:
            yield statement.target.id, comment


def fold_page(help_text: str, line_width: int) -> str:
    """Returns a help page, wrapped to at most `line_width` characters a line.

    Paragraphs and entries (a name, blanks, a text) are wrapped anew. Lines of examples are kept, because users copy
    them; a line that is too long is continued after a backslash. All lines from `Current configuration` on are YAML and
    are kept, apart from the last paragraph, which is wrapped anew.
    """
    text_before_configuration, configuration, configuration_yaml = help_text.partition(
        CONFIGURATION
    )
    page_lines = text_before_configuration.split("\n")
    folded_lines: list[str] = []
    line_index = 0
    in_examples = False
    while line_index < len(page_lines):
        page_line = page_lines[line_index]
        num_paragraph_lines = 1
        if not page_line.strip():
            folded_lines.append("")
            in_examples = False
        elif in_examples or page_line.strip() == "Examples":
            folded_lines += _fold_example(page_line, line_width)
            in_examples = True
        else:
            num_paragraph_lines = _paragraph_length(page_lines[line_index:])
            folded_lines += _fold_paragraph(
                page_lines[line_index : line_index + num_paragraph_lines], line_width
            )
        line_index += num_paragraph_lines
    settings, gap, footer = configuration_yaml.rpartition("\n\n")
    folded_footer = "\n".join(
        wrap(footer, line_width, break_long_words=False, break_on_hyphens=False)
    )
    return "\n".join(folded_lines) + configuration + settings + gap + folded_footer


def _paragraph_length(remaining_help_lines: list[str]) -> int:
    """Returns the number of lines at the beginning of `remaining_help_lines` that are one paragraph or one entry.

    An entry is a name, blanks and a text, which may continue in further lines below the text.
    """
    entry_match = _HELP_ENTRY.fullmatch(remaining_help_lines[0])
    text_column = (
        entry_match.start("text") if entry_match else _indent(line=remaining_help_lines[0])
    )
    is_name = entry_match is None and " " not in remaining_help_lines[0].strip()
    if (
        is_name
        and len(remaining_help_lines) > 1
        and _indent(line=remaining_help_lines[1]) > text_column
    ):
        return 1  # a name that is alone in its line, with its text in the next ones
    num_lines = 1
    while (
        num_lines < len(remaining_help_lines)
        and remaining_help_lines[num_lines].strip()
        and _indent(line=remaining_help_lines[num_lines]) == text_column
    ):
        begins_entry = _HELP_ENTRY.fullmatch(remaining_help_lines[num_lines]) is not None
        begins_block = entry_match is None and _begins_indented_block(
            remaining_help_lines[num_lines:]
        )
        if begins_entry or begins_block:
            break
        num_lines += 1
    return num_lines


def _indent(line: str) -> int:
    """Returns the number of blanks at the beginning of a line."""
    return len(line) - len(line.lstrip())


def _begins_indented_block(remaining_help_lines: list[str]) -> bool:
    """Returns True if the first of some lines is a heading: the second line is not empty and has more indentation."""
    return (
        len(remaining_help_lines) > 1
        and bool(remaining_help_lines[1].strip())
        and _indent(line=remaining_help_lines[1]) > _indent(line=remaining_help_lines[0])
    )


def _fold_example(example_line: str, line_width: int) -> list[str]:
    """Returns a line of a help page's examples as lines of at most `line_width` characters; a short line is kept.

    A command is continued after a backslash, and its remark, the text behind two or more blanks, is put below. Another
    line is wrapped as a text.
    """
    if len(example_line) <= line_width:
        return [example_line]
    example_text = example_line.strip()
    indent = _indent(example_line)
    if not example_text.startswith("pate-"):
        margin = " " * min(indent, _MAX_REMARK_INDENT)
        return wrap(
            example_text,
            line_width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    example_match = _EXAMPLE.fullmatch(example_text)
    if example_match is None:
        return [example_line]
    folded_lines: list[str] = []
    folded_line = " " * indent
    margin = " " * (indent + 4)
    for word in _WORD.findall(example_match["command"]):
        if folded_line.strip() and len(folded_line) + len(word) > line_width - len(" \\"):
            folded_lines.append(f"{folded_line}\\")
            folded_line = margin
        folded_line += f"{word} "
    folded_lines.append(folded_line.rstrip())
    remark = example_match["remark"]
    if remark is not None:
        folded_lines += wrap(
            remark,
            line_width,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    return folded_lines


def _fold_paragraph(paragraph_lines: list[str], line_width: int) -> list[str]:
    """Returns the lines of one paragraph or entry (a name, blanks, a text), wrapped anew to `line_width` characters.

    The text of an entry stands beside the name, or below it if the name takes more than half of the line.
    """
    entry_match = _HELP_ENTRY.fullmatch(paragraph_lines[0])
    indent = _indent(line=paragraph_lines[0])
    line_texts = [
        entry_match["text"] if entry_match else paragraph_lines[0].strip(),
        *(paragraph_line.strip() for paragraph_line in paragraph_lines[1:]),
    ]
    help_paragraph = " ".join(line_texts)
    if entry_match is None:
        return wrap(
            help_paragraph,
            line_width,
            initial_indent=" " * indent,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    entry_head = f"{entry_match['indent']}{entry_match['name']}{entry_match['gap']}"
    hanging_indent = " " * len(entry_head)
    has_room_beside_name = len(entry_head) <= line_width // 2
    if not has_room_beside_name:
        hanging_indent = " " * (indent + 4)
        return [
            entry_head.rstrip(),
            *wrap(
                help_paragraph,
                line_width,
                initial_indent=hanging_indent,
                subsequent_indent=hanging_indent,
            ),
        ]
    return wrap(
        help_paragraph,
        line_width,
        initial_indent=entry_head,
        subsequent_indent=hanging_indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
