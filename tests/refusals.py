"""How a test asserts a refusal: by its fields, so that its words can become better."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pate.errors import UNSAID, InvalidValue, value_text

ANY: Any = object()
"""A value that a test does not look at."""


@contextmanager
def refused(
    name: str,
    value: object = UNSAID,
    rule: str = "",
    *,
    remedies: tuple[str, ...] | None = None,
    kind: type[InvalidValue] = InvalidValue,
) -> Iterator[pytest.ExceptionInfo[InvalidValue]]:
    """Passes where the block raises an `InvalidValue` about a parameter.

    Args:
        name: of the parameter.
        value: that is refused, as it is shown; left out, the refusal may show none; `ANY` is not looked at.
        rule: some words of the rule, where several rules have that name and value.
        remedies: the names of the parameters that remedies would change first, in their order.
        kind: the class of the error.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.name == name, error
    if value is UNSAID:
        assert error.value is UNSAID, error
    elif value is not ANY:
        assert value_text(error.value) == value_text(value), error
    assert rule in error.rule, error
    if remedies is not None:
        assert tuple(remedy.name for remedy in error.remedies) == remedies, error
