"""Rows of the page of names are those of the configuration."""

from scripts import draw_names


def test_the_page_is_up_to_date() -> None:
    """The script finds docs/names.md equal to what it would write."""
    assert draw_names.main(["--check"]) == 0


def test_a_row_with_another_value_makes_the_page_stale() -> None:
    """A noise on docs/names.md is changed. The script writes the page back as it was."""
    page = draw_names.PAGE.read_text(encoding="utf-8")
    changed = page.replace("GNMax(noise_std=40.0)", "GNMax(noise_std=41.0)")
    assert changed != page
    assert draw_names.page_with_names(changed) == page


def test_text_beside_the_tables_stays() -> None:
    """A line is added below the tables of docs/names.md. The script keeps the line."""
    page = draw_names.PAGE.read_text(encoding="utf-8") + "\nOne line more.\n"
    assert draw_names.page_with_names(page) == page
