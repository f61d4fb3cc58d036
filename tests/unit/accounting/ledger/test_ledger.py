"""The ledger: on disk before it answers, and never forgetful."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pate.accounting.ledger.file as ledger_module
import pytest
from pate.accounting.charged_draw import charge_draw, key_salt, noise_name

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    BudgetExceeded,
    ComposedEvent,
    ExactAccountant,
    GaussianEvent,
    Ledger,
    OneBitEvent,
    PureDpEvent,
    RdpAccountant,
    SampledGaussianEvent,
    SelfComposedEvent,
    calibrate,
)
from pate.mechanisms import cipher_generator
from pate.validation import InvalidValue

LEDGERS = Path(__file__).parents[3] / "oracle" / "ledgers"
DELTA = 1e-6
GAUSSIAN = GaussianEvent(20.0)
BIT = SelfComposedEvent(ComposedEvent((ApproximateEvent(OneBitEvent((-20.0, 0.0), 1), 1e-9), PureDpEvent(0.1))), 3)


def charge(ledger: Ledger, event: Any = GAUSSIAN, key: str = "a", **kwargs: Any) -> Any:
    return ledger.charge(event, adjacency=ledger.adjacency, key=key, **kwargs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_reopening_equals(path: Path) -> None:
    first = Ledger(path, target_delta=DELTA)
    charge(first, key="a", description="the first, “quoted”\n", noise="n1")
    charge(first, BIT, key="b")
    charge(first, GaussianEvent(0.0), key="c")
    second = Ledger(path, target_delta=DELTA)
    assert second.entries == first.entries
    assert second.epsilon == first.epsilon == float("inf")


def test_total_is_that_of_the_accountant(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    assert ledger.epsilon == 0
    entries = [charge(ledger, key="a"), charge(ledger, BIT, key="b")]
    expected = RdpAccountant().compose(GAUSSIAN).compose(BIT).get_epsilon(DELTA)
    assert ledger.epsilon == entries[1].epsilon == expected
    assert entries[0].epsilon == RdpAccountant().compose(GAUSSIAN).get_epsilon(DELTA)


def test_lines_are_synchronized_to_disk_before_charge_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    anchored: list[bytes] = []

    def fsync(descriptor: int) -> None:
        synced.append(path.read_bytes())
        assert os.fstat(descriptor).st_ino == path.stat().st_ino

    def fdatasync(descriptor: int) -> None:
        anchored.append(path.with_name(".ledger.jsonl.head").read_bytes())
        assert os.fstat(descriptor).st_ino == path.with_name(".ledger.jsonl.head").stat().st_ino
        assert len(synced) == len(anchored)

    ledger = Ledger(path, target_delta=DELTA)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    charge(ledger, key="a")
    charge(ledger, BIT, key="b")
    assert [content.count(b"\n") for content in synced] == [2, 3]
    assert all(content.endswith(b"}\n") for content in synced)
    for content, anchor in zip(synced, anchored, strict=True):
        assert hashlib.sha256(content.splitlines(keepends=True)[-1]).hexdigest().encode() in anchor


def test_a_new_file_s_name_is_on_disk_before_anything_is_charged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[Path, bytes]] = []
    monkeypatch.setattr(ledger_module, "sync_folder", lambda folder: synced.append((folder, path.read_bytes())))
    ledger = Ledger(path, target_delta=DELTA)
    charge(ledger)
    assert [(folder, content.count(b"\n")) for folder, content in synced] == [(path.parent, 1)]
    assert path.with_name(".ledger.jsonl.head").stat().st_size > 0


class OwnGenerator(np.random.Generator):
    """Its numbers may come from anywhere."""


class OwnBits(np.random.PCG64):
    """Its state may say nothing of its numbers."""


def test_noise_is_named_by_the_state_of_numpy_s_own_generators_alone() -> None:
    rng = np.random.default_rng(0)
    before = noise_name(rng)
    assert before == noise_name(np.random.default_rng(0)) != noise_name(np.random.default_rng(1))
    assert noise_name(np.random.Generator(np.random.Philox(0))) not in ("", before)
    rng.random()
    assert noise_name(rng) not in ("", before)
    assert noise_name(OwnGenerator(np.random.PCG64(0))) == noise_name(np.random.Generator(OwnBits(0))) == ""


def test_noise_of_the_cipher_is_named_by_all_of_its_state() -> None:
    rng = cipher_generator(bytes(range(32)))
    before, salt = noise_name(rng), key_salt(rng)
    assert before == noise_name(cipher_generator(bytes(range(32)))) not in ("", salt)
    others = [bytes(31) + b"\1", b"\1" + bytes(31), bytes(16) + b"\1" + bytes(15), bytes(32)]
    assert len({before, *(noise_name(cipher_generator(key)) for key in others)}) == 5
    rng.integers(2**32, dtype=np.uint32)
    assert noise_name(rng) not in ("", before)
    own = type("OwnCipher", (type(rng.bit_generator),), {})
    assert noise_name(np.random.Generator(own(key=1))) == ""


def test_a_name_does_not_depend_on_what_numpy_prints() -> None:
    """Printed with three numbers of each array, generators of two keys would have one name."""
    keys = [bytes(range(32)), bytes([*range(16), 99, *range(17, 32)])]
    names = [noise_name(cipher_generator(key)) for key in keys]
    twister = noise_name(np.random.Generator(np.random.MT19937(0)))
    with np.printoptions(threshold=2, edgeitems=1):
        assert [noise_name(cipher_generator(key)) for key in keys] == names
        assert noise_name(np.random.Generator(np.random.MT19937(0))) == twister
    assert names[0] != names[1]


def test_a_seed_s_noise_keeps_the_name_it_had() -> None:
    """Killed runs of earlier versions are charged under it."""
    assert noise_name(np.random.default_rng(0)) == "bf33c53e2fd3064d2afb0dcedf236bb3c60ecb19989c42d27e0aea63bbc7d842"


def test_the_salt_of_keys_is_another_digest_of_the_same_state() -> None:
    one, other = np.random.default_rng(0), np.random.default_rng(1)
    assert key_salt(one) == key_salt(np.random.default_rng(0)) not in ("", noise_name(one), key_salt(other))
    assert key_salt(np.random.Generator(OwnBits(0))) == ""


def test_a_crash_before_the_disk_is_reached_charges_nothing_in_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(path, target_delta=DELTA)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        charge(ledger)
    assert ledger.entries == []


def test_a_torn_header_is_a_new_ledger(path: Path) -> None:
    whole = b'{"ledger": 2, "adjacency": "replace_one", "target_delta": 1e-06, "accountant": {"name": "rdp"}, '
    for content in (b'{"ledger": 1, "adj', *(whole[:length] for length in range(0, len(whole), 5))):
        path.write_bytes(content)
        assert Ledger(path, target_delta=DELTA).entries == []
        assert json.loads(path.read_text()) == {
            "ledger": 2,
            "adjacency": "replace_one",
            "target_delta": DELTA,
            "accountant": {"name": "rdp"},
            "max_epsilon": None,
            "filter": None,
        }
        path.with_name(".ledger.jsonl.head").unlink()


def test_the_same_key_is_charged_once(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    first = charge(ledger, key="a", noise="n")
    assert charge(ledger, key="a", noise="n") == first
    assert charge(Ledger(path, target_delta=DELTA), key="a", noise="n") == first
    assert path.read_bytes().count(b"\n") == 2
    with pytest.raises(InvalidValue, match=r"key=a: expected a new key, this one stands for another price"):
        charge(ledger, BIT, key="a")
    assert ledger.entries == [first]


def test_the_same_noise_under_another_key_is_refused(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    charge(ledger, key="a", noise="n")
    for opened in (ledger, Ledger(path, target_delta=DELTA)):
        with pytest.raises(InvalidValue, match=r"noise=n: expected fresh noise"):
            charge(opened, key="b", noise="n")
    charge(ledger, key="b")
    charge(ledger, key="c")
    assert [entry.key for entry in ledger.entries] == ["a", "b", "c"]


def test_noise_of_an_earlier_charge_is_refused_even_with_a_key_that_is_known(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    first, second = charge(ledger, key="a", noise="n"), charge(ledger, key="b", noise="m")
    assert charge(ledger, key="a", noise="m") == first
    assert charge(ledger, key="b") == second
    with pytest.raises(InvalidValue, match=r"noise=n: expected fresh noise"):
        charge(ledger, key="b", noise="n")


def test_a_charge_beyond_the_budget_is_refused_and_leaves_no_trace(path: Path) -> None:
    one = RdpAccountant().compose(GAUSSIAN).get_epsilon(DELTA)
    ledger = Ledger(path, target_delta=DELTA, max_epsilon=1.2 * one)
    charge(ledger, key="a")
    before = path.read_bytes()
    with pytest.raises(BudgetExceeded, match=r"max_epsilon=0\.\d+: expected at least 0\.\d+, the total with this"):
        charge(ledger, key="b")
    with pytest.raises(BudgetExceeded, match=r"expected at least inf"):
        charge(ledger, GaussianEvent(0.0), key="c")
    assert path.read_bytes() == before
    assert charge(ledger, key="a").key == "a"
    assert len(ledger.entries) == 1


def test_a_charge_exactly_at_the_budget_is_accepted() -> None:
    one = RdpAccountant().compose(GAUSSIAN).get_epsilon(DELTA)
    assert charge(Ledger(target_delta=DELTA, max_epsilon=one)).epsilon == one


def test_another_adjacency_is_refused(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    with pytest.raises(InvalidValue, match=r"adjacency=add_remove: expected replace_one, as this ledger counts"):
        ledger.charge(GAUSSIAN, adjacency=Adjacency.ADD_REMOVE, key="a")
    assert ledger.entries == []


def test_a_sampled_event_of_another_adjacency_is_refused_written_and_read(path: Path) -> None:
    """Its price is not that of the other one. A line of an earlier version names none, and was replace-one."""
    replaced, comes = (SelfComposedEvent(SampledGaussianEvent(2.0, 0.1, one), 3) for one in Adjacency)
    ledger = Ledger(path, adjacency=Adjacency.ADD_REMOVE, target_delta=DELTA)
    with pytest.raises(InvalidValue, match=r"event\.adjacency=replace_one: expected add_remove, as this ledger counts"):
        ledger.charge(replaced, adjacency=Adjacency.ADD_REMOVE, key="a")
    ledger.charge(comes, adjacency=Adjacency.ADD_REMOVE, key="a")
    assert Ledger(path, adjacency=Adjacency.ADD_REMOVE, target_delta=DELTA).entries[0].event == comes
    old = LEDGERS / "sampled.jsonl"
    path.with_name("old.jsonl").write_text(old.read_text().replace('"replace_one"', '"add_remove"'))
    with pytest.raises(InvalidValue, match=r"event\.adjacency=replace_one: expected add_remove, as this ledger counts"):
        Ledger(path.with_name("old.jsonl"), adjacency=Adjacency.ADD_REMOVE, target_delta=1e-6)


@pytest.mark.parametrize("other", [{"adjacency": "add_remove"}, {"target_delta": 1e-5}])
def test_a_file_for_another_adjacency_or_delta_is_refused(path: Path, other: dict[str, Any]) -> None:
    Ledger(path, target_delta=DELTA)
    found = {"adjacency": "replace_one", "target_delta": DELTA}
    for name, value in other.items():
        with pytest.raises(InvalidValue, match=rf"^{name}={value}: expected {found[name]}, as ledger=.*jsonl counts$"):
            Ledger(path, **({"target_delta": DELTA} | other))


def test_failures_that_use_up_delta_are_refused_and_leave_no_trace(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    before = path.read_bytes()
    with pytest.raises(InvalidValue, match=r"failure_prob: 1e-05 in all uses up target_delta=1e-06"):
        charge(ledger, ApproximateEvent(GAUSSIAN, 1e-5))
    assert path.read_bytes() == before
    assert ledger.entries == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "expected JSON on line 3"),
        ("{", "expected JSON on line 3"),
        ("[]", "expected a charge on line 3"),
        ("null", "expected a charge on line 3"),
        ('{"key": "b"}', "expected a charge on line 3"),
        ('{"key": "b", "event": {"kind": "Free"}, "description": "", "epsilon": 0, "noise": ""}', "charge on line 3"),
        (
            '{"key": "b", "event": {"kind": "GaussianEvent", "noise_multiplier": -1}, "description": "",'
            ' "epsilon": 0, "noise": ""}',
            "charge on line 3",
        ),
        ('{"key": "b", "event": {"kind": "GaussianEvent"}, "description": "", "epsilon": 0}', "charge on line 3"),
    ],
)
def test_a_damaged_line_is_one_line_of_error(path: Path, line: str, message: str) -> None:
    """In a ledger of an earlier version, whose lines say nothing of each other."""
    path.write_text((LEDGERS / "pure.jsonl").read_text().splitlines()[0] + "\n")
    charge(Ledger(path, target_delta=1e-5))
    content = path.read_text() + line + "\n"
    path.write_text(content)
    with pytest.raises(InvalidValue, match=rf"ledger=.*ledger\.jsonl: .*{message}") as caught:
        Ledger(path, target_delta=1e-5)
    assert "\n" not in str(caught.value)
    assert path.read_text() == content


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path: Path) -> None:
    path.write_text('{"title": "something else"}\n')
    with pytest.raises(InvalidValue, match=r"ledger=.*: expected JSON of a ledger"):
        Ledger(path, target_delta=DELTA)
    assert path.read_text() == '{"title": "something else"}\n'


@pytest.mark.parametrize(
    "bad", [{"target_delta": 0.0}, {"target_delta": 1.0}, {"target_delta": DELTA, "max_epsilon": 0}]
)
def test_impossible_settings_are_refused_before_a_file_is_made(path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=r"(target_delta|max_epsilon)=.*: expected a number"):
        Ledger(path, **bad)
    assert not path.exists()


def test_a_file_without_a_line_break_that_is_no_ledger_is_left_alone(path: Path) -> None:
    path.write_text("somebody's notes")
    with pytest.raises(InvalidValue, match=r"ledger=.*: expected JSON of a ledger on line 1"):
        Ledger(path, target_delta=DELTA)
    assert path.read_text() == "somebody's notes"


def test_a_ledger_that_another_writes_to_has_the_charges_of_both_in_their_order(tmp_path: Path) -> None:
    first, second = (Ledger(tmp_path / "ledger.jsonl", target_delta=DELTA) for _ in range(2))
    for number, ledger in enumerate((first, second, second, first, second)):
        ledger.charge(GaussianEvent(10.0), adjacency=Adjacency.REPLACE_ONE, key=str(number))
    assert [entry.key for entry in second.entries] == list("01234")
    assert second.entries == Ledger(tmp_path / "ledger.jsonl", target_delta=DELTA).entries
    assert second.epsilon == RdpAccountant().compose(GaussianEvent(10.0), 5).get_epsilon(DELTA)


def test_a_file_that_lost_charges_is_refused(tmp_path: Path) -> None:
    other = Ledger(tmp_path / "other", target_delta=DELTA)
    charge(other, key="other")
    ledger = Ledger(tmp_path / "one", target_delta=DELTA, max_epsilon=1.2 * other.epsilon)
    charge(ledger)
    for lose in (
        lambda path: (tmp_path / "other").replace(path),
        lambda path: path.write_bytes(path.read_bytes().splitlines(keepends=True)[0]),
        lambda path: path.unlink(),
    ):
        lose(tmp_path / "one")
        with pytest.raises(InvalidValue, match="expected a file that only grows"):
            charge(ledger, key="b")
        with pytest.raises(InvalidValue, match="expected a file that only grows"):
            _ = ledger.epsilon
    assert not (tmp_path / "one").exists()


def test_the_file_stays_where_it_was_when_the_folder_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.jsonl", target_delta=DELTA)
    monkeypatch.chdir(tmp_path / "elsewhere")
    charge(ledger)
    assert len(Ledger(tmp_path / "ledger.jsonl", target_delta=DELTA).entries) == 1


def test_a_half_written_charge_leaves_no_trace(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            charge(ledger, BIT)
    assert path.read_bytes() == before
    assert charge(ledger, BIT) == ledger.entries[0]


def test_a_file_of_something_else_is_not_cut(tmp_path: Path) -> None:
    text = "hello\nworld, no newline at the end"
    (tmp_path / "notes.txt").write_text(text)
    with pytest.raises(InvalidValue, match="expected JSON of a ledger"):
        Ledger(tmp_path / "notes.txt", target_delta=DELTA)
    assert (tmp_path / "notes.txt").read_text() == text


def test_charges_are_composed_in_their_order() -> None:
    """The exact accountant's bound is for the order that it is given: 4.00, where the first two together give 3.82."""
    one = OneBitEvent((-12.0, -6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0), 1)
    other = OneBitEvent((-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), 1)
    ledger = Ledger(target_delta=1e-2, accountant=ExactAccountant)
    for key, event in zip("abc", (one, other, one), strict=True):
        charge(ledger, event, key)
    in_order = ExactAccountant().compose(one).compose(other).compose(one).get_epsilon(1e-2)
    assert ledger.epsilon == in_order
    assert in_order > 1.01 * ExactAccountant().compose(one, 2).compose(other).get_epsilon(1e-2)


