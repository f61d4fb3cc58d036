"""Secure sums: when they are exact, what a holder answers, and releases that are charged before holders are asked."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pate.accounting import Ledger
from pate.aggregators import Aggregator, GaussianVotes, GNMax
from pate.errors import InvalidValue
from pate.run.random_streams import RandomStreams
from pate.run.votes_release import ReleasePlan
from pate_federated import Roll
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.holder_sum import HolderSum
from pate_federated.sum_file import Summed
from pate_federated.sum_terms import SumTerms
from pate_federated.summed_release import SummedRelease
from small_federation.holders import (
    NUM_LABELS,
    NUM_QUERIES,
    TEACHERS,
    answer,
    request,
    votes_of,
)
from tests.e2e.small_run import SilentMonitor
from tests.refusals import ANY, refused_parameter

ROLL_OF_HOLDERS = Roll.numbered(num_holders=4, teachers_each=TEACHERS, max_absent=1)
DISTRIBUTED_VOTES = DistributedVotes(noise_std=4.0, num_holders=4, max_dropouts=1)


def release_of(folder: Path, aggregator: Aggregator) -> SummedRelease:
    """Returns a release from the sum of four holders, with the terms that fit an aggregator."""
    plan = ReleasePlan(
        aggregator=aggregator,
        target_delta=1e-5,
        allow_useless=True,
        seed=4,
        settings={"name": "small"},
    )
    return SummedRelease(
        plan=plan,
        roll=ROLL_OF_HOLDERS,
        request=request(),
        inbox=folder / "inbox",
        dataset="small",
        output_dir=folder / "release",
    )


def counts_of_all_holders() -> np.ndarray:
    """Returns the counts of the votes of all four holders, `[NUM_QUERIES, NUM_LABELS]`."""
    return np.asarray(
        sum(votes_of(name).sum(axis=0, dtype=np.int64) for name in ROLL_OF_HOLDERS.holders)
    )


def released_labels(folder: Path) -> np.ndarray:
    """Returns the labels of the release that was written into a folder."""
    with np.load(folder / "release" / "release" / "release.npz") as file:
        return np.asarray(file["labels"])


def num_charges(folder: Path) -> int:
    """Returns the number of charges in a folder's ledger, or 0 if there is no ledger."""
    path = folder / "ledger.db"
    return len(Ledger.stored(path).entries) if path.exists() else 0


@pytest.mark.parametrize(
    ("num_holders", "max_number"), [(3, 1), (40, 700), (400, 5_000_000), (10_000, 200_000)]
)
def test_an_average_of_whole_numbers_gives_their_sum_exactly(
    num_holders: int, max_number: int
) -> None:
    """`exact_sum` turns the float average that Flower returns into the exact sum of the holders' numbers.

    That holds for the largest numbers, too.
    """
    terms = SumTerms(num_holders=num_holders, max_absent=1, largest_number=max_number)
    rng = np.random.default_rng(0)
    numbers = rng.integers(-max_number, max_number + 1, size=(num_holders, 50))
    numbers[:, 0] = max_number
    numbers[:, 1] = -max_number
    # what is added up modulo 2**32
    shifted_numbers = (
        np.stack(
            [terms.require_sendable(numbers=numbers_of_holder) for numbers_of_holder in numbers]
        )
        + max_number
    )
    summed = shifted_numbers.astype(np.int64).sum(axis=0)
    assert summed.max() < 2**32 and 2 * max_number * num_holders < 2**32
    average = (summed.astype(np.float64) - max_number - (num_holders - 1) * float(max_number)) * (
        2 * max_number / (num_holders * 2 * max_number)
    )
    np.testing.assert_array_equal(
        terms.exact_sum(average, num_present=num_holders), numbers.sum(axis=0)
    )


def test_sum_beyond_the_terms_is_refused() -> None:
    """An average is refused if it is not that of whole numbers within the terms, or of too few holders.

    A count beyond `largest_number` is refused before it is sent.
    """
    terms = SumTerms(num_holders=4, max_absent=1, largest_number=10)
    for average, num_present, refusal in (
        (0.4, 4, refused_parameter("sum", rule_words="within the")),
        (11.0, 4, refused_parameter("sum", rule_words="within the")),
        (1.0, 2, refused_parameter("holders present", value=2)),
    ):
        averages_of_numbers = np.array([average])
        with refusal:
            terms.exact_sum(averages_of_numbers, num_present=num_present)
    with refused_parameter("counts"):
        terms.require_sendable(numbers=np.array([11]))


