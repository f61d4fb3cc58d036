"""Rebuilds pate/data/wordnet/wordnet40.npz byte for byte, and its glosses, from WordNet 3.0's data.noun.

On Debian: `apt-get install wordnet-base`, then `python -m scripts.build_wordnet`.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from pate.data.embedded import ARCHIVE, GLOSSES
from pate.validation import InvalidValue
from scripts.wordnet40 import Recipe, glosses, write_archive


def _path(text: str) -> Path:
    """Returns a path, from the home folder where it begins with ~: no shell expands that behind `=`."""
    return Path(text).expanduser()


def main() -> int:
    """Builds the archive; returns 0, or 2 after one line about a fault of the dictionary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "dictionary", type=Path, nargs="?", default=Path("/usr/share/wordnet/data.noun")
    )
    parser.add_argument(
        "--output", type=_path, default=ARCHIVE, help="the file to write (%(default)s)"
    )
    arguments = parser.parse_args()
    try:
        lines = _read(arguments.dictionary)
        write_archive(arguments.output, arrays=Recipe().build(lines))
        arguments.output.with_name(GLOSSES.name).write_bytes(glosses(lines))
    except InvalidValue as error:
        sys.stderr.write(f"{error}\n")
        return 2
    digest = hashlib.sha256(arguments.output.read_bytes()).hexdigest()
    sys.stdout.write(
        f"{arguments.output}: {arguments.output.stat().st_size:,} bytes, sha256 {digest}\n"
    )
    return 0


def _read(dictionary: Path) -> list[str]:
    try:
        return dictionary.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        rule = "a readable data.noun of WordNet 3.0 (on Debian: apt-get install wordnet-base)"
        raise InvalidValue("dictionary", dictionary, rule=rule) from error


if __name__ == "__main__":
    sys.exit(main())
