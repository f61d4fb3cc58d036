"""`look` finds each fault that the tests of pages look for."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.sight import look

WORDS = "".join(f"<p>word {index}</p>" for index in range(20))
SHAPES = "".join(f'<rect x="{10 * index}" y="50" width="5" height="5"/>' for index in range(6))


def page(body: str, *, head: str = "<title>t</title>", lang: str = 'lang="en"') -> str:
    """Returns an HTML page with twenty lines of words, followed by `body`."""
    viewport = '<meta name="viewport" content="width=device-width">'
    start = f'<!DOCTYPE html><html {lang}><head><meta charset="utf-8">{viewport}{head}</head>'
    return f'{start}<body style="background: white"><main><h1>One</h1>{WORDS}{body}</main></body></html>'


def picture(text: str, label: str = "x" * 40) -> str:
    """Returns a figure in SVG with shapes and `text`, and with a label for screen readers."""
    svg = f'<svg viewBox="0 0 300 100" width="300" height="100">{SHAPES}{text}</svg>'
    return f'<figure><div role="img" aria-label="{label}">{svg}</div><figcaption>c</figcaption></figure>'


FAULTS = {
    "console: error": "<script>console.error('no')</script>",
    "console: warning": "<script>console.warn('no')</script>",
    "error: no": "<script>throw new Error('no')</script>",
    "request: file:///x.css": '<link rel="stylesheet" href="file:///x.css">',
    'contrast: p "gray"': '<p style="color: #777">gray</p>',
    'contrast: text "on blue"': picture(
        '<rect width="300" height="40" fill="#235"/><text x="9" y="20">on blue</text>'
    ),
    'fonts: p "small"': '<p style="font-size: 11.9px">small</p>',
    'fonts: text "scaled"': picture(
        '<g transform="scale(0.5)"><text x="9" y="20">scaled</text></g>'
    ),
    "overflow: page": '<div style="width: 2000px">wide</div>',
    'cut: div "averylongword': '<div style="width: 30px; overflow-x: hidden">averylongword</div>',
    'cut: text "at the edge': picture('<text x="280" y="20">at the edge</text>'),
    'overlaps: text "one"': picture('<text x="9" y="20">one</text><text x="12" y="22">two</text>'),
    "pictures: img": '<img src="data:image/png;base64,AAAA" alt="broken">',
    "pictures: undefined: 0 x 0": '<svg width="0" height="0"></svg>',
    "pictures: : no words": picture("", label=""),
    "tables: no caption": "<table><tr><th scope='row'>a</th><td>b</td></tr></table>",
    "tables: no scope": "<table><caption>c</caption><tr><th>a</th><td>b</td></tr></table>",
    "tables: no header": "<table><caption>c</caption><tbody><tr><td>b</td></tr></tbody></table>",
    "structure: heading": "<h3>Three</h3>",
    "structure: not one h1": "<h1>Two</h1>",
    "structure: an id twice": '<p id="a">a</p><p id="a">b</p>',
}


@pytest.fixture(scope="module")
def faults_found(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Returns the faults that a reader on a phone meets on a page with all of `FAULTS`."""
    path = tmp_path_factory.mktemp("faults") / "page.html"
    path.write_text(page("".join(FAULTS.values())), encoding="utf-8")
    return look(browser, path=path, reader_names=["phone"])["phone"].faults


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(faults_found: list[str], fault: str) -> None:
    """`look` finds each fault of `FAULTS`, such as an error in the console, on a page that has all of them."""
    assert any(text.startswith(fault) for text in faults_found), faults_found


def test_a_good_page_has_no_fault(browser: Any, tmp_path: Path) -> None:
    """`look` finds no fault on a page with one valid picture."""
    path = tmp_path / "page.html"
    path.write_text(page(picture('<text x="9" y="20">well</text>')), encoding="utf-8")
    assert look(browser, path=path, reader_names=["phone"])["phone"].faults == []
