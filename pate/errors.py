"""The errors and warnings about a user's values, with fields, and the lines in which a front end shows them.

An `InvalidValue` has the name of a parameter, its value, the rule that is broken, and remedies: parameters and values
that work. A `Doubt` is a warning of the same form. Both name parameters as the code does. Each front end has a
`Spelling`, which turns these names into its own settings; `pate/setting_names.py` lists them.

    >>> error = InvalidValue(
    ...     "num_teachers", 20, rule="enough teachers", remedies=(Remedy("num_teachers", 800),)
    ... )
    >>> print(error)
    num_teachers=20: expected enough teachers; what works: num_teachers=800
    >>> print(Spelling({"num_teachers": "teacher.num_teachers"}).error_line(error))
    teacher.num_teachers=20: expected enough teachers; what works: teacher.num_teachers=800
"""

import contextlib
import enum
import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, Final


class _NotShown(enum.Enum):
    """The type of `NOT_SHOWN`, which stands for a value that is not shown."""

    NOT_SHOWN = ""


# Warnings are not about lines of these files: those of the package, and of decorators such as `shown_as`.
_PACKAGE_FOLDER = os.path.dirname(__file__) + os.sep
_DECORATORS_FILE = contextlib.__file__

NOT_SHOWN: Final = _NotShown.NOT_SHOWN
"""The value of an error that shows no value, as it is private or there is none."""


@dataclass(frozen=True)
class Remedy:
    """A parameter and a value with which a refused call works.

    `Remedy("num_teachers", 800, also=(Remedy("num_queries", 200),))` is one remedy that changes two parameters, as 800
    teachers alone are not enough.

    Attributes:
        name: the parameter, as the code calls it.
        value: the value that works.
        owner: the object that the parameter belongs to, such as `aggregator` or `ledger`; empty for an argument.
        also: parameters that have to be changed at the same time.
    """

    name: str
    value: object
    owner: str = ""
    also: tuple["Remedy", ...] = ()


@dataclass(frozen=True)
class Doubt:
    """A warning about a value that is allowed. It is shown as `name=value: text`.

    `Doubt(name="target_delta", value=0.001, text="above 1 / 500, one over the private groups")` warns of a delta, which
    is used nevertheless. With the waiver `Remedy("allow_useless", True)`, the line adds that the value is allowed only
    because of `allow_useless=true`.

    Attributes:
        name: the parameter, as the code calls it.
        value: the value that may be wrong.
        text: the reason for the warning, with advice.
        waiver: the setting that allows the value, which would be refused without it; None if no setting is needed.
    """

    name: str
    value: object
    text: str
    waiver: Remedy | None = None

    def __str__(self) -> str:
        return AS_THE_CODE.doubt_line(self)


@dataclass(frozen=True)
class Spelling:
    """The names that a command, or another interface for users, has for the parameters of the code.

    A parameter without an entry keeps its name.

    >>> spelling = Spelling({"num_teachers": "teacher.num_teachers", "target_epsilon": "epsilons=[{value}]"})
    >>> spelling.setting("num_teachers", 800), spelling.setting("target_epsilon", 8.0)
    ('teacher.num_teachers=800', 'epsilons=[8.0]')

    Attributes:
        template_of_parameter: a template for each parameter. The keys `OWNER.parameter`, `OWNER.*` and `parameter` are
            tried in this order; OWNER is the object that the parameter belongs to, such as `aggregator`. A template is
            the name of a setting, such as `teacher.num_teachers`. A template with an equals sign or braces is the whole
            setting, in which `{name}` and `{value}` are replaced. An empty template means that users cannot set the
            parameter; an error then shows the parameter's name alone.
        advice: for some parameters, by `OWNER.parameter` or `parameter`, advice in the line of an error about that
            parameter, after the rule and the hint: it names settings as this interface does.
    """

    template_of_parameter: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str, value: object = NOT_SHOWN, *, owner: str = "") -> str:
        """Returns a parameter and its value as a user writes them, such as `teacher.num_teachers=800`.

        With a value, the result is empty if users cannot set the parameter.

        Args:
            name: the parameter, as the code calls it.
            value: its value; `NOT_SHOWN` returns the name of the setting alone. If the template of the parameter in
                `template_of_parameter` is empty, or has an equals sign or braces, `NOT_SHOWN` returns the name of the
                parameter.
            owner: the object that the parameter belongs to; empty for an argument.
        """
        keys = (f"{owner}.{name}", f"{owner}.*", name)
        setting_template = next(
            (self.template_of_parameter[key] for key in keys if key in self.template_of_parameter),
            None,
        )
        is_whole_setting = setting_template is not None and (
            setting_template == "" or "=" in setting_template or "{" in setting_template
        )
        if setting_template is None or not is_whole_setting:
            setting = name if setting_template is None else setting_template
            return setting if value is NOT_SHOWN else f"{setting}={value_text(value)}"
        if value is NOT_SHOWN:
            return name
        return setting_template.format(name=name, value=value_text(value))

    def error_line(self, error: "InvalidValue") -> str:
        """Returns the message of an error in one line: the setting, the rule, and settings that work.

        The hint, the advice and the waiver are in the line, too, if there are any.
        """
        refused_value = error.value
        if "number" in error.rule and _is_numeral(refused_value):
            # a text that looks like a number stands in quotes, where a number is expected
            refused_value = repr(refused_value)
        setting = self.setting(error.name, refused_value, owner=error.owner)
        line = f"{setting or error.name}: expected {error.rule}"
        if error.hint:
            line += f"; {error.hint}"
        advice = self.advice.get(f"{error.owner}.{error.name}", self.advice.get(error.name))
        if advice is not None:
            line += f"; {advice}"
        settings = [self.settings_of(remedy) for remedy in error.remedies]
        remedies = ", or ".join(setting for setting in settings if setting)
        if remedies:
            line += f"; what works: {remedies}"
        if error.waiver is not None:
            line += f"; {self.settings_of(error.waiver)} goes on as it is"
        return printable(line)

    def doubt_line(self, doubt: Doubt) -> str:
        """Returns the message of a warning in one line: the setting, the reason, and the waiver if there is one."""
        line = f"{self.setting(doubt.name, doubt.value) or doubt.name}: {doubt.text}"
        if doubt.waiver is not None:
            line += f"; allowed by {self.settings_of(doubt.waiver)}"
        return printable(line)

    def settings_of(self, remedy: Remedy) -> str:
        """Returns the settings of a remedy as a user writes them, separated by blanks; "" if users cannot set one."""
        settings = [
            self.setting(change.name, _in_few_digits(change.value), owner=change.owner)
            for change in (remedy, *remedy.also)
        ]
        return " ".join(settings) if all(settings) else ""


