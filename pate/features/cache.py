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

from pate.data.dataset import Stage
from pate.features.extractor import Extractor
from pate.features.public_pictures import block_bytes
from pate.files.atomic import OWNERS_FILE, locked, make_folder
from pate.validation import InvalidValue

_BLOCK = 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class FeatureCache:
    """A file of features for each set of pictures, and beside it a stamp for each block: a digest of its features.

    Features of a block reach the disk before its stamp does, and a stamp is compared with the features before they are
    used. So whatever ended a process or damaged a file, the next call makes the blocks that are not whole, and no
    others: the file ends with the same bytes as one that was made in one go. A file is named after its pictures, so
    that nobody changes it who reads others. A second process that wants the same waits for the first. Where nothing is
    missing nothing is written.

    Memory holds a few blocks a worker, never a split. Features are as private as the pictures: the folder has mode
    0700.

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
        shape, path = (len(inputs), extractor.num_features), self.folder / f"{name}-{_digest(inputs)}.f32"
        if _missing(path, shape):
            with self._opened(path, shape) as (features, stamps):
                missing = _missing(path, shape)
                with stage(f"features of the {name} pictures", len(inputs)) as advance:
                    done = len(inputs) - sum(min(_BLOCK, len(inputs) - _BLOCK * block) for block in missing)
                    advance(done)
                    for block, made in _extracted(extractor, inputs, missing):
                        self._put(features, block * _BLOCK * made[0].nbytes, made)
                        self._put(stamps, block * 8, np.array([_stamp(made)]))
                        done += len(made)
                        advance(done)
        return np.memmap(path, np.float32, mode="c", shape=shape)

    @contextmanager
    def _opened(self, path: Path, shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Descriptors of the features and the stamps, both at full length, and nobody else's meanwhile."""
        with ExitStack() as stack:
            with self._writable():
                make_folder(self.folder)
                stack.enter_context(locked(self.folder / "lock"))
                features, stamps = (_open(each, stack) for each in (path, _stamps(path)))
                os.ftruncate(features, 4 * shape[0] * shape[1])
                os.ftruncate(stamps, 8 * -(-shape[0] // _BLOCK))
            yield features, stamps

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


def _missing(path: Path, shape: tuple[int, int]) -> list[int]:
    """The blocks whose features are not those that were stamped; asked without the lock, too."""
    blocks = range(-(-shape[0] // _BLOCK))
    try:
        known = np.fromfile(_stamps(path), np.int64)
        features = np.memmap(path, np.float32, mode="r", shape=shape)
    except (OSError, ValueError):  # not there, or shorter
        return list(blocks)
    if len(known) != len(blocks):
        return list(blocks)
    return [block for block in blocks if _stamp(features[block * _BLOCK : (block + 1) * _BLOCK]) != known[block]]


def _stamps(path: Path) -> Path:
    return path.with_suffix(".stamps")


def _stamp(features: NDArray[np.float32]) -> int:
    """A number for a block of features; never 0."""
    return int.from_bytes(hashlib.sha256(np.ascontiguousarray(features).data).digest()[:8], "big") >> 1 | 1


def _digest(inputs: Any) -> str:
    """A name for pictures in their order."""
    digest = hashlib.sha256(repr(inputs.shape).encode())
    for first in range(0, len(inputs), _BLOCK):
        digest.update(block_bytes(inputs, first, first + _BLOCK))
    return digest.hexdigest()[:12]


def _open(path: Path, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, OWNERS_FILE)
    stack.callback(os.close, descriptor)
    return descriptor
