"""Draws releases of votes in two rounds, and compares their law with prices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ExactAccountant, GaussianEvent
from pate.aggregators import CenteredVotes
from pate.aggregators.centered_rounds import NoisyPrevalence
from pate.aggregators.record import MemoryRecord
from pate.array_types import BoolArray, IntArray
from pate.testing import Verdict, verify_samples
from pate.votes.moment_votes import MomentVotes
from tests.privacy.divergences import record_constructed

ROUNDS = CenteredVotes(noise_multiplier=0.5, prevalence_share=0.0, rounds=2)


def require_price_of_two_rounds(
    votes_of_labels: Callable[[BoolArray], MomentVotes],
    refuted_price: GaussianEvent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fails unless sampled releases in two rounds are consistent with their price and refute `refuted_price`.

    Args:
        votes_of_labels: returns the votes of three equal records, given which of them have the label, `[3, 1]`.
        refuted_price: a price that is too low.
        monkeypatch: records the noise that each round draws.
    """
    noises = record_constructed(
        monkeypatch, module_name="pate.aggregators.centered_rounds", class_name="RoundedGaussian"
    )
    draws_by_num_with_label: dict[int, IntArray] = {}  # one set of draws, asked about both prices

    def draw_sums(histogram: Any, num_draws: int, rng: np.random.Generator) -> IntArray:
        """Returns the sums of both rounds of sampled releases in halves of a noise std, integers `[num_draws, 2]`.

        `histogram[0]` of the three records have the label. A sum is projected on the direction of the features.
        """
        if (num_records_with_label := int(histogram[0])) in draws_by_num_with_label:
            return draws_by_num_with_label[num_records_with_label]
        labels = (np.arange(3) < num_records_with_label)[:, None]
        votes = votes_of_labels(labels)
        direction = votes.public_features[0] / np.linalg.norm(votes.public_features[0])
        sums_in_stds = np.empty((num_draws, 2))
        for release_number in range(num_draws):
            record = MemoryRecord()
            noises.clear()
            prevalence = NoisyPrevalence(values=np.array([0.5]), variance=0.0)
            ROUNDS._rounds_mechanism.ask_rounds(votes, prevalence, rng=rng, record=record)
            for round_number, noise in enumerate(noises):
                committed = record.committed(f"step-{round_number}")
                assert committed is not None
                noisy_sum = float(direction @ committed["total"][:, 0])
                sums_in_stds[release_number, round_number] = noisy_sum / noise.std
        draws_by_num_with_label[num_records_with_label] = np.asarray(
            np.rint(2 * sums_in_stds.clip(-6, 6)), dtype=np.int64
        )
        return draws_by_num_with_label[num_records_with_label]

    rng = np.random.default_rng(0)

    def verdict_on(price: GaussianEvent) -> Verdict:
        return verify_samples(
            draw_sums,
            event=price,
            num_labels=1,
            num_teachers=3,
            adjacency=Adjacency.REPLACE_ONE,
            num_samples=2000,
            accountant=ExactAccountant,
            rng=rng,
        )

    verdict_on(GaussianEvent(noise_multiplier=ROUNDS.votes_multiplier)).require()
    assert verdict_on(refuted_price).refuted
