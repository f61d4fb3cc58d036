"""The package imports no private name or module of the core."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pate_federated

FOLDER = Path(pate_federated.__file__).parent


def names_of_the_core(path: Path) -> Iterator[str]:
    """Yields the dotted names that a file imports from the core, the package `pate`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pate":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "pate")


def test_the_package_imports_public_names_alone() -> None:
    """No file of the package imports a name of `pate` with a part that begins with an underscore."""
    private = [
        f"{path.name}: {name}"
        for path in sorted(FOLDER.rglob("*.py"))
        for name in names_of_the_core(path)
        if any(part.startswith("_") for part in name.split("."))
    ]
    assert private == []
