"""Prints the requirements of the core and of some extras, nested extras written out, one a line.

With `--resolution lowest-direct` uv takes the lowest version of what is written. What an extra of this project brings
has to be written, too. `make lowest` installs what this prints, and runs tests with it. For example:

    python scripts/lowest.py train table
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_OWN = re.compile(r"pate-multilabel\[([\w,-]+)\]")


def lowest(project: Path, extras: Sequence[str]) -> list[str]:
    """Returns the requirements of a project's core and of these extras, each once; KeyError for an unknown extra."""
    metadata = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    optional: dict[str, list[str]] = metadata["optional-dependencies"]

    def written_out(requirements: Sequence[str]) -> Iterator[str]:
        for requirement in requirements:
            extra_match = _OWN.fullmatch(requirement)
            if extra_match is None:
                yield requirement
                continue
            for extra in extra_match[1].split(","):
                yield from written_out(optional[extra])

    listed = [*metadata["dependencies"]]
    for extra in extras:
        listed += optional[extra]
    return list(dict.fromkeys(written_out(listed)))


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest(_PROJECT, extras=sys.argv[1:])) + "\n")
