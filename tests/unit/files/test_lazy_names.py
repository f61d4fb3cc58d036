from __future__ import annotations

import builtins
import math
import sys
from pathlib import Path

import pytest

from pate.files.lazy_names import lazy_names

PACKAGE = """
from pate.files.lazy_names import lazy_names
with lazy_names(globals()):
    from lazy_package.one import first, second
    from lazy_package.two import third
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "one.py").write_text("first, second = 1, 2")
    (folder / "two.py").write_text("from lazy_package import first\nthird = first + 2")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("", ".one", ".two"):
        monkeypatch.delitem(sys.modules, f"lazy_package{name}", raising=False)


def test_a_module_is_loaded_with_the_first_of_its_names() -> None:
    import lazy_package

    assert {"first", "second", "third"} <= set(dir(lazy_package))
    assert "lazy_package.one" not in sys.modules
    assert lazy_package.second == 2
    assert {"lazy_package.one", "lazy_package.two"} & sys.modules.keys() == {"lazy_package.one"}
    from lazy_package import third

    assert third == 3


def test_other_names_are_missing() -> None:
    import lazy_package

    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'fourth'"):
        _ = lazy_package.fourth


def test_imports_elsewhere_are_as_ever() -> None:
    before = builtins.__import__
    with lazy_names({"__name__": "other"}):
        from math import tau
    assert tau > 6
    with pytest.raises(KeyError), lazy_names({"__name__": "other"}):
        raise KeyError
    assert builtins.__import__ is before


@pytest.mark.parametrize("line", ["import math", "from . import one", "from math import *"])
def test_only_names_of_modules_are_left_for_later(line: str) -> None:
    package = {"__name__": "other", "__package__": "other"}
    with pytest.raises(ImportError, match="expected from module import name"), lazy_names(package):
        exec(line, package)


def test_a_block_may_run_inside_another() -> None:
    outer, inner = {"__name__": "outer"}, {"__name__": "inner"}
    with lazy_names(outer):
        with lazy_names(inner):
            exec("from math import tau", inner)
        exec("from math import pi", outer)
    assert (inner["__getattr__"]("tau"), outer["__getattr__"]("pi")) == (math.tau, math.pi)
