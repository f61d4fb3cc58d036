"""Tests that every aggregator passes.

A new aggregator needs a file in `tests/cases`, or `test_every_aggregator_has_cases` fails.
"""

import dataclasses
import inspect
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pate.aggregators
from pate.accounting import Accountant, Adjacency, AutoAccountant, Event, Ledger, RdpAccountant
from pate.accounting.event_json import event_from_json, event_to_json
from pate.aggregators import Aggregator, CenteredVotes, Release
from pate.aggregators.aggregator import fields_marked
from pate.validation import InvalidValue
from pate.votes.made_up import MadeUpVotes
from tests.contract.aggregator_cases import (
    CASES,
    CLEAR_COUNTS,
    NUM_LABELS,
    NUM_TEACHERS,
    TIED_COUNTS,
    UNSURE_COUNTS,
    Case,
    repeat_query,
)
from tests.contract.case import record_that_charges
from tests.memory import measure_memory
from tests.privacy.divergences import price_curve
from tests.refusals import ANY, refused_parameter

TARGET_EPSILON = 8.0
TARGET_DELTA = 1e-6

COUNTING = [case for case in CASES if not case.reads_teachers]
READING = [case for case in CASES if case.reads_teachers]

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
# The first case of each class that reads counts: later entries of a dict replace earlier ones, so they are reversed.
FIRST_OF_CLASS = list({type(case.aggregator): case for case in reversed(COUNTING)}.values())
every_counting_case = pytest.mark.parametrize(
    "case", COUNTING, ids=[case.name for case in COUNTING]
)
every_reading_case = pytest.mark.parametrize("case", READING, ids=[case.name for case in READING])


class Drawn(Exception):
    """Raised by `Tripwire` when noise is drawn."""


class Tripwire(np.random.Generator):
    """A generator that raises `Drawn` at the first draw."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "bit_generator":
            return super().__getattribute__(name)
        raise Drawn(name)


def rng_raising_at_first_draw() -> Tripwire:
    """Returns a generator that raises `Drawn` at the first draw."""
    return Tripwire(np.random.PCG64(0))


def event_of_large_release(
    aggregator: Aggregator, *, num_queries: int = 600, num_labels: int = 40, num_teachers: int = 800
) -> Event:
    """Returns the event of a release, by default of 600 queries and 40 labels by 800 teachers."""
    return aggregator.event_for(
        num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers
    )


def epsilon_of_large_release(aggregator: Aggregator, *, num_queries: int = 600) -> float:
    """Returns the Renyi accountant's epsilon of a release of 40 labels by 800 teachers, at delta 1e-4."""
    event = event_of_large_release(aggregator, num_queries=num_queries)
    return RdpAccountant().compose(event).get_epsilon(target_delta=1e-4)


def calibrated_for_large_release(
    aggregator: Aggregator, accountant: type[Accountant]
) -> Aggregator:
    """Returns the aggregator with noise for the target epsilon and delta of this module.

    The release has 600 queries and 40 labels by 800 teachers.
    """
    return aggregator.calibrated(
        target_epsilon=TARGET_EPSILON,
        target_delta=TARGET_DELTA,
        num_queries=600,
        num_labels=40,
        num_teachers=800,
        accountant=accountant,
    )


def aggregator_for_40_labels(case: Case) -> Aggregator:
    """Returns the aggregator for 40 labels: a regularizer that lists three numbers is replaced by one of 39 zeros."""
    regularizer = getattr(case.aggregator, "regularizer", None)
    if regularizer is None or callable(regularizer):
        return case.aggregator
    return dataclasses.replace(case.aggregator, regularizer=[0.0] * 39)


def test_every_aggregator_has_cases() -> None:
    """Every aggregator that the package exports is among the cases."""
    kinds = {value for value in vars(pate.aggregators).values() if isinstance(value, type)}
    exported = {
        kind for kind in kinds if issubclass(kind, Aggregator) and not inspect.isabstract(kind)
    }
    assert exported == {type(case.aggregator) for case in CASES}


