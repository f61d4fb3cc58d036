"""Commands of other installed packages are found, and a package that cannot be imported stops no other command."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from pate import package_commands as module


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Yields the list of entry points that the module finds; a test adds to it."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(module, "entry_points", lambda group: points)
    module.package_commands.cache_clear()
    yield points
    module.package_commands.cache_clear()


def test_a_command_is_found_by_its_name(entry_points: list[EntryPoint]) -> None:
    """An entry point `vote` is found as the command of this name."""
    value = "pate.package_commands:ENTRY_POINTS"
    entry_points.append(EntryPoint("vote", value, module.ENTRY_POINTS))
    assert module.package_commands() == {"vote": module.ENTRY_POINTS}


def test_a_package_that_cannot_be_imported_is_named_and_left_out(
    entry_points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry point of a package that cannot be imported is left out, with a line on standard error."""
    entry_points.append(EntryPoint("vote", "no_such_package:VOTE", module.ENTRY_POINTS))
    assert module.package_commands() == {}
    rule = "the command vote of a package is left out: No module named 'no_such_package'"
    assert capsys.readouterr().err == f"pate: {rule}\n"
