"""Features that were extracted once, on disk, a block of pictures at a time."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.stages import Stage
from pate.features.extractor import Extractor
from pate.features.public_pictures import block_bytes
from pate.files.atomic import OWNERS_FILE, make_folder
from pate.files.lock import locked
from pate.validation import InvalidValue

_BLOCK = 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class FeatureCache:
    """A file of features for each split, and beside it a stamp for each block of pictures that it was made from.

    Features of a block reach the disk before its stamp does. So whatever ends the process, a block whose stamp is there
    is whole, and the next call makes only the others: the file ends with the same bytes as one that was made in one go.
    A second process that wants the same waits for the first. Where nothing is missing nothing is written.

    Memory holds a block a worker, never a split. Features are as private as the pictures; the folder has mode 0700.

    Attributes:
        folder: made if missing; one for each extractor.
    """

    folder: Path

    def fill(self, name: str, inputs: Any, extractor: Extractor, stage: Stage) -> NDArray[np.float32]:
        """The features of all pictures, mapped from the file; whoever writes to them changes no file.

        Args:
            name: of the split.
            inputs: pictures `[n, channels, height, width]`.
            extractor: makes a batch.
            stage: told how many pictures are done.

        Raises:
            InvalidValue: a folder that cannot be written; pictures of another shape.
            OSError: the disk is full; what was made before is kept.
        """
        shape = (len(inputs), extractor.num_features)
        stamps = _stamps(inputs)
        if not self._has(name, shape, stamps):
            with self._opened(name, shape, len(stamps)) as (features, kept):
                known = np.fromfile(self._kept(name), np.int64)
                missing = np.flatnonzero(known != stamps).tolist()
                with stage(f"features of the {name} pictures", len(inputs)) as advance:
                    done = len(inputs) - sum(min(_BLOCK, len(inputs) - _BLOCK * block) for block in missing)
                    advance(done)
                    for block, made in _extracted(extractor, inputs, missing):
                        self._put(features, block * _BLOCK * made[0].nbytes, made)
                        self._put(kept, block * 8, stamps[block : block + 1])
                        done += len(made)
                        advance(done)
        return np.memmap(self._features(name), np.float32, mode="c", shape=shape)

    def _features(self, name: str) -> Path:
        return self.folder / f"{name}.f32"

    def _kept(self, name: str) -> Path:
        return self.folder / f"{name}.stamps"

    def _has(self, name: str, shape: tuple[int, int], stamps: NDArray[np.int64]) -> bool:
        """Whether nothing is missing; asked without the lock, for the sake of folders that are read-only."""
        try:
            known = np.fromfile(self._kept(name), np.int64)
            whole = self._features(name).stat().st_size == 4 * shape[0] * shape[1]
        except OSError:
            return False
        return whole and np.array_equal(known, stamps)

    @contextmanager
    def _opened(self, name: str, shape: tuple[int, int], num_blocks: int) -> Iterator[tuple[int, int]]:
        """Descriptors of the features and the stamps, both at full length, and nobody else's meanwhile."""
        size = 4 * shape[0] * shape[1]
        with ExitStack() as stack:
            with self._writable():
                make_folder(self.folder)
                stack.enter_context(locked(self.folder / "lock"))
                features, kept = (_open(path, stack) for path in (self._features(name), self._kept(name)))
                if os.fstat(features).st_size != size:
                    os.ftruncate(kept, 0)  # new, or of other pictures: stamps then say nothing
                os.ftruncate(features, size)
                os.ftruncate(kept, 8 * num_blocks)
            yield features, kept

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise
            rule = f"a folder that can be written, here or elsewhere ({error.strerror})"
            raise InvalidValue(f"features.cache={self.folder}: expected {rule}") from error

    def _put(self, file: int, place: int, values: NDArray[Any]) -> None:
        """Writes and flushes to the disk; a mapped file could not say that the disk is full."""
        data = np.ascontiguousarray(values).data.cast("B")
        try:
            while data:
                written = os.pwrite(file, data, place)
                data, place = data[written:], place + written
            os.fsync(file)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} (features)", str(self.folder)) from error


def _extracted(extractor: Extractor, inputs: Any, blocks: list[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Features block by block, in order, each made on one core: bits do not depend on how many cores there are."""
    import torch
    from joblib import cpu_count

    from pate.networks.device import one_thread

    def made(block: int) -> NDArray[np.float32]:
        return extractor.features_of(inputs[block * _BLOCK : (block + 1) * _BLOCK])

    workers = 1 if torch.cuda.is_available() else max(1, min(cpu_count(), len(blocks)))
    ahead = 2 * workers  # blocks in memory
    with one_thread(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = [pool.submit(made, block) for block in blocks[:ahead]]
        try:
            for place, block in enumerate(blocks):
                features = waiting.pop(0).result()
                if place + ahead < len(blocks):
                    waiting.append(pool.submit(made, blocks[place + ahead]))
                yield block, features
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _stamps(inputs: Any) -> NDArray[np.int64]:
    """A number for each block of pictures that changes when one of them does; never 0."""
    digests = (
        hashlib.sha256(block_bytes(inputs, first, first + _BLOCK)).digest()[:8]
        for first in range(0, len(inputs), _BLOCK)
    )
    return np.array([int.from_bytes(digest, "big") >> 1 | 1 for digest in digests], np.int64)


def _open(path: Path, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, OWNERS_FILE)
    stack.callback(os.close, descriptor)
    return descriptor