@every_case
def test_price_is_independent_of_votes_generator_and_refusals(case: Case) -> None:
    """Releases of clear, unsure and tied votes have the same event, although they answer different numbers of queries.

    50 queries cost 50 times one query, or as much as one if all queries are one release.
    """
    expected_event = case.event(num_queries=50)
    nums_answered = []
    for seed, counts in enumerate((CLEAR_COUNTS, UNSURE_COUNTS, TIED_COUNTS)):
        release = case.draw_release(repeat_query(counts, num_queries=50), rng=seed)
        assert release.event == expected_event
        assert release.adjacency == case.aggregator.adjacency
        nums_answered.append(release.num_answered)
    # Some queries were refused, which did not change the event.
    assert len(set(nums_answered)) > 1 or not case.refuses
    renyi_orders = np.array([8.0])
    price_of_query = price_curve(case.event(num_queries=1), renyi_orders=renyi_orders)[0]
    price_of_fifty_queries = price_curve(expected_event, renyi_orders=renyi_orders)[0]
    expected_price_of_fifty = price_of_query if case.is_one_release else 50 * price_of_query
    assert price_of_fifty_queries == pytest.approx(expected_price_of_fifty, rel=1e-12)


@every_case
def test_refused_rows_are_all_false(case: Case) -> None:
    """A query without an answer has no released label.

    Of clear, unsure and tied votes some are answered; all are answered exactly if the aggregator cannot refuse.
    """
    counts = np.concatenate(
        [
            repeat_query(CLEAR_COUNTS, num_queries=100),
            repeat_query(UNSURE_COUNTS, num_queries=100),
            repeat_query(TIED_COUNTS, num_queries=100),
        ]
    )
    release = case.draw_release(counts)
    assert release.labels.dtype == release.answered.dtype == np.bool_
    assert release.labels.shape == (300, NUM_LABELS)
    assert release.num_queries == 300
    assert release.answered.any()
    assert release.answered.all() != case.refuses
    assert not release.labels[~release.answered].any()


IMPOSSIBLE_COUNTS: list[Any] = [
    [[1, 2, 3, 41]],
    [[1, 2, 3, -1]],
    [[1.0, 2.0, 3.0, 4.0]],
    [[float("nan"), 2, 3, 4]],
    [[True, False, True, False]],
    [1, 2, 3, 4],
    [[[1, 2, 3, 4]]],
    np.zeros((0, 4), dtype=int),
    np.zeros((2, 0), dtype=int),
    [[1, 2, 3, 4], [1, 2]],
    None,
]
IMPOSSIBLE_VOTES_OF_TEACHERS = [
    np.zeros((40, 2, 4), dtype=int),
    np.full((40, 2, 4), np.nan),
    np.full((40, 2, 4), 1.01),
    np.zeros((2, 4), dtype=bool),
    np.zeros((40, 0, 4), dtype=bool),
    np.zeros((39, 2, 4), dtype=bool),
]


@every_case
def test_impossible_votes_and_seeds_are_refused_before_a_charge(case: Case) -> None:
    """Impossible votes, generators, numbers of teachers and ledgers are refused before noise is drawn or charged."""
    ledger = Ledger(target_delta=1e-4)
    aggregate = case.aggregator.aggregate
    for votes in IMPOSSIBLE_VOTES_OF_TEACHERS if case.reads_teachers else IMPOSSIBLE_COUNTS:
        if case.any_real and isinstance(votes, np.ndarray) and votes.max(initial=0) == 1.01:
            continue  # real numbers of any size are its votes
        with pytest.raises(InvalidValue, match=r"^(votes|num_teachers)[^\n]*: expected [^\n]*$"):
            aggregate(
                votes, num_teachers=NUM_TEACHERS, rng=rng_raising_at_first_draw(), ledger=ledger
            )
    for seed in (0, np.int64(3), None, np.random.RandomState(0)):
        with refused_parameter("rng", value=ANY, rule_words="a numpy.random.Generator, not"):
            aggregate(
                case.votes_with(CLEAR_COUNTS), num_teachers=NUM_TEACHERS, rng=seed, ledger=ledger
            )
    for count in (0, -3, 2.5, True):
        with refused_parameter("num_teachers", value=ANY, rule_words="a whole number >= 1"):
            aggregate(
                np.zeros((1, 4), dtype=int),
                num_teachers=count,
                rng=rng_raising_at_first_draw(),
                ledger=ledger,
            )
    with refused_parameter("ledger", value="spent.db"):
        case.draw_release(UNSURE_COUNTS, rng=rng_raising_at_first_draw(), ledger="spent.db")
    assert ledger.entries == []
    assert ledger.epsilon == 0


