"""Refusals of a user's values: each carries the name, the value, the rule and the settings that work instead."""

import enum
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, Final


class _Unsaid(enum.Enum):
    """The value of a refusal that shows none."""

    UNSAID = ""


UNSAID: Final = _Unsaid.UNSAID
"""In place of a value that is private, or where there is none to show."""


@dataclass(frozen=True)
class Remedy:
    """A parameter and a value with which a refused request works.

    Attributes:
        name: the parameter, as the code calls it.
        value: what it has to be.
        owner: the object that the parameter belongs to, such as `aggregator` or `ledger`; empty for an argument.
        also: what has to be changed with it.
    """

    name: str
    value: object
    owner: str = ""
    also: tuple["Remedy", ...] = ()


@dataclass(frozen=True)
class Doubt:
    """A warning about a value that is allowed. Its line is `name=value: text`.

    Attributes:
        name: the parameter, as the code calls it.
        value: what it is.
        text: what is doubted of it, and in words what helps.
        waiver: the setting without which this would be refused, if there is one.
    """

    name: str
    value: object
    text: str
    waiver: Remedy | None = None

    def __str__(self) -> str:
        return AS_THE_CODE.doubt_line(self)


@dataclass(frozen=True)
class Spelling:
    """The settings of a front end by the parameters that errors and doubts name; without any, as the code has them.

    >>> spelling = Spelling({"num_teachers": "teacher.num_teachers", "target_epsilon": "epsilons=[{value}]"})
    >>> spelling.setting("num_teachers", 800), spelling.setting("target_epsilon", 8.0)
    ('teacher.num_teachers=800', 'epsilons=[8.0]')

    Attributes:
        names: by parameter, `OWNER.parameter` or `OWNER.*`, of which the most exact counts: the name of a setting, or,
            with an equals sign or braces in it, the whole setting with `{name}` and `{value}`. Empty for a parameter
            that nobody can give there.
    """

    names: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str, value: object = UNSAID, *, owner: str = "") -> str:
        """Returns a parameter and its value as the user gives them; empty for one that the user cannot give."""
        keys = (f"{owner}.{name}", f"{owner}.*", name)
        template = next((self.names[key] for key in keys if key in self.names), None)
        if template is None or (template != "" and not _is_whole(template)):
            setting = name if template is None else template
            return setting if value is UNSAID else f"{setting}={value_text(value)}"
        if value is UNSAID:
            return name
        return template.format(name=name, value=value_text(value))

    def line(self, error: "InvalidValue") -> str:
        """Returns the line of a refusal."""
        value = error.value
        if "number" in error.rule and _is_numeral(value):
            value = repr(value)  # in quotes, as it is no number
        setting = self.setting(error.name, value, owner=error.owner)
        line = f"{setting or error.name}: expected {error.rule}"
        if error.hint:
            line += f"; {error.hint}"
        works = ", or ".join(filter(None, map(self.remedy, error.remedies)))
        if works:
            line += f"; what works: {works}"
        if error.waiver is not None:
            line += f"; {self.remedy(error.waiver)} goes on as it is"
        return printable(line)

    def doubt_line(self, doubt: Doubt) -> str:
        """Returns the line of a doubt."""
        line = f"{self.setting(doubt.name, doubt.value) or doubt.name}: {doubt.text}"
        if doubt.waiver is not None:
            line += f"; allowed by {self.remedy(doubt.waiver)}"
        return printable(line)

    def remedy(self, remedy: Remedy) -> str:
        """Returns the settings of a remedy with blanks between them; empty where one of them cannot be given."""
        settings = [
            self.setting(change.name, _in_few_digits(change.value), owner=change.owner)
            for change in (remedy, *remedy.also)
        ]
        return " ".join(settings) if all(settings) else ""


AS_THE_CODE: Final = Spelling()


class InvalidValue(ValueError):
    """A user's mistake. Its text is one printable line: `name=value: expected rule; what works: name=value`.

    Names are those of the code's parameters. A command or a class whose settings have other names spells the line with
    its own, by a `Spelling`.

    Attributes:
        name: the parameter.
        value: a number, a text, a path or a tuple of them as it is, anything else as text; `UNSAID` shows none.
        rule: what the value has to be, and in words what helps.
        hint: in words, which settings of whoever reads the value may help; empty where none do.
        remedies: values of parameters that work; empty where none is known.
        waiver: the setting with which the request goes on as it is, if there is one.
        owner: the object that the parameter belongs to, such as `aggregator` or `ledger`; empty for an argument.
        spelling: the words in which it is shown.
    """

    spelling: Spelling = AS_THE_CODE

    def __init__(
        self,
        name: str,
        value: object = UNSAID,
        *,
        rule: str,
        hint: str = "",
        remedies: tuple[Remedy, ...] = (),
        waiver: Remedy | None = None,
        owner: str = "",
    ) -> None:
        super().__init__(name)
        self.name = name
        self.value = value if _is_plain(value) else _one_line(value)
        self.rule = rule
        self.hint = hint
        self.remedies = remedies
        self.waiver = waiver
        self.owner = owner

    def __str__(self) -> str:
        return self.spelling.line(self)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {
            "name": self.name,
            "value": self.value,
            "rule": self.rule,
            "hint": self.hint,
            "remedies": self.remedies,
            "waiver": self.waiver,
            "owner": self.owner,
            "spelling": self.spelling,
        }
        return _without_init, (type(self),), fields


@contextmanager
def shown_as(spelling: Spelling) -> Iterator[None]:
    """Has refusals that leave the block show their lines in the words of a spelling; their fields stay."""
    try:
        yield
    except InvalidValue as error:
        error.spelling = spelling
        raise


class MissingPackage(InvalidValue, ImportError):  # type: ignore[misc]  # a name is text in both, and may be None in one
    """A part that needs an extra which is not installed; the message says what to type."""


def value_text(value: object) -> str:
    """Returns a value as a line shows it."""
    return str(value) if isinstance(value, (str, os.PathLike)) else _one_line(value)


def _in_few_digits(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value


def _is_whole(template: str) -> bool:
    """Returns whether a spelling is that of a whole setting, and not a name alone."""
    return "=" in template or "{" in template


def _is_numeral(value: object) -> bool:
    """Returns whether a value is text that reads as a number."""
    if not isinstance(value, str) or not value[-1:].isdigit():
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def printable(text: str) -> str:
    """Text that does nothing to a terminal: line breaks are blanks, other characters that are not seen are escaped."""
    if text.isprintable():
        return text
    escaped = (
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return "".join(
        " " if each.isspace() else shown for each, shown in zip(text, escaped, strict=True)
    )


def _is_plain(value: object) -> bool:
    """Returns whether a value can be kept: one that holds no data of others and can be sent to another process."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, os.PathLike, Number, enum.Enum))


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _without_init(cls: type[InvalidValue]) -> InvalidValue:
    """Returns an error to be given its fields, as when one comes from another process."""
    return cls.__new__(cls)
