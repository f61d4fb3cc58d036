from collections import Counter

import numpy as np
import pytest

from scripts.icons40.splits import choose_labels, deal_splits, number_of


def test_numbers_are_fixed() -> None:
    """SHA-256 of "icons family a:b", its first 8 bytes without the last two bits; worked out with sha256sum."""
    assert number_of("family", "a:b") == 0x66FA18AC7195D5AB >> 2
    assert number_of("family", "a:b") != number_of("icon", "a:b")


def test_whole_families_fill_the_splits_exactly() -> None:
    families = np.repeat(np.arange(50), np.arange(50) % 4 + 1)
    split_of = deal_splits(families, (20, 30))
    assert np.bincount(split_of)[:2].tolist() == [20, 30]
    for family in range(50):
        assert len(set(split_of[families == family])) == 1


def test_the_family_with_the_smallest_number_is_public() -> None:
    assert deal_splits(np.array([9, 2, 5, 2]), (2, 1)).tolist() == [2, 0, 1, 0]


def test_labels_are_the_most_frequent_words_of_the_pool_alone() -> None:
    """Families 0 to 2 are the pool: 4 icons with a label. What comes later has other words, in greater numbers."""
    families = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    words = [frozenset(each.split()) for each in ["b a", "a", "b a", "c b", "z", "z y", "z y", "z y"]]
    assert choose_labels(words, families, num_public=4, num_labels=2) == ["a", "b"]
    changed = [*words[:4], *[frozenset(["c"])] * 4]
    assert choose_labels(changed, families, num_public=4, num_labels=2) == ["a", "b"]
    assert choose_labels(words, families, num_public=8, num_labels=2) == ["z", "a"], "the rest would count"


def by_definition(words: list[frozenset[str]], families: np.ndarray, *, num_public: int, num_labels: int) -> list[str]:
    """Prefix after prefix, each counted anew."""
    labels: list[str] = []
    for last in np.unique(families):
        pool = [each for each, family in zip(words, families, strict=True) if family <= last]
        counts = Counter(word for each in pool for word in each)
        chosen = sorted(counts, key=lambda word: (-counts[word], word))[:num_labels]
        if sum(not each.isdisjoint(chosen) for each in pool) > num_public:
            break
        labels = chosen
    return labels


@pytest.mark.parametrize("seed", [0, 1, 2, 29, 34, 106, 112])
def test_the_pool_ends_where_it_is_full_for_the_first_time(seed: int) -> None:
    """Also where a longer one would hold fewer icons with a label, as other words come first in it."""
    rng = np.random.default_rng(seed)
    families = np.repeat(np.arange(30), rng.integers(1, 6, 30))
    of_family = [frozenset(rng.choice(list("abcdef"), rng.integers(1, 4)).tolist()) for _ in range(30)]
    words = [of_family[family] for family in families]
    sizes = {"num_public": 25, "num_labels": 2}
    assert choose_labels(words, families, **sizes) == by_definition(words, families, **sizes)
