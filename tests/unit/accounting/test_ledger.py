"""The ledger keeps every charge, never exceeds its cap, and stores a release together with its charge or not at all."""

import copy
import math
import os
import pickle
import shlex
import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pytest

from pate.accounting import (
    Accountant,
    Adjacency,
    ApproximateEvent,
    AutoAccountant,
    BoundedRangeEvent,
    BudgetExceeded,
    ComposedEvent,
    DamagedLedger,
    Event,
    ExactAccountant,
    GaussianEvent,
    Ledger,
    NoOpEvent,
    OneBitEvent,
    PldAccountant,
    Poisson,
    PrivacyUnit,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SampledGaussianEvent,
    SelfComposedEvent,
    SharedLedger,
    TuningEvent,
    ZCdpEvent,
    calibrate,
)
from pate.accounting import ledger as ledger_module
from pate.accounting.filters import PrivacyFilter, RenyiFilter, Spent
from pate.accounting.ledger_entry import ChargeNote, LedgerEntry
from pate.accounting.store import LineText, Store
from pate.accounting.total import in_any_order
from tests.refusals import ANY, Refusal, refused_parameter

DELTA = 1e-6
# Digests of three data sets.
FIRST_DIGEST = "one"
OTHER_DIGEST = "other"
THIRD_DIGEST = "third"
GAUSSIAN = GaussianEvent(noise_multiplier=20.0)
COMPOSED_EVENT = SelfComposedEvent(
    event=ComposedEvent(
        (
            ApproximateEvent(event=OneBitEvent(logits=(-20.0, 0.0), reach=1), failure_prob=1e-9),
            PureDpEvent(epsilon=0.1),
        )
    ),
    count=3,
)
PURE = PureDpEvent(epsilon=0.05)
RANGE = BoundedRangeEvent(epsilon=0.1)
BITS = SelfComposedEvent(event=OneBitEvent(logits=(-1.0, -0.9, -0.8), reach=1), count=3)
SEQUENCE = [PURE, PURE, RANGE, BITS, BITS, BITS, PURE, RANGE, RANGE, PURE, BITS, PURE]
ACCOUNTANTS = [RdpAccountant, ExactAccountant, PldAccountant, PureDpAccountant]
NOT_A_DIGEST = 7  # a ledger names its data by a digest in letters
ON_DISK_AND_IN_MEMORY = pytest.mark.parametrize(
    "on_disk", [True, False], ids=["on disk", "in memory"]
)


def charge(
    ledger: Ledger, event: Event = GAUSSIAN, key: str = "a", *, description: str = ""
) -> LedgerEntry:
    """Charges an event to the ledger under a key, with the ledger's own adjacency, and returns its entry."""
    return ledger.charge(event, adjacency=ledger.adjacency, key=key, description=description)


def committed_bytes(
    ledger: Ledger,
    key: str,
    draw: Callable[[], bytes],
    event: Event = GAUSSIAN,
    *,
    run_key: str = "",
) -> bytes:
    """Returns the bytes that an earlier commit stored under a key; otherwise commits and returns those of `draw`.

    Args:
        ledger: the ledger.
        key: the key of the commit.
        draw: returns the bytes of a new release.
        event: the price.
        run_key: the name of a run, whose draws the ledger numbers.
    """
    committed = ledger.read(key)
    content = draw() if committed is None else committed
    return ledger.commit(
        key,
        event,
        content=content,
        charge_note=ChargeNote(run_key=run_key),
        adjacency=ledger.adjacency,
    )


def commit_part(
    ledger: Ledger,
    key: str,
    content: bytes,
    event: Event = GAUSSIAN,
    seed_name: str = "",
    *,
    may_share_noise: bool = False,
) -> bytes:
    """Commits `content` as a part of a release to the ledger, and returns the bytes that the ledger has under the key.

    The key of the release is the text before the colon of the key of the part. `seed_name` names the seed of the noise,
    and is empty for noise that nothing can repeat.
    """
    release_key = key.partition(":")[0]
    charge_note = ChargeNote(
        run_key=release_key, seed_name=seed_name, may_share_noise=may_share_noise
    )
    return ledger.commit(
        key,
        event,
        content=content,
        charge_note=charge_note,
        adjacency=ledger.adjacency,
        release_key=release_key,
    )


def keys_of(ledger: Ledger | SharedLedger) -> list[str]:
    """Returns the keys of a ledger's entries, in the order of the charges."""
    return [entry.key for entry in ledger.entries]


def composed_epsilon(
    make_accountant: Callable[[], Accountant], events: list[Event], delta: float = DELTA
) -> float:
    """Returns the total epsilon of events that a fresh accountant composes in their order."""
    accountant = make_accountant()
    for event, equal_events in groupby(events):
        accountant.compose(event, count=len(list(equal_events)))
    return accountant.get_epsilon(delta)