@pytest.mark.parametrize("accountant", ["rdp", RdpAccountant()])
def test_an_accountant_is_given_by_its_class(accountant: Any, tmp_path: Path) -> None:
    for call in (
        lambda: Ledger(tmp_path / "ledger", target_delta=DELTA, accountant=accountant),
        lambda: calibrate(lambda noise: BIT, target_epsilon=1.0, target_delta=DELTA, accountant=accountant),
    ):
        with pytest.raises(InvalidValue, match=r"^accountant=.*: expected a class such as pate\.accounting\.RdpAccoun"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [True, False], ids=["on disk", "in memory"])
def test_threads_cannot_spend_one_budget_twice(path: Path, kept: bool) -> None:
    """Two that both find room, or of which one overwrites the other's charge, would release more than was paid for."""

    class Slow(RdpAccountant):
        def get_epsilon(self, target_delta: float) -> float:
            time.sleep(0.02)
            return super().get_epsilon(target_delta)

    one = charge(Ledger(target_delta=DELTA), key="a").epsilon
    ledger = Ledger(path if kept else None, target_delta=DELTA, accountant=Slow, max_epsilon=1.2 * one)
    refused: list[str] = []

    def spend(key: str) -> None:
        try:
            charge(ledger, key=key)
        except BudgetExceeded:
            refused.append(key)

    threads = [threading.Thread(target=spend, args=(key,)) for key in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 1
    assert len(refused) == 3


def test_a_ledger_in_memory_is_not_copied_and_one_on_disk_knows_of_its_copies(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty releases were drawn in worker processes under a budget for four, and the ledger had no entry."""
    ledger = Ledger(target_delta=DELTA)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(InvalidValue, match=r"^ledger\.path=None: expected a file, through which copies know"):
            way(ledger)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        with pytest.raises(InvalidValue, match=r"^ledger\.path=None: expected a file"):
            charge(ledger)
    charge(ledger)
    kept = Ledger(path, target_delta=DELTA)
    charge(pickle.loads(pickle.dumps(kept)), key="a")
    charge(copy.deepcopy(kept), key="b")
    charge(kept, key="c")
    assert [entry.key for entry in kept.entries] == ["a", "b", "c"]


def test_the_total_knows_what_others_have_charged_meanwhile(path: Path) -> None:
    mine, other = Ledger(path, target_delta=DELTA), Ledger(path, target_delta=DELTA)
    assert mine.epsilon == 0
    charge(other, key="a")
    assert mine.epsilon == other.epsilon > 0
    assert [entry.key for entry in mine.entries] == ["a"]


def test_draws_whose_noise_has_no_name_are_each_paid_for() -> None:
    ledger = Ledger(target_delta=DELTA)
    for rng in (OwnGenerator(np.random.PCG64(0)), np.random.default_rng(0)):
        for _ in range(2):
            how: dict[str, Any] = {"adjacency": ledger.adjacency, "description": "", "key": lambda salt: f"a {salt}"}
            charge_draw(ledger, GAUSSIAN, rng=rng, **how)
    assert [bool(entry.noise) for entry in ledger.entries] == [False, False, True]
