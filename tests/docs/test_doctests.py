"""Examples in docstrings print what they promise."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parent
WITH_EXAMPLES = sorted(
    path for path in ROOT.rglob("*.py") if "    >>> " in path.read_text(encoding="utf-8")
)


def run(test: doctest.DocTest) -> list[str]:
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    return output


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_print_what_they_say(path: Path) -> None:
    module = import_module(".".join(("pate", *path.relative_to(ROOT).with_suffix("").parts)))
    examples = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert examples
    assert [line for test in examples for line in run(test)] == []


def test_an_example_that_prints_something_else_is_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert "Expected:\n    3\nGot:\n    2\n" in "".join(run(wrong))