@pytest.mark.slow
def test_a_sum_of_counts_gives_the_release_of_the_votes(tmp_path: Path) -> None:
    """The sum of four holders' counts gives the labels of `aggregate` on these counts, with one charge."""
    plain = GaussianVotes(noise_std=1.0)
    release = release_of(tmp_path, aggregator=plain)
    release.run(lambda: (counts_of_all_holders(), ("1", "2", "3", "4")))
    expected = plain.aggregate(
        counts_of_all_holders(),
        num_teachers=12,
        rng=RandomStreams(entropy=4).generator(purpose="noise"),
    )
    np.testing.assert_array_equal(released_labels(tmp_path), expected.labels)
    assert num_charges(tmp_path) == 1


def test_absent_teachers_in_a_sum_vote_for_no_label_or_the_first(tmp_path: Path) -> None:
    """The sum of the counts of three of four holders is for all 12 teachers.

    Absent teachers vote for no label, or for label 0 if the aggregator is `GNMax`.
    """
    counts_of_three_holders = np.asarray(
        sum(votes_of(name).sum(axis=0, dtype=np.int64) for name in "123")
    )
    for aggregator, votes_for_first_label in (
        (GaussianVotes(noise_std=1.0), 0),
        (GNMax(noise_std=1.0, max_votes=4), TEACHERS),
    ):
        release = replace(
            release_of(tmp_path, aggregator=aggregator),
            request=replace(request(), vote_clip=4),
            inbox=tmp_path / type(aggregator).__name__,
        )
        release.inbox.mkdir()
        source = release.counted_votes(lambda: (counts_of_three_holders, ("1", "2", "3")))
        assert source.num_teachers == 12
        counts = source.counts()
        np.testing.assert_array_equal(counts[:, 1:], counts_of_three_holders[:, 1:])
        np.testing.assert_array_equal(
            counts[:, 0], counts_of_three_holders[:, 0] + votes_for_first_label
        )


def numbers_of(folder: Path, *, holder: str, holder_side: HolderSum) -> np.ndarray:
    """Returns the numbers that a holder sends for its votes.

    Args:
        folder: the folder of the holders' files.
        holder: the name of the holder.
        holder_side: computes the numbers.
    """
    path = folder / f"{holder}.npz"
    home = folder / f"home-{holder}"
    home.mkdir(exist_ok=True)
    path.write_bytes(answer(vote_file_folder=folder, holder=holder).votes or b"")
    plan: Any = SimpleNamespace(holder=holder, num_teachers=TEACHERS)
    return holder_side.numbers(plan, request=request(), vote_path=path, folder=home)


def noisy_sum(folder: Path, holder_names: str) -> Summed:
    """Returns the sum of noisy numbers of holders, and their names; each letter of `holder_names` is a holder."""
    holder_side = HolderSum(
        terms=SumTerms.of_noise(DISTRIBUTED_VOTES, roll=ROLL_OF_HOLDERS),
        noise=DISTRIBUTED_VOTES,
        seed=3,
    )
    numbers = np.sum(
        [numbers_of(folder, holder=name, holder_side=holder_side) for name in holder_names], axis=0
    )
    return numbers.astype(np.int64), tuple(holder_names)


def test_noisy_sum_is_charged_before_holders_are_asked(
    tmp_path: Path,
) -> None:
    """When holders are asked for a noisy sum, the ledger already has its charge.

    Their sum is released. A second run asks nobody and charges nothing.
    """
    charges_when_asked = []

    def ask_for_sum() -> Summed:
        charges_when_asked.append(num_charges(tmp_path))
        return noisy_sum(tmp_path, holder_names="1234")

    release = release_of(tmp_path, aggregator=DISTRIBUTED_VOTES)
    release.run(ask_for_sum)
    assert charges_when_asked == [1]  # charged, then asked
    with np.load(tmp_path / "inbox" / "sum.npz") as file:
        expected = DISTRIBUTED_VOTES.release_of(file["total"], num_teachers=12, num_contributions=4)
    np.testing.assert_array_equal(released_labels(tmp_path), expected.labels)
    release.run(ask_for_sum)  # finished: nothing is asked or charged again
    assert (charges_when_asked, num_charges(tmp_path)) == ([1], 1)


