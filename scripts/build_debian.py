"""Debian's packages as a table: descriptions, their tags as labels, the source package as group.

Reads the `Packages` file of the distribution that this machine uses: `apt-get update`, then
`python -m scripts.build_debian output=FOLDER` writes private.csv, public.csv and test.csv there, and prints a command.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pate.validation import InvalidValue, require

_LISTS = Path("/var/lib/apt/lists")
_FILE = re.compile(r"_main_binary-[a-z0-9]+_Packages(\.\w+)?")
_TAGS = re.compile(r"([\w\-+:]+::)\{([^}]*)\}|([\w\-+:]+::[\w\-+.:]+)")
_NOT_CONTENT = ("suite::", "role::")
# The largest and the smallest share of the public packages that may have a tag which is a label.
_MAX_SHARE = 0.6
_MIN_SHARE = 0.01


@dataclass(frozen=True)
class Package:
    """One package of the distribution."""

    name: str
    source: str
    description: str
    tags: frozenset[str]

    @property
    def split(self) -> str:
        """Returns the split, which depends on the source package alone: 15% are public, 10% test."""
        place = zlib.crc32(self.source.encode()) % 100
        return "public" if place < 15 else "test" if place < 25 else "private"


def packages(text: str) -> Iterator[Package]:
    """Yields the packages of a `Packages` file that have a description and tags, each name once."""
    names: set[str] = set()
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): ?(.*(?:\n .*)*)", block, re.MULTILINE))
        tags: set[str] = set()
        for facet, values, single in _TAGS.findall(fields.get("Tag", "")):
            tags |= {facet + value.strip() for value in values.split(",")} if facet else {single}
        tags = {tag for tag in tags if not tag.startswith(_NOT_CONTENT)}
        name = fields.get("Package", "")
        if tags and fields.get("Description") and name not in names:
            names.add(name)
            source = str(fields.get("Source", name)).split()[0]
            yield Package(
                name,
                source,
                description=" ".join(fields["Description"].split()),
                tags=frozenset(tags),
            )


def write(tagged: list[Package], folder: Path, num_labels: int) -> list[str]:
    """Writes the three files and returns the labels, the commonest tags of the public packages."""
    public = [package for package in tagged if package.split == "public"]
    counts = Counter(tag for package in public for tag in package.tags)
    fitting = [
        tag for tag, count in counts.items() if _MIN_SHARE <= count / len(public) <= _MAX_SHARE
    ]
    tags = sorted(fitting, key=lambda tag: (-counts[tag], tag))[:num_labels]
    names = [re.sub(r"\W+", "_", tag) for tag in tags]
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("private", "public", "test"):
        with (folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["package", "source", "description", *names])
            for package in tagged:
                if package.split == split:
                    rows.writerow(
                        [
                            package.name,
                            package.source,
                            package.description,
                            *(int(tag in package.tags) for tag in tags),
                        ]
                    )
    return names


def main() -> int:
    """Builds the files; returns 0, or 2 after one line about the mistake."""
    arguments = dict(word.partition("=")[::2] for word in sys.argv[1:])
    try:
        require(
            arguments.keys() <= {"output", "lists", "labels"},
            "arguments",
            sys.argv[1:],
            "output=FOLDER, lists=FOLDER",
        )
        require(bool(arguments.get("output")), "output", None, "the folder to write the files into")
        require(
            arguments.get("labels", "40").isdigit(),
            "labels",
            arguments.get("labels"),
            "a whole number",
        )
        lists = Path(arguments.get("lists", _LISTS))
        files = [file for file in lists.glob("*") if _FILE.search(file.name)]
        require(
            len(files) > 0,
            "lists",
            lists,
            "a folder with a Packages file, as apt-get update leaves it",
        )
        largest = max(files, key=lambda file: file.stat().st_size)
        command = ["/usr/lib/apt/apt-helper", "cat-file", str(largest)]
        text = subprocess.run(command, capture_output=True, check=True).stdout.decode(
            "utf-8", "replace"
        )
        folder = Path(arguments["output"])
        names = write(list(packages(text)), folder, num_labels=int(arguments.get("labels", "40")))
    except (InvalidValue, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    paths = " ".join(
        f"data.{split}={folder / split}.csv" for split in ("private", "public", "test")
    )
    roles = f"'data.text=[description]' data.id=package data.group=source 'data.labels=[{','.join(names)}]'"
    sys.stdout.write(f"pate-train data=table data.name=debian {paths} {roles}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
