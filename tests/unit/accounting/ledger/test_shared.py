"""One file for several data sets: a budget for each, safe for processes at once."""

from __future__ import annotations

import copy
import json
import math
import pickle
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pate.accounting import (
    BudgetExceeded,
    ExactAccountant,
    GaussianEvent,
    Ledger,
    PureDpEvent,
    RdpAccountant,
    SharedLedger,
    ZCdpAccountant,
)
from pate.accounting.filters import RenyiFilter
from pate.validation import InvalidValue

DELTA = 1e-6
EVENT = GaussianEvent(2.0)
LEDGERS = Path(__file__).parents[3] / "oracle" / "ledgers"


def charge(ledger: Ledger, key: str = "a", event: Any = EVENT, **kwargs: Any) -> Any:
    return ledger.charge(event, adjacency=ledger.adjacency, key=key, **kwargs)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def shared(path: Path) -> SharedLedger:
    return SharedLedger(path, target_delta=DELTA, max_epsilon=4.0)


def test_each_data_set_has_the_whole_budget(shared: SharedLedger) -> None:
    one, other = shared.account("one"), shared.account("other")
    charge(one)
    assert (one.epsilon, other.epsilon) == (RdpAccountant().compose(EVENT).get_epsilon(DELTA), 0.0)
    assert other.affords(EVENT) == one.affords(EVENT) + 1 == 2
    charge(one, "b")
    with pytest.raises(BudgetExceeded, match=r"^max_epsilon=4\.0: expected at least 4\.\d+, the total with this"):
        charge(one, "c")
    charge(other)
    assert [(entry.key, entry.data) for entry in shared.entries] == [("a", "one"), ("b", "one"), ("a", "other")]
    assert shared.data == ["one", "other"]
    assert [entry.key for entry in one.entries] == ["a", "b"]


def test_a_data_set_s_account_is_found_again_by_its_digest(shared: SharedLedger, path: Path) -> None:
    first = charge(shared.account("one"), noise="n")
    for again in (SharedLedger(path, target_delta=DELTA), SharedLedger.stored(path), shared):
        assert charge(again.account("one"), noise="n") == first
    for again in (Ledger(path, target_delta=DELTA, data="one"), Ledger.stored(path, data="one")):
        assert again.entries == [first]
        assert again.max_epsilon == 4.0
    assert path.read_bytes().count(b"\n") == 2


def test_noise_of_another_data_set_is_not_fresh(shared: SharedLedger) -> None:
    charge(shared.account("one"), noise="n")
    with pytest.raises(InvalidValue, match=r"^noise=n: expected fresh noise"):
        charge(shared.account("other"), noise="n")


def test_a_ledger_of_one_data_set_does_not_read_a_file_of_several_as_its_own(shared: SharedLedger, path: Path) -> None:
    charge(shared.account("one"))
    plain = Ledger(path, target_delta=DELTA)
    assert len(plain.entries) == 1
    charge(plain, "b")
    assert [entry.data for entry in shared.account("one").entries] == ["one", "one"]
    charge(shared.account("other"))
    for use in (lambda: plain.entries, lambda: charge(plain, "c"), lambda: Ledger(path, target_delta=DELTA)):
        with pytest.raises(
            InvalidValue, match=r"^data='': expected the digest of one data set, this ledger counts for"
        ):
            use()


def test_a_charge_that_names_no_data_counts_for_every_data_set(path: Path) -> None:
    ledger = Ledger(path, target_delta=DELTA)
    charge(ledger)
    one = Ledger(path, target_delta=DELTA, data="one")
    assert one.epsilon == ledger.epsilon > 0
    charge(one, "b")
    assert len(Ledger(path, target_delta=DELTA, data="other").entries) == 1


@pytest.mark.parametrize("data", ["", None, 7])
def test_an_account_needs_a_digest(shared: SharedLedger, data: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^data=\w+: expected a digest that is not empty"):
        shared.account(data)


def test_an_old_ledger_is_not_shared(tmp_path: Path) -> None:
    path = shutil.copy(LEDGERS / "pure.jsonl", tmp_path)
    with pytest.raises(InvalidValue, match=r"^ledger=.*: expected a new file, this one is of an earlier version$"):
        SharedLedger(path, target_delta=1e-5)


def test_accounts_are_copied_and_sent_with_their_file(shared: SharedLedger) -> None:
    one = shared.account("one")
    charge(pickle.loads(pickle.dumps(one)), "a")
    charge(copy.deepcopy(one), "b")
    assert [entry.key for entry in pickle.loads(pickle.dumps(shared)).account("one").entries] == ["a", "b"]


def test_settings_are_read_back_from_the_file(path: Path, tmp_path: Path) -> None:
    made = partial(RdpAccountant, orders=[4.0, 8.0])
    named = partial(RenyiFilter, order=8.0)
    SharedLedger(path, adjacency="add_remove", target_delta=1e-5, accountant=made, max_epsilon=3.0, filter=named)
    again = SharedLedger.stored(path).account("one")
    charge(again, event=PureDpEvent(0.1))
    assert (again.adjacency, again.target_delta, again.max_epsilon) == ("add_remove", 1e-5, 3.0)
    assert again.filter is not None
    assert again.filter.to_json() == {"name": "renyi", "max_failure_prob": pytest.approx(1e-7), "order": 8.0}
    assert again.epsilon == made().compose(PureDpEvent(0.1)).get_epsilon(1e-5)
    with pytest.raises(InvalidValue, match=r"^ledger=.*nowhere: expected a ledger file"):
        Ledger.stored(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"max_epsilon": 5.0}, r"^max_epsilon=5\.0: expected at most 4\.0, the cap of ledger="),
        ({"accountant": ZCdpAccountant}, r"^accountant=zcdp: expected rdp, as ledger=\S+ counts$"),
        ({"accountant": partial(RdpAccountant, orders=[8.0])}, r"^accountant=rdp\(orders=\[8\.0\]\): expected rdp, as"),
        (
            {"max_epsilon": 4.0, "filter": partial(RenyiFilter, order=9.0)},
            r"^filter=renyi\(.*order=9.*expected renyi\(",
        ),
        ({"filter": RenyiFilter}, r"^filter=.*: expected a max_epsilon beside it"),
        ({"target_delta": 1e-5}, r"^target_delta=1e-05: expected 1e-06, as ledger="),
    ],
)
def test_a_file_of_other_settings_is_refused_by_the_name_of_the_difference(
    shared: SharedLedger, path: Path, asked: dict[str, Any], message: str
) -> None:
    for kind in (Ledger, SharedLedger):
        with pytest.raises(InvalidValue, match=message) as caught:
            kind(path, **({"target_delta": DELTA} | asked))
        assert "\n" not in str(caught.value)


