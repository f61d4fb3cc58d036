"""A cache on disk of arrays that are computed once for many pictures: resized pixels, or features."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import IntArray
from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.files.posix import NO_LINK_NO_WAIT_FLAGS, OWNER_FILE_MODE
from pate.progress import StageOpener
from pate.validation import InvalidValue

# The size of a stamp, an int64.
_STAMP_BYTES = 8
# The number of images that are decoded and written together.
_IMAGES_PER_WRITE = 512
# The errors of a full disk and of a used-up quota.
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Blocks:
    """n blocks of rows that were computed and have to be written into a `StampedFile`.

    Attributes:
        numbers: the numbers of the blocks, int64 `[n]`.
        values: the content of the blocks, `[n, ...]`.
        stamps: the stamp of each block, int64 `[n]`.
    """

    numbers: IntArray
    values: NDArray[Any]
    stamps: IntArray


@dataclass(frozen=True)
class StampedFile:
    """An array in a file that is computed block by block, with a second file that records which blocks are complete.

    The second file holds one stamp for each block of rows, such as the version of the pictures of which the block was
    computed. The stamp is 0 as long as the block is not computed.

    A block is written to disk before its stamp is. So a block with a stamp is complete, even if the process was killed.
    The next call computes only the missing blocks, and the file ends with the same bytes as if it had been written in
    one go. A second process that needs the same file waits for a lock. A file without missing blocks is only read, so
    its folder may be read-only. The array is as private as the data that it is computed from; its folder has mode 0700
    if it was made here.

    Attributes:
        array_file: the file of the array. A missing folder is made.
        stamps_file: the file of the stamps, int64.
        shape: the shape of the array.
        dtype: the dtype of the array.
        rows_per_block: the number of rows in a block. The last block may have fewer.
        setting_name: the name of the setting that chooses the folder, for messages.
    """

    array_file: Path
    stamps_file: Path
    shape: tuple[int, ...]
    dtype: type
    rows_per_block: int
    setting_name: str

    def read_stamps(self) -> IntArray:
        """Returns the stamps of all blocks, int64 `[num_blocks]`, without taking the lock.

        All stamps are 0 if one of the two files is missing or has another size.
        """
        with suppress(OSError):
            stamps = np.fromfile(self.stamps_file, np.int64)
            if (
                self.array_file.stat().st_size == self._num_bytes
                and len(stamps) == self._num_blocks
            ):
                return stamps
        return np.zeros(self._num_blocks, np.int64)

    def mapped(self, mode: Any = "r") -> Any:
        """Returns the array as a `np.memmap`; `mode` is numpy's, by default read-only."""
        return np.memmap(self.array_file, self.dtype, mode=mode, shape=self.shape)

    def fill(
        self,
        find_missing_blocks: Callable[[], IntArray],
        compute_blocks: Callable[[IntArray], Iterable[Blocks]],
        stage_name: str,
        open_stage: StageOpener,
    ) -> None:
        """Computes and writes the missing blocks.

        Args:
            find_missing_blocks: returns the numbers of the missing blocks; if there are some, it is called a second
                time under the lock, when no other process writes.
            compute_blocks: computes the blocks with the given numbers, and yields some of them at a time.
            stage_name: the name of the stage that reports progress.
            open_stage: opens that stage.

        Raises:
            InvalidValue: the folder cannot be written.
            OSError: the disk is full. Blocks that were already written stay.
        """
        if not len(find_missing_blocks()):
            return
        with ExitStack() as stack:
            with writable(self.setting_name, folder=self.array_file.parent):
                make_folder(self.array_file.parent)
                stack.enter_context(file_lock(self.array_file.parent / "lock"))
                file_descriptors = []
                for cache_file in (self.array_file, self.stamps_file):
                    file_descriptors.append(
                        os.open(
                            cache_file,
                            os.O_RDWR | os.O_CREAT | NO_LINK_NO_WAIT_FLAGS,
                            OWNER_FILE_MODE,
                        )
                    )
                    stack.callback(os.close, file_descriptors[-1])
                array_descriptor, stamps_descriptor = file_descriptors
                if os.fstat(array_descriptor).st_size != self._num_bytes:
                    # The file is new or has another size, so its stamps are not valid.
                    os.ftruncate(stamps_descriptor, 0)
                os.ftruncate(array_descriptor, self._num_bytes)
                os.ftruncate(stamps_descriptor, _STAMP_BYTES * self._num_blocks)
            missing_block_numbers = find_missing_blocks()
            if not len(missing_block_numbers):
                return
            num_rows_of_missing_blocks = np.minimum(
                self.rows_per_block, self.shape[0] - self.rows_per_block * missing_block_numbers
            )
            advance = stack.enter_context(
                open_stage(stage_name, int(num_rows_of_missing_blocks.sum()))
            )
            num_blocks_done = 0
            for computed_blocks in compute_blocks(missing_block_numbers):
                self._write(
                    computed_blocks,
                    array_descriptor=array_descriptor,
                    stamps_descriptor=stamps_descriptor,
                )
                num_blocks_done += len(computed_blocks.numbers)
                advance(int(num_rows_of_missing_blocks[:num_blocks_done].sum()))

    def _write(self, blocks: Blocks, *, array_descriptor: int, stamps_descriptor: int) -> None:
        """Writes blocks to disk, and then their stamps.

        Args:
            blocks: the blocks.
            array_descriptor: the descriptor of the open file of the array.
            stamps_descriptor: the descriptor of the open file of the stamps.

        Raises:
            OSError: the disk is full, for example. The message has the size of the whole cache.
        """
        try:
            _write_blocks(
                file_descriptor=array_descriptor,
                block_numbers=blocks.numbers,
                bytes_per_block=self._num_bytes // self.shape[0] * self.rows_per_block,
                contents_of_blocks=blocks.values,
            )
            _write_blocks(
                file_descriptor=stamps_descriptor,
                block_numbers=blocks.numbers,
                bytes_per_block=_STAMP_BYTES,
                contents_of_blocks=blocks.stamps,
            )
        except OSError as error:
            size = f"the cache takes {self._num_bytes / 1e9:.2g} GB for {self.shape[0]:,} images"
            message = f"{error.strerror} ({size})"
            raise OSError(error.errno, message, str(self.array_file.parent)) from error

    @property
    def _num_blocks(self) -> int:
        """The number of blocks of rows."""
        return -(-self.shape[0] // self.rows_per_block)

    @property
    def _num_bytes(self) -> int:
        """The size of the complete file of the array, which has no header, in bytes."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@contextmanager
def writable(setting_name: str, folder: Path) -> Iterator[None]:
    """Turns an `OSError` in a `with` block into an `InvalidValue` of a setting; that of a full disk stays an `OSError`.

    Args:
        setting_name: the name of the setting that chooses the folder.
        folder: the folder that is written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_IS_FULL:
            raise
        rule = f"a folder that can be written, here or elsewhere ({error.strerror})"
        raise InvalidValue(setting_name, folder, rule=rule) from error


def _write_blocks(
    file_descriptor: int,
    block_numbers: IntArray,
    bytes_per_block: int,
    contents_of_blocks: NDArray[Any],
) -> None:
    """Writes blocks at their positions in a file, and flushes them to disk.

    Block k begins at byte k * `bytes_per_block`. A memory-mapped file would not report a full disk.

    Args:
        file_descriptor: the descriptor of the open file.
        block_numbers: the numbers of the blocks, int64 `[num_blocks]`.
        bytes_per_block: the number of bytes of a block.
        contents_of_blocks: the content of the blocks, `[num_blocks, ...]`.
    """
    # Blocks with consecutive numbers are written together. -2 makes the first block the beginning of such a run.
    begins_consecutive_run = np.diff(block_numbers, prepend=-2) != 1
    run_starts = np.flatnonzero(begins_consecutive_run).tolist()
    run_ends = [*run_starts[1:], len(block_numbers)]
    for start, end in zip(run_starts, run_ends, strict=True):
        remaining_bytes = np.ascontiguousarray(contents_of_blocks[start:end]).data.cast("B")
        offset = int(block_numbers[start]) * bytes_per_block
        while remaining_bytes:
            num_written = os.pwrite(file_descriptor, remaining_bytes, offset)
            remaining_bytes = remaining_bytes[num_written:]
            offset += num_written
    os.fsync(file_descriptor)


def cached_pixels(
    folder: Path,
    shape: tuple[int, int, int, int],
    image_numbers: IntArray,
    stamps: IntArray,
    decode: Callable[[IntArray], NDArray[np.uint8]],
    *,
    stage_name: str,
    open_stage: StageOpener,
) -> NDArray[np.uint8]:
    """Returns resized pictures from a cache file, and decodes those that the file lacks.

    The result is a read-only `np.memmap` `[num_images, channels, height, width]`.

    Args:
        folder: the folder of the cache file.
        shape: `(num_images, channels, height, width)`.
        image_numbers: the numbers of the needed images, from 0, int64 `[num_needed]`. All other images may be blank or
            outdated in the result.
        stamps: the version of each image's source, int64 `[num_images]`, not 0 for a needed image. An image whose stamp
            has changed is decoded again.
        decode: decodes the n images with the given numbers, as uint8 `[n, channels, height, width]`.
        stage_name: the name of the stage that reports progress.
        open_stage: opens that stage.
    """
    image_file = StampedFile(
        array_file=folder / "images.u8",
        stamps_file=folder / "stamps.i64",
        shape=shape,
        dtype=np.uint8,
        rows_per_block=1,
        setting_name="data.cache",
    )

    def find_missing_blocks() -> IntArray:
        has_outdated_pixels = image_file.read_stamps()[image_numbers] != stamps[image_numbers]
        return np.asarray(image_numbers[has_outdated_pixels])

    def decode_blocks(missing_image_numbers: IntArray) -> Iterator[Blocks]:
        for first in range(0, len(missing_image_numbers), _IMAGES_PER_WRITE):
            block_image_numbers = missing_image_numbers[first : first + _IMAGES_PER_WRITE]
            yield Blocks(
                numbers=block_image_numbers,
                values=decode(block_image_numbers),
                stamps=stamps[block_image_numbers],
            )

    image_file.fill(
        find_missing_blocks=find_missing_blocks,
        compute_blocks=decode_blocks,
        stage_name=stage_name,
        open_stage=open_stage,
    )
    return image_file.mapped()  # type: ignore[no-any-return]
