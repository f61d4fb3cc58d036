"""The elements that the page is built of; each function escapes the text it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pate.report.drawing.inline_svg import Picture
from pate.report.privacy_coverage import PrivacyCoverage

_CLASSES = {
    PrivacyCoverage.COVERED: "covered",
    PrivacyCoverage.HELD_OUT: "held-out",
    PrivacyCoverage.UNCOVERED: "uncovered",
}
DASH = "\N{EN DASH}"


def badge(mark: PrivacyCoverage) -> str:
    """The words that say what protects a figure."""
    return f'<span class="mark {_CLASSES[mark]}">{escape(mark.value)}</span>'


def notice(text: str, *, kind: str) -> str:
    """A paragraph that stands out; `kind` is `plain` or `warning`."""
    return f'<p class="notice {kind}">{escape(text)}</p>'


def verdict(text: str) -> str:
    """The verdict: its first sentence is what is read first."""
    first, stop, rest = text.partition(". ")
    return f'<p class="notice verdict"><strong>{escape(first + stop.rstrip())}</strong> {escape(rest)}</p>'


def warning_link(text: str, target: str, words: str) -> str:
    """A warning of one line with a link to the section that explains it."""
    return f'<p class="notice warning">{escape(text)} <a href="#{target}">{escape(words)}</a></p>'


def figure(picture: Picture) -> str:
    """A picture with its alternative text, its caption and its mark."""
    return (
        f'<figure id="{picture.name}"><h3>{escape(picture.title)}</h3>'
        f'<div role="img" aria-label="{escape(picture.alt)}">{picture.svg}</div>'
        f"<figcaption>{badge(picture.mark)} {escape(picture.caption)}</figcaption></figure>"
    )


def key_number(name: str, value: str, note: str, mark: PrivacyCoverage) -> str:
    """One large number with what it is, in a `<dl>`."""
    return (
        f'<div><dt>{escape(name)}</dt><dd class="value">{escape(value)}</dd>'
        f"<dd>{escape(note)}</dd><dd>{badge(mark)}</dd></div>"
    )


def facts(caption: str, rows: Iterable[tuple[str, str]], mark: PrivacyCoverage) -> str:
    """A table of names and values."""
    body = "".join(f'<tr><th scope="row">{_breakable(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<table class="facts">{_caption(caption, mark)}<tbody>{body}</tbody></table>'


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[tuple[str, Sequence[str], PrivacyCoverage | None]],
    mark: PrivacyCoverage | None,
) -> str:
    """A table of numbers that scrolls sideways by itself where the page is too narrow for it.

    Args:
        caption: what it holds.
        head: the headings, that of the rows' names first.
        rows: the name of each row, its cells, and its own mark or None; a cell's second line is written small.
        mark: what protects the whole table, None where each row has its own.
    """
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{_breakable(name)}{" " + badge(own) if own else ""}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, cells, own in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">'
        f'<table class="numbers">{_caption(caption, mark)}'
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    main, _, small = text.partition("\n")
    return f"{escape(main)}<small>{escape(small)}</small>" if small else escape(main)


def _breakable(name: str) -> str:
    """A name that may be broken behind a dot or an underscore."""
    return escape(name).replace(".", ".<wbr>").replace("_", "_<wbr>")


def _caption(caption: str, mark: PrivacyCoverage | None) -> str:
    return f'<caption><span class="text">{escape(caption)}{" " + badge(mark) if mark else ""}</span></caption>'
