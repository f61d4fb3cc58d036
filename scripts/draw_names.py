"""Writes the rows of docs/names.md from the files in `conf/`: python scripts/draw_names.py [--check].

Each group of the command line has a table on the page, between the lines `<!-- names: GROUP -->` and `<!-- end -->`. A
row has the name of a choice and the Python call that builds the same object. The call names those arguments whose value
in the choice's file is not the default of its class, and has FOLDER for those that the reader has to name. With
`--check` nothing is written: a stale page is an error.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from pate.config import CONFIG_FOLDER
from scripts.generated_tables import bring_up_to_date

PAGE = Path(__file__).resolve().parents[1] / "docs" / "names.md"
BLOCK = re.compile(r"(?<=<!-- names: )(?P<group>\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
FOLDER = "FOLDER"  # stands for a folder that the reader has to name
NO_ARGUMENTS = ("num_teachers",)  # settings beside a part, which its class does not take
UNCALLED = ("accountant",)  # arguments called `accountant` take the class itself


def class_of(target: str) -> type:
    """Returns the class that a `_target_` names."""
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def name_of(target: str) -> str:
    """Returns the name of a class without its module."""
    return target.rpartition(".")[2]


def is_reference(value: Any) -> bool:
    """Returns True where a value refers to another setting, as in `${seed}`."""
    return isinstance(value, str) and value.startswith("${")


def written(value: Any) -> str:
    """Returns a value of a configuration as Python source."""
    if isinstance(value, dict) and "_target_" in value:
        return call_of(value)
    if isinstance(value, list):
        return repr(tuple(value))
    return f'"{value}"' if isinstance(value, str) else repr(value)


def call_of(part: dict[str, Any]) -> str:
    """Returns the Python call that builds a part: an object of `_target_` with the other keys as arguments."""
    target = part["_target_"]
    parameters = inspect.signature(class_of(target)).parameters
    arguments = []
    for name, parameter in parameters.items():
        default = parameter.default
        if name not in part and default is inspect.Parameter.empty:
            arguments.append(f'{name}="{FOLDER}"')
        if name not in part or name in NO_ARGUMENTS or is_reference(part[name]):
            continue
        if part[name] != (list(default) if isinstance(default, tuple) else default):
            arguments.append(f"{name}={written(part[name])}")
    return f"{name_of(target)}({', '.join(arguments)})"


def rows_of(group: str) -> list[tuple[str, str]]:
    """Returns name and Python call of each choice of a group, sorted by name."""
    rows = []
    for file in sorted((CONFIG_FOLDER / group).glob("*.yaml")):
        name = file.stem
        part: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        call = name_of(part["_target_"]) if group in UNCALLED else call_of(part)
        rows.append((name, call))
    return rows


def table_of(group: str) -> str:
    """Returns the table of a group in Markdown."""
    lines = ["| name | Python |", "|---|---|"]
    lines += [f"| `{name}` | `{call}` |" for name, call in rows_of(group)]
    return "\n".join(lines)


def page_with_names(text: str) -> str:
    """Returns the page with the tables of the current configuration."""
    return BLOCK.sub(lambda block: f"{block['group']} -->\n\n{table_of(block['group'])}\n\n", text)


def main(arguments: list[str]) -> int:
    """Writes the page, or with `--check` names it if it is stale; returns the exit code."""
    return bring_up_to_date(
        [PAGE], current_text=page_with_names, description=__doc__, arguments=arguments
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