ONE_EPSILON = composed_epsilon(make_accountant=AutoAccountant, events=[GAUSSIAN])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns the path of a ledger file that does not yet exist."""
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """Returns a new ledger on disk without a cap, at delta 1e-6."""
    return Ledger(path, target_delta=DELTA)


@pytest.fixture
def shared(path: Path) -> SharedLedger:
    """Returns a new shared ledger on disk, at delta 1e-6, with a cap of epsilon 4 for each data set."""
    return SharedLedger(path, target_delta=DELTA, max_epsilon=4.0)


def test_a_key_has_one_event_and_one_release(ledger: Ledger, path: Path) -> None:
    """A second charge of a key returns the entry of the first, and a second commit returns the first commit's bytes.

    Another event under the key is refused; an equal event that is written as 2 in place of 2.0 is not. Charges with
    an empty key get three different keys. After an event without noise, the total is infinite.
    """
    first_entry = charge(ledger, description="the first, “quoted”\n")
    assert Ledger(path, target_delta=DELTA).entries == [first_entry] == ledger.entries
    assert first_entry.description == "the first, “quoted”\n"
    for opened_ledger in (ledger, Ledger(path, target_delta=DELTA)):
        assert charge(opened_ledger) == first_entry
        assert (
            committed_bytes(opened_ledger, key="b", draw=lambda: b"drawn", event=COMPOSED_EVENT)
            == b"drawn"
        )
        assert (
            committed_bytes(opened_ledger, key="b", draw=pytest.fail, event=COMPOSED_EVENT)
            == opened_ledger.read(key="b")
            == b"drawn"
        )
        for event in (COMPOSED_EVENT, GaussianEvent(noise_multiplier=2.0)):
            with refused_parameter("key", value="a"):
                charge(opened_ledger, event)
    charge(ledger, event=GaussianEvent(noise_multiplier=2.0), key="c")
    # equal events that are written otherwise
    assert charge(ledger, event=GaussianEvent(noise_multiplier=2), key="c") == ledger.entries[2]
    assert keys_of(ledger) == ledger.keys == ["a", "b", "c"]
    assert len({charge(ledger, key="").key for _ in range(3)}) == 3
    charge(ledger, event=GaussianEvent(noise_multiplier=0.0), key="d")
    assert Ledger(path, target_delta=DELTA).epsilon == ledger.epsilon == math.inf


def test_later_parts_of_a_release_are_under_its_charge(ledger: Ledger) -> None:
    """Parts "a:first" and "a:second" of a release are committed: only the first part is an entry with a price.

    A second commit of a key returns the bytes of the first commit. A part at another price than its
    release is refused and is not stored.
    """
    for content in (b"1", b"not seen"):
        assert commit_part(ledger, key="a:first", content=content) == b"1"
    for content in (b"2", b"not seen"):
        assert commit_part(ledger, key="a:second", content=content) == b"2"
    commit_part(ledger, key="ab:first", content=b"of another release")
    assert (ledger.read(key="a:second"), ledger.read(key="third")) == (b"2", None)
    assert keys_of(ledger) == ["a:first", "ab:first"]
    assert ledger.keys == ["a:first", "a:second", "ab:first"]
    assert list(ledger.parts("a")) == ["first", "second"]
    for release_key in ("a", "ab"):
        ledger.require_charged(GAUSSIAN, release_key, remedy="restore it")
    for event, release_key in ((COMPOSED_EVENT, "a"), (GAUSSIAN, "b"), (GAUSSIAN, "")):
        with refused_parameter("ledger", value=ANY, rule_words="charge of"):
            ledger.require_charged(event, release_key, remedy="restore it")
    for key in ("a:second", "a:third"):
        with refused_parameter("key", value=key):
            commit_part(ledger, key, content=b"2", event=COMPOSED_EVENT)
    assert list(ledger.parts("a")) == ["first", "second"], "nothing drawn at another price is there"


def test_a_seed_may_draw_one_release_only(ledger: Ledger) -> None:
    """Two releases with the same noise seed are accepted only if they have equal parts and equal prices.

    One charge is counted. A release with other bytes, other names of parts or another price under that seed is refused:
    the difference of two sums with the same noise has no noise.
    """
    first_part = b"1"
    second_part = b"2"
    commit_part(ledger, key="a:first", content=first_part, seed_name="seed 3")
    assert commit_part(ledger, key="b:first", content=first_part, seed_name="seed 3") == first_part
    commit_part(ledger, key="b:second", content=second_part, seed_name="seed 3")
    assert (keys_of(ledger), ledger.epsilon) == (["a:first"], ONE_EPSILON)
    ledger.require_charged(GAUSSIAN, "b", remedy="restore it")
    assert not ledger.is_seed_used(seed_name="seed 3", except_release="c", own_price=GAUSSIAN)
    assert ledger.is_seed_used(seed_name="seed 3", except_release="c", own_price=COMPOSED_EVENT)
    assert ledger.is_seed_used(seed_name="seed 3", except_release="c") and not ledger.is_seed_used(
        seed_name="seed 4", except_release="c"
    )
    for key, content, event in (
        ("c:first", b"other", GAUSSIAN),
        ("c:other", first_part, GAUSSIAN),
        ("c:first", first_part, COMPOSED_EVENT),
        ("a:second", b"other", GAUSSIAN),  # the release "b" has a second part with other bytes
    ):
        with refused_parameter("noise", value="seed 3"):
            commit_part(ledger, key, content, event, seed_name="seed 3")
    assert (
        commit_part(ledger, key="a:second", content=second_part, seed_name="seed 3") == second_part
    )
    assert len(ledger.entries) == 1


def test_a_run_with_the_same_seed_must_commit_every_part(ledger: Ledger) -> None:
    """Two runs with one seed must commit equal parts in the same order; the run behind must follow the run ahead.

    Run "b" is refused a part that is not the next one of run "a". Once "b" has one part more than "a", run "a" is
    refused a part that is not this one. Only one charge is counted.
    """
    for key in ("a:first", "a:round-0", "b:first"):
        commit_part(ledger, key, content=b"1", seed_name="seed 3")
    with refused_parameter("noise", value="seed 3"):
        commit_part(ledger, key="b:release", content=b"2", seed_name="seed 3")
    for key in ("b:round-0", "b:release"):
        commit_part(ledger, key, content=b"1", seed_name="seed 3")
    with refused_parameter("noise", value="seed 3"):
        commit_part(ledger, key="a:round-1", content=b"2", seed_name="seed 3")
    assert len(ledger.entries) == 1


def test_a_seed_used_for_two_data_sets_is_refused(shared: SharedLedger) -> None:
    """A noise seed is refused for a data set if another data set of the same ledger file has used this seed."""
    commit_part(shared.account(data=FIRST_DIGEST), key="a:first", content=b"1", seed_name="seed 3")
    with refused_parameter("noise", value="seed 3"):
        commit_part(
            shared.account(data=OTHER_DIGEST), key="b:first", content=b"1", seed_name="seed 3"
        )
    assert shared.account(data=OTHER_DIGEST).is_seed_used(seed_name="seed 3", own_price=GAUSSIAN)


def test_releases_that_share_their_noise_have_an_infinite_total(ledger: Ledger, path: Path) -> None:
    """Releases with `may_share_noise` reuse a seed at another price or for other bytes.

    From then on every total is infinite, and a ledger with a cap on the same file admits no further
    charge. Exact repetitions of a release add no charge.
    """
    commit_part(ledger, key="a:first", content=b"1", seed_name="seed 3", may_share_noise=True)
    commit_part(ledger, key="twin:first", content=b"1", seed_name="seed 3", may_share_noise=True)
    assert (ledger.epsilon, ledger.noise_is_shared) == (ONE_EPSILON, False)
    # Another release reuses the seed at another price.
    assert (
        commit_part(
            ledger,
            key="b:first",
            content=b"1",
            event=COMPOSED_EVENT,
            seed_name="seed 3",
            may_share_noise=True,
        )
        == b"1"
    )
    for account in (ledger, Ledger(path, target_delta=DELTA)):
        assert account.noise_is_shared and account.statement().noise_is_shared
        assert account.epsilon == account.spent_epsilon == account.statement().epsilon == math.inf
    assert [entry.epsilon for entry in ledger.entries] == [ONE_EPSILON, math.inf]
    commit_part(ledger, key="c:first", content=b"1")
    assert (ledger.epsilon, ledger.affords(GAUSSIAN)) == (math.inf, math.inf)
    commit_part(ledger, key="twin:second", content=b"2", seed_name="seed 3", may_share_noise=True)
    commit_part(ledger, key="a:second", content=b"2", seed_name="seed 3", may_share_noise=True)
    assert len(ledger.entries) == 3
    commit_part(ledger, key="late:first", content=b"1", seed_name="seed 3", may_share_noise=True)
    commit_part(
        ledger,
        key="late:second",
        content=b"something else",
        seed_name="seed 3",
        may_share_noise=True,
    )
    assert keys_of(ledger) == ["a:first", "b:first", "c:first", "late:second"]
    assert [entry.key for entry in ledger.charges_of("late")] == ["a:first", "late:second"]
    commit_part(
        ledger, key="twin of late:first", content=b"1", seed_name="seed 3", may_share_noise=True
    )
    commit_part(
        ledger,
        key="twin of late:second",
        content=b"something else",
        seed_name="seed 3",
        may_share_noise=True,
    )
    assert len(ledger.entries) == 4
    capped_ledger = Ledger(path, target_delta=DELTA, max_epsilon=1000.0)
    assert (capped_ledger.affords(GAUSSIAN), capped_ledger.left) == (0, 0.0)
    for attempt in (
        lambda: capped_ledger.require_room(GAUSSIAN),
        lambda: charge(capped_ledger, key="e"),
        lambda: commit_part(capped_ledger, key="e:first", content=b"1"),
    ):
        with refused_parameter(
            "max_epsilon", value=1000.0, rule_words="no epsilon", kind=BudgetExceeded
        ):
            attempt()
    with refused_parameter("noise", value="seed 3"):
        commit_part(
            capped_ledger, key="e:first", content=b"3", seed_name="seed 3", may_share_noise=True
        )
    assert len(ledger.entries) == 4


def test_a_ledger_with_a_cap_refuses_shared_noise(path: Path) -> None:
    """A ledger with a cap refuses other bytes with the seed of an earlier release, even with `may_share_noise`.

    The total stays that of the first release, and the epsilon that the ledger guarantees stays the cap.
    """
    ledger = Ledger(path, target_delta=DELTA, max_epsilon=1000.0)
    commit_part(ledger, key="a:first", content=b"1", seed_name="seed 3", may_share_noise=True)
    with refused_parameter("noise", value="seed 3"):
        commit_part(ledger, key="b:first", content=b"2", seed_name="seed 3", may_share_noise=True)
    assert (ledger.epsilon, ledger.guaranteed_epsilon) == (ONE_EPSILON, 1000.0)


@pytest.mark.parametrize("max_epsilon", [None, 1000.0])
def test_a_second_release_of_a_run_with_the_same_seed_has_no_bound(
    path: Path, max_epsilon: float | None
) -> None:
    """A run that draws another release from the same seed has an infinite total, and is refused under a cap."""
    ledger = Ledger(path, target_delta=DELTA, max_epsilon=max_epsilon)
    commit_part(ledger, key="run:first", content=b"1", seed_name="seed 3")

    def commit_second_release() -> None:
        ledger.commit(
            "run-2:first",
            GAUSSIAN,
            content=b"2",
            charge_note=ChargeNote(run_key="run", seed_name="seed 3"),
            adjacency=ledger.adjacency,
            release_key="run-2",
        )

    if max_epsilon is None:
        commit_second_release()
        assert ledger.epsilon == math.inf
    else:
        with refused_parameter("noise", value="seed 3"):
            commit_second_release()
        assert (ledger.epsilon, ledger.guaranteed_epsilon) == (ONE_EPSILON, max_epsilon)


def test_two_accounts_that_share_their_noise_have_infinite_totals(path: Path) -> None:
    """Two data sets of one file commit parts with one seed and `may_share_noise`: both totals become infinite.

    A third data set with another seed keeps a finite total.
    """
    shared = SharedLedger(path, target_delta=DELTA)
    for data_digest in (FIRST_DIGEST, OTHER_DIGEST):
        commit_part(
            shared.account(data=data_digest),
            key="a:first",
            content=b"1",
            seed_name="seed 3",
            may_share_noise=True,
        )
    commit_part(shared.account(data=THIRD_DIGEST), key="c:first", content=b"1", seed_name="seed 4")
    totals = [
        shared.account(data=data_digest).epsilon
        for data_digest in (FIRST_DIGEST, OTHER_DIGEST, THIRD_DIGEST)
    ]
    assert totals == [math.inf, math.inf, ONE_EPSILON]
    assert shared.account(data=FIRST_DIGEST).guaranteed_epsilon is None


def test_a_commit_opens_the_file_only_a_few_times(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committing the first part of a release opens two connections to the database, and a later part opens one.

    Reading the statement, that is, the ledger's total and number of charges, opens one more.
    """
    num_connections = 0
    connect = sqlite3.connect

    def connect_and_count(*arguments: Any, **options: Any) -> sqlite3.Connection:
        nonlocal num_connections
        num_connections += 1
        return connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_and_count)
    commit_part(ledger, key="a:first", content=b"1")
    assert num_connections == 2, "one to compute the total before the lock, one to commit"
    commit_part(ledger, key="a:second", content=b"2")
    assert num_connections == 3
    statement = ledger.statement()
    assert (statement.num_charges, statement.epsilon) == (1, ONE_EPSILON)
    assert num_connections == 4


