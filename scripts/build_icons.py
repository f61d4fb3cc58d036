"""Draws the icons of the npm package @iconify/json into a folder that `data=image_folder` reads.

`npm pack @iconify/json@2.2.535` fetches the package (104 MB); `make icons` does both. Killed or stopped by a full
disk, the same command goes on. The same package gives the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from pate.cli.monitor import ConsoleMonitor
from pate.cli.process import Stopped, end_descendants, ended_by_signals, leave
from pate.files.atomic import write_text
from pate.validation import InvalidValue, require_count
from scripts.icons40.build import Recipe
from scripts.icons40.package import IconPackage


def main() -> int:
    """Builds the folder; returns 0, 2 after a line about a wrong argument, or 1 after a line about the machine."""
    arguments = _parser().parse_args()
    try:
        with ended_by_signals():
            recipe = Recipe(arguments.pixels, arguments.color, styles=not arguments.shown_only)
            jobs = require_count("jobs", arguments.jobs)
            settings = recipe.build(
                IconPackage(arguments.package), arguments.output, ConsoleMonitor().stage, jobs=jobs
            )
    except InvalidValue as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}; the same command continues once that is mended\n")
        return 1
    except BrokenProcessPool:
        sys.stderr.write(
            "a drawing process was killed, as for want of memory; the same command continues, --jobs 1\n"
        )
        return 1
    except Stopped as stopped:
        end_descendants()
        sys.stderr.write(f"{stopped}\n")
        leave(stopped.code)
    *words, labels = settings
    file = arguments.output / "settings.txt"
    write_text(file, text=f"{' '.join(settings)}\n")
    sys.stdout.write(f"pate-train {' '.join(words)} '{labels}'\n")
    sys.stdout.write(f"or pate-train $(cat {file})\n")
    return 0


def _path(text: str) -> Path:
    """Returns a path, from the home folder where it begins with ~: no shell expands that behind `=`."""
    return Path(text).expanduser()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "package", type=Path, help="what npm packed, a .tgz, or the folder that it unpacks to"
    )
    parser.add_argument(
        "--output", type=_path, default=Path("data/icons"), help="the folder to write (%(default)s)"
    )
    parser.add_argument(
        "--pixels", type=int, default=Recipe.pixels, help="height and width (%(default)s)"
    )
    parser.add_argument("--color", default=Recipe.color, help="grey or rgb (%(default)s)")
    parser.add_argument(
        "--shown-only", action="store_true", help="no label is a style, such as outline or bold"
    )
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    parser.add_argument(
        "--jobs", type=int, default=cores, help="processes that draw (%(default)s, all cores)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