@every_reading_case
def test_blocks_of_teachers_give_the_release_of_the_whole(case: Case) -> None:
    """With the same seed, votes in three blocks of teachers give the same release as in one array."""
    clear_counts = repeat_query(CLEAR_COUNTS, num_queries=5)
    unsure_counts = repeat_query(UNSURE_COUNTS, num_queries=5)
    votes = case.votes_with(np.concatenate([clear_counts, unsure_counts]))
    expected = case.aggregator.aggregate(
        votes, num_teachers=NUM_TEACHERS, rng=np.random.default_rng(3)
    )
    blocks = iter([votes[:7], votes[7:8], votes[8:]])
    release = case.aggregator.aggregate(
        blocks, num_teachers=NUM_TEACHERS, rng=np.random.default_rng(3)
    )
    np.testing.assert_array_equal(release.labels, expected.labels)
    np.testing.assert_array_equal(release.answered, expected.answered)


@every_case
def test_impossible_shapes_have_no_price(case: Case) -> None:
    """`event_for` refuses -1 queries, no labels and no teachers."""
    aggregator = aggregator_for_40_labels(case)
    with refused_parameter("num_queries", value=-1):
        event_of_large_release(aggregator, num_queries=-1)
    with refused_parameter("num_labels", value=0):
        event_of_large_release(aggregator, num_labels=0)
    with refused_parameter("num_teachers", value=0):
        event_of_large_release(aggregator, num_teachers=0)


@every_case
def test_ledger_is_charged_before_anything_is_drawn(case: Case, tmp_path: Path) -> None:
    """The ledger file has one entry, the event of the release, when noise is first drawn."""
    path = tmp_path / "ledger.db"
    with pytest.raises(Drawn):
        case.draw_release(
            UNSURE_COUNTS, rng=rng_raising_at_first_draw(), ledger=Ledger(path, target_delta=1e-3)
        )
    expected = case.event(num_queries=1)
    assert [entry.event for entry in Ledger(path, target_delta=1e-3).entries] == [expected]


@every_case
@pytest.mark.parametrize("prevalence_share", [0.0, 0.25])
def test_a_release_from_a_source_charges_its_announced_price(
    case: Case, prevalence_share: float
) -> None:
    """A release of votes from a source charges the ledger once, with the aggregator's event for the shape of the votes.

    `CenteredVotes` spends `prevalence_share` of the budget on the prevalence of labels; no other aggregator reads it.
    """
    aggregator = case.aggregator
    if isinstance(aggregator, CenteredVotes):
        aggregator = dataclasses.replace(aggregator, prevalence_share=prevalence_share)
    source = MadeUpVotes(
        num_queries=5,
        num_labels=NUM_LABELS,
        num_teachers=NUM_TEACHERS,
        agreement=1.0,
        num_present=2,
    )
    ledger = Ledger(target_delta=1e-4, accountant=RdpAccountant)

    def expect_no_label(labels: Any, answered: Any, num_queries: int) -> Any:
        return np.zeros((num_queries, NUM_LABELS), dtype=np.bool_)

    record = record_that_charges(ledger, aggregator=aggregator, votes=source)
    session = aggregator.with_prior(expect_no_label)
    release = session.release(source, rng=np.random.default_rng(0), record=record)
    expected_event = aggregator.event_for(
        num_queries=5, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
    )
    assert release.event == expected_event
    assert [entry.event for entry in ledger.entries] == [expected_event]
    price = RdpAccountant().compose(release.event).get_epsilon(target_delta=1e-4)
    assert ledger.epsilon == pytest.approx(price, rel=1e-9)


