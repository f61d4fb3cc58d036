"""`pate-release` without pate-federated refuses files of data holders, with the command that installs the package."""

from pathlib import Path

import numpy as np
import pytest

from pate import package_commands
from pate.config.schema import command_schema
from tests.e2e.commands import refused_command


def forget_commands() -> None:
    """Clears the cache of commands, so that entry points are read again."""
    package_commands.package_commands.cache_clear()
    command_schema.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("member", ["manifest", "sum_heads"])
def test_refusal_of_a_holders_file_names_the_package(
    member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pate-federated, `pate-release` refuses a data holder's file, and says how to install the package."""
    monkeypatch.setattr(package_commands, "entry_points", lambda *, group: ())
    forget_commands()
    np.savez(tmp_path / "votes.npz", **{member: np.array("{}")})
    try:
        line = refused_command(
            "release", arguments=[f"votes={tmp_path / 'votes.npz'}", f"output_dir={tmp_path}/run"]
        )
    finally:
        forget_commands()
    assert "the package pate-federated" in line and "pip install" in line
