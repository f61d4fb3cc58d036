import pytest

from pate.validation import InvalidValue
from scripts.wordnet40.dictionary import Synset, ancestors, parse_dictionary

FORAY = (
    "00976953 04 n 03 foray 0 raid 0 maraud 0 006 @ 00975452 n 0000 + 02020255 v 0301 + 02494850 v 0201 "
    "+ 01228653 v 0101 ~ 00974111 n 0000 ~ 00977214 n 0000 | a sudden short attack  \n"
)
ATTACK = '00975452 04 n 01 attack 0 000 | an Offensive,  against an enemy; "the attack began"; "at dawn"  \n'


def test_a_line_of_the_real_dictionary_by_hand() -> None:
    foray, attack = parse_dictionary([FORAY, ATTACK])
    assert foray == Synset(976953, "foray", (975452,), "a sudden short attack")
    assert attack.hypernyms == ()


def test_examples_are_no_part_of_the_definition() -> None:
    attack = parse_dictionary([ATTACK])[0]
    assert attack.definition == "an Offensive,  against an enemy"
    assert attack.normalized == "an offensive against an enemy"


def test_an_example_whose_quote_never_closes_is_dropped_too() -> None:
    line = '00000001 03 n 01 a 0 000 | a letter; "A comes first\n'
    assert parse_dictionary([line])[0].definition == "a letter"


def test_word_counts_are_hexadecimal_and_instances_count_as_hypernyms() -> None:
    words = " ".join(f"word{i} 0" for i in range(11))
    lines = [
        f"00000002 03 n 0b {words} 001 @i 00000001 n 0000 | many words\n",
        "00000001 03 n 01 a 0 000 | one\n",
    ]
    assert parse_dictionary(lines)[0].hypernyms == (1,)


def test_the_license_at_the_top_is_passed_over(dictionary: list[str]) -> None:
    assert len(parse_dictionary(dictionary)) == len(dictionary) - 2


def test_ancestors_follow_every_path_and_include_the_synset() -> None:
    diamond = [
        Synset(1, "a", (), ""),
        Synset(2, "b", (1,), ""),
        Synset(3, "c", (1,), ""),
        Synset(4, "d", (2, 3), ""),
    ]
    assert ancestors(diamond) == {1: {1}, 2: {1, 2}, 3: {1, 3}, 4: {1, 2, 3, 4}}


def test_ancestors_survive_a_circle() -> None:
    assert ancestors([Synset(1, "a", (2,), ""), Synset(2, "b", (1,), "")]) == {1: {1, 2}, 2: {1, 2}}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"^dictionary=empty: expected the lines of WordNet's data\.noun$"),
        (["  1 only a license"], r"^dictionary=empty"),
        (
            [ATTACK, "offset,lemma,gloss"],
            r"^dictionary line 2='offset,lemma,gloss': expected a synset of data\.noun$",
        ),
        (["00000001 03 n 01 a 0 | no pointer count"], r"^dictionary line 1='00000001 03 n 01 a 0"),
        ([FORAY], r"^hypernym=00975452: expected a synset of the same dictionary$"),
    ],
)
def test_what_is_no_dictionary_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        parse_dictionary(lines)
