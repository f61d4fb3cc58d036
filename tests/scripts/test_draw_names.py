"""`draw_names` writes the tables of docs/names.md from the configuration."""

from scripts import draw_names


def test_the_page_is_up_to_date() -> None:
    """docs/names.md is what the script would write."""
    assert draw_names.main(["--check"]) == 0


def test_a_row_with_another_value_makes_the_page_stale() -> None:
    """If a noise on docs/names.md is changed, the script restores the page."""
    page = draw_names.PAGE.read_text(encoding="utf-8")
    changed_page = page.replace("GNMax(noise_std=40.0)", "GNMax(noise_std=41.0)")
    assert changed_page != page
    assert draw_names.page_with_names(changed_page) == page


def test_text_beside_the_tables_stays() -> None:
    """The script keeps a line below the tables."""
    page = draw_names.PAGE.read_text(encoding="utf-8") + "\nOne line more.\n"
    assert draw_names.page_with_names(page) == page
