"""Assertions on refusals: a test compares the fields of an error, so that the words of the error can become better."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pytest

from pate.errors import NOT_SHOWN, InvalidValue, value_text

ANY: Any = object()
"""A value that a test does not look at."""


@dataclass
class Refusal:
    """The fields that a test expects of an `InvalidValue`.

    A refusal is the context manager of a block that must raise such an error. `refused_parameter` makes one.

    Attributes:
        name: the name of the parameter.
        value: the refused value, as the error shows it; `NOT_SHOWN` if the error must show none, `ANY` for any value.
        rule_words: some words of the rule.
        hint_words: some words of the hint.
        remedies: the names of the parameters that remedies would change first, in their order; None for any remedies.
        waiver: the name of the parameter with which the request goes on as it is; None for any waiver.
        kind: the class of the error.
    """

    name: str
    value: object
    rule_words: str
    hint_words: str
    remedies: tuple[str, ...] | None
    waiver: str | None
    kind: type[InvalidValue]
    _raised: AbstractContextManager[pytest.ExceptionInfo[InvalidValue]] = field(init=False)
    _caught: pytest.ExceptionInfo[InvalidValue] = field(init=False)

    def __enter__(self) -> pytest.ExceptionInfo[InvalidValue]:
        """Expects an error of the class `kind` from now on, and returns the record that will hold the error."""
        self._raised = pytest.raises(self.kind)
        self._caught = self._raised.__enter__()
        return self._caught

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Fails if the block raised no such error, or if the error's fields differ from the expected ones."""
        is_raised = self._raised.__exit__(kind, raised, trace)
        if is_raised:
            self.require_expected(self._caught.value)
        return is_raised

    def require_expected(self, error: InvalidValue) -> None:
        """Fails unless an error has the expected fields."""
        assert error.name == self.name, error
        if self.value is NOT_SHOWN:
            assert error.value is NOT_SHOWN, error
        elif self.value is not ANY:
            assert value_text(error.value) == value_text(self.value), error
        assert self.rule_words in error.rule, error
        assert self.hint_words in error.hint, error
        if self.remedies is not None:
            assert tuple(remedy.name for remedy in error.remedies) == self.remedies, error
        if self.waiver is not None:
            assert error.waiver is not None, error
            assert error.waiver.name == self.waiver, error


def refused_parameter(
    name: str,
    *,
    value: object = NOT_SHOWN,
    rule_words: str = "",
    hint_words: str = "",
    remedies: tuple[str, ...] | None = None,
    waiver: str | None = None,
    kind: type[InvalidValue] = InvalidValue,
) -> Refusal:
    """Returns a context manager that fails unless its block raises an `InvalidValue` about a parameter.

    Args:
        name: the name of the parameter.
        value: the refused value, as the error shows it. If it is left out, the error must show none. `ANY` stands for
            whatever value the error shows.
        rule_words: some words of the rule, if the same name and value can break several rules.
        hint_words: some words of the hint, where the test is about it.
        remedies: the names of the parameters that remedies would change first, in their order.
        waiver: the name of the parameter with which the request goes on as it is.
        kind: the class of the error.
    """
    return Refusal(
        name=name,
        value=value,
        rule_words=rule_words,
        hint_words=hint_words,
        remedies=remedies,
        waiver=waiver,
        kind=kind,
    )
