"""The running total: that of all charges in their order, at a cost that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from pate.accounting.ledger.account import Account
from pate.accounting.ledger.file import LedgerFile

from pate.accounting import (
    Accountant,
    BoundedRangeEvent,
    BudgetExceeded,
    Event,
    ExactAccountant,
    GaussianEvent,
    Ledger,
    OneBitEvent,
    PldAccountant,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZCdpAccountant,
    ZCdpEvent,
)
from pate.validation import InvalidValue

DELTA = 1e-5
A, B, C = PureDpEvent(0.05), BoundedRangeEvent(0.1), SelfComposedEvent(OneBitEvent((-1.0, -0.9, -0.8), 1), 3)
ORDER = [A, A, B, C, C, C, A, B, B, A, C, A]
MAKERS = [RdpAccountant, ExactAccountant, PldAccountant, PureDpAccountant, ZCdpAccountant]


def charge(ledger: Ledger, event: Event, number: int) -> float:
    return ledger.charge(event, adjacency=ledger.adjacency, key=str(number)).epsilon


def afresh(maker: Callable[[], Accountant], events: list[Event]) -> float:
    """Runs of equal events composed by one accountant that has seen nothing else."""
    accountant, runs = maker(), list[list[Event]]()
    for event in events:
        if runs and runs[-1][0] == event:
            runs[-1].append(event)
        else:
            runs.append([event])
    for run in runs:
        accountant.compose(run[0], len(run))
    return accountant.get_epsilon(DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
@pytest.mark.parametrize("kept", [True, False], ids=["on disk", "in memory"])
def test_every_total_is_that_of_all_charges_composed_afresh(
    maker: Callable[[], Accountant], kept: bool, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger" if kept else None, target_delta=DELTA, accountant=maker)
    for number, event in enumerate(ORDER):
        expected = afresh(maker, ORDER[: number + 1])
        assert charge(ledger, event, number) == ledger.epsilon == expected


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_a_copy_has_the_same_events_and_keeps_what_is_added_to_it(maker: Callable[[], Accountant]) -> None:
    first = maker().compose(A, 3).compose(B)
    before = first.get_epsilon(DELTA), first.get_delta(0.1)
    second = first.copy()
    assert (second.get_epsilon(DELTA), second.get_delta(0.1)) == before
    second.compose(A).compose(C)
    assert (first.get_epsilon(DELTA), first.get_delta(0.1)) == before
    assert second.get_epsilon(DELTA) == maker().compose(A, 3).compose(B).compose(A).compose(C).get_epsilon(DELTA)
    assert second.get_epsilon(DELTA) > before[0]


class Counting(RdpAccountant):
    """How often something was composed, by all accountants together."""

    composed = 0

    def compose(self, event: Event, count: int = 1) -> Self:
        type(self).composed += 1
        return super().compose(event, count)


@pytest.mark.parametrize("kept", [True, False], ids=["on disk", "in memory"])
def test_a_charge_composes_as_much_after_many_others_as_after_few(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "composed", 0)
    ledger = Ledger(tmp_path / "ledger" if kept else None, target_delta=DELTA, accountant=Counting)
    for number in range(60):
        before = Counting.composed
        charge(ledger, (A, B, C)[number % 3], number)
        assert Counting.composed - before <= 3


def test_equal_events_are_counted_and_not_listed_again() -> None:
    accountant = RdpAccountant()
    for _ in range(50):
        accountant.compose(A).compose(B).compose(C)
    leaves = accountant._spent
    assert {kind: (len(events), sum(times)) for kind, (events, times) in leaves.items()} == {
        PureDpEvent: (1, 50),
        BoundedRangeEvent: (1, 50),
        OneBitEvent: (1, 150),
    }
    together = RdpAccountant().compose(A, 50).compose(B, 50).compose(C, 50)
    assert accountant.get_epsilon(DELTA) == pytest.approx(together.get_epsilon(DELTA), rel=1e-12)


def test_a_refused_charge_is_in_no_total() -> None:
    ledger = Ledger(target_delta=DELTA, max_epsilon=0.2 * (1 + 1e-9))  # the sum of the epsilons of pure DP
    charge(ledger, A, 0)
    for refused in (GaussianEvent(1.0), ZCdpEvent(1.0)):
        with pytest.raises(BudgetExceeded, match=r"^max_epsilon=.*: expected at least"):
            charge(ledger, refused, 9)
    assert charge(ledger, A, 1) == afresh(RdpAccountant, [A, A])
    assert charge(ledger, B, 2) == ledger.epsilon == afresh(RdpAccountant, [A, A, B])


def test_an_event_that_cannot_be_priced_is_in_no_total() -> None:
    ledger = Ledger(target_delta=DELTA, accountant=ExactAccountant)
    for number, event in enumerate((A, B, B)):
        charge(ledger, event, number)
        with pytest.raises(InvalidValue, match=r"^event=ZCdpEvent: expected an event that the exact"):
            charge(ledger, ZCdpEvent(0.1), 9)
    assert ledger.epsilon == afresh(ExactAccountant, [A, B, B])


def test_an_interrupted_total_is_whole_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the interrupt comes: a total that forgot a charge would let another release through."""
    other = Ledger(tmp_path / "ledger", target_delta=DELTA)
    for number, event in enumerate(ORDER):
        charge(other, event, number)
    count = RdpAccountant._count
    for when in range(1, 9):
        ledger, calls = Ledger(tmp_path / "ledger", target_delta=DELTA), [0]

        def interrupt(self: Any, spent: Any, calls: list[int] = calls, when: int = when) -> None:
            calls[0] += 1
            if calls[0] == when:
                raise KeyboardInterrupt
            count(self, spent)

        with monkeypatch.context() as interrupted:
            interrupted.setattr(RdpAccountant, "_count", interrupt)
            with pytest.raises(KeyboardInterrupt):
                _ = ledger.epsilon
        assert ledger.epsilon == other.epsilon


@pytest.mark.parametrize(("kind", "name"), [(LedgerFile, "_chain"), (Account, "_taken")])
def test_an_interrupted_reading_adds_no_charge_twice(
    kind: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, other = (Ledger(tmp_path / "ledger", target_delta=DELTA) for _ in range(2))
    charge(other, A, 0)
    assert ledger.epsilon == other.epsilon
    charge(other, B, 1)

    def interrupt(self: Any, changed: str, value: Any) -> None:
        if changed == name:
            raise KeyboardInterrupt
        object.__setattr__(self, changed, value)

    for _ in range(2):
        with monkeypatch.context() as interrupted:
            interrupted.setattr(kind, "__setattr__", interrupt)
            with pytest.raises(KeyboardInterrupt):
                _ = ledger.epsilon
    charge(other, C, 2)
    assert ledger.epsilon == other.epsilon
    assert ledger.entries == other.entries
