"""A small table of HTML, which notebooks show for an object in place of its `repr`.

Every text is escaped, and the table needs no style sheet, script or picture.
"""

from collections.abc import Iterable
from html import escape


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Returns a title and a table with two columns as HTML.

    Args:
        title: the title above the table.
        rows: the name and the value of each row, which are escaped.

    >>> html_table("Ledger", [("charges", "<3")])
    '<div><strong>Ledger</strong><table><tr><th>charges</th><td>&lt;3</td></tr></table></div>'
    """
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"