def test_a_holder_answers_a_request_for_noisy_numbers_once(tmp_path: Path) -> None:
    """A holder answers the same request for noisy numbers once, and at most `max_answers` different ones.

    Numbers without noise may be sent again.
    """
    holder_side = HolderSum(
        terms=SumTerms.of_noise(DISTRIBUTED_VOTES, roll=ROLL_OF_HOLDERS),
        noise=DISTRIBUTED_VOTES,
        seed=3,
    )
    numbers_of(tmp_path, holder="1", holder_side=holder_side)
    with refused_parameter("request", rule_words="a request that"):
        numbers_of(tmp_path, holder="1", holder_side=holder_side)
    folder = tmp_path / "home-1"
    (folder / f"answered-{request().digest}").rename(folder / "answered-another")
    with refused_parameter("requests answered with noise", value=2, rule_words="at most 1"):
        numbers_of(tmp_path, holder="1", holder_side=holder_side)
    numbers_of(tmp_path, holder="1", holder_side=replace(holder_side, max_answers=2))
    holder_side_without_noise = HolderSum(terms=SumTerms.of_counts(ROLL_OF_HOLDERS))
    np.testing.assert_array_equal(
        numbers_of(tmp_path, holder="2", holder_side=holder_side_without_noise),
        numbers_of(tmp_path, holder="2", holder_side=holder_side_without_noise),
    )


def answered_at_once(folder: Path, first_id: int) -> bool:
    """Returns whether a holder may answer a request, which it then notes in its folder as answered.

    Args:
        folder: the folder of the holder's notes.
        first_id: the id of the first query of the request, by which requests differ.
    """
    other_request = replace(request(), record_ids=np.arange(first_id, first_id + NUM_QUERIES))
    try:
        HolderSum(
            terms=SumTerms.of_noise(DISTRIBUTED_VOTES, roll=ROLL_OF_HOLDERS),
            noise=DISTRIBUTED_VOTES,
        )._note_answer(other_request, note_folder=folder)
    except InvalidValue:
        return False
    return True


def threads() -> Executor:
    """Returns an executor with four threads."""
    return ThreadPoolExecutor(max_workers=4)


