"""The unit of privacy is described in words that name the columns of the data."""

import json

import pytest

from pate.accounting import Adjacency, PrivacyUnit

PATIENT = "one value of the column mrn, with all its rows"
OWNERS = "one value of the column patient, or one of the column doctor, with all its rows"
UNITS = [
    (PrivacyUnit.of_column(column="mrn"), PATIENT, ("mrn",)),
    (
        PrivacyUnit.of_column(column="mrn").within_class,
        f"{PATIENT}, within its budget class",
        ("mrn",),
    ),
    (PrivacyUnit.of_column(column="mrn").at_one_holder, f"{PATIENT}, at one holder", ("mrn",)),
    (
        PrivacyUnit.of_owners(columns=("patient", "doctor")),
        f"{OWNERS} (who belongs with whom is public)",
        ("patient", "doctor"),
    ),
    (PrivacyUnit.of_teacher(), "one teacher, with all its records", ()),
]


@pytest.mark.parametrize(("unit", "words", "columns"), UNITS)
def test_words_name_the_columns(unit: PrivacyUnit, words: str, columns: tuple[str, ...]) -> None:
    """A unit of privacy is described by `words` and names its `columns`.

    A price under the replace-one adjacency protects this unit, so `protected_under` returns `words`. The unit that is
    read back from JSON equals the original.
    """
    assert (unit.words, unit.columns) == (words, columns)
    assert unit.protected_under(Adjacency.REPLACE_ONE) == words
    assert PrivacyUnit.from_json(values=json.loads(json.dumps(unit.to_json()))) == unit


def test_add_remove_protects_one_teacher() -> None:
    """Under add-remove, the words for a unit of one column value say that one teacher is protected.

    The same words say that a replacement of the value counts as two changes. A unit of one teacher is described by its
    own words.
    """
    under = PrivacyUnit.of_column(column="mrn").protected_under(Adjacency.ADD_REMOVE)
    assert (
        under
        == f"one teacher, with all its records; to replace {PATIENT}, counts as two such changes"
    )
    teacher = PrivacyUnit.of_teacher()
    assert teacher.protected_under(Adjacency.ADD_REMOVE) == teacher.words


def test_several_releases_protect_one_teacher_of_each() -> None:
    """With two releases under add-remove, one teacher of each release is protected, and the words say so.

    Replacing a column value then counts as two changes in each release. Under replace-one, the unit stays one value of
    the column.
    """
    patient = PrivacyUnit.of_column(column="mrn")
    teacher = PrivacyUnit.of_teacher()
    of_each = "one teacher of each release, with all its records"
    assert patient.protected_under(Adjacency.REPLACE_ONE, num_releases=2) == PATIENT
    under = patient.protected_under(Adjacency.ADD_REMOVE, num_releases=2)
    assert under == f"{of_each}; to replace {PATIENT}, counts as two such changes in each"
    for adjacency in Adjacency:
        assert teacher.protected_under(adjacency, num_releases=2) == of_each


def test_the_words_of_any_column_name_are_one_line() -> None:
    """A line break in a column name is a space in the unit's words."""
    assert (
        PrivacyUnit.of_column(column="patient\nnumber").words
        == "one value of the column patient number, with all its rows"
    )
