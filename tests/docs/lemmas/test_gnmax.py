"""Steps of docs/proofs/gnmax.md."""

from itertools import product

import numpy as np
from scipy.special import ndtr

from pate.accounting import ComposedEvent, GaussianEvent, SelfComposedEvent
from tests.privacy.divergences import largest_renyi, price_curve

ORDERS = np.array([1.5, 3.0, 12.0])


def test_a_halting_session_costs_its_screenings_and_its_most_answers() -> None:
    """Three screened queries with at most one answer cost at most three screenings and one answer.

    Their exact divergence, with answers of one bit, is computed for all triples of counts from 0 to 2 and all neighbors
    of these, in which each count moves by at most 1. The price is below that of three answers.
    """

    def law_of_transcripts(counts_of_queries: tuple[int, ...]) -> np.ndarray:
        """Returns the probability of each transcript, which has "-", "0" or "1" for each query."""
        transcripts: dict[tuple[str, ...], float] = {(): 1.0}
        for count in counts_of_queries:
            pass_prob = ndtr(count - 1.0)
            one_prob = ndtr((count - 1.0) / 0.8)
            outcomes = {
                "-": 1 - pass_prob,
                "1": pass_prob * one_prob,
                "0": pass_prob * (1 - one_prob),
            }
            longer_transcripts: dict[tuple[str, ...], float] = {}
            for transcript, prob in transcripts.items():
                has_answer = any(outcome != "-" for outcome in transcript)
                for outcome, outcome_prob in ({"-": 1.0} if has_answer else outcomes).items():
                    longer_transcripts[(*transcript, outcome)] = prob * outcome_prob
            transcripts = longer_transcripts
        return np.array([transcripts[transcript] for transcript in sorted(transcripts)])

    def price(num_answers: int) -> np.ndarray:
        screenings = SelfComposedEvent(GaussianEvent(noise_multiplier=1.0), count=3)
        answers = SelfComposedEvent(GaussianEvent(noise_multiplier=0.8), count=num_answers)
        return price_curve(ComposedEvent((screenings, answers)), renyi_orders=ORDERS)

    law_by_counts_of_queries = {
        counts_of_queries: law_of_transcripts(counts_of_queries)
        for counts_of_queries in product(range(3), repeat=3)
    }
    neighboring_counts = [
        (first, second)
        for first, second in product(law_by_counts_of_queries, repeat=2)
        if max(abs(one - other) for one, other in zip(first, second, strict=True)) <= 1
    ]
    largest_divergences = largest_renyi(
        first_laws=np.array([law_by_counts_of_queries[first] for first, _ in neighboring_counts]),
        second_laws=np.array(
            [law_by_counts_of_queries[second] for _, second in neighboring_counts]
        ),
        renyi_orders=ORDERS,
    )
    assert (largest_divergences <= price(num_answers=1)).all()
    assert (largest_divergences > 0.4 * price(num_answers=1)).any()
    assert (price(num_answers=1) < price(num_answers=3)).all()
