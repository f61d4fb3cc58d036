"""The house: what design.md says of it holds in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pate"
FILES = sorted(PACKAGE.rglob("*.py"))
STAIRCASE = [
    path
    for path in FILES
    if path == PACKAGE / "pipeline.py" or path.relative_to(PACKAGE).parts[0] in ("run", "comparison", "classifier")
]
RELEASING = {"aggregate", "aggregate_summary", "release_from"}
SPENDING = RELEASING | {"draw", "release_once", "charge", "forget_noise", "unlink", "rmtree", "save", "learn", "train"}
SPENDING |= {"write", "write_text", "write_arrays", "print", "say", "stage", "fit"}


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and last name of everything that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, getattr(node.func, "attr", getattr(node.func, "id", ""))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_file_is_long() -> None:
    lines = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > 900} == {}


def test_the_pipeline_is_a_page() -> None:
    assert len((PACKAGE / "pipeline.py").read_text(encoding="utf-8").splitlines()) <= 150


def test_reading_a_property_spends_writes_and_shows_nothing() -> None:
    found = []
    for path in STAIRCASE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                kinds = {getattr(item, "id", getattr(item, "attr", "")) for item in node.decorator_list}
                if kinds & {"property", "cached_property"}:
                    spent = [(line, name) for line, name in calls(node) if name in SPENDING]
                    found += [f"{shown(path)}:{line}: {node.name} calls {name}" for line, name in spent]
    assert found == []


def test_votes_become_a_release_in_one_place() -> None:
    """Outside the aggregators themselves; audits and prices release nothing."""
    outside = [path for path in FILES if "aggregators" not in path.parts]
    releasing = {
        shown(path)
        for path in outside
        for _, name in calls(ast.parse(path.read_text(encoding="utf-8")))
        if name in RELEASING
    }
    assert releasing == {"pate/run/release.py"}


def test_design_names_every_room_of_the_house() -> None:
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert {room for room in rooms if f"{room}/" not in design} == set()


def test_no_name_of_a_package_is_also_that_of_its_module() -> None:
    """Of names that are loaded later: once the module is loaded, Python finds the module under its name."""
    packages = [path for path in FILES if path.name == "__init__.py" and "_MODULE_OF" in path.read_text()]
    assert packages
    for path in packages:
        places = ast.parse(path.read_text(encoding="utf-8")).body
        (table,) = (
            node.value
            for node in places
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULE_OF"
        )
        names = set(ast.literal_eval(table))
        assert names
        assert not names & {each.stem for each in path.parent.iterdir()}, shown(path)
