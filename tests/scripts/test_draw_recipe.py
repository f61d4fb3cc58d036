"""`draw_recipe` writes the table of constants from the fields of `Recipe`."""

from scripts import draw_recipe


def test_the_page_is_up_to_date() -> None:
    """The table of constants is what the script would write."""
    assert draw_recipe.main(["--check"]) == 0


def test_another_default_makes_the_page_stale() -> None:
    """If a default in the table is changed, the script restores the table."""
    page = draw_recipe.PAGE.read_text(encoding="utf-8")
    changed_page = page.replace("| `trust` | 0.5 |", "| `trust` | 0.6 |")
    assert changed_page != page
    assert draw_recipe.page_with_table(changed_page) == page


def test_text_beside_the_table_stays() -> None:
    """The script keeps a line below the table."""
    page = draw_recipe.PAGE.read_text(encoding="utf-8") + "\nOne line more.\n"
    assert draw_recipe.page_with_table(page) == page
