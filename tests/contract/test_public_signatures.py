"""The public interface keeps its names and keywords, because a rename breaks the code of those who use them."""

import pytest

from scripts.public_signatures import lost_names, present_signatures, read_record


@pytest.mark.slow
def test_no_public_name_or_keyword_is_lost() -> None:
    """Each recorded public name exists and takes each recorded keyword.

    Whoever takes one away on purpose says so in CHANGELOG.md and runs `python scripts/public_signatures.py`.
    """
    assert lost_names(read_record(), present=present_signatures()) == []


def test_a_renamed_keyword_and_a_removed_function_are_noticed() -> None:
    """Negative control: a function without one of its keywords, and a name that is gone, are two losses."""
    recorded = {"pate.scale": ["length", "factor"], "pate.Gone": []}
    present = {"pate.scale": ["size", "factor"], "pate.New": []}
    assert lost_names(recorded, present=present) == [
        "pate.scale has lost length",
        "pate.Gone is gone",
    ]
    assert (
        lost_names(recorded, present=recorded | present | {"pate.scale": ["length", "factor"]})
        == []
    )
