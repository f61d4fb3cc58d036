"""Crashes by docs/proofs/store.md: an uncommitted draw costs nothing where the crash does not depend on the draw."""

from fractions import Fraction

HALF = Fraction(1, 2)
LAW = {"data": (Fraction(3, 4), Fraction(1, 4)), "neighbor": (Fraction(1, 4), Fraction(3, 4))}
E_EPSILON = 3


def committed(
    law: tuple[Fraction, Fraction], crash: tuple[Fraction, Fraction]
) -> tuple[Fraction, Fraction]:
    """Returns the law of the committed bit, where a draw of b crashes with probability crash[b] and is repeated."""
    survived = [share * (1 - lost) for share, lost in zip(law, crash, strict=True)]
    return survived[0] / sum(survived), survived[1] / sum(survived)


def test_a_draw_repeated_after_crashes_has_the_law_of_one() -> None:
    """A draw that crashes with probability 1/2, whatever was drawn, and is repeated has the law of
    a single draw.
    """
    for law in LAW.values():
        assert committed(law, crash=(HALF, HALF)) == law


def test_a_crash_that_depends_on_draw_and_data_breaks_the_price() -> None:
    """A crash whose probability depends on the drawn bit and on the data makes the ratio of
    committed bits exceed e^epsilon = 3.
    """
    first = committed(LAW["data"], crash=(Fraction(0), HALF))
    second = committed(LAW["neighbor"], crash=(HALF, Fraction(0)))
    assert LAW["data"][0] == E_EPSILON * LAW["neighbor"][0]
    assert first[0] > E_EPSILON * second[0]
