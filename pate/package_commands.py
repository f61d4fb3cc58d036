"""Commands that other installed packages add, found by entry points of the group `pate.commands`.

A package declares each of its commands in its pyproject.toml:

    [project.entry-points."pate.commands"]
    vote = "pate_federated.commands:VOTE"

If such a command has the name of a command of this package, such as `release`, it replaces that command.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pate.errors import Spelling
from pate.setting_names import COMMAND

ENTRY_POINTS = "pate.commands"


@dataclass(frozen=True, kw_only=True)
class PackageCommand:
    """A command that an installed package adds: its settings, its folder of YAML, and the function that it runs."""

    settings: type  # a dataclass whose fields are declared by `pate.settings.setting`
    folder: Path  # with `NAME.yaml` and `hydra/help/NAME.yaml`, and with members of groups such as `aggregator/`
    task: str  # `module:function`, called with the composed configuration
    spelling: Spelling = COMMAND  # the settings by the parameters that errors name

    def load_task(self) -> Callable[[Any], Any]:
        """Imports and returns the function that the command runs."""
        task: Callable[[Any], Any] = resolve_name(self.task)
        return task


@cache
def package_commands() -> Mapping[str, PackageCommand]:
    """Returns the commands of all installed packages, by name.

    A package that cannot be imported, such as one that was removed in part, is named in a line on standard error, and
    its commands are left out.
    """
    commands = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            commands[point.name] = point.load()
        except ImportError as error:
            sys.stderr.write(f"pate: the command {point.name} of a package is left out: {error}\n")
    return commands


def package_folders() -> tuple[Path, ...]:
    """Returns the folders of YAML of all installed packages, without repetition."""
    return tuple(dict.fromkeys(command.folder for command in package_commands().values()))
