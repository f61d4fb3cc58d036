"""What a run is called: by its overrides and the name that its aggregator was configured by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pate.config import CONFIG_FOLDER
from pate.config.command_line import given_settings
from pate.files import fingerprint
from pate.report import Heading

BESIDE = (
    *("output_dir", "ledger", "max_total_epsilon", "redraw", "all_records", "allow_useless", "logger"),
    *("noise", "fewer_queries"),  # of which target_epsilon and num_queries say what they come to
)
"""Settings that the release does not depend on."""

_GROUPS = ("data", "aggregator", "accountant", "teacher", "student")
_TERMS = ("target_epsilon", "max_epsilon", "target_delta", "num_queries", "adjacency", "seed")


def run_heading(settings: Mapping[str, Any], said: Iterable[str], choices: Mapping[str, Any]) -> Heading:
    """The heading of a run.

    Args:
        settings: the composed configuration, plain values.
        said: overrides of the command line.
        choices: the YAML file of each group.
    """
    given = given_settings(said)
    names = {group: _name(group, settings, given, choices) for group in _GROUPS if group in settings}
    terms: dict[str, Any] = {name: settings[name] for name in _TERMS if name in settings}
    terms["num_teachers"] = settings.get("teacher", {}).get("num_teachers")
    return Heading(
        aggregator=names["aggregator"],
        is_public=(CONFIG_FOLDER / "aggregator" / f"{names['aggregator']}.yaml").is_file(),
        given={name: value for name, value in given.items() if name not in BESIDE},
        compared=names
        | terms
        | {name: value for name, value in given.items() if name not in {*names, *terms, *BESIDE}},
    )


def default_folder(settings: Mapping[str, Any], heading: Heading) -> str:
    """outputs/DATA-AGGREGATOR-HASH: the same command finds the same folder, so it continues."""
    names = [str(heading.compared["data"]), heading.aggregator]
    safe = ["".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name) for name in names]
    return "outputs/" + "-".join([*safe, fingerprint.digest(settings)[:8]])


def _name(group: str, settings: Mapping[str, Any], given: Mapping[str, str], choices: Mapping[str, Any]) -> str:
    """The name of its YAML file; the class where another one was given in its place, or no file was chosen."""
    chosen = choices.get(group)
    if chosen and f"{group}._target_" not in given:
        return str(chosen)
    return str(settings[group]["_target_"]).rpartition(".")[2]
