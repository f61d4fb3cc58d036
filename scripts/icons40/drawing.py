"""Icons into pixels."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue

MODES = {"grey": "L", "rgb": "RGB"}
"""Of Pillow, by the name of the colors."""

DRAWN, BLANK, BROKEN = 0, 1, 2
"""What became of an icon: a picture, all white, or no SVG that can be drawn."""


def draw_icon(svg: str | None, *, pixels: int, color: str) -> tuple[NDArray[np.uint8], int]:
    """One icon on white.

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
        if type(error).__name__ == "PanicException":  # a fault of the renderer on this icon, which is no Exception
            return white, BROKEN
        raise
    picture = np.asarray(Image.open(io.BytesIO(bytes(png))).convert(MODES[color]))
    levels = np.ascontiguousarray(picture.reshape(pixels, pixels, len(white)).transpose(2, 0, 1))
    return levels, BLANK if levels.min() == 255 else DRAWN


def renderer_version() -> str:
    """Of resvg-py, or one line on how to install it."""
    from importlib.metadata import version

    _renderer()
    return version("resvg-py")


def _renderer() -> Any:
    try:
        import resvg_py
    except ImportError as error:
        rule = "the package resvg-py; pip install 'pate-multilabel[icons]', or pip install resvg-py"
        raise InvalidValue(f"renderer: expected {rule}") from error
    return resvg_py
