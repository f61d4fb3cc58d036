"""Help pages fit the terminal, and explain the settings of the chosen parts in the words of their classes."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pate.config import help_page
from pate.config.classes import find_class
from pate.config.help_page import comments_of, fold_page, page_width, settings_of_parts
from pate.config.schema import CONFIG_FOLDER, FILE_COMMANDS, names_in_config_group, target_of

PAGE = """\
A paragraph that is written in lines of some length, and that goes on in the
next line.

Examples
  pate-train one=1                 a remark that does not fit beside it
  pate-train 'a=[one,two,three,four,five,six,seven,eight]'

Settings
  first      what it means, told in more words than fit into the line that it
             begins in
  second_name_alone
             what that one means
  third      short

Current configuration (NAME.KEY=VALUE)
key: a value that is much longer than the page is wide, and is not to be broken at all

A footer that is longer than the width."""

NARROW = """\
A paragraph that is written in lines of
some length, and that goes on in the
next line.

Examples
  pate-train one=1
      a remark that does not fit beside
      it
  pate-train \\
      'a=[one,two,three,four,five,six,seven,eight]'

Settings
  first      what it means, told in more
             words than fit into the
             line that it begins in
  second_name_alone
             what that one means
  third      short

Current configuration (NAME.KEY=VALUE)
key: a value that is much longer than the page is wide, and is not to be broken at all

A footer that is longer than the width."""


def test_page_is_wrapped_except_examples_and_yaml() -> None:
    """In a help page of 40 columns, paragraphs and remarks are wrapped, and examples and configuration are not.

    At 100 columns, the lines of a paragraph are joined.
    """
    assert fold_page(PAGE, line_width=40) == NARROW
    assert (
        "A paragraph that is written in lines of some length, and that goes on in the next line."
        in fold_page(PAGE, line_width=100)
    )


def test_long_command_breaks_after_a_backslash_outside_quotes() -> None:
    """An example command that is too long breaks after a backslash, and not within a quoted argument."""
    page = f"Examples\n  pate-train 'name=[two words]' second=2 third=3\n{help_page.CONFIGURATION}\n\nend"
    lines = fold_page(page, line_width=36).splitlines()
    assert lines[1:3] == ["  pate-train 'name=[two words]' \\", "      second=2 third=3"]


def test_width_is_the_terminals_or_80_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A help page is as wide as a terminal of 72 columns, and has 80 columns in a pipe.

    In a pipe `COLUMNS` replaces the 80; the page has at least 40 and at most 110.
    """

    def is_no_terminal(descriptor: int) -> os.terminal_size:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(os, "get_terminal_size", is_no_terminal)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert page_width() == 80
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((72, 24)))
    assert page_width() == 72
    monkeypatch.setattr(os, "get_terminal_size", is_no_terminal)
    for columns, width in (("60", 60), ("100", 100), ("300", 110), ("10", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        assert page_width() == width


@dataclass
class Base:
    width: int = 8  # channels of the first layer
    depth: int = 2  # number of layers


@dataclass
class Commented(Base):
    """A class whose fields are explained in comments, in the docstring and in the base class.

    Attributes:
        rate: size of a step,
            above 0
    """

    # file of the records,
    # one a line
    private: str = ""
    rate: float = 0.1
    depth: int = 3  # number of all layers


def test_comments_of_fields_are_read_from_all_places() -> None:
    """The texts of fields are read from comments, from attributes in the docstring, and from base classes."""
    comments = comments_of(Commented)
    assert comments["private"] == "file of the records, one a line"  # lines above
    assert comments["rate"] == "size of a step, above 0"  # the docstring
    assert comments["width"] == "channels of the first layer"  # the base
    assert comments["depth"] == "number of all layers"  # not the base
    assert comments_of(cls=None) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words", "settings"),
    [
        (
            "train",
            ("data=table", "teacher=cnn"),
            {"data.group": "column", "teacher.epochs": "passes over"},
        ),
        ("train", ("data=table",), {"data.label_separator": "between"}),
        (
            "compare",
            ("data=celeba", "data.root=FOLDER"),
            {"data.image_size": "", "teacher.num_teachers": "how many"},
        ),
        (
            "account",
            (),
            {"aggregator.selection_scale": "selection noise"},
        ),
    ],
)
def test_settings_of_the_chosen_parts_are_explained(
    composed: Callable[..., Any], command: str, words: tuple[str, ...], settings: dict[str, str]
) -> None:
    """The help has one line for each expected setting of the chosen parts, with the expected words."""
    page = settings_of_parts(composed(arguments=words, command=command))
    for name, text in settings.items():
        (line,) = [line for line in page.splitlines() if line.split()[:1] == [name]]
        assert text in line.partition(name)[2]
    assert "None" not in page.replace("NoneType", "")


@pytest.mark.parametrize(
    "command", sorted(path.stem for path in (CONFIG_FOLDER / "hydra" / "help").glob("*.yaml"))
)
def test_every_command_marks_where_its_configuration_begins(command: str) -> None:
    """The help template of each command contains the heading of the printed configuration."""
    folder = FILE_COMMANDS if (FILE_COMMANDS / f"{command}.yaml").is_file() else CONFIG_FOLDER
    assert folder == CONFIG_FOLDER
    text = (CONFIG_FOLDER / "hydra" / "help" / f"{command}.yaml").read_text(encoding="utf-8")
    assert f"  {help_page.CONFIGURATION.strip()}" in text


@pytest.mark.parametrize(
    "command", sorted(path.stem for path in (CONFIG_FOLDER / "hydra" / "help").glob("*.yaml"))
)
def test_examples_are_written_in_one_line(command: str) -> None:
    """In the help template of each command, no example continues on a line that begins with a setting."""
    text = (CONFIG_FOLDER / "hydra" / "help" / f"{command}.yaml").read_text(encoding="utf-8")
    examples = text.partition("Examples\n")[2].partition("\n\n")[0]
    first_words = [line.split()[0] for line in examples.splitlines()]
    assert [word for word in first_words if "=" in word] == []


@pytest.mark.slow
def test_every_setting_of_every_part_that_ships_is_explained() -> None:
    """Each field of each part that ships, such as a teacher, has a text in the help; accountants are left out."""
    lacking = []
    for group in ("data", "features", "teacher", "engine", "aggregator", "student", "method"):
        for name in names_in_config_group(group):
            target = target_of(group, name)
            cls = None if target is None else find_class(target)
            if cls is None or not dataclasses.is_dataclass(cls):
                continue
            texts = comments_of(cls)
            names = [item.name for item in dataclasses.fields(cls) if item.init]
            descriptions = {
                setting: texts.get(setting) or help_page._TEXTS_OF_SETTINGS.get(setting, "")
                for setting in names
            }
            lacking += [
                f"{group}={name}: {setting}"
                for setting, text in descriptions.items()
                if not text or text[0] in "><-"
            ]
    assert lacking == []