def test_orders_that_differ_after_many_are_of_another_accountant(path: Path) -> None:
    orders = [float(order) for order in range(2, 40)]
    Ledger(path, target_delta=DELTA, accountant=partial(RdpAccountant, orders=orders))
    with pytest.raises(InvalidValue, match=r"^accountant=rdp\(orders=\[2\.0"):
        Ledger(path, target_delta=DELTA, accountant=partial(RdpAccountant, orders=orders[:-1]))


def test_a_stored_cap_holds_whatever_is_asked_for_and_a_tighter_one_beside_it(path: Path) -> None:
    Ledger(path, target_delta=DELTA, max_epsilon=4.0)
    plain, tight = Ledger(path, target_delta=DELTA), Ledger(path, target_delta=DELTA, max_epsilon=3.0)
    assert (plain.max_epsilon, tight.max_epsilon) == (4.0, 3.0)
    charge(tight)
    with pytest.raises(BudgetExceeded, match=r"^max_epsilon=3\.0"):
        charge(tight, "b")
    charge(plain, "b")
    with pytest.raises(BudgetExceeded, match=r"^max_epsilon=4\.0"):
        charge(plain, "c")
    assert json.loads(path.read_text().splitlines()[0])["max_epsilon"] == 4.0


def test_a_file_without_a_cap_takes_one_for_an_object(path: Path) -> None:
    Ledger(path, target_delta=DELTA)
    tight = Ledger(path, target_delta=DELTA, max_epsilon=3.0)
    charge(tight)
    assert (tight.affords(EVENT), Ledger(path, target_delta=DELTA).affords(EVENT)) == (0, math.inf)


def test_what_is_left_falls_with_every_charge_and_says_how_often_an_event_fits(shared: SharedLedger) -> None:
    account, small = shared.account("one"), GaussianEvent(30.0)
    assert account.affords(small) == 559
    assert account.left is None
    left = []
    for number in range(3):
        charge(account, str(number), small)
        left.append(account.left)
        assert account.affords(small) == 558 - number
    assert account.filter is not None
    assert account.filter.unit == "Renyi divergence at order 7.171"
    assert left[0] - left[1] == pytest.approx(7.171 / (2 * 30.0**2))


def test_the_exact_accountant_s_cap_counts_mu_where_the_first_release_is_gaussian(path: Path) -> None:
    shared = SharedLedger(path, target_delta=DELTA, accountant=ExactAccountant, max_epsilon=4.0)
    charge(shared.account("gaussians"), event=GaussianEvent(30.0))
    charge(shared.account("others"), event=PureDpEvent(0.1))
    filters = [shared.account(data).filter for data in ("gaussians", "others")]
    assert [made and made.name for made in filters] == ["gaussian", "renyi"]
    assert shared.account("gaussians").affords(GaussianEvent(30.0)) == 630
    charge(shared.account("gaussians"), "b", PureDpEvent(0.1))
    assert 600 < shared.account("gaussians").affords(GaussianEvent(30.0)) < 630


SPEND = """
import sys
from pate.accounting import BudgetExceeded, GaussianEvent, SharedLedger
shared = SharedLedger(sys.argv[1], target_delta=1e-6, max_epsilon=4.0)
for number in range(60):
    try:
        shared.account(f"data {number % 2}").charge(
            GaussianEvent(6.0), adjacency="replace_one", key=f"{sys.argv[2]} {number}"
        )
    except BudgetExceeded:
        pass
"""


@pytest.mark.process
@pytest.mark.slow
def test_processes_at_once_spend_each_budget_once(path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", SPEND, str(path), name]) for name in "abc"]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    shared = SharedLedger.stored(path)
    whole = RenyiFilter(4.0, DELTA)
    for data in ("data 0", "data 1"):
        account = shared.account(data)
        assert len(account.entries) == 22
        assert account.affords(GaussianEvent(6.0)) == 0
    assert whole.budget // whole.amount(GaussianEvent(6.0)) == 22