def processes() -> Executor:
    """Returns an executor with two new processes."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=2, mp_context=spawn)


@pytest.mark.parametrize("make_pool", [threads, pytest.param(processes, marks=pytest.mark.process)])
def test_only_one_of_concurrent_requests_is_answered(
    make_pool: Callable[[], Executor], tmp_path: Path
) -> None:
    """A holder that gets four requests for noisy numbers at once answers one of the four, in each of 20 trials.

    Two of the requests are the same. Four threads ask, or two processes.
    """
    with make_pool() as workers:
        for attempt in range(20):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            first_ids = (1, 2, 1, 3)
            assert sum(workers.map(answered_at_once, [folder] * 4, first_ids)) == 1


def test_sum_lost_after_the_charge_stays_charged_once(
    tmp_path: Path,
) -> None:
    """If the connection fails after the holders have answered, they refuse a second run.

    There is one charge and no release.
    """
    release = release_of(tmp_path, aggregator=DISTRIBUTED_VOTES)

    def lose_sum() -> Summed:
        noisy_sum(tmp_path, holder_names="1234")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        release.run(lose_sum)
    assert num_charges(tmp_path) == 1
    with refused_parameter("request", rule_words="a request that"):
        release.run(lambda: noisy_sum(tmp_path, holder_names="1234"))
    assert num_charges(tmp_path) == 1
    assert not (tmp_path / "release" / "release" / "release.npz").exists()


def test_stored_sum_is_released_after_an_interruption(tmp_path: Path) -> None:
    """If a release was interrupted and its sum is in the inbox, a second run releases that sum and asks nobody.

    There is one charge.
    """
    release = release_of(tmp_path, aggregator=DISTRIBUTED_VOTES)
    counts_and_holders = noisy_sum(tmp_path, holder_names="123")
    with pytest.raises(KeyboardInterrupt):
        release.run(lambda: counts_and_holders, monitor=SilentMonitor(stop_at="releasing labels"))
    release.sum_in_inbox(lambda: counts_and_holders)

    release.run(lambda: pytest.fail("asked again"))
    assert num_charges(tmp_path) == 1
    np.testing.assert_array_equal(
        released_labels(tmp_path),
        DISTRIBUTED_VOTES.release_of(
            counts_and_holders[0], num_teachers=12, num_contributions=3
        ).labels,
    )


def test_release_with_too_few_holders_is_refused(tmp_path: Path) -> None:
    """If two of four holders answer and three are required, the release is refused after its one charge."""
    total = np.zeros((NUM_QUERIES, NUM_LABELS), dtype=np.int64)
    with refused_parameter("num_contributions", value=2, rule_words="3"):
        release_of(tmp_path, aggregator=DISTRIBUTED_VOTES).run(lambda: (total, ("1", "2")))
    assert num_charges(tmp_path) == 1  # holders were asked


def test_inconsistent_terms_are_refused(tmp_path: Path) -> None:
    """An aggregator, or a number of shares of a key, that does not fit the holders or the request is refused.

    So is a target epsilon, as holders have agreed on the noise.
    No holder is asked before, and nothing is charged.
    """

    def make_release_with_noise(aggregator: Aggregator) -> SummedRelease:
        return release_of(tmp_path, aggregator=aggregator)

    def make_release_with_target_epsilon() -> SummedRelease:
        release = release_of(tmp_path, aggregator=DISTRIBUTED_VOTES)
        return replace(release, plan=replace(release.plan, target_epsilon=2.0))

    def make_release_with_shares() -> SummedRelease:
        num_shares_of_a_key = 43
        return replace(
            release_of(tmp_path, aggregator=DISTRIBUTED_VOTES), shares=num_shares_of_a_key
        )

    for make_release, refusal in (
        (
            partial(make_release_with_noise, aggregator=replace(DISTRIBUTED_VOTES, num_holders=5)),
            refused_parameter("aggregator.num_holders", value=5),
        ),
        (
            partial(make_release_with_noise, aggregator=replace(DISTRIBUTED_VOTES, max_dropouts=0)),
            refused_parameter("aggregator.max_dropouts", value=0),
        ),
        (
            partial(make_release_with_noise, aggregator=replace(DISTRIBUTED_VOTES, max_votes=2)),
            refused_parameter("vote_clip", value=None, rule_words="max_votes=2 of"),
        ),
        (
            make_release_with_target_epsilon,
            refused_parameter("target_epsilon", value=2.0, rule_words="holders have"),
        ),
        (make_release_with_shares, refused_parameter("shares", value=43)),
    ):
        with refusal:
            make_release().run(lambda: pytest.fail("asked"))
    assert num_charges(tmp_path) == 0


def test_shares_of_a_part_of_the_holders_are_enough() -> None:
    """Each of 400 holders may share its secrets among 43 of them, of which 29 open a secret.

    Numbers of shares that are even, too small or too large are refused.
    """
    terms = SumTerms(num_holders=400, max_absent=40, largest_number=9, shares=43)
    assert (terms.num_shares, terms.threshold, terms.fewest_holders) == (43, 29, 360)
    assert SumTerms(num_holders=400, max_absent=40, largest_number=9).threshold == 360
    for num_shares_of_a_key, refusal in (
        (
            41,
            refused_parameter("shares", value=41),
        ),
        (42, refused_parameter("shares", value=ANY, rule_words="odd number")),
        (401, refused_parameter("shares", value=ANY, rule_words="odd number")),
        (5, refused_parameter("shares", value=5)),
    ):
        with refusal:
            SumTerms(num_holders=400, max_absent=40, largest_number=9, shares=num_shares_of_a_key)
