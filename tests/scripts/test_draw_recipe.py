"""Table of constants has the fields of `Recipe`."""

from scripts import draw_recipe


def test_the_page_is_up_to_date() -> None:
    """The script finds the table of constants equal to the fields of `Recipe`."""
    assert draw_recipe.main(["--check"]) == 0


def test_another_default_makes_the_page_stale() -> None:
    """A default in the table is changed. The script writes the table back as it was."""
    page = draw_recipe.PAGE.read_text(encoding="utf-8")
    changed = page.replace("| `trust` | 0.5 |", "| `trust` | 0.6 |")
    assert changed != page
    assert draw_recipe.page_with_table(changed) == page


def test_text_beside_the_table_stays() -> None:
    """A line is added below the table of constants. The script keeps the line."""
    page = draw_recipe.PAGE.read_text(encoding="utf-8") + "\nOne line more.\n"
    assert draw_recipe.page_with_table(page) == page