AS_THE_CODE: Final = Spelling(advice={"ledger.unit": "name the same unit=, or another ledger"})
"""The spelling of somebody who calls the code itself."""


class InvalidValue(ValueError):
    """An error for a value that a user has to change. Its message is one line.

    The line is `name=value: expected rule; what works: name=value`. No field holds a private value. With few exceptions
    the error is raised before anything is spent; one is a student that cannot be fitted to a release that is paid.

    Attributes:
        name: the parameter, as the code calls it.
        value: the refused value. None, numbers, texts, paths, enums and tuples of them are kept; other values become
            text. `NOT_SHOWN` shows no value.
        rule: a noun phrase for the expected value, such as `a number > 0`, with advice.
        hint: a sentence on settings for reading a file that may help, such as its encoding; empty if there are none.
        remedies: parameters with values that work; empty if none are known.
        waiver: the setting that allows the value in spite of the rule; None if there is no such setting.
        owner: the object that the parameter belongs to, such as `aggregator` or `ledger`; empty for an argument.
        spelling: the names of settings in the line: those of a command, or by default those of the code.
    """

    spelling: Spelling = AS_THE_CODE

    def __init__(
        self,
        name: str,
        value: object = NOT_SHOWN,
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
        return self.spelling.error_line(self)

    def __reduce__(self) -> tuple[Any, ...]:
        field_values = {
            "name": self.name,
            "value": self.value,
            "rule": self.rule,
            "hint": self.hint,
            "remedies": self.remedies,
            "waiver": self.waiver,
            "owner": self.owner,
            "spelling": self.spelling,
        }
        return _without_init, (type(self),), field_values


@contextmanager
def shown_as(spelling: Spelling) -> Iterator[None]:
    """Makes the message of an `InvalidValue` from a `with` block, or a decorated function, name settings as users do.

    The error is raised on, with other names: those that a command or class has for the parameters of the code.

    Args:
        spelling: these names.
    """
    try:
        yield
    except InvalidValue as error:
        error.spelling = spelling
        raise


def users_stack_level() -> int:
    """Returns the `stacklevel` with which a warning of the caller is about the first line outside of `pate`.

    Where Python keeps no frames, it is 1, the line of the warning itself.
    """
    stack_level = 0
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(
        (_PACKAGE_FOLDER, _DECORATORS_FILE)
    ):
        stack_level += 1
        frame = frame.f_back
    return max(stack_level, 1)


class MissingPackage(InvalidValue, ImportError):  # type: ignore[misc]  # a name is text in both, and may be None in one
    """An error: a call needs an extra that is not installed. The message has the command that installs the extra."""


def value_text(value: object) -> str:
    """Returns a value as the message of an error shows it: texts and paths as they are, others as text in one line."""
    return str(value) if isinstance(value, (str, os.PathLike)) else _one_line(value)


def _in_few_digits(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value


def _is_numeral(value: object) -> bool:
    """Returns True if a value is a text that ends with a digit and denotes a number, such as "12" or "1e5"."""
    if not isinstance(value, str) or not value[-1:].isdigit():
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def printable(text: str) -> str:
    """Returns a text without control codes: white space becomes blanks, and unprintable characters are escaped."""
    if text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character.isspace():
        return " "
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def _is_plain(value: object) -> bool:
    """Returns True if an error can keep a value as it is: None, a text, path, number or enum, or a tuple of these.

    Such a value refers to no other data, and can be pickled.
    """
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, os.PathLike, Number, enum.Enum))


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def _without_init(cls: type[InvalidValue]) -> InvalidValue:
    """Returns an error of a class without calling its constructor; `pickle` sets the fields afterwards."""
    return cls.__new__(cls)
