"""Records the names and parameters of the public interface: python scripts/public_signatures.py [--check].

Other people's code calls these functions with keywords, so a rename of a parameter breaks it. The record has each name
in the `__all__` of a public module, and each public method of a class among them, with the names of its parameters. It
is written when a version is published. With `--check` nothing is written: a name or a parameter that the record has and
the code has lost is an error.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parents[1] / "tests" / "contract" / "public_signatures.json"
PUBLIC_MODULES = (
    "pate",
    "pate.accounting",
    "pate.aggregators",
    "pate.auditing",
    "pate.bundle",
    "pate.classifier",
    "pate.comparison",
    "pate.data",
    "pate.features",
    "pate.mechanisms",
    "pate.models",
    "pate.pricing",
    "pate.report",
    "pate.student",
    "pate.teachers",
    "pate.testing",
    "pate.votes",
    "pate_federated",
)

Signatures = dict[str, list[str]]
"""From the dotted name of a function, class, method or attribute to the names of its parameters; empty for a value."""


def parameter_names(public_object: Any) -> list[str]:
    """Returns the names of the parameters of a function, a method or a class, without `self` and `cls`."""
    try:
        parameters = inspect.signature(public_object).parameters
    except (TypeError, ValueError):  # a value, or a class of C
        return []
    return [name for name in parameters if name not in ("self", "cls")]


def members_of(public_class: type) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of each public method, property and class attribute of a class, with its parameters."""
    for member_name, member in inspect.getmembers(public_class):
        definer = next(
            (each for each in public_class.__mro__ if member_name in vars(each)), public_class
        )
        if not member_name.startswith("_") and definer.__module__.startswith("pate"):
            yield member_name, parameter_names(member) if callable(member) else []


def present_signatures() -> Signatures:
    """Returns the signatures of all public names, as the code has them now."""
    signatures: Signatures = {}
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            public_object = getattr(module, name)
            signatures[f"{module_name}.{name}"] = parameter_names(public_object)
            if inspect.isclass(public_object):
                for member_name, parameters in members_of(public_object):
                    signatures[f"{module_name}.{name}.{member_name}"] = parameters
    return signatures


def lost_names(recorded: Signatures, *, present: Signatures) -> list[str]:
    """Returns a line for each recorded name that is gone, and for each name that lost a recorded parameter."""
    lines = []
    for name, parameters in recorded.items():
        if name not in present:
            lines.append(f"{name} is gone")
            continue
        lost_parameters = [each for each in parameters if each not in present[name]]
        if lost_parameters:
            lines.append(f"{name} has lost {', '.join(lost_parameters)}")
    return lines


def read_record() -> Signatures:
    """Returns the recorded signatures."""
    recorded: Signatures = json.loads(RECORD.read_text(encoding="utf-8"))
    return recorded


def main() -> None:
    """Writes the record, or with `--check` compares the code with it."""
    present = present_signatures()
    if "--check" in sys.argv[1:]:
        lines = lost_names(read_record(), present=present)
        if lines:
            raise SystemExit("\n".join(lines))
        return
    rows = [f"  {json.dumps(name)}: {json.dumps(present[name])}" for name in sorted(present)]
    RECORD.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