def test_a_commit_numbers_the_draws_of_a_run(ledger: Ledger, path: Path) -> None:
    """Two ledgers commit draws of one run: each entry has the number of the draw within its run.

    The second ledger commits while the first ledger is drawing, so its draw is number 2 and the
    first ledger's is number 3.
    """

    def draw_while_another_commits() -> bytes:
        other_ledger = Ledger(path, target_delta=DELTA)
        committed_bytes(other_ledger, key="run-c", draw=bytes, run_key="run")
        return b""

    committed_bytes(ledger, key="run-a", draw=bytes, run_key="run")
    committed_bytes(ledger, key="other", draw=bytes, run_key="oth")
    committed_bytes(ledger, key="run-b", draw=draw_while_another_commits, run_key="run")
    assert [(entry.key, entry.draw) for entry in ledger.entries] == [
        ("run-a", 1), ("other", 1), ("run-c", 2), ("run-b", 3),
    ]  # fmt: skip


def test_a_failed_or_refused_draw_charges_nothing(path: Path) -> None:
    """No charge is left if a draw raises, if its event exceeds the cap, or if its failure probability is too large.

    A charge exactly at the cap is admitted.
    """
    ledger = Ledger(path, target_delta=DELTA, max_epsilon=1.2 * ONE_EPSILON)

    def fail() -> bytes:
        raise RuntimeError("no votes")

    with pytest.raises(RuntimeError, match="no votes"):
        committed_bytes(ledger, key="a", draw=fail)
    charge(ledger)
    with refused_parameter(
        "max_epsilon", value=ANY, rule_words="total with this", kind=BudgetExceeded
    ):
        committed_bytes(ledger, key="b", draw=lambda: b"not shown")
    with refused_parameter("max_epsilon", value=ANY, rule_words="inf", kind=BudgetExceeded):
        charge(ledger, event=GaussianEvent(noise_multiplier=0.0), key="c")
    with refused_parameter(
        "max_epsilon",
        value=ANY,
        rule_words="failures take at most 1e-08 of target_delta=1e-06, not 1e-05",
        kind=BudgetExceeded,
    ):
        charge(ledger, event=ApproximateEvent(event=GAUSSIAN, failure_prob=1e-5), key="d")
    with refused_parameter("failure_prob", rule_words="1e-05 in"):
        charge(
            Ledger(target_delta=DELTA),
            event=ApproximateEvent(event=GAUSSIAN, failure_prob=1e-5),
            key="d",
        )
    assert charge(ledger).key == "a"
    assert keys_of(Ledger(path, target_delta=DELTA)) == ["a"]
    # The sum is exactly at the cap.
    assert charge(Ledger(target_delta=DELTA, max_epsilon=ONE_EPSILON)).epsilon == ONE_EPSILON


