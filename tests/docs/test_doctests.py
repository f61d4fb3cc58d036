"""Examples in docstrings print what they promise."""

import doctest
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pate

PACKAGE_FOLDER = Path(pate.__file__).parent
WITH_EXAMPLES = sorted(
    path for path in PACKAGE_FOLDER.rglob("*.py") if "    >>> " in path.read_text(encoding="utf-8")
)

SLOW = {
    "accounting/budget.py",
    "accounting/filters.py",
    "accounting/ledger.py",
    "aggregators/aggregator.py",
    "auditing/lower_bound.py",
    "classifier/classifier.py",
    "pricing/affordable_queries.py",
    "pricing/priced_release.py",
    "pricing/quote.py",
}
"""Modules whose examples calibrate, search for a price, or fit a model."""


def row_of(path: Path) -> Any:
    """Returns a module's path as a parameter of the test, with the path below `pate` as id."""
    name = path.relative_to(PACKAGE_FOLDER).as_posix()
    return pytest.param(path, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


def failures_of_doctest(test: doctest.DocTest) -> list[str]:
    """Returns the lines that doctest reports about the examples of one docstring; none if they pass."""
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    return output


@pytest.mark.parametrize("path", [row_of(path) for path in WITH_EXAMPLES])
def test_examples_print_what_they_say(path: Path) -> None:
    """All examples in the docstrings of a module print what they promise."""
    module = import_module(
        ".".join(("pate", *path.relative_to(PACKAGE_FOLDER).with_suffix("").parts))
    )
    examples = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert examples
    assert [line for test in examples for line in failures_of_doctest(test)] == []


def test_every_module_with_slow_examples_has_examples() -> None:
    """Each module that `SLOW` names has examples in its docstrings."""
    assert {PACKAGE_FOLDER / name for name in SLOW} <= set(WITH_EXAMPLES)


def test_an_example_that_prints_something_else_is_found() -> None:
    """An example that promises a wrong number is reported with the expected and the printed text."""
    wrong_doctest = doctest.DocTestParser().get_doctest(
        string=">>> 1 + 1\n3\n", globs={}, name="wrong", filename=None, lineno=None
    )
    assert "Expected:\n    3\nGot:\n    2\n" in "".join(failures_of_doctest(wrong_doctest))
