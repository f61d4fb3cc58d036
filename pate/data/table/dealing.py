"""One file of records dealt to three, a group in one of them only: private, public and test."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import SPLITS
from pate.data.table.cells import arrow, as_texts
from pate.data.table.files import TableFile
from pate.data.table.rows import numbered
from pate.files.disk import replacing
from pate.validation import InvalidValue, nearest, require, require_count

_LARGE_SHARE = 0.2


@dataclass(frozen=True)
class Dealing:
    """Which rows of a file go where. It depends on the seed and on which rows are of one group, and on nothing else.

    Attributes:
        file: all records.
        group: the column that says which rows belong together; None where each row is by itself.
        public_share: of the groups that become public, at least one.
        test_share: of those that measure, at least one; the others are private.
        seed: of the order in which groups are dealt.
    """

    file: TableFile
    group: str | None
    public_share: float
    test_share: float
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("seed", self.seed, minimum=0)
        shares = self.public_share, self.test_share
        rule = "two shares above 0, of the public and the test part, that leave a private one: split=.1,.1"
        require(min(shares) > 0 and sum(shares) < 1, "split", f"{shares[0]},{shares[1]}", rule)

    def paths(self, folder: Path) -> dict[str, Path]:
        """The files of the parts, by their names, of the same kind as the whole.

        Raises:
            InvalidValue: one is there already.
        """
        ending = "".join(
            self.file.path.suffixes[-2:] if self.file.path.suffix == ".gz" else self.file.path.suffixes[-1:]
        )
        paths = {split: folder / f"{split}{ending}" for split in SPLITS}
        for path in paths.values():
            require(not path.exists(), "output", path, "a folder without such a file, which is kept as it is")
        return paths

    def write(self, folder: Path) -> dict[str, Path]:
        """Writes the parts; rows keep their order.

        Returns:
            Their files, by their names.
        """
        paths, part_of_row, done = self.paths(folder), self.part_of_row(), 0
        with ExitStack() as stack:
            writers = [stack.enter_context(_writer(self.file, paths[split])) for split in SPLITS]
            for batch in self.file.batches():
                parts = part_of_row[done : done + batch.num_rows]
                for place, write in enumerate(writers):
                    write(batch.filter(arrow().array(parts == place)))
                done += batch.num_rows
        return paths

    def groups(self) -> NDArray[np.int64]:
        """The number of each row's group, `[n]`."""
        name, columns = self.group, [self.file.names[0] if self.group is None else self.group]
        if name is not None and name not in self.file.names:
            raise InvalidValue(f"group={name}: expected a column of data{nearest(name, tuple(self.file.names))}")
        spelling = self.file.spelling()
        words = [as_texts(spelling.known(batch).column(0)) for batch in self.file.batches(columns)]
        column = arrow().chunked_array(words)
        require(len(column) > 0, "data", self.file.path, "at least one row")
        if name is None:
            return np.arange(len(column), dtype=np.int64)
        rule = f"a value in each row, {column.null_count} of {len(column)} rows have none"
        require(column.null_count == 0, "group", name, rule)
        return numbered([column], spelling)[0]

    def part_of_row(self) -> NDArray[np.int64]:
        """The place in `SPLITS` of each row, `[n]`."""
        groups = self.groups()
        total = int(groups.max()) + 1
        taken = [max(round(share * total), 1) for share in (self.public_share, self.test_share)]
        require(
            total > sum(taken), "split", f"{self.public_share},{self.test_share}", f"more than {total} groups of rows"
        )
        part_of_group = np.zeros(total, np.int64)
        order = np.random.default_rng(self.seed).permutation(total)
        part_of_group[order[: taken[0]]] = SPLITS.index("public")
        part_of_group[order[taken[0] : sum(taken)]] = SPLITS.index("test")
        return part_of_group[groups]

    def largest(self) -> str | None:
        """A line where one group has a large part of all rows."""
        counts = np.bincount(self.groups())
        if len(counts) < len(SPLITS) / _LARGE_SHARE or counts.max() < _LARGE_SHARE * counts.sum():
            return None
        return f"group={self.group}: one has {counts.max()} of {counts.sum()} rows, all of which are in one part"


@contextmanager
def _writer(file: TableFile, path: Path) -> Iterator[Callable[[Any], None]]:
    """Writes tables to a file as another is written, which has the same columns."""
    pa, first = arrow(), next(file.batches())
    with replacing(path) as out:
        if not file.is_text:
            from pyarrow import ipc, parquet

            binary = parquet.ParquetWriter if path.suffix in (".parquet", ".pq") else ipc.new_file
            with binary(pa.PythonFile(out, mode="w"), first.schema) as writer:
                yield writer.write_table
            return
        packed = gzip.GzipFile(fileobj=out, mode="wb", mtime=0) if path.suffix == ".gz" else out
        text = io.TextIOWrapper(packed, file.encoding, newline="")
        rows = csv.writer(text, delimiter=file.head().separator, lineterminator="\n")
        rows.writerow(first.column_names)
        yield lambda table: rows.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        text.flush()
        text.detach()
        if packed is not out:
            packed.close()