def test_an_event_of_another_adjacency_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """The ledger refuses a charge whose `adjacency` argument differs from its own.

    An event is refused too if another adjacency is in a field of one of its parts, or in a run of a tuned release.
    """
    with refused_parameter(
        "adjacency", value="add_remove", rule_words="replace_one, the adjacency"
    ):
        ledger.charge(GAUSSIAN, adjacency=Adjacency.ADD_REMOVE)
    replace_one_event, add_remove_event = (
        SelfComposedEvent(
            event=SampledGaussianEvent(
                noise_multiplier=2.0, sampling_prob=0.1, adjacency=adjacency
            ),
            count=3,
        )
        for adjacency in Adjacency
    )
    add_remove_ledger = Ledger(
        tmp_path / "other.db", adjacency=Adjacency.ADD_REMOVE, target_delta=DELTA
    )
    with refused_parameter("event.adjacency", value="replace_one"):
        charge(add_remove_ledger, event=replace_one_event)
    for base, score in ((replace_one_event, NoOpEvent()), (NoOpEvent(), replace_one_event)):
        tuned_event = TuningEvent(base=base, score=score, distribution=Poisson(mean=4.0))
        with refused_parameter("event.adjacency", value="replace_one"):
            charge(add_remove_ledger, event=tuned_event)
    charge(add_remove_ledger, event=add_remove_event)
    assert Ledger.stored(tmp_path / "other.db").entries[0].event == add_remove_event
    assert ledger.entries == []


@pytest.mark.parametrize(
    ("name", "open_ledger"),
    [
        ("target_delta", partial(Ledger, target_delta=0.0)),
        ("target_delta", partial(Ledger, target_delta=1.0)),
        ("max_epsilon", partial(Ledger, target_delta=DELTA, max_epsilon=0)),
        ("data", partial(Ledger, target_delta=DELTA, data=NOT_A_DIGEST)),
    ],
)
def test_impossible_settings_are_refused(
    path: Path, name: str, open_ledger: Callable[[Path], Ledger]
) -> None:
    """`Ledger` refuses one bad setting by its name; a shared ledger refuses an account without a digest of its data.

    An account is the ledger of one data set. The refused values in place of the digest are an empty text, None and a
    number.
    """
    with refused_parameter(name, value=ANY):
        open_ledger(path)
    for data in ("", None, NOT_A_DIGEST):
        with refused_parameter("data", value=ANY, rule_words="digest that"):
            SharedLedger(path, target_delta=DELTA).account(data=data)


@pytest.mark.parametrize("invalid_accountant", ["rdp", RdpAccountant()])
def test_an_accountant_must_be_a_class(invalid_accountant: Any, path: Path) -> None:
    """`Ledger` and `calibrate` refuse an accountant that is a name or an instance and not a class.

    No file is written.
    """
    for call in (
        lambda: Ledger(path, target_delta=DELTA, accountant=invalid_accountant),
        lambda: calibrate(
            event_for=lambda noise: COMPOSED_EVENT,
            target_epsilon=1.0,
            target_delta=DELTA,
            accountant=invalid_accountant,
        ),
    ):
        with refused_parameter("accountant", value=ANY, rule_words="class such"):
            call()
    assert not path.exists()


@dataclass(frozen=True)
class LedgerSettings:
    """The settings with which a ledger or shared ledger is opened.

    The defaults are those of a new ledger at delta 1e-6.
    """

    adjacency: Any = Adjacency.REPLACE_ONE
    target_delta: float = DELTA
    accountant: Callable[[], Accountant] | None = None
    max_epsilon: float | None = None
    filter: Callable[..., PrivacyFilter] | None = None


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (
            LedgerSettings(adjacency="add_remove"),
            refused_parameter("adjacency", value="add_remove"),
        ),
        (LedgerSettings(target_delta=1e-5), refused_parameter("target_delta", value="1e-05")),
        (LedgerSettings(max_epsilon=5.0), refused_parameter("max_epsilon", value=5.0)),
        (
            LedgerSettings(accountant=PureDpAccountant),
            refused_parameter("accountant", value="pure_dp"),
        ),
        (
            LedgerSettings(accountant=partial(RdpAccountant, orders=[8.0])),
            refused_parameter("accountant", value="rdp(orders=[8.0])"),
        ),
        (
            LedgerSettings(max_epsilon=4.0, filter=partial(RenyiFilter, order=9.0)),
            refused_parameter("filter", value=ANY, rule_words="renyi"),
        ),
        (
            LedgerSettings(filter=RenyiFilter),
            refused_parameter("filter", value=ANY, rule_words="max_epsilon beside"),
        ),
    ],
)
def test_settings_that_differ_from_the_file_are_refused_by_name(
    shared: SharedLedger, path: Path, settings: LedgerSettings, refusal: Refusal
) -> None:
    """`Ledger` and `SharedLedger` refuse to open a file with a setting that contradicts those of the file.

    The file has delta 1e-6 and a cap of 4. Another adjacency, delta, accountant or filter is refused, and so are a
    larger cap and a filter without a cap. The error is one line that names the setting.
    """
    for ledger_class in (Ledger, SharedLedger):
        with refusal as caught:
            ledger_class(
                path,
                adjacency=settings.adjacency,
                target_delta=settings.target_delta,
                accountant=settings.accountant,
                max_epsilon=settings.max_epsilon,
                filter=settings.filter,
            )
        assert "\n" not in str(caught.value)


def test_settings_are_read_back_from_the_file(path: Path, tmp_path: Path) -> None:
    """`stored` opens a ledger by its path alone, with the settings with which its file was made.

    A path at which no file lies is refused.
    """
    maker = partial(RdpAccountant, orders=[4.0, 8.0])
    filter_maker = partial(RenyiFilter, order=8.0)
    SharedLedger(
        path,
        adjacency="add_remove",
        target_delta=1e-5,
        accountant=maker,
        max_epsilon=3.0,
        filter=filter_maker,
    )
    reopened_ledger = SharedLedger.stored(path).account(data=FIRST_DIGEST)
    charge(reopened_ledger, event=PURE)
    assert (
        reopened_ledger.adjacency,
        reopened_ledger.target_delta,
        reopened_ledger.max_epsilon,
    ) == ("add_remove", 1e-5, 3.0)
    assert reopened_ledger.filter is not None
    parameters = {"max_failure_prob": pytest.approx(1e-7), "plans_failures": True, "order": 8.0}
    assert reopened_ledger.filter.to_json() == {"name": "renyi"} | parameters
    assert reopened_ledger.epsilon == composed_epsilon(
        make_accountant=maker, events=[PURE], delta=1e-5
    )
    assert Ledger.stored(path, data=FIRST_DIGEST).entries == reopened_ledger.entries
    with refused_parameter("ledger", value=ANY, rule_words="found no file"):
        Ledger.stored(tmp_path / "nowhere")


