"""report.html and frontier.html are readable in a headless Chromium: on desk and phone, in the dark and in print."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import HOSTILE, PAGES
from tests.browser.sight import READERS, look, opened

PageFile = Callable[[str], Path]


@pytest.mark.parametrize("name", PAGES)
def test_every_reader_can_read_the_page(browser: Any, page_file: PageFile, name: str) -> None:
    """Each page has no fault at a desk, on a phone, in dark colors and in print.

    The background is dark in dark colors, and white otherwise.
    """
    sights = look(browser, path=page_file(name), reader_names=READERS)
    assert {reader: sight.faults for reader, sight in sights.items() if sight.faults} == {}
    assert sights.keys() == READERS.keys()
    assert sights["dark"].paper_luminance < 0.05
    assert (
        sights["desk"].paper_luminance
        == sights["phone"].paper_luminance
        == sights["print"].paper_luminance
        == 1.0
    )


@pytest.mark.parametrize("name", ["hostile", "hostile_entrants"])
def test_names_are_text_whatever_is_in_them(browser: Any, page_file: PageFile, name: str) -> None:
    """A page shows names with HTML markup as text.

    The page has no `script`, `img` or `b` element, and the browser has no complaint.
    """
    with opened(browser, path=page_file(name)) as (page, events):
        assert HOSTILE in page.title()
        assert page.locator("script, img, b").count() == 0
        assert page.get_by_role("rowheader").filter(has_text=HOSTILE).count() > 0
        assert events == []


def test_a_script_would_not_run(browser: Any, tmp_path: Path) -> None:
    """The Content Security Policy of a page blocks a script that is put into the page."""
    path = tmp_path / "page.html"
    path.write_text(
        PAGES["two_entrants"]().replace(
            "</main>", "<script>document.title = 'taken'</script></main>"
        )
    )
    with opened(browser, path) as (page, events):
        assert page.title() == "2 methods on wordnet"
        assert "Content Security Policy" in " ".join(events)


@pytest.mark.parametrize("name", ["halted", "fifteen_entrants"])
def test_wide_tables_scroll_next_to_their_row_names(
    browser: Any, page_file: PageFile, name: str
) -> None:
    """On a phone a wide table scrolls sideways, and the names of its rows stay in place."""
    with opened(browser, path=page_file(name), mobile=True) as (page, _):
        box = page.locator(".scroll").last
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        script_for_left_edge = "box => box.querySelector('tbody th').getBoundingClientRect().left"
        left_edge_before = box.evaluate(script_for_left_edge)
        box.evaluate("box => { box.scrollLeft = box.scrollWidth }")
        assert box.evaluate("box => box.scrollLeft > 50")
        assert box.evaluate(script_for_left_edge) == pytest.approx(left_edge_before, abs=1)


@pytest.mark.parametrize("name", ["finished", "halted", "two_entrants"])
@pytest.mark.parametrize("mobile", [False, True])
def test_the_verdict_is_seen_before_anything_is_scrolled(
    browser: Any, page_file: PageFile, name: str, mobile: bool
) -> None:
    """The verdict stands above warnings, tables and pictures, and is in view when the page opens.

    The page does not scroll sideways.
    """
    with opened(browser, path=page_file(name), mobile=mobile) as (page, _):
        verdict = page.locator(".verdict strong").bounding_box()
        first_below = page.locator(".notice.warning, dl, figure, table").evaluate_all(
            "all => Math.min(...all.map(each => each.getBoundingClientRect().top))"
        )
        assert verdict["y"] + verdict["height"] < min(first_below, 844)
        assert page.evaluate("document.documentElement.scrollWidth") <= (390 if mobile else 1280)
