import math

import pytest

from pate.accounting import ApproximateEvent, GaussianEvent, RdpAccountant
from pate.verification import Claim, Verdict
from pate.verification.verifier import WorstPair


def test_the_claim_of_an_event() -> None:
    event = ApproximateEvent(GaussianEvent(2.0), 0.01)
    claim = Claim.of(event, orders=(2.0, 8.0), epsilons=(1.0,), deltas=(0.001,), count=3)
    spent = RdpAccountant().compose(event, 3)
    assert claim.renyi == ((2.0, pytest.approx(3 * 2 / 8)), (8.0, pytest.approx(3 * 8 / 8)))
    assert claim.failure_prob == pytest.approx(0.03)
    assert claim.deltas[0] == (1.0, spent.get_delta(1.0))
    assert claim.deltas[1] == (spent.get_epsilon(0.031), pytest.approx(0.031))


def pair(exact: float, claimed: float) -> WorstPair:
    return WorstPair("delta", 1.0, exact, claimed, (1,), (0,))


@pytest.mark.parametrize(
    ("exact", "claimed", "ratio", "exceeds"),
    [
        (0.2, 0.1, 2.0, True),
        (0.1, 0.1, 1.0, False),
        (0.1 + 5e-11, 0.1, 1.0, False),
        (0.1 + 5e-10, 0.1, 1.0, True),
        (5e-14, 0.0, 0.0, False),
        (1e-9, 0.0, math.inf, True),
        (math.inf, math.inf, 0.0, False),
    ],
)
def test_ratio_and_excess(exact: float, claimed: float, ratio: float, exceeds: bool) -> None:
    assert pair(exact, claimed).ratio == pytest.approx(ratio)
    assert pair(exact, claimed).exceeds is exceeds


def test_the_worst_refutes_if_any_does() -> None:
    verdict = Verdict((pair(0.09, 0.1), pair(0.2, 0.1), pair(0.1, 0.1)), num_pairs=4)
    assert verdict.worst.exact == 0.2
    assert verdict.renyi is None
    assert str(verdict) == (
        "REFUTED on 4 ordered pairs\n  delta at epsilon 1: exact 0.2, claimed 0.1, 2 of it; (1,) -> (0,)"
    )