def test_the_accountant_of_a_file_in_the_home_folder_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Ledger` and `SharedLedger` take the accountant of an existing file whose path begins with `~`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    Ledger("~/ledger.db", target_delta=DELTA, accountant=PureDpAccountant)
    assert (tmp_path / "ledger.db").exists()
    for ledger_class in (Ledger, SharedLedger):
        assert ledger_class("~/ledger.db", target_delta=DELTA).accountant is PureDpAccountant


def test_a_stored_ledger_needs_an_accountant_of_pate_and_its_version(
    path: Path,
) -> None:
    """A file that names a user's own accountant class can be opened if the class is passed, and not by its path alone.

    A file of a later version cannot be opened at all.
    """

    class OwnAccountant(RdpAccountant):
        name = "own"

    charge(Ledger(path, target_delta=DELTA, accountant=OwnAccountant))
    assert len(Ledger(path, target_delta=DELTA, accountant=OwnAccountant).entries) == 1
    for ledger_class in (Ledger, SharedLedger):
        with refused_parameter("accountant", value="own"):
            ledger_class.stored(path)
    path.unlink()
    Store(path, settings_if_new={"ledger": 99})
    for call in (partial(Ledger, path, target_delta=DELTA), partial(Ledger.stored, path)):
        with refused_parameter("ledger", value=ANY, rule_words="ledger of this"):
            call()


def write_former_zcdp_ledger(path: Path, max_epsilon: float | None) -> None:
    """Writes the file of a ledger of version 0.1 whose accountant, and filter if there is a cap,
    are the former zCDP ones.
    """
    filter_settings = {"name": "zcdp", "max_failure_prob": None, "plans_failures": True}
    settings = {
        "ledger": 3,
        "adjacency": "replace_one",
        "target_delta": DELTA,
        "accountant": {"name": "zcdp"},
        "max_epsilon": max_epsilon,
        "filter": None if max_epsilon is None else filter_settings,
    }
    Store(path, settings_if_new=settings)


def test_a_ledger_that_names_the_former_zcdp_accountant_has_the_renyi_total(path: Path) -> None:
    """A ledger file of version 0.1 that names the former zCDP accountant has the total of the Renyi accountant.

    Another accountant is refused for this file.
    """
    write_former_zcdp_ledger(path, max_epsilon=None)
    charge(Ledger.stored(path))
    for ledger in (Ledger.stored(path), Ledger(path, target_delta=DELTA)):
        assert ledger.epsilon == composed_epsilon(make_accountant=RdpAccountant, events=[GAUSSIAN])
        assert ledger.accountant_name == "rdp"
    with refused_parameter("accountant", value="pure_dp", rule_words="zcdp"):
        Ledger(path, target_delta=DELTA, accountant=PureDpAccountant)


def test_the_cap_of_a_ledger_with_the_former_zcdp_filter_stays(path: Path) -> None:
    """A ledger file of version 0.1 with the former zCDP filter and a cap of 4 admits a Gaussian as its first charge.

    The filter admits no Gaussian, but the accountant's price decides on a first charge. Then nothing is left, and a
    further charge is refused with the advice to use another ledger.
    """
    write_former_zcdp_ledger(path, max_epsilon=4.0)
    ledger = Ledger.stored(path)
    charge(ledger)  # under the cap by the accountant, as the first release
    assert (ledger.guaranteed_epsilon, ledger.max_epsilon, ledger.left) == (4.0, 4.0, 0.0)
    with refused_parameter(
        "max_epsilon", value=4.0, rule_words="another ledger", kind=BudgetExceeded
    ):
        charge(ledger, event=GaussianEvent(noise_multiplier=1000.0), key="b")
    assert len(ledger.entries) == 1


def test_the_cap_of_the_file_holds_in_addition_to_a_smaller_cap(path: Path) -> None:
    """Two `Ledger` objects of one file have caps of 4 (the file's) and 3: each refuses charges above its own cap.

    If the file has no cap, an object may have one, and other objects of the file have none.
    """
    large_event = GaussianEvent(noise_multiplier=2.0)
    Ledger(path, target_delta=DELTA, max_epsilon=4.0)
    other_ledger = Ledger(path, target_delta=DELTA)
    tight_ledger = Ledger(path, target_delta=DELTA, max_epsilon=3.0)
    assert (other_ledger.max_epsilon, tight_ledger.max_epsilon) == (4.0, 3.0)
    charge(tight_ledger, event=large_event)
    with refused_parameter("max_epsilon", value=3.0, kind=BudgetExceeded):
        charge(tight_ledger, event=large_event, key="b")
    charge(other_ledger, event=large_event, key="b")
    with refused_parameter("max_epsilon", value=4.0, kind=BudgetExceeded):
        charge(other_ledger, event=large_event, key="c")
    assert Ledger.stored(path).max_epsilon == 4.0
    path_without_cap = path.with_name("bare.db")
    ledger = Ledger(path_without_cap, target_delta=DELTA)
    tight_ledger = Ledger(path_without_cap, target_delta=DELTA, max_epsilon=1.2 * ONE_EPSILON)
    charge(tight_ledger)
    assert (tight_ledger.affords(GAUSSIAN), ledger.affords(GAUSSIAN)) == (0, math.inf)
    assert (ledger.filter, ledger.left, ledger.spent_epsilon) == (None, None, ONE_EPSILON)


def test_every_charge_reduces_what_the_cap_leaves(
    shared: SharedLedger,
) -> None:
    """Three Gaussians are charged under a cap of 4: `affords` falls by one each time.

    `left` falls by each Gaussian's Renyi divergence at the filter's Renyi order, 7.171.
    """
    account = shared.account(data=FIRST_DIGEST)
    small_event = GaussianEvent(noise_multiplier=30.0)
    assert (account.affords(small_event), account.left, account.spent_epsilon) == (559, None, 0.0)
    amounts_left = []
    for number in range(3):
        charge(account, event=small_event, key=str(number))
        amounts_left.append(account.left)
        assert account.affords(small_event) == 558 - number
    assert account.filter is not None
    assert account.filter.unit == "Renyi divergence at order 7.171"
    assert amounts_left[0] - amounts_left[1] == pytest.approx(7.171 / (2 * 30.0**2))
    assert account.epsilon == account.spent_epsilon < 4.0  # by the accountant, as reports say it


@pytest.mark.slow
def test_a_cap_counts_mu_after_a_gaussian_first_charge(
    path: Path,
) -> None:
    """A ledger whose first charge is a Gaussian has a filter that counts mu as well as the Renyi divergence.

    Another data set of the same file and cap, whose first charge is a pure-DP event, has the Renyi filter.
    """
    shared = SharedLedger(path, target_delta=DELTA, accountant=ExactAccountant, max_epsilon=4.0)
    gaussian_account = shared.account(data=FIRST_DIGEST)
    other_account = shared.account(data=OTHER_DIGEST)
    charge(gaussian_account, event=GaussianEvent(noise_multiplier=30.0))
    charge(other_account, event=PureDpEvent(epsilon=0.1))
    assert [
        account.filter and account.filter.name for account in (gaussian_account, other_account)
    ] == [
        "gaussian_and_renyi",
        "renyi",
    ]
    assert gaussian_account.affords(GaussianEvent(noise_multiplier=30.0)) == 597
    charge(gaussian_account, event=PureDpEvent(epsilon=0.1), key="b")
    assert 570 < gaussian_account.affords(GaussianEvent(noise_multiplier=30.0)) < 597


def test_each_data_set_of_a_shared_ledger_has_the_whole_budget(
    shared: SharedLedger, path: Path
) -> None:
    """Each of two data sets in one file can be charged up to the cap of 4, whatever was charged to the other one.

    The file lists the entries of both. A file that is opened again has the same entries and the same cap.
    """
    first_account = shared.account(data=FIRST_DIGEST)
    other_account = shared.account(data=OTHER_DIGEST)
    large_event = GaussianEvent(noise_multiplier=2.0)
    first_entry = charge(first_account, event=large_event)
    assert (first_account.epsilon, other_account.epsilon) == (
        composed_epsilon(make_accountant=AutoAccountant, events=[large_event]),
        0.0,
    )
    assert other_account.affords(large_event) == first_account.affords(large_event) + 1 == 2
    charge(first_account, event=large_event, key="b")
    with refused_parameter(
        "max_epsilon", value=4.0, rule_words="total with this", kind=BudgetExceeded
    ):
        charge(first_account, event=large_event, key="c")
    charge(other_account, event=large_event)
    assert [(entry.key, entry.data) for entry in shared.entries] == [
        ("a", FIRST_DIGEST),
        ("b", FIRST_DIGEST),
        ("a", OTHER_DIGEST),
    ]
    assert (shared.data, keys_of(first_account)) == ([FIRST_DIGEST, OTHER_DIGEST], ["a", "b"])
    for reopened_file in (SharedLedger(path, target_delta=DELTA), SharedLedger.stored(path)):
        assert charge(reopened_file.account(data=FIRST_DIGEST), event=large_event) == first_entry
    assert Ledger(path, target_delta=DELTA, data=OTHER_DIGEST).max_epsilon == 4.0


def test_a_file_of_several_data_sets_needs_a_named_data_set(
    shared: SharedLedger, path: Path
) -> None:
    """A ledger opened without a data set works while its file has one data set only.

    After a charge for a second data set, such a ledger can be neither read nor charged nor opened anew.
    """
    charge(shared.account(data=FIRST_DIGEST))
    account_of_unnamed_data = Ledger(path, target_delta=DELTA)
    charge(account_of_unnamed_data, key="b")
    assert [entry.data for entry in shared.account(data=FIRST_DIGEST).entries] == [
        FIRST_DIGEST,
        FIRST_DIGEST,
    ]
    charge(shared.account(data=OTHER_DIGEST))
    for use in (
        lambda: account_of_unnamed_data.entries,
        lambda: charge(account_of_unnamed_data, key="c"),
        lambda: Ledger(path, target_delta=DELTA),
    ):
        with refused_parameter("data", value="''"):
            use()


def test_a_charge_without_a_data_set_counts_for_every_data_set(ledger: Ledger, path: Path) -> None:
    """A charge that names no data set is an entry of the ledgers of two data sets that are opened later.

    A charge of one of these two data sets is no entry of the other.
    """
    committed_bytes(ledger, key="a", draw=lambda: b"first")
    first_account = Ledger(path, target_delta=DELTA, data=FIRST_DIGEST)
    assert first_account.epsilon == ledger.epsilon == ONE_EPSILON
    assert committed_bytes(first_account, key="a", draw=pytest.fail) == b"first"
    charge(first_account, key="b")
    assert keys_of(Ledger(path, target_delta=DELTA, data=OTHER_DIGEST)) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "accountant_class", ACCOUNTANTS, ids=[accountant_class.name for accountant_class in ACCOUNTANTS]
)
@ON_DISK_AND_IN_MEMORY
def test_every_total_equals_a_fresh_composition_of_all_charges(
    accountant_class: Callable[[], Accountant], on_disk: bool, path: Path
) -> None:
    """After each of 12 charges, the total equals that of a new accountant that composes all events so far.

    Once two different events were charged, the new accountant is that of `in_any_order`, whose bound holds for
    every order of the events.
    """
    ledger = Ledger(path if on_disk else None, target_delta=DELTA, accountant=accountant_class)
    assert ledger.epsilon == 0
    for number, event in enumerate(SEQUENCE):
        charged_events = SEQUENCE[: number + 1]
        has_one_event = len(set(charged_events)) == 1
        make_accountant = accountant_class if has_one_event else in_any_order(accountant_class)
        expected = composed_epsilon(make_accountant=make_accountant, events=charged_events)
        assert charge(ledger, event, key=str(number)).epsilon == ledger.epsilon == expected


class CountingAccountant(RdpAccountant):
    """An accountant that counts the calls of `compose` over all its instances."""

    num_calls = 0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Composes events and counts one call."""
        type(self).num_calls += 1
        return super().compose(event, count=count)


@pytest.mark.slow
@ON_DISK_AND_IN_MEMORY
def test_the_work_of_a_charge_does_not_grow_with_earlier_charges(
    on_disk: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 60 charges calls `compose` at most 3 times and prices at most 2 events for the filter."""
    priced_events: list[Event] = []
    price = RenyiFilter.price

    def price_and_record(privacy_filter: RenyiFilter, event: Event) -> Spent:
        priced_events.append(event)
        return price(privacy_filter, event)

    monkeypatch.setattr(RenyiFilter, "price", price_and_record)
    monkeypatch.setattr(CountingAccountant, "num_calls", 0)
    ledger = Ledger(
        path if on_disk else None,
        target_delta=DELTA,
        accountant=CountingAccountant,
        max_epsilon=100.0,
    )
    for number in range(60):
        num_calls_before = CountingAccountant.num_calls
        priced_events.clear()
        new_gaussian = GaussianEvent(noise_multiplier=100.0 + number)
        event = (PURE, RANGE, BITS, new_gaussian)[number % 4]
        charge(ledger, event=event, key=str(number))
        assert CountingAccountant.num_calls - num_calls_before <= 3
        assert len(priced_events) <= 2  # the event itself, and the charge before it


def test_refused_charges_do_not_change_the_total() -> None:
    """Charges above the cap, or of an event that the accountant cannot price, are refused.

    The total afterwards is that of the admitted events only.
    """
    # The cap is the sum of two epsilons of pure DP.
    ledger = Ledger(target_delta=DELTA, max_epsilon=0.1 * (1 + 1e-9))
    charge(ledger, event=PURE, key="0")
    for event in (GaussianEvent(noise_multiplier=1.0), ZCdpEvent(rho=1.0)):
        with pytest.raises(BudgetExceeded):
            charge(ledger, event, key="9")
    assert (
        charge(ledger, event=PURE, key="1").epsilon
        == ledger.epsilon
        == composed_epsilon(make_accountant=AutoAccountant, events=[PURE, PURE])
    )
    exact_ledger = Ledger(target_delta=DELTA, accountant=ExactAccountant)
    for number, event in enumerate((PURE, RANGE, RANGE)):
        charge(exact_ledger, event, key=str(number))
        with refused_parameter("event", value="ZCdpEvent", rule_words="event that"):
            charge(exact_ledger, event=ZCdpEvent(rho=0.1), key="9")
    # The total holds for every order of the charges.
    assert exact_ledger.epsilon == composed_epsilon(
        make_accountant=RdpAccountant, events=[PURE, RANGE, RANGE]
    )
    assert (exact_ledger.price(ZCdpEvent(rho=0.1)), exact_ledger.price(RANGE)) == (
        math.inf,
        composed_epsilon(make_accountant=ExactAccountant, events=[RANGE]),
    )


@pytest.mark.slow
def test_an_interrupted_reading_neither_forgets_nor_repeats_a_charge(
    path: Path,
) -> None:
    """A ledger whose reading of another ledger's charges is interrupted has complete totals after the next reading.

    Ctrl-C interrupts it at every line of code in turn. The entries are also complete.
    """
    ledger = Ledger(path, target_delta=DELTA, max_epsilon=9.0)
    early_path = path.with_name("early.db")
    charge(ledger, event=PURE)
    early_bytes = path.read_bytes()
    for number, event in enumerate(SEQUENCE[1:5]):
        charge(ledger, event, key=str(number))
    expected = ledger.epsilon, ledger.spent_epsilon, ledger.entries

    def count_lines_of_reading(interrupted_line: int) -> int:
        early_path.write_bytes(early_bytes)
        reader = Ledger(early_path, target_delta=DELTA)
        num_lines = 0
        assert reader.epsilon < expected[0]
        shutil.copyfile(path, early_path)  # the same file, grown

        def trace(frame: Any, what: str, _: Any) -> Any:
            nonlocal num_lines
            if Path(frame.f_code.co_filename).name not in (
                "cap.py",
                "ledger.py",
                "running_total.py",
                "store.py",
            ):
                return None
            num_lines += what == "line"
            if num_lines == interrupted_line and what == "line":
                raise KeyboardInterrupt
            return trace

        earlier_trace = sys.gettrace()
        sys.settrace(trace)
        with suppress(KeyboardInterrupt):
            assert (reader.epsilon, reader.spent_epsilon) == expected[:2]
        sys.settrace(earlier_trace)
        assert (reader.epsilon, reader.spent_epsilon, reader.entries) == expected, interrupted_line
        return num_lines

    num_lines_of_reading = count_lines_of_reading(interrupted_line=0)
    for line_number in range(1, num_lines_of_reading + 1):
        count_lines_of_reading(interrupted_line=line_number)


def test_a_ledger_in_memory_refuses_to_be_copied(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger without a file refuses to be pickled, deep-copied, or charged in another process, as after a fork.

    Copies in worker processes would each spend the whole budget. A shallow copy shares all that the ledger has and is
    allowed. A ledger with a file may be pickled and copied in every way.
    """
    memory_ledger = Ledger(target_delta=DELTA)
    for copy_ledger in (pickle.dumps, copy.deepcopy):
        with refused_parameter("ledger.path", value=None):
            copy_ledger(memory_ledger)
    with monkeypatch.context() as forked_process:
        forked_process.setattr(os, "getpid", lambda: -1)
        with refused_parameter("ledger.path", value=None):
            charge(memory_ledger)
    charge(copy.copy(memory_ledger))  # which shares all that it has
    charge(memory_ledger, key="b")
    assert keys_of(memory_ledger) == ["a", "b"]
    charge(pickle.loads(pickle.dumps(ledger)), key="a")
    charge(copy.deepcopy(ledger), key="b")
    charge(copy.copy(ledger), key="c")
    charge(ledger, key="d")
    charge(
        pickle.loads(pickle.dumps(SharedLedger(path, target_delta=DELTA))).account(
            data=FIRST_DIGEST
        ),
        key="e",
    )
    assert keys_of(ledger) == list("abcde")


@ON_DISK_AND_IN_MEMORY
def test_threads_cannot_spend_one_budget_twice(on_disk: bool, path: Path) -> None:
    """Four threads charge a ledger whose cap has room for one charge: one is admitted and three are refused."""

    class SlowAccountant(RdpAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            time.sleep(0.02)
            return super().get_epsilon(target_delta)

    ledger = Ledger(
        path if on_disk else None,
        target_delta=DELTA,
        accountant=SlowAccountant,
        max_epsilon=1.2 * ONE_EPSILON,
    )
    refused_keys: list[str] = []

    def spend(key: str) -> None:
        try:
            charge(ledger, key=key)
        except BudgetExceeded:
            refused_keys.append(key)

    threads = [threading.Thread(target=spend, args=(key,)) for key in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.entries), len(refused_keys)) == (1, 3)


def run_in_fork(function: Callable[[], object]) -> int:
    """Runs `function` in a forked process, and returns the id of this process at once.

    The exit code of the process is 1 after an exception, and 0 otherwise.
    """
    if child := os.fork():
        return child
    code = 1
    try:
        function()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.slow
@pytest.mark.process
def test_concurrent_processes_spend_each_budget_once(path: Path) -> None:
    """Eight processes commit events for two data sets whose caps have room for 22 events each.

    Exactly 22 are admitted for each data set. Half of the processes use a ledger that was opened
    before the fork.
    """
    ledger_before_fork = SharedLedger(path, target_delta=DELTA, max_epsilon=4.0)

    def spend(child_number: int) -> None:
        shared_ledger = ledger_before_fork if child_number % 2 else SharedLedger.stored(path)
        for number in range(25):
            try:
                account = shared_ledger.account(data=f"digest {number % 2}")
                committed_bytes(
                    account,
                    key=f"{child_number} {number}",
                    draw=lambda: os.urandom(8),
                    event=GaussianEvent(noise_multiplier=6.0),
                )
            except BudgetExceeded:
                continue

    children = [run_in_fork(function=partial(spend, child_number)) for child_number in range(8)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    privacy_filter = RenyiFilter(max_epsilon=4.0, target_delta=DELTA)
    assert privacy_filter.budget // privacy_filter.amount(GaussianEvent(noise_multiplier=6.0)) == 22
    for data_digest in ("digest 0", "digest 1"):
        account = ledger_before_fork.account(data=data_digest)
        assert (len(account.entries), account.affords(GaussianEvent(noise_multiplier=6.0))) == (
            22,
            0,
        )
        assert account.spent_epsilon <= 4.0


@pytest.mark.process
@pytest.mark.parametrize(
    "where", ["draw", "about", "before the line", "after the line", "after the commit"]
)
def test_a_kill_leaves_the_charge_and_its_release_or_neither(
    ledger: Ledger, path: Path, where: str
) -> None:
    """If a process is killed after a commit, its charge and release are in the file; if killed before, neither is.

    `where` is the place in the commit at which a child process is killed. Its parent then reads the file.
    """
    charge(ledger)

    def die(*_: object) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def commit_and_die() -> None:
        insert = Store._insert

        def inserted(*arguments: Any, **named: Any) -> Any:
            line = die() if where == "before the line" else insert(*arguments, **named)
            return die() if where == "after the line" else line

        Store._insert = inserted  # type: ignore[method-assign]
        if where == "about":
            ledger_module.charging_process = die  # type: ignore[assignment]
        child_ledger = Ledger(path, target_delta=DELTA, max_epsilon=4.0)
        if where == "after the commit":
            child_ledger._store._remember_lines = die  # type: ignore[method-assign]
        committed_bytes(child_ledger, key="b", draw=die if where == "draw" else lambda: b"drawn")

    assert os.waitpid(run_in_fork(function=commit_and_die), 0)[1] == signal.SIGKILL
    reopened_ledger = Ledger(path, target_delta=DELTA)
    is_committed = where == "after the commit"
    assert keys_of(reopened_ledger) == (["a", "b"] if is_committed else ["a"])
    assert reopened_ledger.read(key="b") == (b"drawn" if is_committed else None)
    expected = b"drawn" if is_committed else b"drawn again"
    assert committed_bytes(reopened_ledger, key="b", draw=lambda: b"drawn again") == expected


def test_a_full_disk_raises_an_error_and_charges_nothing(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that needs more pages than SQLite may use, as on a full disk, raises an OSError.

    The file is unchanged, and a smaller release can be committed afterwards.
    """
    charge(ledger)
    before = path.read_bytes()
    connect = sqlite3.connect

    def connect_with_few_pages(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        db.execute(f"PRAGMA max_page_count={len(before) // 4096}")
        return db

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_with_few_pages)
        with pytest.raises(
            OSError, match=r"^\[Errno 28\] No space left on device: '\S+ledger\.db'$"
        ):
            committed_bytes(ledger, key="b", draw=lambda: bytes(100_000))
    assert path.read_bytes() == before
    assert (keys_of(ledger), ledger.epsilon) == (["a"], ONE_EPSILON)
    assert committed_bytes(ledger, key="b", draw=lambda: b"drawn") == b"drawn"


def test_a_chained_line_without_a_charge_is_refused(path: Path) -> None:
    """A file is refused as damaged if one of its lines has a valid hash, but its text is no event."""
    for number, event in enumerate(
        ["[]", "{", '{"kind": "Free"}', '{"kind": "PureDpEvent", "epsilon": -1}']
    ):
        damaged_path = path.with_name(f"{number}.db")
        store = Ledger(damaged_path, target_delta=DELTA)._store
        line_under_lock = partial(LineText, event_json=event)
        store.commit(data_digest="", key="a", content=b"", line_under_lock=line_under_lock)
        with refused_parameter("ledger", value=ANY, rule_words="charge on", kind=DamagedLedger):
            Ledger(damaged_path, target_delta=DELTA)


@pytest.mark.parametrize(
    "command_line",
    [["pate-train", "data=a b", "note='\n"], ["pate-train", "\udcff"], ["x" * 5000], None],
)
def test_a_charge_records_user_host_and_command(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, command_line: list[str] | None
) -> None:
    """An entry records the user, the host and the command line of its charge.

    A user without a name is recorded by number. The command line is quoted for the shell and cut to 1000 characters;
    it is empty if there is none.
    """

    def raise_unknown_user(user_id: int) -> Any:
        raise KeyError(user_id)

    monkeypatch.setattr("pwd.getpwuid", raise_unknown_user)
    if command_line is None:
        monkeypatch.delattr(sys, "argv")
    else:
        monkeypatch.setattr(sys, "argv", command_line)
    ledger_module.charging_process.cache_clear()
    entry = charge(ledger)
    ledger_module.charging_process.cache_clear()
    assert (entry.user, entry.host) == (str(os.getuid()), os.uname().nodename)
    assert entry.command == shlex.join(command_line or [])[:1000]
    assert entry.time.endswith("+00:00")


PATIENT = PrivacyUnit.of_column(column="mrn")
VISIT = PrivacyUnit(words="one row")


@pytest.mark.parametrize(("first_unit", "second_unit"), [(VISIT, PATIENT), (PATIENT, VISIT)])
def test_an_account_refuses_a_second_unit_of_privacy(
    first_unit: PrivacyUnit, second_unit: PrivacyUnit, tmp_path: Path
) -> None:
    """The first charge of an account, the ledger of one data set, fixes the account's unit of privacy to `first_unit`.

    The unit `second_unit` is then refused, also by an account object that was opened before the charge. Another data
    set may have it.
    """
    shared = SharedLedger(tmp_path / "ledger.db", target_delta=DELTA)
    # This object was opened before the first charge.
    early_account = shared.account(data=FIRST_DIGEST, unit=second_unit)
    account = shared.account(data=FIRST_DIGEST, unit=first_unit)
    entry = account.charge(GAUSSIAN, adjacency="replace_one")
    assert (entry.unit, account.unit, account.num_without_unit) == (first_unit, first_unit, 0)
    with refused_parameter("unit", value=second_unit.words, rule_words=first_unit.words):
        shared.account(data=FIRST_DIGEST, unit=second_unit)
    with refused_parameter("unit", value=second_unit.words, rule_words=first_unit.words):
        early_account.charge(GAUSSIAN, adjacency="replace_one")
    assert len(shared.entries) == 1
    assert (
        shared.account(data=OTHER_DIGEST, unit=second_unit)
        .charge(GAUSSIAN, adjacency="replace_one")
        .unit
        == second_unit
    )
    unnamed = SharedLedger.stored(shared.path).account(data=FIRST_DIGEST)
    assert unnamed.charge(GAUSSIAN, adjacency="replace_one").unit == first_unit, (
        "who says nothing takes the account's"
    )


def test_charges_without_a_unit_count_for_the_unit_of_the_account(tmp_path: Path) -> None:
    """A charge without a unit, as earlier versions made it, stays in an account that is later opened with a unit.

    An account is the ledger of one data set. The account counts this charge as one without a unit. Another unit is then
    refused.
    """
    ledger = Ledger(tmp_path / "ledger.db", target_delta=DELTA)
    assert ledger.charge(GAUSSIAN, adjacency="replace_one").unit is None
    assert (ledger.unit, ledger.num_without_unit) == (None, 1)
    ledger = Ledger(tmp_path / "ledger.db", target_delta=DELTA, unit=PATIENT)
    ledger.charge(GAUSSIAN, adjacency="replace_one")
    assert (ledger.unit, ledger.num_without_unit, len(ledger.entries)) == (PATIENT, 1, 2)
    with refused_parameter("unit", value="one row", rule_words="value of the column mrn"):
        Ledger(tmp_path / "ledger.db", target_delta=DELTA, unit=VISIT)


def test_the_repr_of_a_ledger_shows_settings_and_number_of_charges(tmp_path: Path) -> None:
    """The repr of a ledger with one charge has its path, adjacency, delta, cap and number of charges."""
    ledger = Ledger(tmp_path / "ledger.db", target_delta=1e-6, max_epsilon=3.0)
    ledger.charge(PureDpEvent(epsilon=0.5), adjacency=Adjacency.REPLACE_ONE)
    terms = (
        f"path={tmp_path / 'ledger.db'}, adjacency=replace_one, target_delta=1e-06, max_epsilon=3.0"
    )
    assert repr(ledger) == f"Ledger({terms}, num_charges=1)"


def test_a_notebook_shows_the_total_and_settings_of_a_ledger(tmp_path: Path) -> None:
    """The HTML that a notebook shows has the total, delta, cap, adjacency, unit and number of charges.

    The file's name is escaped, and a ledger without a file is shown as "in memory".
    """
    ledger = Ledger(tmp_path / "<b>.db", target_delta=1e-6, max_epsilon=3.0, unit=PATIENT)
    for _ in range(2):
        ledger.charge(PureDpEvent(epsilon=0.75), adjacency=Adjacency.REPLACE_ONE)
    shown = ledger._repr_html_()
    for text in ("<td>1.50</td>", "1e-6", "replace_one", PATIENT.words, "<td>3</td>", "<td>2</td>"):
        assert text in shown
    assert "&lt;b&gt;.db" in shown and "<b>" not in shown
    assert "in memory" in Ledger(target_delta=1e-6)._repr_html_()
