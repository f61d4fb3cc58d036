"""ConfidentVotes and ConfidentGNMax: which queries pass, what all of them cost, and the public cap on answers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pate.accounting import ComposedEvent, Ledger, RdpAccountant, ThresholdEvent
from pate.aggregators import ConfidentVotes, GaussianVotes

VOTES = ConfidentVotes(screening_std=2.0, threshold_share=0.75, noise_std=3.0)
SHAPE = {"num_queries": 50, "num_labels": 3, "num_teachers": 20}


def test_price_is_one_bit_for_the_screening_and_one_for_each_label() -> None:
    event = VOTES.event_for(**SHAPE)
    assert isinstance(event, ComposedEvent)
    screening, answers = event.events
    assert (screening.count, answers.count) == (50, 50)
    bit = screening.event
    assert isinstance(bit, ThresholdEvent)
    assert bit.reach == 1
    np.testing.assert_allclose(expit(bit.log_odds), ndtr((np.arange(21) - 15) / 2.0), rtol=1e-9)
    assert answers.event == GaussianVotes(noise_std=3.0).event_for(**SHAPE | {"num_queries": 1})


def test_screening_looks_at_the_smallest_majority() -> None:
    """Majorities 18, 18, 11: passes with probability Phi((11 - 15) / 2); the first two alone would pass."""
    votes = np.tile([18, 2, 11], (40_000, 1))
    release = VOTES.aggregate(votes, num_teachers=20, rng=np.random.default_rng(0))
    share = release.num_answered / 40_000
    assert share == pytest.approx(ndtr(-2.0), abs=5 * (ndtr(-2.0) / 40_000) ** 0.5)
    answered = release.labels[release.answered]
    assert answered.mean(axis=0) == pytest.approx(ndtr(np.array([8, -8, 1]) / 3.0), abs=0.06)


def test_after_so_many_answers_every_query_is_refused() -> None:
    votes = np.tile([20, 0, 20], (50, 1))
    capped = replace(VOTES, max_answers=7)
    release = capped.aggregate(votes, num_teachers=20, rng=np.random.default_rng(0))
    full = VOTES.aggregate(votes, num_teachers=20, rng=np.random.default_rng(0))
    assert release.num_answered == 7
    assert full.num_answered > 40
    last = int(np.flatnonzero(release.answered)[-1])
    np.testing.assert_array_equal(release.answered[: last + 1], full.answered[: last + 1])
    assert not release.answered[last + 1 :].any()
    assert not release.labels[~release.answered].any()


def test_the_cap_is_what_makes_the_price_smaller_not_the_refusals() -> None:
    def epsilon(aggregator: ConfidentVotes) -> float:
        return RdpAccountant().compose(aggregator.event_for(**SHAPE)).get_epsilon(1e-5)

    capped = replace(VOTES, max_answers=7)
    counts = [part.count for part in capped.event_for(**SHAPE).events]
    assert counts == [50, 7]  # every screening is paid for: that a query was refused says that it failed, too
    assert epsilon(capped) < epsilon(VOTES)
    assert epsilon(replace(VOTES, max_answers=50)) == epsilon(replace(VOTES, max_answers=999)) == epsilon(VOTES)
    for aggregator in (VOTES, capped):
        spent = []
        for votes in ([20, 0, 20], [10, 10, 10]):
            ledger = Ledger(target_delta=1e-5)
            rng = np.random.default_rng(0)
            aggregator.aggregate(np.tile(votes, (50, 1)), num_teachers=20, rng=rng, ledger=ledger)
            spent.append(ledger.epsilon)
        assert spent[0] == spent[1] == pytest.approx(epsilon(aggregator))
