"""Aggregators that answer in sessions: their end, rounds, continuation, priors, and prices.

A session ends after a given number of hits. A hit is a query whose outcome is the boundary, or whose check against a
prior (a guess of its labels) fails. A record stores the answers of each round of queries.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate import accounting
from pate.accounting.event_tree import failure_probability, leaves
from pate.accounting.target_charging import not_prior, tight_boundary
from pate.aggregators import BoundaryMax, BoundaryTopK, NotPriorTopK
from pate.aggregators.record import MemoryRecord, ReleaseRecord
from pate.aggregators.release import ChargedRelease
from pate.aggregators.session import Round
from pate.aggregators.session_event import session_event
from pate.array_types import BoolArray
from pate.run.session_progress import SessionProgressRecord
from pate.votes.arrays import CountedVotes
from tests.contract.case import record_that_charges
from tests.refusals import refused_parameter

CLEAR_COUNTS = [40, 39, 0, 0]
UNSURE_COUNTS = [20, 20, 20, 20]
PRIOR_OF_QUERY = [True, True, False, False]
NO_ANSWER = None  # the outcome of a hit without a stable set of labels
NOT_PRIOR = NotPriorTopK(
    prior_scale=1.0,
    selection_scale=2.0,
    table_order=3.0,
    table_budget=4.0,
    first_queries=3,
    target_hits=2,
    round_size=4,
    session_delta=1e-3,
)


def boundary_max(*, target_hits: int = 5, round_size: int = 20) -> BoundaryMax:
    """Returns the aggregator of a boundary-max session; a query whose outcome is the boundary is an unanswered hit."""
    return BoundaryMax(
        selection_scale=3.0,
        target_hits=target_hits,
        round_size=round_size,
        session_delta=1e-3,
    )


def release_of_session(
    aggregator: Any,
    counts_of_queries: Any,
    seed: int = 0,
    *,
    ledger: accounting.Ledger | None = None,
) -> ChargedRelease:
    """Returns the release of a session for 40 teachers."""
    rng = np.random.default_rng(seed)
    release = aggregator.aggregate(counts_of_queries, num_teachers=40, rng=rng, ledger=ledger)
    assert isinstance(release, ChargedRelease)
    return release


def test_a_session_ends_with_its_last_hit() -> None:
    """A session of 5 hits with 200 unsure queries ends with the fifth hit, and later queries are not asked.

    Every asked query is answered unless it is a hit.
    """
    release = release_of_session(aggregator=boundary_max(), counts_of_queries=[UNSURE_COUNTS] * 200)
    assert (release.num_hits, release.remaining_hits, release.num_abstained) == (5, 0, 5)
    assert np.flatnonzero(release.hits)[-1] + 1 == release.num_asked < 200
    assert not release.answered[release.num_asked :].any()
    assert release.answered[: release.num_asked].sum() == release.num_asked - 5


@pytest.mark.parametrize("round_size", [1, 7, 500])
def test_rounds_do_not_change_a_boundary_session(round_size: int) -> None:
    """A session in rounds has the labels, hits and number of asked queries of a session in one round.

    The rounds have 1 or 7 queries, or room for more than all.
    """
    counts_of_queries = [UNSURE_COUNTS] * 60
    in_one_round = release_of_session(
        aggregator=boundary_max(round_size=60), counts_of_queries=counts_of_queries
    )
    in_rounds = release_of_session(
        aggregator=boundary_max(round_size=round_size), counts_of_queries=counts_of_queries
    )
    np.testing.assert_array_equal(in_one_round.labels, in_rounds.labels)
    np.testing.assert_array_equal(in_one_round.hits, in_rounds.hits)
    assert in_one_round.num_asked == in_rounds.num_asked


class InterruptedRecord(MemoryRecord):
    """A record that raises KeyboardInterrupt in place of storing one part, as if the run were killed.

    Args:
        interrupted_part: the number of that part, from 1 on.
    """

    def __init__(self, interrupted_part: int) -> None:
        super().__init__()
        self.interrupted_part = interrupted_part

    def part(self, name: str, draw: Any) -> Any:
        """Returns a committed or newly drawn part; raises KeyboardInterrupt in place of part `interrupted_part`."""
        if len(self.parts) == self.interrupted_part - 1 and name not in self.parts:
            raise KeyboardInterrupt
        return super().part(name, draw)


def record_with_first_round(first_round: Round) -> MemoryRecord:
    """Returns a record that already has the first round of a session, as if another process had committed it."""
    record = MemoryRecord()
    record.parts["round-0"] = first_round._asdict()
    return record


class Reports:
    """The reports of progress of a session.

    Attributes:
        nums_asked: the number of queries that were asked up to each report.
        nums_hits: the number of hits up to each report.
        nums_remaining: the number of hits that remain at each report.
    """

    def __init__(self) -> None:
        self.nums_asked: list[int] = []
        self.nums_hits: list[int] = []
        self.nums_remaining: list[int] = []

    def add(self, num_asked: int, num_hits: int, num_remaining: int) -> None:
        """Adds a report of progress."""
        self.nums_asked.append(num_asked)
        self.nums_hits.append(num_hits)
        self.nums_remaining.append(num_remaining)


def release_from_source(
    aggregator: Any, counts_of_queries: Any, record: ReleaseRecord, seed: int = 0
) -> Any:
    """Returns the release of a session from a source of votes, with a record of its rounds."""
    source = CountedVotes(counts=np.array(counts_of_queries), num_teachers=40)
    return aggregator.release(source, rng=np.random.default_rng(seed), record=record)


def test_continued_session_releases_the_same_answers() -> None:
    """A session that is interrupted after its second round and continued has the answers of one without interruption.

    Progress is reported also for the rounds that were committed before the interruption.
    """
    counts_of_queries = [[40, 0, 0, 0]] * 38 + [UNSURE_COUNTS] * 100
    record = InterruptedRecord(interrupted_part=3)
    reports = Reports()
    aggregator = boundary_max(target_hits=8)
    with pytest.raises(KeyboardInterrupt):
        release_from_source(
            aggregator=aggregator, counts_of_queries=counts_of_queries, record=record
        )
    record.interrupted_part = 99
    progress_record = SessionProgressRecord(record, target_hits=8, on_round=reports.add)
    continued = release_from_source(
        aggregator=aggregator, counts_of_queries=counts_of_queries, record=progress_record
    )
    uninterrupted = release_of_session(aggregator=aggregator, counts_of_queries=counts_of_queries)
    np.testing.assert_array_equal(continued.labels, uninterrupted.labels)
    np.testing.assert_array_equal(continued.hits, uninterrupted.hits)
    assert reports.nums_asked[:3] == [20, 40, 60]


def test_committed_round_replaces_a_round_drawn_anew() -> None:
    """A round that another process committed to the record is released in place of a new draw."""
    round_of_other_process = Round(
        labels=np.ones((20, 4), bool), answered=np.ones(20, bool), hits=np.zeros(20, bool)
    )
    release = release_from_source(
        aggregator=boundary_max(),
        counts_of_queries=[UNSURE_COUNTS] * 60,
        record=record_with_first_round(round_of_other_process),
    )
    assert release.labels[:20].all()
    assert not release.hits[:20].any()


def test_session_continues_after_its_committed_rounds() -> None:
    """A session that is interrupted after two rounds and continued with another seed keeps the answers of both rounds.

    Progress is reported again for both rounds.
    """
    counts_of_queries = [UNSURE_COUNTS] * 60
    record = InterruptedRecord(interrupted_part=3)
    reports = Reports()
    aggregator = boundary_max(target_hits=20)
    with pytest.raises(KeyboardInterrupt):
        release_from_source(
            aggregator=aggregator,
            counts_of_queries=counts_of_queries,
            record=SessionProgressRecord(record, target_hits=20, on_round=reports.add),
        )
    assert reports.nums_asked == [20, 40]
    assert (np.add(reports.nums_hits, reports.nums_remaining) == 20).all()
    committed_labels = {name: arrays["labels"].copy() for name, arrays in record.parts.items()}
    record.interrupted_part = 99
    release = release_from_source(
        aggregator=aggregator,
        counts_of_queries=counts_of_queries,
        record=SessionProgressRecord(record, target_hits=20, on_round=reports.add),
        seed=1,
    )
    assert reports.nums_asked[2:4] == reports.nums_asked[:2]
    assert reports.nums_hits[2:4] == reports.nums_hits[:2]
    assert reports.nums_remaining[2:4] == reports.nums_remaining[:2]
    np.testing.assert_array_equal(release.labels[:20], committed_labels["round-0"])
    np.testing.assert_array_equal(release.labels[20:40], committed_labels["round-1"])


def test_a_seed_in_place_of_a_generator_is_refused() -> None:
    """`release` refuses the number 5 in place of a random generator."""
    seed: Any = 5
    counted_votes = CountedVotes(counts=np.array([UNSURE_COUNTS] * 6), num_teachers=40)
    with refused_parameter("rng", value=5):
        boundary_max().release(counted_votes, rng=seed, record=MemoryRecord())


def test_stored_round_that_does_not_fit_the_session_is_refused() -> None:
    """A committed round is refused if it has a wrong number of queries, or more hits than the session."""
    empty_round = Round(
        labels=np.zeros((20, 4), bool), answered=np.zeros(20, bool), hits=np.zeros(20, bool)
    )
    short_round = empty_round._replace(labels=np.zeros((19, 4), bool))
    round_of_six_hits = empty_round._replace(hits=np.arange(20) < 6)
    for stored_round, refusal in (
        (short_round, refused_parameter("round", value=(19, 4))),
        (round_of_six_hits, refused_parameter("round", value="6 hits")),
    ):
        with refusal:
            release_from_source(
                aggregator=boundary_max(),
                counts_of_queries=[UNSURE_COUNTS] * 40,
                record=record_with_first_round(stored_round),
            )


def test_the_whole_session_is_in_the_ledger_before_the_first_round() -> None:
    """At every report of progress, the ledger has one entry, the event of the whole session."""
    ledger = accounting.Ledger(target_delta=1e-3)
    nums_entries_at_reports = []

    def count_entries(_num_asked: int, _num_hits: int, _num_remaining: int) -> None:
        nums_entries_at_reports.append(len(ledger.entries))

    counts_of_queries = [UNSURE_COUNTS] * 60
    record = record_that_charges(
        ledger,
        aggregator=boundary_max(),
        votes=CountedVotes(counts=np.array(counts_of_queries), num_teachers=40),
    )
    release_from_source(
        aggregator=boundary_max(),
        counts_of_queries=counts_of_queries,
        record=SessionProgressRecord(record, target_hits=5, on_round=count_entries),
    )
    assert set(nums_entries_at_reports) == {1}
    assert ledger.entries[0].event == boundary_max().event_for(
        num_queries=60, num_labels=4, num_teachers=40
    )


def test_session_composes_few_queries_and_counts_hits_of_many() -> None:
    """The event of a session composes all calls if they are few, and otherwise as many as the number of hits requires.

    The event is the same for 500 and for 10^9 calls, with a failure probability below the session's delta. For the
    target `tight_boundary`, the events of 9 to 138 calls have one pure-DP event as their only leaf.
    """

    def event_of_calls(num_calls: int) -> Any:
        return session_event(
            make_q_target=not_prior,
            call_epsilon=0.1,
            target_hits=5,
            num_calls=num_calls,
            session_delta=1e-6,
        )

    assert event_of_calls(num_calls=0) == accounting.NoOpEvent()
    assert event_of_calls(num_calls=9) == accounting.ApproximateEvent(
        accounting.SelfComposedEvent(accounting.PureDpEvent(epsilon=0.1), count=9), failure_prob=0.0
    )
    # A session within the boundary wrapper is composed of one kind of event, however many calls it has.
    for num_calls in (9, *range(20, 140, 2)):
        event_with_wrapper = session_event(
            make_q_target=tight_boundary,
            call_epsilon=0.1,
            target_hits=5,
            num_calls=num_calls,
            session_delta=1e-6,
        )
        assert [leaf for leaf, _ in leaves(event_with_wrapper)] == [
            accounting.PureDpEvent(tight_boundary(call_epsilon=0.1).epsilon)
        ]
    event_of_many = event_of_calls(num_calls=500)
    assert event_of_many == event_of_calls(num_calls=10**9)
    assert 0 < failure_probability(event_of_many) < 1e-6
    assert next(leaves(event_of_many))[1] < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "accountant", [accounting.RdpAccountant, accounting.ExactAccountant, accounting.AutoAccountant]
)
def test_checks_are_priced_by_hits_if_cheaper_with_the_releases(
    accountant: type[accounting.Accountant],
) -> None:
    """A session of checks with a release after each hit costs at least 3% less by its hits than by its accesses.

    An access is one use of the private data at the epsilon of a call.
    """
    checks = NotPriorTopK(
        prior_scale=20.0,
        selection_scale=40.0,
        table_order=4.0,
        table_budget=0.004,
        target_hits=10,
        failure_prob=1e-10,
    )
    event = checks.event_for(num_queries=600, num_labels=40, num_teachers=400)
    session = next(leaf for leaf, _ in leaves(event) if isinstance(leaf, accounting.SessionEvent))
    accesses = accounting.ComposedEvent(
        (
            session.accesses,
            checks.release_step.event_for(num_queries=60, num_labels=40, num_teachers=400),
        )
    )
    epsilon_by_hits = accountant().compose(event).get_epsilon(target_delta=1e-6)
    epsilon_by_accesses = accountant().compose(accesses).get_epsilon(target_delta=1e-6)
    assert epsilon_by_hits < 0.97 * epsilon_by_accesses


def test_failures_of_calls_stay_below_the_session_s_delta() -> None:
    """Calls whose failure probabilities add up to the session's delta of 1e-6 are refused.

    The event of 100 calls with 1e-9 each has at least their failure probability of 1e-7.
    """
    aggregator = BoundaryTopK(selection_scale=9.0, test_std=3.0, failure_prob=1e-9)
    with refused_parameter("failure_prob", rule_words=", and 1e-06"):
        aggregator.event_for(num_queries=1000, num_labels=4, num_teachers=40)
    event = aggregator.event_for(num_queries=100, num_labels=4, num_teachers=40)
    assert failure_probability(event) >= 1e-7


def test_only_queries_that_contradict_the_prior_are_hits() -> None:
    """Of seven clear queries, only the one with other labels than the prior is a hit.

    It is answered with its own labels.
    """
    clear_counts_of_other_labels = [0, 0, 40, 39]
    counts_of_queries = np.array(
        [CLEAR_COUNTS] * 4 + [clear_counts_of_other_labels] + [CLEAR_COUNTS] * 2
    )
    prior = np.tile(PRIOR_OF_QUERY, (7, 1))
    release = release_of_session(
        aggregator=NOT_PRIOR.with_prior(prior), counts_of_queries=counts_of_queries
    )
    np.testing.assert_array_equal(release.hits, [False] * 4 + [True, False, False])
    np.testing.assert_array_equal(release.labels[4], [False, False, True, True])
    assert release.answered.all()
    assert (release.num_hits, release.num_abstained, release.num_asked) == (1, 0, 7)


def test_the_first_queries_are_not_checked_and_no_prior_is_a_hit() -> None:
    """The first 3 queries are released without a check.

    Without a prior, every later query is a hit, so the session of 2 hits ends after 5 queries.
    """
    release = release_of_session(aggregator=NOT_PRIOR, counts_of_queries=[CLEAR_COUNTS] * 9)
    np.testing.assert_array_equal(np.flatnonzero(release.hits), [3, 4])
    assert release.num_asked == 5
    np.testing.assert_array_equal(release.answered, np.arange(9) < 5)


def test_prior_rule_sees_only_earlier_rounds() -> None:
    """A prior that is a function is called once for each round, with the labels and answered flags of earlier rounds.

    Both arrays have a row for each query of the earlier rounds. The function also gets the number of queries in the
    round.
    """
    calls = []

    def predict(labels: Any, answered: Any, num_queries: int) -> Any:
        calls.append((len(labels), len(answered), num_queries))
        return np.tile(PRIOR_OF_QUERY, (num_queries, 1))

    release_of_session(
        aggregator=replace(NOT_PRIOR, round_size=50).with_prior(predict),
        counts_of_queries=[CLEAR_COUNTS] * 100,
    )
    assert calls == [(0, 0, 3), (3, 3, 25), (28, 28, 28), (56, 56, 44)]


def test_impossible_priors_are_refused_before_anything_is_spent() -> None:
    """A prior of a wrong shape or type is refused before a charge.

    A prior function whose array has a wrong shape is refused in the session.
    """
    ledger = accounting.Ledger(target_delta=1e-3)
    with refused_parameter("prior.shape", value=(8, 4), rule_words="(9"):
        release_of_session(
            aggregator=NOT_PRIOR.with_prior(np.ones((8, 4), bool)),
            counts_of_queries=[CLEAR_COUNTS] * 9,
            ledger=ledger,
        )
    with refused_parameter("prior.dtype", value="int64"):
        prior_of_integers: Any = np.ones((9, 4), np.int64)
        NOT_PRIOR.with_prior(prior_of_integers)
    assert ledger.entries == []

    def predict_one_query(labels: BoolArray, answered: BoolArray, num_queries: int) -> BoolArray:
        return np.ones((1, 4), dtype=np.bool_)

    with refused_parameter("prior", value="bool (1, 4)", rule_words="bool [3"):
        release_of_session(
            aggregator=NOT_PRIOR.with_prior(predict_one_query),
            counts_of_queries=[CLEAR_COUNTS] * 9,
        )


def test_a_session_pays_for_the_first_queries_and_the_hits() -> None:
    """The event of 1000 queries has 5 releases: of the first 3 queries, which are not checked, and of 2 hits.

    It also has pure-DP events of checks; the event of 3 queries has none.
    """
    event = NOT_PRIOR.event_for(num_queries=1000, num_labels=4, num_teachers=40)
    counts = {type(leaf).__name__: count for leaf, count in leaves(event)}
    assert counts["BoundedRangeEvent"] == counts["OneBitEvent"] == 5
    assert counts["PureDpEvent"] > 2
    event_of_first_queries = NOT_PRIOR.event_for(num_queries=3, num_labels=4, num_teachers=40)
    assert {type(leaf).__name__: count for leaf, count in leaves(event_of_first_queries)} == {
        "BoundedRangeEvent": 3,
        "OneBitEvent": 3,
        "NoOpEvent": 1,
    }


def test_refused_hit_is_charged() -> None:
    """A hit that is not answered counts, so a session of 2 hits ends after 2 of them.

    A prior that names no label makes each query a hit here. No set of labels with equal counts is stable, so no hit is
    answered.
    """
    all_false_prior = np.zeros((10, 4), dtype=np.bool_)
    session = replace(NOT_PRIOR, first_queries=0).with_prior(all_false_prior)
    release = release_of_session(aggregator=session, counts_of_queries=[UNSURE_COUNTS] * 10)
    assert not release.answered.any()
    assert (release.num_hits, release.num_abstained, release.num_asked) == (2, 2, 2)


def test_answer_to_a_hit_is_independent_of_its_check() -> None:
    """The answers to hits have the frequencies of stable top-k alone, although hits are checked before."""
    aggregator = replace(
        NOT_PRIOR,
        prior_scale=5.0,
        prior_margin=6.0,
        selection_scale=4.0,
        table_budget=1.0,
        failure_prob=0.01,
        first_queries=0,
        target_hits=20_000,
        round_size=20_000,
    )
    counts_of_query = np.array([22, 14, 8, 0])
    session = aggregator.with_prior(np.tile(PRIOR_OF_QUERY, (20_000, 1)))
    release = release_of_session(
        aggregator=session, counts_of_queries=np.tile(counts_of_query, (20_000, 1))
    )
    labels = release.labels[release.hits]
    answered = release.answered[release.hits]
    num_hits = len(answered)
    assert abs(num_hits / 20_000 - 0.5) < 5 * 0.5 / np.sqrt(20_000)
    distribution = aggregator.release_step.distribution(counts_of_query, num_teachers=40)
    refusal_prob = distribution.pop(NO_ANSWER)
    assert refusal_prob == pytest.approx(1 - answered.mean(), abs=5 * 0.5 / np.sqrt(num_hits))
    for chosen, probability in distribution.items():
        is_chosen = np.isin(np.arange(4), chosen or ())
        frequency = (answered & (labels == is_chosen).all(axis=1)).mean()
        std_of_frequency = np.sqrt(probability * (1 - probability) / num_hits)
        assert abs(frequency - probability) < 5 * std_of_frequency


def outcome_frequencies(
    aggregator: NotPriorTopK, counts_of_query: list[int], num_queries: int
) -> dict[object, float]:
    """Returns the share of queries with each outcome, if equal queries are checked against the prior of labels 0 and 1.

    The outcome is "prior" if the query is no hit. The outcome of a hit is the tuple of its labels, or None without an
    answer.
    """
    counts_of_queries = np.tile(counts_of_query, (num_queries, 1))
    prior = np.tile(PRIOR_OF_QUERY, (num_queries, 1))
    endless = replace(
        aggregator,
        first_queries=0,
        target_hits=num_queries,
        session_delta=1e-2,
        round_size=num_queries,
    )
    release = release_of_session(
        aggregator=endless.with_prior(prior), counts_of_queries=counts_of_queries
    )
    outcomes: list[object] = []
    for labels, answered, hit in zip(release.labels, release.answered, release.hits, strict=True):
        if not hit:
            outcomes.append("prior")
        elif answered:
            outcomes.append(tuple(np.flatnonzero(labels).tolist()))
        else:
            outcomes.append(NO_ANSWER)
    return {outcome: outcomes.count(outcome) / num_queries for outcome in set(outcomes)}


@pytest.mark.parametrize("noise_factor", [1.0, 1.5])
def test_checked_query_follows_its_exact_distribution(noise_factor: float) -> None:
    """A query is first checked against its prior: with the tabulated probability the prior holds, and there is no hit.

    Otherwise stable top-k answers the query. The frequencies of the outcomes are within 5 standard deviations of this
    distribution. Negative control: they are not within 5 of the distribution for 1.5 times the noise.
    """
    counts_of_query = [22, 20, 18, 3]
    num_queries = 20_000
    num_teachers = 40
    aggregator = replace(NOT_PRIOR, prior_scale=4.0, failure_prob=1e-2)
    assumed_aggregator = aggregator.scaled(noise_factor)
    index_of_margin_2 = num_teachers + 2
    hold_prob = float(
        assumed_aggregator.check_probabilities(num_teachers=num_teachers)[index_of_margin_2]
    )
    distribution: dict[object, float] = {"prior": hold_prob}
    distribution_of_hits = assumed_aggregator.release_step.distribution(
        np.array(counts_of_query), num_teachers=num_teachers
    )
    for outcome, probability in distribution_of_hits.items():
        distribution[outcome] = (1 - hold_prob) * probability
    observed_frequencies = outcome_frequencies(
        aggregator=aggregator, counts_of_query=counts_of_query, num_queries=num_queries
    )
    deviations = [
        abs(observed_frequencies.get(outcome, 0.0) - probability)
        / np.sqrt(probability * (1 - probability) / num_queries)
        for outcome, probability in distribution.items()
        if probability > 1e-3
    ]
    assert bool(max(deviations) < 5) is (noise_factor == 1.0)


def test_saved_release_of_a_session_is_read_back_with_its_target_hits(tmp_path: Path) -> None:
    """A release of a session that was saved is loaded equal, if the caller passes the number of hits of the session."""
    release = release_of_session(boundary_max(target_hits=2), [CLEAR_COUNTS, UNSURE_COUNTS] * 5)
    path = tmp_path / "release.npz"
    release.save(path)
    loaded = ChargedRelease.load(
        path, event=release.event, adjacency=release.adjacency, target_hits=release.target_hits
    )
    np.testing.assert_array_equal(loaded.labels, release.labels)
    np.testing.assert_array_equal(loaded.hits, release.hits)
    assert (loaded.num_asked, loaded.remaining_hits) == (release.num_asked, release.remaining_hits)
