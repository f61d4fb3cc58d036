"""MkDocs hook: long code within a line, and long names in headings, may break behind a sign and nowhere within a word."""

from __future__ import annotations

import re
from typing import Any

_LONGEST = 24  # characters that fit into a line of a phone in any case
# Code in a block keeps its lines; code within a line, and headings, are looked at.
_PIECE = re.compile(
    r"<pre.*?</pre>|<code>(?P<code>[^<]*)</code>|<h1[^>]*>(?P<heading>[^<]*)", re.DOTALL
)
_SIGN = re.compile(r"(?:[./_(),=\[\]:]|-(?=\w))(?=[^\s./_(),=\[\]:&;])")


def breakable(html: str) -> str:
    """The page, with places in it at which a browser may break a line."""

    def with_breaks(match: re.Match[str]) -> str:
        text = match["code"] if match["heading"] is None else match["heading"]
        if text is None or max(map(len, text.split()), default=0) <= _LONGEST:
            return match[0]
        return match[0].replace(text, _SIGN.sub(lambda sign: f"{sign[0]}<wbr>", text))

    return _PIECE.sub(with_breaks, html)


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return breakable(html)
