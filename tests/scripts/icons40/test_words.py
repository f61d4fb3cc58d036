import pytest

from scripts.icons40.words import family_of, label_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("user-circle-24-filled", {"person", "circle", "fill"}),
        ("person-outlined", {"person", "outline"}),
        ("baseline-add-to-photos", {"plus", "image"}),
        ("file-arrow-up-2", {"file", "arrow", "up"}),
        ("24-hours", {"hours"}),
        ("looks-two-3x", {"looks"}),
        ("a", set()),
    ],
)
def test_words_of_a_name(name: str, words: set[str]) -> None:
    assert label_words(name) == words


def test_words_for_what_is_shown_leave_the_style_out() -> None:
    assert label_words("user-circle-24-filled", styles=False) == {"person", "circle"}
    assert label_words("heart-outline-rounded-thin", styles=False) == {"heart"}


@pytest.mark.parametrize(
    "name",
    ["home", "home-outline", "outline-home", "home-24-filled", "home-16-regular", "home-sharp-outline", "home-2"],
)
def test_styles_and_sizes_of_an_icon_are_one_family(name: str) -> None:
    assert family_of("some", name) == "some:home"


def test_other_icons_and_other_sets_are_other_families() -> None:
    names = [("some", "home"), ("some", "home-lock"), ("other", "home")]
    assert len({family_of(*name) for name in names}) == 3


def test_a_name_of_nothing_but_styles_is_a_family_of_its_own() -> None:
    assert family_of("some", "bold") == "some:bold"
    assert family_of("some", "24") == "some:24"


def test_no_word_is_a_synonym_of_two() -> None:
    from scripts.icons40.words import _SYNONYMS

    listed = [synonym for synonyms in _SYNONYMS.values() for synonym in synonyms.split()]
    assert len(set(listed)) == len(listed)
    assert set(listed).isdisjoint(_SYNONYMS), "a merged word would be merged again"
