"""Opens a page in a browser as one of four readers would, and finds the faults that this reader meets.

The readers (`READERS`) look at a light screen, a dark screen, a print and a phone.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCRIPT = (Path(__file__).parent / "sight.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Reader:
    """A reader's window.

    Attributes:
        width: the width of the window, in pixels.
        medium: `screen` or `print`.
        scheme: `light` or `dark`, as the reader's system prefers.
        mobile: True for a phone, which lays a page out as wide as its viewport says.
    """

    width: int
    medium: str = "screen"
    scheme: str = "light"
    mobile: bool = False


READERS = {
    "desk": Reader(width=1280),
    "dark": Reader(width=1280, scheme="dark"),
    # A4 minus the style sheet's margins; the paper is white although this reader prefers dark
    "print": Reader(width=703, medium="print", scheme="dark"),
    "phone": Reader(width=390, mobile=True),
}
"""The readers by name."""


@dataclass(frozen=True)
class Sight:
    """What a reader sees of a page.

    Attributes:
        faults: the faults that the reader meets, each as a sentence that begins with the kind of fault.
        paper_luminance: the luminance of the page's background, 0 for black and 1 for white.
    """

    faults: list[str]
    paper_luminance: float


def look(browser: Any, path: Path, reader_names: Collection[str]) -> dict[str, Sight]:
    """Returns what each of the named readers sees of a page; all but the one on a phone share a window."""
    sights = {}
    for mobile in {READERS[name].mobile for name in reader_names}:
        with opened(browser, path, mobile=mobile) as (page, events):
            for name in (name for name in reader_names if READERS[name].mobile == mobile):
                show(page, reader=READERS[name])
                result = page.evaluate(_SCRIPT)
                faults = [
                    f"{kind}: {text}" for kind, texts in result["found"].items() for text in texts
                ]
                sights[name] = Sight(faults=events + faults, paper_luminance=result["paper"])
    return sights


def show(page: Any, reader: Reader) -> None:
    """Sets the window to the reader's width, medium and colors.

    The window is as tall as the page, so that all of it is in view.
    """
    page.emulate_media(media=reader.medium, color_scheme=reader.scheme)
    page.set_viewport_size({"width": reader.width, "height": 900})
    page_height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": reader.width, "height": page_height})


@contextmanager
def opened(browser: Any, path: Path, *, mobile: bool = False) -> Iterator[tuple[Any, list[str]]]:
    """Opens a page in a new window, and yields it with a list of the browser's complaints and of its other requests."""
    events: list[str] = []
    reader = READERS["phone" if mobile else "desk"]
    context = browser.new_context(
        viewport={"width": reader.width, "height": 844}, is_mobile=mobile, has_touch=mobile
    )
    try:
        page = context.new_page()
        address = path.as_uri()
        page.on(
            "console", lambda message: events.append(f"console: {message.type}: {message.text}")
        )
        page.on("pageerror", lambda error: events.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: request.url == address or events.append(f"request: {request.url}"),
        )
        page.goto(address)
        yield page, events
    finally:
        context.close()
