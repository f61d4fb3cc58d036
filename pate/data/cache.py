"""Images that were made once, on disk at the size they are used in."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Stage
from pate.files.atomic import OWNERS_FILE, make_folder
from pate.validation import InvalidValue

Make = Callable[[NDArray[np.int64]], NDArray[np.uint8]]
"""Makes the images of some rows, uint8 `[len(rows), channels, height, width]`."""

_CHUNK = 512
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class PixelCache:
    """A file of images, and beside it a stamp for each that says which version of its source it was made from.

    Images are written a chunk at a time and reach the disk before their stamps do. So an image whose
    stamp is there is whole, whatever ends the process: a signal, a full disk, a source that cannot be read. The next
    call makes only the others, and the file ends with the same bytes as one that was made in one go. A second
    process that wants the same cache waits for the first. Where nothing is missing nothing is written, so that a
    folder may then be read-only.

    The images are as private as their source; the folder has mode 0700.

    Attributes:
        folder: made if missing; one for each source, size and crop.
        shape: `(num_images, channels, height, width)`.
        name: what the stage is called that makes them.
    """

    folder: Path
    shape: tuple[int, int, int, int]
    name: str

    def fill(self, rows: NDArray[np.int64], stamps: NDArray[np.int64], make: Make, stage: Stage) -> NDArray[np.uint8]:
        """Makes what is missing of the given rows and returns all images, mapped from the file, read-only.

        Args:
            rows: which images are wanted; the others may be blank.
            stamps: int64 `[num_images]`, none of the wanted 0; an image of another stamp is made again.
            make: makes a chunk of images.
            stage: told how many of the missing ones are made.

        Raises:
            InvalidValue: a folder that cannot be written; whatever `make` raises.
            OSError: the disk is full; what was made before is kept.
        """
        if self._has(rows, stamps):
            return self._mapped()
        with self._opened() as (images, kept):
            known = np.fromfile(self._kept, np.int64)
            missing = rows[known[rows] != stamps[rows]]
            if len(missing):
                with stage(self.name, len(missing)) as advance:
                    for first in range(0, len(missing), _CHUNK):
                        chunk = missing[first : first + _CHUNK]
                        self._write(images, kept, chunk, stamps[chunk], make(chunk))
                        advance(first + len(chunk))
        return self._mapped()

    @property
    def _images(self) -> Path:
        return self.folder / "images.u8"

    @property
    def _kept(self) -> Path:
        return self.folder / "stamps.i64"

    def _has(self, rows: NDArray[np.int64], stamps: NDArray[np.int64]) -> bool:
        """Whether nothing is missing; asked without the lock, for the sake of folders that are read-only."""
        try:
            known = np.fromfile(self._kept, np.int64)
            whole = self._images.stat().st_size == int(np.prod(self.shape))
        except OSError:
            return False
        return whole and len(known) == len(stamps) and np.array_equal(known[rows], stamps[rows])

    def _mapped(self) -> NDArray[np.uint8]:
        return np.memmap(self._images, np.uint8, mode="r", shape=self.shape)

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        """Descriptors of the images and the stamps, both at full length, and nobody else's meanwhile."""
        sizes = {self._images: int(np.prod(self.shape)), self._kept: 8 * self.shape[0]}
        with ExitStack() as stack:
            try:
                make_folder(self.folder)
                lock, images, kept = (_open(path, stack) for path in (self.folder / "lock", *sizes))
                fcntl.flock(lock, fcntl.LOCK_EX)
                if os.fstat(images).st_size != sizes[self._images]:
                    os.ftruncate(kept, 0)  # new, or cut short: stamps then say nothing of the images
                os.ftruncate(images, sizes[self._images])
                os.ftruncate(kept, sizes[self._kept])
            except OSError as error:
                if error.errno in _FULL:
                    raise
                rule = f"a folder that can be written, here or elsewhere ({error.strerror})"
                raise InvalidValue(f"data.cache={self.folder}: expected {rule}") from error
            yield images, kept

    def _write(
        self,
        images: int,
        kept: int,
        rows: NDArray[np.int64],
        stamps: NDArray[np.int64],
        made: NDArray[np.uint8],
    ) -> None:
        try:
            _put(images, rows, made)
            _put(kept, rows, stamps)
        except OSError as error:
            size = f"{np.prod(self.shape) / 1e9:.2g} GB for {self.shape[0]:,} images"
            raise OSError(error.errno, f"{error.strerror} (the cache takes {size})", str(self.folder)) from error


def _open(path: Path, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, OWNERS_FILE)
    stack.callback(os.close, descriptor)
    return descriptor


def _put(file: int, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Writes values into their rows and flushes them to the disk; a mapped file could not say that the disk is full."""
    width = values[0].nbytes
    for row, value in zip(rows.tolist(), values, strict=True):
        data, place = value.tobytes(), row * width
        while data:
            written = os.pwrite(file, data, place)
            data, place = data[written:], place + written
    os.fsync(file)