@every_case
def test_a_charge_that_the_ledger_refuses_releases_nothing(case: Case) -> None:
    """A ledger without room, or of another adjacency, refuses the charge before noise is drawn, and gets no entry."""
    full_ledger = Ledger(target_delta=1e-3, max_epsilon=1e-9)
    with refused_parameter("max_epsilon", value=1e-09):
        case.draw_release(UNSURE_COUNTS, rng=rng_raising_at_first_draw(), ledger=full_ledger)
    add_remove_ledger = Ledger(target_delta=1e-3, adjacency=Adjacency.ADD_REMOVE)
    with refused_parameter("adjacency", value="replace_one"):
        case.draw_release(UNSURE_COUNTS, rng=rng_raising_at_first_draw(), ledger=add_remove_ledger)
    assert full_ledger.entries == add_remove_ledger.entries == []


@pytest.mark.slow
@every_case
def test_noise_is_fresh_for_each_query(case: Case) -> None:
    """The outcomes of equal uncertain queries do not repeat with any tested period.

    Fewer than 95% of the queries have the same outcome as the query 1, 1000 or 16,384 places before. If the aggregator
    halts, the tested periods are 1 and 100.
    """
    release = case.draw_release(repeat_query(UNSURE_COUNTS, num_queries=2 * 16384 + 2000))
    outcomes = np.column_stack([release.labels, release.answered])
    if case.halts:
        outcomes = outcomes[: release.num_asked]
    assert len(np.unique(outcomes[:2000], axis=0)) > 1
    for period in (1, 100) if case.halts else (1, 1000, 16384):
        agreeing = (outcomes[:-period] == outcomes[period:]).all(axis=1).mean()
        assert agreeing < 0.95, period


@pytest.mark.slow
@every_case
def test_the_generator_decides_the_release_and_each_call_is_charged(case: Case) -> None:
    """Equal seeds give equal releases; another seed gives another one, and so does the same generator used again.

    Each of four releases is an entry in the ledger.
    """
    ledger = Ledger(target_delta=1e-3)
    counts = repeat_query(UNSURE_COUNTS, num_queries=200)
    rng = np.random.default_rng(7)
    first = case.draw_release(counts, rng=rng, ledger=ledger)
    second_of_rng = case.draw_release(counts, rng=rng, ledger=ledger)
    same_seed = case.draw_release(counts, rng=7, ledger=ledger)
    other_seed = case.draw_release(counts, rng=8, ledger=ledger)
    np.testing.assert_array_equal(first.labels, same_seed.labels)
    np.testing.assert_array_equal(first.answered, same_seed.answered)
    assert (first.labels != other_seed.labels).any()
    assert (first.labels != second_of_rng.labels).any()
    assert len(ledger.entries) == len(set(ledger.keys)) == 4


