"""Data frames of people, written as three files of a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table

pd = pytest.importorskip("pandas")

NUM_ROWS = 60
NUMBERS = list(range(NUM_ROWS))
SPLITS = ("private", "public", "test")


def people_frames(rows_per_split: int = NUM_ROWS) -> dict[str, Any]:
    """Returns a data frame for each split, in which each person has one row with two features and two labels."""
    rng = np.random.default_rng(0)
    frames = {}
    for place, split in enumerate(SPLITS):
        frames[split] = pd.DataFrame(
            {
                "age": 20 + rng.integers(0, 9, size=rows_per_split),
                "ward": rng.choice(["a", "b"], rows_per_split),
                "person": np.arange(rows_per_split) + 1000 * place,
                "flu": np.arange(rows_per_split) % 2,
                "cough": np.arange(rows_per_split) % 3 % 2,
            }
        )
    return frames


def write_frames(
    folder: Path, frames: Mapping[str, Any], endings: Mapping[str, str] | None = None
) -> Table:
    """Writes the frame of each split into a file, and returns the reader of the files.

    Args:
        folder: the folder of the files.
        frames: the frame of each split.
        endings: the file ending of each split; CSV by default.
    """
    paths = {}
    for split, frame in frames.items():
        path = folder / f"{split}.{(endings or {}).get(split, 'csv')}"
        if path.suffix == ".feather":
            frame.to_feather(path)
        elif path.suffix == ".parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False)
        paths[split] = str(path)
    return Table(
        private=paths["private"],
        public=paths["public"],
        test=paths["test"],
        labels=("flu", "cough"),
        group="person",
    )
