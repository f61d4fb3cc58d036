"""Rendering of icons into pixels, a shard at a time."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import ArrayForm, read_arrays, write_arrays
from pate.files.reading import DamagedFile
from pate.validation import InvalidValue

MODES = {"grey": "L", "rgb": "RGB"}
"""Of Pillow, by the name of the colors."""

DRAWN = 0
BLANK = 1
BROKEN = 2
"""What became of an icon: a picture, all white, or no SVG that can be drawn."""


def draw_icon(svg: str | None, *, pixels: int, color: str) -> tuple[NDArray[np.uint8], int]:
    """Returns the pixels of one icon on white.

    No font of the machine is used and nothing is fetched, so that all machines with the same resvg draw the same.

    Args:
        svg: a square picture; None for an entry that is none.
        pixels: height and width.
        color: grey or rgb.

    Returns:
        uint8 `[channels, pixels, pixels]`, 0 is black, and `DRAWN`, `BLANK` or `BROKEN`.
    """
    from PIL import Image

    white = np.full((len(MODES[color]), pixels, pixels), 255, np.uint8)
    if svg is None:
        return white, BROKEN
    try:
        png = _renderer().svg_to_bytes(
            svg_string=svg, width=pixels, height=pixels, background="white", skip_system_fonts=True
        )
    except ValueError:  # also for what is no XML
        return white, BROKEN
    except BaseException as error:
        # a fault of the renderer on this icon, which is no Exception
        if type(error).__name__ == "PanicException":
            return white, BROKEN
        raise
    picture = np.asarray(Image.open(io.BytesIO(bytes(png))).convert(MODES[color]))
    levels = np.ascontiguousarray(picture.reshape(pixels, pixels, len(white)).transpose(2, 0, 1))
    return levels, BLANK if levels.min() == 255 else DRAWN


def renderer_version() -> str:
    """Returns the version of resvg-py; without resvg-py, raises one line on its installation."""
    from importlib.metadata import version

    _renderer()
    return version("resvg-py")


def _renderer() -> Any:
    try:
        import resvg_py  # which is optional
    except ImportError as error:
        rule = "the package resvg_py: pip install resvg-py"
        raise InvalidValue("renderer", rule=rule) from error
    return resvg_py


SIZE = 1_000
"""Icons in a shard, at most."""

_FORMS = {
    "pictures": ArrayForm(dtype_kinds="u", shape=(None, None, None, None)),
    "outcomes": ArrayForm(dtype_kinds="u", shape=(None,)),
}
_AHEAD = 3  # shards per process that are drawn or wait


@dataclass(frozen=True)
class Shard:
    """Icons of a set that are drawn together."""

    first: int  # the row of the first of them among all icons with a label
    svgs: tuple[str | None, ...]  # the icons; None for an entry that is none
    pixels: int  # height and width of the pictures
    color: str  # grey or rgb
    renderer: str  # its version

    @property
    def name(self) -> str:
        """Returns the file's name: a digest of all that the pictures depend on, so that shards never exchange files."""
        content = repr((self.svgs, self.pixels, self.color, self.renderer)).encode()
        return f"{hashlib.sha256(content).hexdigest()[:32]}.npz"

    def draw(self, folder: Path) -> None:
        """Writes `pictures` uint8 `[n, channels, pixels, pixels]` and `outcomes` uint8 `[n]`, atomically."""
        pictures = [draw_icon(svg, pixels=self.pixels, color=self.color) for svg in self.svgs]
        outcomes = np.array([outcome for _, outcome in pictures], np.uint8)
        write_arrays(
            folder / self.name,
            pictures=np.stack([levels for levels, _ in pictures]),
            outcomes=outcomes,
        )


def read_shard(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Returns pictures and outcomes of a shard; raises `DamagedFile` where its file was changed."""
    arrays = read_arrays(path, forms=_FORMS, remedy="the same command draws it again")
    return arrays["pictures"], arrays["outcomes"]


def draw_shards(
    shards: Iterable[Shard], folder: Path, *, jobs: int, advance: Callable[[int], None]
) -> list[tuple[int, str]]:
    """Draws the shards that are not in the folder yet.

    Args:
        shards: a few of them are in memory at a time.
        folder: one that is there.
        jobs: processes; with 1 none is started.
        advance: is told how many icons are done.

    Returns:
        Of each its first row and the name of its file.

    Raises:
        OSError: the disk is full; what was drawn before is kept.
        BrokenProcessPool: a process was killed, as for want of memory.
    """
    shard_files = list[tuple[int, str]]()
    done = 0

    def missing() -> Iterator[Shard]:
        nonlocal done
        for shard in shards:
            shard_files.append((shard.first, shard.name))
            if _is_drawn(folder / shard.name):
                advance(done := done + len(shard.svgs))
            else:
                yield shard

    for count in _drawn(missing(), folder, jobs):
        advance(done := done + count)
    return shard_files


def _is_drawn(path: Path) -> bool:
    try:
        read_shard(path)
    except DamagedFile:
        return False
    return True


def _drawn(shards: Iterator[Shard], folder: Path, jobs: int) -> Iterator[int]:
    """Draws shards; yields the number of icons of each shard, in the order in which they finish."""
    if jobs == 1:
        for shard in shards:
            shard.draw(folder)
            yield len(shard.svgs)
        return
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_leave_interrupts
    )
    try:
        running: dict[Future[None], int] = {}
        for shard in shards:
            running[pool.submit(shard.draw, folder)] = len(shard.svgs)
            if len(running) >= _AHEAD * jobs:
                yield from _finished(running)
        while running:
            yield from _finished(running)
    finally:
        pool.shutdown(cancel_futures=True)


def _finished(running: dict[Future[None], int]) -> Iterator[int]:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        future.result()
        yield running.pop(future)


def _leave_interrupts() -> None:
    """Ignores Ctrl-C, which the waiting parent process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
