"""What was made once of many pictures, on disk: their pixels at the size they are used in, or features of them."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.disk import OWNERS_FILE, PLAIN_FILE, locked, make_folder
from pate.progress import StageOpener
from pate.validation import InvalidValue

Numbers = NDArray[np.int64]
Made = tuple[Numbers, NDArray[Any], Numbers]
"""Numbers of blocks, their values `[len(numbers), …]`, and their stamps."""

_CHUNK = 512
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class StampedFile:
    """An array in a file, and beside it a stamp for each block of its rows; 0 where the block is not made.

    Blocks reach the disk before their stamps do, so a block whose stamp is there is whole, whatever ends the process.
    The next call makes only the others, and the file ends with the same bytes as one that was made in one go. A second
    process that wants the same waits. Where nothing is missing nothing is written: the folder may then be read-only.
    What is kept is as private as its source; the folder has mode 0700.
    """

    path: Path  # of the array; its folder is made if missing
    stamps: Path  # of the stamps, int64
    shape: tuple[int, ...]  # of the array
    dtype: type
    block: int  # rows of a block; the last may have fewer
    setting: str  # what chooses the folder, for messages

    def known(self) -> Numbers:
        """The stamps of all blocks; 0 where a file is not there or cut short. Asked without the lock, too."""
        none = np.zeros(-(-self.shape[0] // self.block), np.int64)
        with suppress(OSError):
            stamps = np.fromfile(self.stamps, np.int64)
            return (
                stamps
                if self.path.stat().st_size == self._num_bytes and len(stamps) == len(none)
                else none
            )
        return none

    def mapped(self, mode: Any = "r") -> Any:
        """Returns the file as a memory-mapped array of the shape that it was opened with."""
        return np.memmap(self.path, self.dtype, mode=mode, shape=self.shape)

    def fill(
        self,
        missing: Callable[[], Numbers],
        make: Callable[[Numbers], Iterable[Made]],
        name: str,
        stage: StageOpener,
    ) -> None:
        """Makes the blocks that are `missing`, asked again once nobody else writes; a full disk keeps what was made."""
        if not len(missing()):
            return
        with ExitStack() as stack:
            with writable(self.setting, self.path.parent):
                make_folder(self.path.parent)
                stack.enter_context(locked(self.path.parent / "lock"))
                files = []
                for path in (self.path, self.stamps):
                    files.append(os.open(path, os.O_RDWR | os.O_CREAT | PLAIN_FILE, OWNERS_FILE))
                    stack.callback(os.close, files[-1])
                values, stamps = files
                if os.fstat(values).st_size != self._num_bytes:
                    # new, or cut short: stamps then say nothing of the values
                    os.ftruncate(stamps, 0)
                os.ftruncate(values, self._num_bytes)
                os.ftruncate(stamps, 8 * len(self.known()))
            if not len(lacking := missing()):
                return
            rows = np.minimum(self.block, self.shape[0] - self.block * lacking)
            advance = stack.enter_context(stage(name, int(rows.sum())))
            done = 0
            for numbers, made, marks in make(lacking):
                try:
                    _put(values, numbers, self._num_bytes // self.shape[0] * self.block, made)
                    _put(stamps, numbers, 8, marks)
                except OSError as error:
                    size = f"the cache takes {self._num_bytes / 1e9:.2g} GB for {self.shape[0]:,} images"
                    raise OSError(
                        error.errno, f"{error.strerror} ({size})", str(self.path.parent)
                    ) from error
                done += len(numbers)
                advance(int(rows[:done].sum()))

    @property
    def _num_bytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@contextmanager
def writable(setting: str, folder: Path) -> Iterator[None]:
    """Names the setting that chooses a folder where the folder cannot be written; a full disk is told as such."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise
        rule = f"a folder that can be written, here or elsewhere ({error.strerror})"
        raise InvalidValue(setting, folder, rule=rule) from error


def _put(file: int, numbers: NDArray[np.int64], width: int, values: NDArray[Any]) -> None:
    """Writes values into their places and flushes them; a mapped file could not say that the disk is full."""
    # where numbers that follow each other begin
    runs = np.flatnonzero(np.diff(numbers, prepend=-2) != 1).tolist()
    for first, last in zip(runs, [*runs[1:], len(numbers)], strict=True):
        data = np.ascontiguousarray(values[first:last]).data.cast("B")
        place = int(numbers[first]) * width
        while data:
            written = os.pwrite(file, data, place)
            data = data[written:]
            place = place + written
    os.fsync(file)


def kept_pixels(
    folder: Path,
    shape: tuple[int, int, int, int],
    rows: Numbers,
    stamps: Numbers,
    make: Callable[[Numbers], NDArray[np.uint8]],
    *,
    name: str,
    stage: StageOpener,
) -> NDArray[np.uint8]:
    """Images of that shape at the size they are used in, mapped from a file in the folder, read-only.

    Only the given rows have to be made; others may be blank. Stamps, int64 `[num_images]`, none of the wanted 0, say
    which version of its source an image was made from; one of another stamp is made again.
    """
    file = StampedFile(
        folder / "images.u8", folder / "stamps.i64", shape, np.uint8, 1, "data.cache"
    )

    def made(missing: Numbers) -> Iterator[Made]:
        for first in range(0, len(missing), _CHUNK):
            chunk = missing[first : first + _CHUNK]
            yield chunk, make(chunk), stamps[chunk]

    file.fill(lambda: rows[file.known()[rows] != stamps[rows]], made, name, stage)
    return file.mapped()  # type: ignore[no-any-return]
