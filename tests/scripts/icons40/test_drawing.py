import sys

import numpy as np
import pytest

from pate.validation import InvalidValue
from scripts.icons40.drawing import BLANK, BROKEN, DRAWN, draw_icon, renderer_version

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">'


def test_pixels_stand_where_the_picture_has_them() -> None:
    levels, outcome = draw_icon(f'{HEAD}<path d="M0 0h8v2H0z"/></svg>', pixels=8, color="grey")
    expected = np.full((1, 8, 8), 255)
    expected[:, :2] = 0
    assert outcome == DRAWN
    assert np.array_equal(levels, expected)


def test_colors_are_channels() -> None:
    red = f'{HEAD}<path fill="#f00" d="M0 0h4v8H0z"/></svg>'
    levels, _ = draw_icon(red, pixels=4, color="rgb")
    assert levels[:, 0, 0].tolist() == [255, 0, 0]
    assert levels[:, 0, 3].tolist() == [255, 255, 255]
    grey, _ = draw_icon(red, pixels=4, color="grey")
    assert grey[0, 0, 0] == 76, "the luma of red"


@pytest.mark.parametrize(
    ("svg", "outcome"),
    [
        (f"{HEAD}</svg>", BLANK),
        (f'{HEAD}<path fill="#fff" d="M0 0h8v8H0z"/></svg>', BLANK),
        (f"{HEAD}<path", BROKEN),
        ("", BROKEN),
        ("no svg", BROKEN),
        (None, BROKEN),
        (f"{HEAD}{'<g>' * 5000}{'</g>' * 5000}</svg>", BROKEN),
        (f"{HEAD}<text>a</text></svg>", BLANK),  # a font would be the machine's
    ],
)
def test_what_is_no_picture_is_told(svg: str | None, outcome: int) -> None:
    levels, found = draw_icon(svg, pixels=8, color="grey")
    assert found == outcome
    assert levels.shape == (1, 8, 8)


def test_without_the_renderer_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(InvalidValue, match=r"pip install 'pate-multilabel\[icons\]'"):
        renderer_version()
