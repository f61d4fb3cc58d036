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
"""The group of entry points by which a package declares its commands."""


@dataclass(frozen=True, kw_only=True)
class PackageCommand:
    """A command that another installed package adds to those of this package.

    Attributes:
        settings_class: a dataclass with the command's settings, each declared by `pate.settings.setting`.
        folder: the folder with `NAME.yaml` and `hydra/help/NAME.yaml` for a command NAME. Members of Hydra's groups are
            in folders in it, such as `aggregator/`.
        task: the function that the command runs, as `module:function`. It is called with the composed configuration.
        spelling: the names that the command's user has for parameters in errors.
    """

    settings_class: type
    folder: Path
    task: str
    spelling: Spelling = COMMAND

    def load_task(self) -> Callable[[Any], Any]:
        """Imports and returns the function that the command runs."""
        task: Callable[[Any], Any] = resolve_name(self.task)
        return task


@cache
def package_commands() -> Mapping[str, PackageCommand]:
    """Returns the commands that other installed packages add, by name.

    A command whose package cannot be imported, such as one that was removed in part, is left out. A line on standard
    error names the command and the reason.
    """
    commands = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            commands[point.name] = point.load()
        except ImportError as error:
            sys.stderr.write(f"pate: the command {point.name} of a package is left out: {error}\n")
    return commands


def package_folders() -> tuple[Path, ...]:
    """Returns the configuration folders of the commands that other packages add, without repetition."""
    return tuple(dict.fromkeys(command.folder for command in package_commands().values()))
