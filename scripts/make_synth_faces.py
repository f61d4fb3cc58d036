"""Writes cartoon faces in CelebA's layout, for `pate-train data=celeba data.root=FOLDER`.

Killed or stopped by a full disk, the same command goes on. The folder says that it is synthetic, and so does every
report on it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pate.cli.monitor import ConsoleMonitor
from pate.validation import InvalidValue
from scripts.synth_faces.face_copy import FaceCopy


def main() -> int:
    """Writes the folder; returns 0, 2 after a line about a wrong argument, or 1 after a line about the disk."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the folder to write, for example data/celeba")
    parser.add_argument("--count", type=int, default=FaceCopy.count, help="faces (%(default)s)")
    parser.add_argument(
        "--size", type=int, default=FaceCopy.image_size, help="pixels a side (%(default)s)"
    )
    parser.add_argument("--format", default=FaceCopy.form, help="text or csv (%(default)s)")
    parser.add_argument(
        "--seed", type=int, default=FaceCopy.seed, help="of all faces (%(default)s)"
    )
    arguments = parser.parse_args()
    try:
        copy = FaceCopy(
            arguments.count, image_size=arguments.size, form=arguments.format, seed=arguments.seed
        )
        copy.write(arguments.output, ConsoleMonitor().stage)
    except InvalidValue as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}; the same command continues once that is mended\n")
        return 1
    sys.stdout.write(
        f"{arguments.output}: {copy.count:,} synthetic faces; pate-train data=celeba data.root={arguments.output}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
