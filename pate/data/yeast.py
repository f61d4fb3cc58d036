"""The yeast genes of Elisseeff and Weston: the small multi-label classic, from the `river` package's files."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Split
from pate.validation import InvalidValue, require, require_count, require_path

_LABEL_PREFIX = "Class"


@dataclass(frozen=True)
class Yeast:
    """2,417 genes, 103 numbers from micro-arrays and phylogenetic profiles, 14 functional classes.

    The file is a copy of MULAN's that travels in the wheel of `river`; it is located without importing the
    package. Features are taken as they are (each gene's vector has length 1), so nothing is fitted. A gene is
    a record and a group of its own; no two genes of the file have the same features.

    Attributes:
        path: a CSV file of the same form, plain or gzipped; None takes river's.
        num_public: genes in the public pool.
        num_test: genes in the test set; the private pool is the rest.
        seed: of the random split; part of the data, not of the noise.

    Source: A. Elisseeff and J. Weston, "A kernel method for multi-labeled classification", NIPS 2001.
    """

    path: Path | str | None = None
    num_public: int = field(default=400, metadata={"public": True})
    num_test: int = field(default=400, metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        if self.path is not None:
            require_path("data.path", self.path)
        require_count("num_public", self.num_public)
        require_count("num_test", self.num_test)
        require_count("seed", self.seed, minimum=0)

    def load(self) -> Dataset:
        """Reads and splits the table: features float32 `[n, 103]`; record ids are the file's rows from 0.

        Raises:
            InvalidValue: the file is not there (what to install is in the message) or is no such table, or
                the splits ask for all of its genes.
        """
        names, inputs, labels = _read(Path(self.path) if self.path is not None else _locate())
        held_out = self.num_public + self.num_test
        rule = f"fewer than the {len(inputs)} genes of the file"
        require(held_out < len(inputs), "num_public + num_test", held_out, rule)
        rows = Split(inputs, labels, np.arange(len(inputs)), np.arange(len(inputs)))
        order = np.random.default_rng(self.seed).permutation(len(inputs))
        public, test, private = np.split(order, [self.num_public, held_out])
        return Dataset(
            name="yeast",
            real=True,
            kind="features",
            label_names=names,
            private=rows.take(private),
            public=rows.take(public),
            test=rows.take(test),
        )


def _locate() -> Path:
    spec = find_spec("river")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        path = Path(folder) / "datasets" / "yeast.csv.gz"
        if path.is_file():
            return path
    raise InvalidValue("data=yeast: expected the file of the river package: pip install 'pate-multilabel[yeast]'")


def _read(path: Path) -> tuple[tuple[str, ...], NDArray[np.float32], NDArray[np.bool_]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("ascii")
        header, *lines = text.splitlines()
        table = np.array([line.split(",") for line in lines], dtype=np.float64)
    except OSError as error:
        raise InvalidValue(f"data.path={path}: expected a readable CSV file") from error
    except (ValueError, EOFError) as error:
        _refuse(path, "a header and rows of numbers, as many in each", error)
    names = header.split(",")
    is_label = np.array([name.startswith(_LABEL_PREFIX) for name in names])
    if table.ndim != 2 or table.shape[1] != len(names) or not np.isfinite(table).all():
        _refuse(path, f"{len(names)} finite numbers a row, as the header says")
    labels = table[:, is_label]
    if labels.size == 0 or is_label.all() or not np.isin(labels, (0, 1)).all():
        _refuse(path, f"features, and columns {_LABEL_PREFIX}1, {_LABEL_PREFIX}2, ... of 0 and 1")
    label_names = tuple(name for name in names if name.startswith(_LABEL_PREFIX))
    return label_names, table[:, ~is_label].astype(np.float32), labels.astype(np.bool_)


def _refuse(path: Path, rule: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidValue(f"data.path={path}: expected {rule}") from cause
