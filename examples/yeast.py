"""Yeast as a table for `pate-train data=table`: 2,417 genes, 103 measurements each, 14 functional classes.

    pip install river                        # its wheel holds a copy of MULAN's file
    python examples/yeast.py data/yeast      # writes three CSV files, and prints the command that trains on them

The split is random: 400 genes are public, 400 are for the test, the others are private. A gene is the unit of privacy.

Source: A. Elisseeff and J. Weston, "A kernel method for multi-labeled classification", NIPS 2001.
"""

import argparse
import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

NUM_PUBLIC = 400
NUM_TEST = 400
SEED = 0  # of the split
LABEL_PREFIX = "Class"  # of the columns that are labels


def file_of_river() -> Path:
    """Returns the file in the package river, which is not imported."""
    package = find_spec("river")
    if package is None or package.origin is None:
        raise SystemExit("the package river: pip install river, or --file FILE")
    return Path(package.origin).parent / "datasets" / "yeast.csv.gz"


def write_splits(file: Path, folder: Path) -> list[str]:
    """Writes private.csv, public.csv and test.csv, and returns the names of the labels."""
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    header, *genes = content.decode("ascii").splitlines()
    order = np.random.default_rng(SEED).permutation(len(genes))
    public, test, private = np.split(order, [NUM_PUBLIC, NUM_PUBLIC + NUM_TEST])
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in {"private": private, "public": public, "test": test}.items():
        lines = [header, *(genes[row] for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [column for column in header.split(",") if column.startswith(LABEL_PREFIX)]


def main() -> None:
    """Writes the files and prints the command."""
    parser = argparse.ArgumentParser(description="Writes Yeast as three CSV files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--file", type=Path, help="yeast.csv or yeast.csv.gz; by default river's")
    arguments = parser.parse_args()
    folder = arguments.folder
    labels = write_splits(arguments.file or file_of_river(), folder)
    files = [f"data.{name}={folder / name}.csv" for name in ("private", "public", "test")]
    print(f"pate-train data=table {' '.join(files)} 'data.labels=[{','.join(labels)}]'")


if __name__ == "__main__":
    main()
