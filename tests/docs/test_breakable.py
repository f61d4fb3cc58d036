"""On the site, long names may break into two lines after signs; code blocks and short names do not."""

import importlib.util
from pathlib import Path

import pytest

HOOK_PATH = Path(__file__).parents[2] / "docs" / "_build" / "breakable.py"
SPEC = importlib.util.spec_from_file_location("breakable", HOOK_PATH)
assert SPEC is not None and SPEC.loader is not None
HOOK = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(HOOK)


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        (
            "<p><code>sklearn.set_config(enable_metadata_routing=True)</code></p>",
            "<p><code>sklearn.<wbr>set_<wbr>config(<wbr>enable_<wbr>metadata_<wbr>routing=<wbr>True)</code></p>",
        ),
        (
            '<h1 id="x">pate.auditing.data_dependent<a href="#x">¶</a></h1>',
            '<h1 id="x">pate.<wbr>auditing.<wbr>data_<wbr>dependent<a href="#x">¶</a></h1>',
        ),
        ("<code>target_epsilon=3</code>", "<code>target_epsilon=3</code>"),
        (
            "<code>a &lt;= b_c_d_e_f_g_h_i_j_k_l</code>",
            "<code>a &lt;= b_c_d_e_f_g_h_i_j_k_l</code>",
        ),
        ("<pre><code>a_name.that_is.very_long.indeed()</code></pre>", None),
    ],
)
def test_long_names_break_behind_signs(html: str, shown: str | None) -> None:
    """In inline code and headings, the hook inserts `<wbr>` after signs of long names, such as dots and underscores.

    `shown` is the changed HTML, or None if the hook changes nothing.
    """
    assert HOOK.breakable(html) == (html if shown is None else shown)
