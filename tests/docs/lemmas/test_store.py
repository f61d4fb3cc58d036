"""Crashes by docs/proofs/store.md: a draw that is repeated costs nothing if the crash did not depend on it."""

from fractions import Fraction

HALF = Fraction(1, 2)
LAWS = {"data": (Fraction(3, 4), Fraction(1, 4)), "neighbor": (Fraction(1, 4), Fraction(3, 4))}
E_EPSILON = 3


def committed_law(
    law: tuple[Fraction, Fraction], crash_probs_of_bits: tuple[Fraction, Fraction]
) -> tuple[Fraction, Fraction]:
    """Returns the law of the committed bit.

    Args:
        law: the probabilities of the drawn bits 0 and 1.
        crash_probs_of_bits: the probabilities of a crash after the draw of 0 and of 1. After a crash the draw is
            repeated.
    """
    zero = law[0] * (1 - crash_probs_of_bits[0])
    one = law[1] * (1 - crash_probs_of_bits[1])
    return zero / (zero + one), one / (zero + one)


def test_a_draw_repeated_after_crashes_has_the_law_of_one() -> None:
    """A draw that is repeated after each crash has the law of a single draw, if each crash has probability 1/2."""
    for law in LAWS.values():
        assert committed_law(law, crash_probs_of_bits=(HALF, HALF)) == law


def test_a_crash_that_depends_on_draw_and_data_breaks_the_price() -> None:
    """If crashes depend on the bit and the data, the probabilities of a committed bit have a ratio above e^epsilon."""
    first_committed_law = committed_law(LAWS["data"], crash_probs_of_bits=(Fraction(0), HALF))
    second_committed_law = committed_law(LAWS["neighbor"], crash_probs_of_bits=(HALF, Fraction(0)))
    assert LAWS["data"][0] == E_EPSILON * LAWS["neighbor"][0]
    assert first_committed_law[0] > E_EPSILON * second_committed_law[0]
