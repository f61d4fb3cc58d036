"""Steps of docs/proofs/gnmax.md."""

from itertools import product

import numpy as np
from scipy.special import ndtr

from pate.accounting import ComposedEvent, GaussianEvent, SelfComposedEvent
from tests.privacy.divergences import largest_renyi, price_curve

ORDERS = np.array([1.5, 3.0, 12.0])


def test_a_halting_session_costs_its_screenings_and_its_most_answers() -> None:
    """Three screened queries with at most one answer of one bit: the exact divergence of all pairs
    of histograms is at most the price of three screenings and one answer.

    This price is below that with three answers.
    """

    def session(counts: tuple[int, ...], max_answers: int) -> np.ndarray:
        distribution = {(): 1.0}
        for count in counts:
            passing = ndtr(count - 1.0)
            one_prob = ndtr((count - 1.0) / 0.8)
            extended: dict[tuple[str, ...], float] = {}
            for path, p in distribution.items():
                if sum(step != "-" for step in path) == max_answers:
                    extended[(*path, "-")] = extended.get((*path, "-"), 0.0) + p
                    continue
                for step, q in (
                    ("-", 1 - passing),
                    ("1", passing * one_prob),
                    ("0", passing * (1 - one_prob)),
                ):
                    extended[(*path, step)] = extended.get((*path, step), 0.0) + p * q
            distribution = extended
        return np.array([distribution[path] for path in sorted(distribution)])

    def price(num_answers: int) -> np.ndarray:
        screened = SelfComposedEvent(GaussianEvent(noise_multiplier=1.0), count=3)
        event = ComposedEvent(
            (screened, SelfComposedEvent(GaussianEvent(noise_multiplier=0.8), count=num_answers))
        )
        return price_curve(event, renyi_orders=ORDERS)

    largest = np.zeros(len(ORDERS))
    for first in product(range(3), repeat=3):
        for second in product(*[[c for c in (h - 1, h, h + 1) if 0 <= c <= 2] for h in first]):
            divergences = largest_renyi(
                first_laws=session(counts=first, max_answers=1)[None],
                second_laws=session(counts=second, max_answers=1)[None],
                renyi_orders=ORDERS,
            )
            largest = np.maximum(largest, divergences)
    assert (largest <= price(num_answers=1)).all()
    assert (largest > 0.4 * price(num_answers=1)).any()
    assert (price(num_answers=1) < price(num_answers=3)).all()
