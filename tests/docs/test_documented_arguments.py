"""Docstrings describe arguments that exist: a name under `Args:` is a parameter, also after a rename."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("pate", "packages/pate-federated/pate_federated", "scripts", "benchmarks", "tests")
ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n?|\n)*)", re.MULTILINE)
ARGUMENT = re.compile(r"^    \*{0,2}(\w+):", re.MULTILINE)


def documented_arguments(function_or_class: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """Returns the names under `Args:` in the docstring of a function or a class."""
    section = ARGUMENTS.search(ast.get_docstring(function_or_class) or "")
    return ARGUMENT.findall(section[1]) if section else []


def parameters_of(function_or_class: ast.FunctionDef | ast.ClassDef) -> set[str] | None:
    """Returns the parameters of a function, or of a class's `__init__`; None for a class without one of its own."""
    if isinstance(function_or_class, ast.ClassDef):
        constructors = [
            node
            for node in function_or_class.body
            if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        ]
        return parameters_of(constructors[0]) if constructors else None
    arguments = function_or_class.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return {parameter.arg for parameter in parameters}


def unknown_arguments(code: str) -> Iterator[str]:
    """Yields the line and the name of each documented argument that is no parameter."""
    for function_or_class in ast.walk(ast.parse(code)):
        if isinstance(function_or_class, (ast.FunctionDef, ast.ClassDef)):
            parameters = parameters_of(function_or_class)
            for name in documented_arguments(function_or_class):
                if parameters is not None and name not in parameters:
                    yield f"{function_or_class.lineno}: {name}"


@pytest.mark.slow
def test_every_documented_argument_is_a_parameter() -> None:
    """In the package, its scripts and its tests, each name under `Args:` is a parameter."""
    unknown = [
        f"{path.relative_to(ROOT)}:{place}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for place in unknown_arguments(path.read_text(encoding="utf-8"))
    ]
    assert unknown == []


def test_a_renamed_parameter_is_found_in_functions_and_classes() -> None:
    """Negative control: a docstring with the earlier name of a parameter is found."""
    docstring = '    """Does it.\n\n    Args:\n        size: how large.\n    """\n'
    function_source = f"def scaled(length):\n{docstring}    return length\n"
    constructor_source = "    def __init__(self, length):\n        self.length = length\n"
    assert list(unknown_arguments(function_source)) == ["1: size"]
    assert list(unknown_arguments(f"class Scaled:\n{docstring}{constructor_source}")) == ["1: size"]
    assert list(unknown_arguments(function_source.replace("length", "size"))) == []
