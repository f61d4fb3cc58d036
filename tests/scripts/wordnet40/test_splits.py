from scripts.wordnet40.dictionary import Synset
from scripts.wordnet40.splits import deal_splits, gloss_families


def test_synsets_with_one_gloss_are_one_family() -> None:
    synsets = [
        Synset(9, "x", (), "a variety of aster"),
        Synset(4, "y", (), "A variety of  aster,"),
        Synset(5, "z", (), "a variety of daisy"),
    ]
    assert gloss_families(synsets) == {9: 4, 4: 4, 5: 5}


def test_splits_have_the_sizes_asked_for_and_share_no_family() -> None:
    families = {record: record - record % 3 if record < 60 else record for record in range(200)}
    public, test, private = deal_splits(families, (50, 30))
    assert [len(public), len(test), len(private)] == [50, 30, 120]
    assert sorted(public + test + private) == list(range(200))
    kept = [{families[record] for record in split} for split in (public, test, private)]
    assert not (kept[0] & kept[1] or kept[0] & kept[2] or kept[1] & kept[2])


def test_splits_are_fixed_and_look_shuffled() -> None:
    families = {record: record for record in range(200)}
    backwards = dict(reversed(families.items()))
    public, _, private = deal_splits(families, (50, 30))
    assert deal_splits(backwards, (50, 30))[0] == public
    assert public != sorted(public)
    assert abs(sum(public) / 50 - sum(private) / 120) < 40
