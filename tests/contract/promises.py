"""The tests of the contract suite as a list, so that other tests can run them on a case of their own."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract import test_aggregators as suite
from tests.contract.case import Case

# The cases of the test of memory, which takes too long for an aggregator from outside.
_CASES_OF_SLOW_TEST = suite.FIRST_OF_CLASS


def promises(case: Case) -> list[Any]:
    """Returns each test of the suite that fits the case, as parameters `(promise_test, values)` for `parametrize`.

    `promise_test` is the test. `values` holds one combination of its other parametrized arguments by their names.
    """
    parameters = []
    cases_of_other_votes = suite.COUNTING if case.reads_teachers else suite.READING
    for name, promise_test in vars(suite).items():
        if not name.startswith("test_") or "case" not in inspect.signature(promise_test).parameters:
            continue
        values_of_names = {
            mark.args[0]: mark.args[1]
            for mark in promise_test.pytestmark
            if mark.name == "parametrize"
        }
        cases_of_test = values_of_names.pop("case")
        if cases_of_test is _CASES_OF_SLOW_TEST or cases_of_test is cases_of_other_votes:
            continue
        for number, values in enumerate(_combinations(values_of_names)):
            parameters.append(pytest.param(promise_test, values, id=f"{name}-{number}"))
    return parameters


def run_promise(
    promise_test: Callable[..., None],
    *,
    case: Case,
    values: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    """Runs one test of the suite on a case, with the fixtures that the test requests.

    Args:
        promise_test: the test.
        case: the case.
        values: the other parametrized arguments of the test by their names.
        request: the source of the fixtures.
    """
    arguments = {"case": case} | values
    for name in inspect.signature(promise_test).parameters:
        if name not in arguments:
            arguments[name] = request.getfixturevalue(name)
    promise_test(**arguments)


def _combinations(values_of_names: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """Yields the combinations of the values of several `parametrize` marks, each by the names of the arguments.

    Args:
        values_of_names: for each mark, one name with its values, or a tuple of names with a row of values each time.
    """
    combinations: list[dict[str, Any]] = [{}]
    for names, rows in values_of_names.items():
        if isinstance(names, str):
            arguments_of_rows = [{names: value} for value in rows]
        else:
            arguments_of_rows = [dict(zip(names, row, strict=True)) for row in rows]
        combinations = [
            first | second for first, second in itertools.product(combinations, arguments_of_rows)
        ]
    yield from combinations
