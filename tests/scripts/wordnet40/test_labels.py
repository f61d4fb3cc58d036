from scripts.wordnet40.dictionary import Synset
from scripts.wordnet40.labels import choose_labels, label_matrix, label_names

ABOVE = {
    1: frozenset({1}),
    2: frozenset({1, 2}),
    3: frozenset({1, 3}),
    10: frozenset({1, 2, 10}),
    11: frozenset({1, 2, 11}),
    12: frozenset({1, 3, 12}),
    13: frozenset({1, 3, 13}),
    14: frozenset({1, 3, 14}),
}


def test_the_commonest_hypernyms_but_for_the_root() -> None:
    public = [10, 11, 12, 13, 14]
    assert choose_labels(ABOVE, public, num_labels=2) == [3, 2]
    assert choose_labels(ABOVE, public, num_labels=3) == [3, 2, 10]  # a tie among five goes to the smallest
    assert choose_labels(ABOVE, public, num_labels=1, max_prevalence=0.5) == [2]
    assert choose_labels(ABOVE, public, num_labels=1, max_prevalence=1.0) == [1]


def test_only_public_records_are_counted() -> None:
    assert choose_labels(ABOVE, [10, 11, 2, 12, 13], num_labels=1) == [2]
    assert choose_labels(ABOVE, [14, 12, 13, 10, 11], num_labels=1) == [3]


def test_the_matrix_says_what_each_record_is() -> None:
    assert label_matrix(ABOVE, [11, 3, 1], [3, 2]).tolist() == [[False, True], [True, False], [False, False]]


def test_names_that_are_shared_are_numbered_by_offset() -> None:
    synsets = [Synset(1, "part", (), ""), Synset(5, "substance", (), ""), Synset(3, "substance", (), "")]
    assert label_names(synsets, [5, 1, 3]) == ("substance_2", "part", "substance_1")
