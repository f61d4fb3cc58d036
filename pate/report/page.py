"""What every page has: one self-contained file, without scripts and without anything to fetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from string import Template

from pate.report.html_elements import badge
from pate.report.privacy_coverage import PrivacyCoverage


def page(
    subject: str,
    title: str,
    *,
    notices: str,
    legend: Mapping[PrivacyCoverage, str],
    sections: Iterable[str],
    numbers: str = "",
    subtitle: str = "",
) -> str:
    """Fills in the page: light, dark and in print, from the width of a phone on.

    Args:
        subject: what it shows, text.
        title: text.
        notices: what a reader must know before any number, elements.
        legend: what each mark means, text.
        sections: the elements of `section`.
        numbers: large ones for the head of the page, elements.
        subtitle: beneath the title, text.
    """
    template, style = (files("pate.report").joinpath(name).read_text("utf-8") for name in ("page.html", "style.css"))
    return Template(template).substitute(
        style=style,
        subject=escape(subject),
        title=escape(title),
        subtitle=f'<p class="overrides"><code>{escape(subtitle)}</code></p>\n' if subtitle else "",
        notices=notices,
        numbers=f'<dl class="numbers-row">{numbers}</dl>\n' if numbers else "",
        legend="".join(f"<li>{badge(mark)} {escape(text)}</li>" for mark, text in legend.items()),
        sections="\n".join(sections),
    )


def section(name: str, heading: str, body: str) -> str:
    """A section of a page; its elements stand in columns where the page is wide enough."""
    return f'<section id="{name}"><h2>{heading}</h2><div class="columns">{body}</div></section>'
