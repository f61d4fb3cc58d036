"""The contract suite, run on a case of your own as `pytest` runs it on the package's cases."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract import test_aggregators as suite
from tests.contract.case import Case

_TOO_LARGE = (suite.FIRST_OF_CLASS,)  # a million queries take long


def promises(case: Case) -> Iterator[Any]:
    """Yields each test of the suite that fits the case, with each of its values, as parameters `(promise, values)`."""
    for name, function in vars(suite).items():
        if not name.startswith("test_") or "case" not in inspect.signature(function).parameters:
            continue
        marks = {
            mark.args[0]: mark.args[1] for mark in function.pytestmark if mark.name == "parametrize"
        }
        listed = marks.pop("case")
        other = suite.COUNTING if case.reads_teachers else suite.READING
        if any(listed is cases for cases in (*_TOO_LARGE, other)):
            continue
        for number, values in enumerate(_combined(marks)):
            yield pytest.param(function, values, id=f"{name}-{number}")


def keep(
    promise: Callable[..., None], case: Case, values: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """Runs one test of the suite with the fixtures that the test requests."""
    fixtures = inspect.signature(promise).parameters.keys() - values.keys() - {"case"}
    promise(case=case, **values, **{name: request.getfixturevalue(name) for name in fixtures})


def _combined(marks: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """Yields the combinations of the values of several `parametrize`, each by the names of the arguments."""
    keys = [(key,) if isinstance(key, str) else key for key in marks]
    rows = [[(value,) if isinstance(key, str) else value for value in marks[key]] for key in marks]
    for chosen in itertools.product(*rows):
        pairs = (zip(names, row, strict=True) for names, row in zip(keys, chosen, strict=True))
        yield {name: value for pair in pairs for name, value in pair}
