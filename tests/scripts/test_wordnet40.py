"""The builder of WordNet-40: it parses the dictionary, chooses labels and splits, and encodes definitions."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pate.data.embedded import ARCHIVE
from scripts.wordnet40 import (
    STEPS,
    Recipe,
    Representation,
    Synset,
    ancestors,
    choose_labels,
    deal_splits,
    label_matrix,
    label_names,
    parse_dictionary,
)

LICENCE = [
    "  1 This software and database is being provided to you  ",
    "  2 under the following license.  ",
]
KINDS = {2: ("animal", "an animal"), 3: ("plant", "a plant"), 4: ("tool", "a tool")}
PLACES = ("field", "forest", "garden", "river")


def synset(offset: int, lemma: str, pointers: list[tuple[str, int, str]], gloss: str) -> str:
    """Returns a line of WordNet's dictionary of nouns.

    Args:
        offset: the number of the synset.
        lemma: its first word.
        pointers: the symbol, target and part of speech of each relation.
        gloss: its definition and examples.
    """
    listed = " ".join(f"{symbol} {target:08d} {kind} 0000" for symbol, target, kind in pointers)
    return (
        f"{offset:08d} 03 n 02 {lemma} 0 other_{lemma} a {len(pointers):03d} {listed} | {gloss}  "
    )


@pytest.fixture(scope="session")
def dictionary_lines() -> list[str]:
    """Returns lines of a small dictionary: a root, three kinds under it, and 48 things, a third of each kind."""
    lines = [
        *LICENCE,
        synset(
            offset=1,
            lemma="entity",
            pointers=[("~", 2, "n"), ("~", 3, "n")],
            gloss="that which exists",
        ),
    ]
    for kind, (lemma, gloss) in KINDS.items():
        lines.append(
            synset(offset=kind, lemma=lemma, pointers=[("@", 1, "n"), ("+", 7, "v")], gloss=gloss)
        )
    for number in range(48):
        kind = 2 + number % 3
        gloss = f'{KINDS[kind][1]} of the {PLACES[number % 4]}; thing {number // 3}; "we saw it {number} times"'
        lines.append(
            synset(
                offset=100 + number,
                lemma=f"thing{number}",
                pointers=[("@", kind, "n")],
                gloss=gloss,
            )
        )
    return lines


FORAY = (
    "00976953 04 n 03 foray 0 raid 0 maraud 0 006 @ 00975452 n 0000 + 02020255 v 0301 + 02494850 v 0201 "
    "+ 01228653 v 0101 ~ 00974111 n 0000 ~ 00977214 n 0000 | a sudden short attack  \n"
)
ATTACK = '00975452 04 n 01 attack 0 000 | an Offensive,  against an enemy; "the attack began"; "at dawn"  \n'


def test_a_line_of_the_real_dictionary_by_hand() -> None:
    """A line of the real dictionary gives lemma, hypernyms and definition.

    Two made-up lines, one of them with an open quote, give the definition without examples.
    """
    foray, attack = parse_dictionary([FORAY, ATTACK])
    assert foray == Synset(
        offset=976953, lemma="foray", hypernyms=(975452,), definition="a sudden short attack"
    )
    assert attack.hypernyms == ()
    assert attack.definition == "an Offensive,  against an enemy"
    assert attack.normalized == "an offensive against an enemy"
    line = '00000001 03 n 01 a 0 000 | a letter; "A comes first\n'
    assert parse_dictionary([line])[0].definition == "a letter"


def test_ancestors_follow_every_path_include_the_synset_and_survive_a_circle() -> None:
    """The ancestors of a synset are itself and all synsets above it, on every path.

    In a circle of two synsets, both are the ancestors of each.
    """
    hypernyms_of_synset = {1: (), 2: (1,), 3: (1,), 4: (2, 3)}
    diamond_of_synsets = [
        Synset(offset, lemma="x", hypernyms=hypernyms, definition="")
        for offset, hypernyms in hypernyms_of_synset.items()
    ]
    assert ancestors(diamond_of_synsets) == {1: {1}, 2: {1, 2}, 3: {1, 3}, 4: {1, 2, 3, 4}}
    assert ancestors(
        [
            Synset(offset=1, lemma="a", hypernyms=(2,), definition=""),
            Synset(offset=2, lemma="b", hypernyms=(1,), definition=""),
        ]
    ) == {1: {1, 2}, 2: {1, 2}}


ANCESTORS = {1: frozenset({1})} | {kind: frozenset({1, kind}) for kind in (2, 3)}
ANCESTORS |= {synset: frozenset({1, 2 if synset < 12 else 3, synset}) for synset in range(10, 15)}


def test_labels_are_the_commonest_public_hypernyms_but_the_root() -> None:
    """Labels are the most frequent hypernyms of public synsets, up to the given prevalence.

    The smaller number decides ties. The matrix has the labels of each record.
    """
    public_synsets = [10, 11, 12, 13, 14]
    assert choose_labels(ANCESTORS, public_synsets, num_labels=2) == [3, 2]
    # a tie among five goes to the smallest
    assert choose_labels(ANCESTORS, public_synsets, num_labels=3) == [3, 2, 10]
    assert choose_labels(ANCESTORS, public_synsets, num_labels=1, max_prevalence=0.5) == [2]
    assert choose_labels(ANCESTORS, public_synsets, num_labels=1, max_prevalence=1.0) == [1]
    public_synsets_with_a_kind = [10, 11, 2, 12, 13]
    assert choose_labels(ANCESTORS, public_synsets_with_a_kind, num_labels=1) == [2]
    reordered_public_synsets = [14, 12, 13, 10, 11]
    assert choose_labels(ANCESTORS, reordered_public_synsets, num_labels=1) == [3]
    synsets_of_records = [11, 3, 1]
    assert label_matrix(ANCESTORS, records=synsets_of_records, labels=[3, 2]).tolist() == [
        [False, True],
        [True, False],
        [False, False],
    ]


def test_labels_that_share_a_name_are_numbered() -> None:
    """Labels with the same lemma get numbers in the order of their offsets, such as substance_1 and substance_2."""
    synsets = [
        Synset(offset=1, lemma="part", hypernyms=(), definition=""),
        Synset(offset=5, lemma="substance", hypernyms=(), definition=""),
        Synset(offset=3, lemma="substance", hypernyms=(), definition=""),
    ]
    assert label_names(synsets, labels=[5, 1, 3]) == ("substance_2", "part", "substance_1")


def test_splits_have_the_sizes_asked_for_and_share_no_family() -> None:
    """200 records, some in families of three, are dealt into splits of 50, 30 and the remaining 120.

    No family is in two splits.
    """
    family_of_record = {
        record: record - record % 3 if record < 60 else record for record in range(200)
    }
    public, test, private = deal_splits(family_of_record, sizes=(50, 30))
    assert [len(public), len(test), len(private)] == [50, 30, 120]
    assert sorted(public + test + private) == list(range(200))
    families_of_splits = [
        {family_of_record[record] for record in split} for split in (public, test, private)
    ]
    assert not (
        families_of_splits[0] & families_of_splits[1]
        or families_of_splits[0] & families_of_splits[2]
        or families_of_splits[1] & families_of_splits[2]
    )


TEXTS = [
    f"{color} {shape} on a {color} table"
    for color in ("red", "blue", "green")
    for shape in ("cup", "jug")
]


def test_codes_are_unit_vectors_times_127_and_components_the_leading_singular_vectors() -> None:
    """Codes of texts are int8 vectors of length 127, within 1%.

    The components span the leading singular vectors of the matrix of texts, and their largest entries are positive.
    """
    fitted = Representation.fit(TEXTS, num_dims=3)
    codes = fitted.encode(TEXTS)
    assert codes.dtype == np.int8
    lengths = np.linalg.norm(codes / STEPS, axis=1)
    # each of 3 entries is off by at most 0.5 / 127
    np.testing.assert_allclose(lengths, 1.0, atol=0.01)
    component_columns = fitted.components
    matrix = fitted.vectorizer.transform(TEXTS).toarray()
    _, values, rows = np.linalg.svd(matrix)
    assert values[2] - values[3] > 0.01
    np.testing.assert_allclose(np.abs(np.sum(rows[0] * component_columns[:, 0])), 1.0, atol=1e-12)
    projector = component_columns @ component_columns.T
    np.testing.assert_allclose(projector, rows[:3].T @ rows[:3], atol=1e-12)
    largest = np.abs(component_columns).argmax(axis=0)  # whose sign is fixed
    assert (component_columns[largest, range(3)] > 0).all()


SHA256 = "50b31ded30bec3ca625356954bf6cfcf5adc8d860f40f8191302ed36409be495"
DICTIONARY = Path("/usr/share/wordnet/data.noun")  # where Debian's wordnet-base puts it
ROOT = Path(__file__).parents[2]
SMALL_RECIPE = Recipe(num_public=20, num_test=12, num_labels=3, num_dims=4)


def test_the_vendored_archive_is_the_measured_one() -> None:
    """The archive in the package has the recorded SHA-256."""
    assert hashlib.sha256(ARCHIVE.read_bytes()).hexdigest() == SHA256


def test_a_small_dictionary_becomes_arrays(
    dictionary_lines: list[str],
) -> None:
    """A dictionary of 52 synsets becomes splits of 20, 12 and 20 records.

    Each record has the label of its kind, and the root has none.
    """
    arrays = SMALL_RECIPE.build(dictionary_lines)
    assert arrays["split_sizes"].tolist() == [20, 12, 20]
    assert arrays["features"].shape == (52, 4)
    assert sorted(arrays["label_names"].tolist()) == ["animal", "plant", "tool"]
    labels = np.unpackbits(arrays["labels"], axis=1, count=3).astype(bool)
    kind_of = {
        name: 2 + ("animal", "plant", "tool").index(name) for name in arrays["label_names"].tolist()
    }
    for record, row in zip(arrays["record_ids"].tolist(), labels.tolist(), strict=True):
        kind = 2 + (record - 100) % 3 if record >= 100 else record
        assert row == [kind_of[name] == kind for name in arrays["label_names"].tolist()]


def test_no_private_gloss_reaches_vocabulary_components_or_labels(
    dictionary_lines: list[str],
) -> None:
    """If every private definition is changed, public and test rows have the same features and labels, bit by bit."""
    before = SMALL_RECIPE.build(dictionary_lines)
    private_ids = {f"{record:08d}" for record in before["record_ids"][32:]}
    changed_lines = [
        line.split("|")[0] + f"| secret secret {line[:8]}" if line[:8] in private_ids else line
        for line in dictionary_lines
    ]
    after = SMALL_RECIPE.build(changed_lines)
    assert changed_lines != dictionary_lines
    for name in ("record_ids", "features", "labels"):
        assert after[name][:32].tolist() == before[name][:32].tolist()
    assert after["label_names"].tolist() == before["label_names"].tolist()
    assert after["features"][32:].tolist() != before["features"][32:].tolist()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not DICTIONARY.exists(), reason="Debian's wordnet-base is not installed")
def test_the_script_makes_the_same_bytes_again(tmp_path: Path) -> None:
    """From Debian's WordNet, the script builds the archive in the package byte for byte."""
    command = [
        sys.executable,
        "-m",
        "scripts.build_wordnet",
        DICTIONARY,
        "--output",
        tmp_path / "out.npz",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    assert SHA256 in ended.stdout
    assert (tmp_path / "out.npz").read_bytes() == ARCHIVE.read_bytes()