class Tensor:
    """An array of another library: an object that is not a numpy array, but can be converted by `__array__`."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array if dtype is None else self.array.astype(dtype)

    def __iter__(self) -> Any:
        return map(Tensor, self.array)

    def __len__(self) -> int:
        return len(self.array)


@every_case
def test_votes_of_another_library_are_read_like_an_array(case: Case) -> None:
    """Votes in an object with `__array__`, such as a tensor, give the same release as a NumPy array.

    The array is read-only, so an aggregator that writes to it would fail.
    """
    votes = case.votes_with(UNSURE_COUNTS)
    votes.setflags(write=False)

    def release_of(votes_or_tensor: Any) -> Release:
        return case.aggregator.aggregate(
            votes_or_tensor, num_teachers=NUM_TEACHERS, rng=np.random.default_rng(0)
        )

    expected = release_of(votes)
    release_of_tensor = release_of(Tensor(votes))
    np.testing.assert_array_equal(release_of_tensor.labels, expected.labels)
    np.testing.assert_array_equal(release_of_tensor.answered, expected.answered)


@every_case
def test_both_adjacencies_are_priced_and_replace_one_is_never_cheaper(case: Case) -> None:
    """The epsilon under replace-one is at least that under add-remove, which is positive.

    The name of an adjacency is accepted in its place, and an unknown name is refused.
    """
    replace_one_aggregator = aggregator_for_40_labels(case)
    add_remove_aggregator = dataclasses.replace(
        replace_one_aggregator, adjacency=Adjacency.ADD_REMOVE
    )
    assert (
        0
        < epsilon_of_large_release(add_remove_aggregator)
        <= epsilon_of_large_release(replace_one_aggregator)
    )
    assert (
        dataclasses.replace(replace_one_aggregator, adjacency="add_remove") == add_remove_aggregator
    )
    with refused_parameter("adjacency", value="replace"):
        dataclasses.replace(replace_one_aggregator, adjacency="replace")


@every_case
def test_more_queries_and_less_noise_cost_more(case: Case) -> None:
    """Half of the noise has a larger epsilon, and twice the noise a smaller one.

    Half of the queries cost less, unless all queries are one release. No queries cost 0.
    """
    aggregator = aggregator_for_40_labels(case)
    assert (
        epsilon_of_large_release(aggregator.scaled(noise_factor=2.0))
        < epsilon_of_large_release(aggregator)
        < epsilon_of_large_release(aggregator.scaled(noise_factor=0.5))
    )
    assert (
        epsilon_of_large_release(aggregator, num_queries=300) < epsilon_of_large_release(aggregator)
    ) != case.is_one_release
    assert epsilon_of_large_release(aggregator, num_queries=0) == 0


@pytest.mark.slow
@every_case
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_calibration_meets_the_target_and_little_less(case: Case, adjacency: Adjacency) -> None:
    """Noise calibrated to epsilon 8 costs between 7.92 and 8 by the same accountant; class and adjacency do not change.

    The accountant is `case.accountant`: the Renyi accountant, and for one case the slower default accountant.
    """
    aggregator = dataclasses.replace(
        _with_small_failure(aggregator_for_40_labels(case)), adjacency=adjacency
    )
    calibrated = calibrated_for_large_release(aggregator, case.accountant)
    assert type(calibrated) is type(aggregator)
    assert calibrated.adjacency == adjacency
    epsilon = (
        case.accountant().compose(event_of_large_release(calibrated)).get_epsilon(TARGET_DELTA)
    )
    assert 0.99 * TARGET_EPSILON <= epsilon <= TARGET_EPSILON


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregator_class",
    sorted({type(case.aggregator) for case in CASES}, key=lambda kind: kind.__name__),
)
def test_calibration_changes_the_fields_declared_as_noise(
    aggregator_class: type[Aggregator],
) -> None:
    """`scaled` changes only fields that are marked `noise`, over all cases of a class.

    Scaling and calibration together change all fields marked `noise` or `solved`. No field has both marks.
    """
    scaled_fields = set()
    solved_fields = set()
    for case in CASES:
        if type(case.aggregator) is aggregator_class:
            aggregator = _with_small_failure(aggregator_for_40_labels(case))
            scaled_fields |= _changed(
                first_aggregator=aggregator, second_aggregator=aggregator.scaled(noise_factor=2.0)
            )
            solved_fields |= _changed(
                first_aggregator=aggregator,
                second_aggregator=calibrated_for_large_release(
                    aggregator, accountant=RdpAccountant
                ),
            )
    noise_fields = fields_marked(aggregator_class, mark="noise")
    assert scaled_fields <= noise_fields
    assert scaled_fields | solved_fields == noise_fields | fields_marked(
        aggregator_class, mark="solved"
    )
    assert not noise_fields & fields_marked(aggregator_class, mark="solved")


@every_case
def test_aggregators_are_frozen_values_whose_events_survive_json(case: Case) -> None:
    """The event of an aggregator is the same after it is written as JSON and read.

    No field of an aggregator can be assigned. A copy is equal and has the same hash.
    """
    event = case.event(num_queries=9)
    assert event_from_json(event_to_json(event)) == event
    for name in _fields(case.aggregator):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
            setattr(case.aggregator, name, 1.0)
    assert dataclasses.replace(case.aggregator) == case.aggregator
    assert hash(dataclasses.replace(case.aggregator)) == hash(case.aggregator)


@every_counting_case
@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.uint64, np.int64])
def test_any_integer_type_gives_the_same_release(case: Case, dtype: type) -> None:
    """With the same seed, counts of another integer type, stored by columns, give the same release."""
    clear_counts = repeat_query(CLEAR_COUNTS, num_queries=20)
    unsure_counts = repeat_query(UNSURE_COUNTS, num_queries=20)
    counts = np.concatenate([clear_counts, unsure_counts])
    expected = case.draw_release(counts)
    counts_by_columns = np.asfortranarray(counts.astype(dtype))
    release = case.draw_release(counts_by_columns)
    np.testing.assert_array_equal(release.labels, expected.labels)
    np.testing.assert_array_equal(release.answered, expected.answered)


@pytest.mark.slow
@pytest.mark.parametrize("case", FIRST_OF_CLASS, ids=[case.name for case in FIRST_OF_CLASS])
def test_twice_the_queries_need_no_more_memory(case: Case) -> None:
    """From 75,000 to 150,000 queries, working memory grows by less than 52 bytes for each further query.

    The working memory stays below 50 MiB. Votes and release do not count as working memory.
    """

    def measure_working_memory(num_queries: int) -> int:
        counts = np.random.default_rng(0).integers(
            low=0, high=NUM_TEACHERS + 1, size=(num_queries, 40), dtype=np.uint16
        )
        aggregate = aggregator_for_40_labels(case).aggregate
        rng = np.random.default_rng(0)
        measured = measure_memory(
            compute=partial(aggregate, counts, num_teachers=NUM_TEACHERS, rng=rng)
        )
        release = measured.result
        return measured.peak_memory - release.labels.nbytes - release.answered.nbytes

    memory_of_few_queries = measure_working_memory(num_queries=75_000)
    memory_of_many_queries = measure_working_memory(num_queries=150_000)
    assert memory_of_many_queries < 50 * 2**20
    assert (
        memory_of_many_queries - memory_of_few_queries < 75_000 * 52
    )  # bytes for each query of 40 counts


@pytest.mark.slow
@every_case
def test_a_price_and_its_work_do_not_grow_with_the_teachers(case: Case) -> None:
    """The epsilon does not rise from 3000 teachers to 10^6.

    The computation of an event takes less than 16 MiB of memory for up to 10^18 teachers. Up to a million, it takes at
    most twice the memory for 3000 teachers plus 1 MiB.
    """
    aggregator = aggregator_for_40_labels(case)
    epsilons = []
    peaks = []
    for num_teachers in (3000, 30_000, 1_000_000, 10**7, 10**11, 10**18):
        measured = measure_memory(
            compute=partial(event_of_large_release, aggregator, num_teachers=num_teachers)
        )
        peaks.append(measured.peak_memory)
        if num_teachers <= 10**6:
            account = AutoAccountant().compose(measured.result)
            epsilons.append(account.get_epsilon(target_delta=1e-4))
    assert max(epsilons[1:]) <= epsilons[0] * (1 + 1e-9)
    assert max(peaks[1:3]) <= 2 * peaks[0] + 2**20 and max(peaks) < 2**24


def _changed(first_aggregator: Aggregator, second_aggregator: Aggregator) -> set[str]:
    """Returns the names of the fields in which two aggregators differ."""
    before = _fields(first_aggregator)
    after = _fields(second_aggregator)
    return {name for name in before if before[name] != after[name]}


def _fields(aggregator: Aggregator) -> dict[str, Any]:
    """Returns the values of an aggregator's fields by their names."""
    return {field.name: getattr(aggregator, field.name) for field in dataclasses.fields(aggregator)}


def _with_small_failure(aggregator: Aggregator) -> Aggregator:
    """Returns the aggregator with so small a failure probability that 600 queries do not use up delta."""
    if "failure_prob" not in _fields(aggregator):
        return aggregator
    return dataclasses.replace(aggregator, failure_prob=1e-9)
