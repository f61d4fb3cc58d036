"""`scripts/proofs/pin.py` reports proof notes that must be read again, as the code that they prove has changed."""

import pytest

from scripts.proofs import pin

SOURCE_CODE = '''
def price(noise):
    """Returns a price.

    Source: docs/proofs/gnmax.md.
    """
    return 1 / noise  # as proved
'''


@pytest.fixture(name="present_pins", scope="module")
def compute_present_pins() -> pin.Pins:
    """Returns the digests of all code that names a proof note, as it is now."""
    return pin.current_pins()


def digest_of_function(source_code: str) -> str:
    """Returns the digest of the only function in a source."""
    [(name, notes, value)] = pin.pinned_code(source_code)
    assert name == "price"
    assert notes == ["gnmax"]
    return value


def test_every_note_was_read_with_the_present_code(present_pins: pin.Pins) -> None:
    """No code that names a proof note has changed since its digests were recorded."""
    changed_pins = pin.changes(pin.read_pins(), now=present_pins)
    assert not changed_pins, "\n" + "\n".join(changed_pins)


def test_every_cited_note_exists(present_pins: pin.Pins) -> None:
    """Each note that code names is a page, and each page, except perhaps zcdp.md, is named by code."""
    pages = {path.stem for path in pin.NOTES.glob("*.md")} - {"index"}
    cited = present_pins.keys()
    assert cited <= pages
    assert pages - cited <= {"zcdp"}


@pytest.mark.parametrize(
    "changed",
    [
        SOURCE_CODE.replace("  # as proved", "  # another comment"),
        SOURCE_CODE.replace("Returns a price.", "Returns another text."),
        SOURCE_CODE.replace("1 / noise", "(1\n        / noise)"),
        SOURCE_CODE.replace("(noise)", "(noise: int) -> float"),
        SOURCE_CODE.replace("    return", "    import math\n\n    return"),
    ],
    ids=["comment", "docstring", "layout", "annotation", "import"],
)
def test_words_types_and_layout_are_not_part_of_a_digest(changed: str) -> None:
    """The digest of code does not change with comments, docstrings, annotations, imports and layout."""
    assert changed != SOURCE_CODE
    assert digest_of_function(source_code=changed) == digest_of_function(source_code=SOURCE_CODE)


@pytest.mark.parametrize(
    "changed",
    [SOURCE_CODE.replace("1 / noise", "2 / noise"), SOURCE_CODE.replace("1 / noise", "1 * noise")],
)
def test_changed_code_is_named_with_what_to_do(changed: str) -> None:
    """A changed number or operation gives a line with the note, the code and the command to run."""
    before = {"gnmax": {"pate/price.py:price": digest_of_function(source_code=SOURCE_CODE)}}
    after = {"gnmax": {"pate/price.py:price": digest_of_function(source_code=changed)}}
    [line] = pin.changes(before, after)
    for words in (
        "docs/proofs/gnmax.md",
        "pate/price.py:price",
        "python scripts/proofs/pin.py gnmax",
    ):
        assert words in line


def test_new_and_removed_code_is_a_change() -> None:
    """A note counts as changed if code begins or ceases to name it."""
    code = {"gnmax": {"pate/price.py:price": "0"}}
    assert pin.changes({}, code) and pin.changes(code, {})
    assert pin.changes(code, code) == []
