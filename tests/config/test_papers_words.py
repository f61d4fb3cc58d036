"""If a command line has a word of a paper in place of a setting, the refusal names the setting."""

import re
from pathlib import Path

import pytest

from pate.config.papers_words import hint, settings_by_word
from tests.aggregator_settings import settings_of_aggregator
from tests.e2e.commands import call

PAGE = Path(__file__).parents[2] / "docs" / "papers-words.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aggregator", "word", "setting"),
    [
        ("stable_top_k", "sigma1", "aggregator.selection_scale"),
        ("stable_top_k", "sigma_1", "aggregator.selection_scale"),
        ("stable_top_k", "\N{GREEK SMALL LETTER SIGMA}_2", "aggregator.test_std"),
        ("stable_top_k", "delta_t", "aggregator.failure_prob"),
        ("stable_top_k", "k", "aggregator.max_k"),
        ("stable_top_k_fixed", "sigma", "aggregator.selection_scale, or aggregator.test_std"),
        ("confident_gnmax", "sigma1", "aggregator.screening_std"),
        ("confident_gnmax", "sigma_2", "aggregator.noise_std"),
        ("confident_gnmax", "T", "aggregator.threshold_share"),
        ("clipped_votes", "tau", "aggregator.vote_clip"),
        ("boundary_max", "tau", "aggregator.target_hits"),
        ("gaussian_votes", "sigma", "aggregator.noise_std"),
        ("gaussian_votes", "delta_t", "aggregator.failure_prob of stable_top_k"),
    ],
)
def test_a_word_of_a_paper_names_the_setting_of_the_chosen_aggregator(
    aggregator: str, word: str, setting: str
) -> None:
    """For a symbol of a paper, such as sigma1, a hint names the setting of the chosen aggregator.

    If the chosen aggregator has none, the hint names that of another one.
    """
    names = tuple(map(str, settings_of_aggregator(aggregator)))
    assert (
        hint(word, known_settings=names)
        == f"; the papers' {word} is {setting} (docs/papers-words.md)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("plus", ["", "+"])
def test_refusal_of_a_papers_word_ends_with_the_hint(plus: str) -> None:
    """pate-train refuses `aggregator.sigma1=5` and `T=5`, also after a +, in a line whose end names the setting."""
    for word, setting in (
        ("aggregator.sigma1", "aggregator.selection_scale"),
        ("T", "teacher.num_teachers"),
    ):
        done = call("train", arguments=["aggregator=stable_top_k", f"{plus}{word}=5"])
        assert done.returncode == 2
        assert re.search(
            rf"; the papers' \w+ is {setting}(, or [.\w]+)* \(docs/papers-words\.md\)$",
            done.stderr.strip(),
        )


def test_unknown_word_of_no_paper_has_no_hint() -> None:
    """A misspelled setting that no paper uses has no hint."""
    assert hint(word="selection_scal", known_settings=("selection_scale",)) == ""


def test_hint_in_another_part_names_no_aggregator_setting() -> None:
    """A paper's word under `student` or `features` has no hint about aggregators.

    Under `teacher`, n is the number of teachers.
    """
    assert hint(word="threshold", known_settings=("num_directions",), part_name="student") == ""
    assert hint(word="k", known_settings=("patch", "grid"), part_name="features") == ""
    line = hint(word="n", known_settings=("num_teachers", "batch_size"), part_name="teacher")
    assert line == "; the papers' n is teacher.num_teachers (docs/papers-words.md)"


@pytest.mark.slow
def test_table_in_the_docs_names_every_hinted_setting() -> None:
    """Each setting that a hint names is on docs/papers-words.md, and is a setting of its aggregator.

    `aggregator.table_order` and `num_teachers` need not be on the page.
    """
    page = PAGE.read_text(encoding="utf-8")
    for word, settings in settings_by_word().items():
        for setting, owner in settings.items():
            if setting == "aggregator.table_order":
                continue  # a part of the table's price, no word of that paper
            assert f"`{setting}=" in page or setting == "num_teachers", (word, setting)
            if owner is not None:
                name = setting.removeprefix("aggregator.")
                assert name in settings_of_aggregator(owner), (word, setting, owner)
