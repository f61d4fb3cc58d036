"""An attack on the best of several runs, a tuned release, refutes half of the release's price, and not the price."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from pate import accounting
from pate.testing import attack_draws

DELTA = 0.02
NUM_DRAWS = 40_000
RELEASE_NOISE = 1.0
SCORE_NOISE = 4.0
RUN_COUNT = accounting.TruncatedNegativeBinomial(eta=0.0, gamma=0.1)


def best_release(
    member: float, rng: np.random.Generator, draw_num_runs: Callable[[np.random.Generator], int]
) -> float:
    """Returns the release of the best of several runs, each of which releases a noisy sum and has a noisy score.

    Args:
        member: 1 if the attacked person is in the data, 0 otherwise.
        rng: the source of all noise.
        draw_num_runs: draws the number of runs.
    """
    num_runs = draw_num_runs(rng)
    releases = member + RELEASE_NOISE * rng.standard_normal(size=num_runs)
    # The adversary's scores are the releases and a noisy view of the member.
    scores = releases + 0.1 * (member + SCORE_NOISE * rng.standard_normal(size=num_runs))
    return float(releases[np.argmax(scores)])


def refuted_epsilon(draw_num_runs: Callable[[np.random.Generator], int]) -> float:
    """Returns the largest epsilon that an attack by draws refutes."""
    rng = np.random.default_rng(11)
    value_with_member = 1.0
    value_without_member = 0.0
    attack = attack_draws(
        partial(best_release, draw_num_runs=draw_num_runs),
        value_with_member,
        value_without_member,
        delta=DELTA,
        rng=rng,
        num_draws=NUM_DRAWS,
    )
    return attack.lower_bound


@pytest.fixture(scope="module")
def price() -> float:
    """Returns the epsilon of the tuned release, that is, of the best of a random number of runs."""
    event = accounting.tuning_event(
        base=accounting.GaussianEvent(noise_multiplier=RELEASE_NOISE),
        score=accounting.GaussianEvent(noise_multiplier=SCORE_NOISE),
        distribution=RUN_COUNT,
    )
    return accounting.AutoAccountant().compose(event).get_epsilon(target_delta=DELTA)


@pytest.mark.slow
def test_an_attack_refutes_half_of_the_price_and_not_the_price(price: float) -> None:
    """Draws of the tuned release refute half of its epsilon, and not the whole."""
    refuted = refuted_epsilon(draw_num_runs=RUN_COUNT.draw)
    assert price / 2 < refuted <= price
