"""Runs on the same records share a ledger, which adds up their epsilons and refuses a run beyond a cap."""

import math
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pate.accounting import (
    AutoAccountant,
    ExactAccountant,
    Ledger,
    PrivacyUnit,
    RdpAccountant,
    SharedLedger,
)
from pate.accounting.rounding import ceil_to_digits
from pate.aggregators import GaussianVotes
from pate.data import Dataset
from pate.files.strict_json import plain
from pate.models import LinearStudent, LinearTeacher
from pate.pricing.ledger_accounts import account_values, ledgers_in
from pate.report import format_epsilon
from pate.run import charging
from pate.run.folder import RunFolder
from pate.run.ledger_place import LedgerPlace
from pate.run.plan import Plan
from pate.run.totals import any_share_noise, releases_of, totals_of
from pate.run.train import train
from pate.validation import InvalidValue
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    ledger_beside,
    run_until,
    run_until_released,
    small_dataset,
    small_plan,
)
from tests.refusals import ANY, refused_parameter

NOISE = GaussianVotes(noise_std=40.0)
EVENT = NOISE.event_for(num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)


def plan_of(ledger: Path | None) -> Plan:
    """Returns the small plan with Gaussian votes and noise without a seed.

    Args:
        ledger: the ledger that the plan names; None for the default ledger, in the parent folder of the run.
    """
    return replace(small_plan(), aggregator=NOISE, seed=None, ledger=ledger)


def plan_on_default_ledger() -> Plan:
    """Returns the small plan, charged to the default ledger, which lies in the parent folder of the run."""
    return plan_of(ledger=None)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Returns the path of a ledger that does not exist yet."""
    return tmp_path / "ledger.db"


def epsilon_of(num_releases: int) -> float:
    """Returns the total epsilon of a number of releases of `plan_of`, by Renyi divergences."""
    return RdpAccountant().compose(EVENT, count=num_releases).get_epsilon(target_delta=1e-5)


def account_in(ledger: Path, max_epsilon: float | None = None) -> Ledger:
    """Returns the account of the small data set in a ledger, that is, the list of charges to this data set.

    The ledger is made if missing, with `max_epsilon` as the cap on the total epsilon of an account.
    """
    shared = SharedLedger(
        ledger, target_delta=1e-5, accountant=RdpAccountant, max_epsilon=max_epsilon
    )
    return shared.account(data=small_dataset().private_digest())


def test_each_run_prints_the_total_of_earlier_runs(tmp_path: Path) -> None:
    """Of two runs that share a ledger, the second prints the epsilon of the first when it starts.

    After its release, the second prints the epsilon of both together.
    """
    ledger = tmp_path / "budget" / "ledger.db"
    first = run_until(plan_of(ledger), folder=tmp_path / "a", stage="training the student")
    assert not any("earlier" in line for line in first.lines)
    second = run_until(plan_of(ledger), folder=tmp_path / "b", stage="training the student")
    each, both = (format_epsilon(epsilon_of(count)) for count in (1, 2))
    terms = (
        "at delta 1e-5, replace_one, for one group of records, those with one number in group_ids"
    )
    assert [line for line in second.lines if line.startswith("ledger=")] == [
        f"ledger={ledger}: 1 earlier release of these records, together epsilon {each} {terms}",
        f"ledger={ledger}: all 2 releases of these records cost epsilon {both} {terms}, "
        "if all prices were fixed beforehand",
    ]
    assert account_in(ledger).epsilon == epsilon_of(num_releases=2)


def test_a_continued_run_prints_its_own_charge_as_its_own(ledger: Path, tmp_path: Path) -> None:
    """A run that is continued after its charge counts itself beside an earlier one.

    A printed line says that no other release like it fits under the cap.
    """
    cap = epsilon_of(num_releases=2) * 1.01
    plan = replace(plan_of(ledger), max_total_epsilon=cap)
    account_in(ledger, max_epsilon=cap)
    run_until_released(plan, folder=tmp_path / "a")
    for _ in range(2):
        lines = run_until(plan, folder=tmp_path / "b", stage="training the student").lines
    [total] = [line for line in lines if "earlier release" in line]
    both = format_epsilon(epsilon_of(num_releases=2))
    assert f"1 earlier release of these records and this one, together epsilon {both} at" in total
    [room] = [line for line in lines if line.startswith("max_total_epsilon=")]
    assert room.endswith(
        "this release is charged already, and 0 more like it fit into what is left for these records"
    )


def test_a_cap_refuses_a_run_before_its_teachers_and_spends_nothing(
    ledger: Path, tmp_path: Path
) -> None:
    """Under a cap with room for one run, a second run is refused before it trains teachers.

    The bytes of the ledger do not change. A run with a larger cap than that of the ledger is refused, too.
    """
    cap = 1.2 * epsilon_of(num_releases=1)
    monitor = SilentMonitor()
    plan = replace(plan_of(ledger), max_total_epsilon=cap)
    run_until_released(plan, folder=tmp_path / "a")
    spent = ledger.read_bytes()
    with refused_parameter("max_epsilon", value=ANY, rule_words="beside epsilon"):
        # The file has kept the cap.
        train(plan_of(ledger), output_dir=tmp_path / "b", monitor=monitor)
    assert "training teachers" not in monitor.stages
    assert not (tmp_path / "b" / "run.json").exists(), "the folder is free for a plan that has room"
    assert ledger.read_bytes() == spent
    with refused_parameter("max_epsilon", value=2 * cap, rule_words="at most"):
        train(replace(plan, max_total_epsilon=2 * cap), output_dir=tmp_path / "c")


def test_a_refusal_before_the_draw_spends_nothing(ledger: Path, tmp_path: Path) -> None:
    """A run is refused before it draws if another run took the room under the cap while it trained its teachers.

    The refused run is not charged.
    """
    account = account_in(ledger, max_epsilon=1.1 * epsilon_of(num_releases=1))

    class ChargesAnotherRunMeanwhile(SilentMonitor):
        def stage(self, name: str, total: int | None = None) -> Any:
            if name == "casting votes":
                account.charge(EVENT, adjacency="replace_one", key="another run")
            return super().stage(name, total)

    with refused_parameter("max_epsilon", value=ANY, rule_words="nothing is spent"):
        train(plan_of(ledger), output_dir=tmp_path / "run", monitor=ChargesAnotherRunMeanwhile())
    assert [entry.key for entry in account.entries] == ["another run"]
    assert not (tmp_path / "run" / "release").exists()


PATIENT = PrivacyUnit.of_column("mrn")
VISIT = PrivacyUnit(words="one row")


def loader_with_unit(unit: PrivacyUnit) -> Callable[[], Dataset]:
    """Returns a function that loads the small data set with this unit of privacy."""

    def load_dataset() -> Dataset:
        return replace(small_dataset(), group_unit=unit)

    return load_dataset


@pytest.mark.parametrize(("first_unit", "second_unit"), [(VISIT, PATIENT), (PATIENT, VISIT)])
def test_prices_for_a_visit_and_for_a_patient_are_not_added_up(
    first_unit: PrivacyUnit, second_unit: PrivacyUnit, ledger: Path, tmp_path: Path
) -> None:
    """A run is refused before training if an earlier run on the same records had another unit of privacy.

    Nothing is spent, whichever of the two units is the larger. A further run with the first unit is accepted.
    """
    run_until_released(
        replace(plan_of(ledger), load_dataset=loader_with_unit(unit=first_unit)),
        folder=tmp_path / "a" / "run",
    )
    spent = ledger.read_bytes()
    monitor = SilentMonitor()
    with refused_parameter(
        "unit", value=second_unit.words, rule_words="two units of privacy have no sum"
    ) as caught:
        train(
            replace(plan_of(ledger), load_dataset=loader_with_unit(unit=second_unit)),
            output_dir=tmp_path / "b" / "run",
            monitor=monitor,
        )
    assert "; take the same data.group= (and data.budget=, holders=), or" in str(caught.value)
    assert "training teachers" not in monitor.stages and ledger.read_bytes() == spent
    again = run_until(
        replace(plan_of(ledger), load_dataset=loader_with_unit(unit=first_unit)),
        folder=tmp_path / "c" / "run",
        stage="training the student",
    )
    assert again.lines[-1].endswith(
        f"replace_one, for {first_unit.words}, if all prices were fixed beforehand"
    )


def test_charges_without_a_unit_are_counted_for_the_unit_of_the_run(
    ledger: Path, tmp_path: Path
) -> None:
    """A run counts charges without a unit of privacy, of earlier versions, and prints that it assumes its own unit."""
    account_in(ledger).charge(EVENT, adjacency="replace_one", key="of an earlier version")
    plan = replace(plan_of(ledger), load_dataset=loader_with_unit(unit=PATIENT))
    first, last = [
        line
        for line in run_until(plan, folder=tmp_path / "run", stage="training the student").lines
        if line.startswith("ledger=")
    ]
    assumed = ", provided that the 1 charge that names no unit is for the same"
    assert (
        f"1 earlier release of these records, together epsilon {format_epsilon(epsilon_of(num_releases=1))} at"
        in first
    )
    assert (
        f"all 2 releases of these records cost epsilon {format_epsilon(epsilon_of(num_releases=2))} at"
        in last
    )
    assert first.endswith(assumed) and last.endswith(assumed)


def test_runs_in_one_folder_share_a_ledger(tmp_path: Path) -> None:
    """Runs whose folders have the same parent folder share a ledger, even with different accountants.

    The total is that of `accountant=auto`, as the printed lines say. A run that has released nothing is not counted.
    """
    run_until_released(plan_on_default_ledger(), folder=tmp_path / "a")
    # This run has released nothing yet.
    run_until(plan_on_default_ledger(), folder=tmp_path / "b", stage="training teachers")
    lines = run_until(
        replace(plan_on_default_ledger(), accountant=ExactAccountant),
        folder=tmp_path / "c",
        stage="training the student",
    ).lines
    one, both = (
        format_epsilon(AutoAccountant().compose(EVENT, count).get_epsilon(target_delta=1e-5))
        for count in (1, 2)
    )
    earlier, total = [line for line in lines if line.startswith(f"ledger={tmp_path}/ledger.db: ")]
    assert f"1 earlier release of these records, together epsilon {one} at delta" in earlier
    assert f"all 2 releases of these records cost epsilon {both} at delta" in total
    assert earlier.endswith(", by accountant=auto") and total.endswith(", by accountant=auto")
    assert not list(tmp_path.glob("*/ledger.db"))


def test_runs_in_another_folder_have_another_ledger(tmp_path: Path) -> None:
    """A run whose folder has another parent folder has another ledger, and prints that its release is the first."""
    run_until_released(plan_on_default_ledger(), folder=tmp_path / "a")
    other = tmp_path / "elsewhere" / "d"
    lines = run_until(plan_on_default_ledger(), folder=other, stage="training the student").lines
    assert "this first release" in lines[-1]


def test_a_run_with_another_unit_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """A run is refused if the ledger in the parent folder of its folder counts for another unit of privacy.

    An earlier run made this ledger. The refused run makes no folder, and the ledger has no charge for it.
    """
    run_until_released(plan_on_default_ledger(), folder=tmp_path / "a")
    with refused_parameter("unit", value="one row", rule_words="one group of records"):
        train(
            replace(plan_on_default_ledger(), load_dataset=loader_with_unit(unit=VISIT)),
            output_dir=tmp_path / "e",
        )
    assert not (tmp_path / "e").exists()
    assert len(SharedLedger.stored(path=tmp_path / "ledger.db").entries) == 1


def with_another_delta(plan: Plan) -> Plan:
    """Returns the plan at delta 1e-4 instead of 1e-5."""
    return replace(plan, target_delta=1e-4)


def with_another_adjacency(plan: Plan) -> Plan:
    """Returns the plan under add-remove adjacency."""
    return replace(plan, aggregator=replace(NOISE, adjacency="add_remove"))


CHANGES_OF_TERMS = {
    "ledger-replace_one-0.0001.db": with_another_delta,
    "ledger-add_remove-1e-05.db": with_another_adjacency,
}
"""Functions that give a plan another delta or adjacency, by the name of the ledger that counts for the new plan."""


REFUSED_TERMS = {
    "ledger-replace_one-0.0001.db": refused_parameter(
        "target_delta", value=1e-4, rule_words=", as ledger="
    ),
    "ledger-add_remove-1e-05.db": refused_parameter(
        "adjacency", value="add_remove", rule_words=", as ledger="
    ),
}
"""The refusals of these terms in a ledger that counts for the usual ones."""


def lines_of_two_sums(monitor: SilentMonitor) -> list[str]:
    """Returns the printed lines that say that the totals of two ledgers cannot be added up."""
    return [line for line in monitor.lines if line.endswith("the two cannot be added up")]


@pytest.mark.parametrize("ledger_name", CHANGES_OF_TERMS)
def test_a_run_under_other_terms_has_a_second_ledger(ledger_name: str, tmp_path: Path) -> None:
    """A run whose delta or adjacency is not that of the ledger in the parent folder is charged to a second ledger.

    From then on, each run on one of the ledgers prints a line that the two totals cannot be added up.
    """
    usual = tmp_path / "ledger.db"
    other = tmp_path / ledger_name
    usual_plan = plan_on_default_ledger()
    other_plan = CHANGES_OF_TERMS[ledger_name](usual_plan)
    monitor = run_until(usual_plan, folder=tmp_path / "a", stage="training the student")
    assert not lines_of_two_sums(monitor)
    monitor = run_until(other_plan, folder=tmp_path / "b", stage="training teachers")
    (line,) = lines_of_two_sums(monitor)
    assert line.startswith(f"ledger={other} counts for adjacency=") and f"{usual} for adj" in line
    for run in ("b", "c"):  # b continues, c is new
        monitor = run_until(other_plan, folder=tmp_path / run, stage="training the student")
        assert lines_of_two_sums(monitor) == [line]
    monitor = run_until(usual_plan, folder=tmp_path / "d", stage="training the student")
    (line,) = lines_of_two_sums(monitor)
    assert line.startswith(f"ledger={usual} counts for adjacency=replace_one at target_delta=1e-05")
    for path in (usual, other):
        assert len(SharedLedger.stored(path).entries) == 2


@pytest.mark.parametrize("ledger_name", CHANGES_OF_TERMS)
def test_a_named_ledger_refuses_a_run_under_other_terms(ledger_name: str, tmp_path: Path) -> None:
    """A plan is refused if its delta or adjacency is not that of the ledger it names.

    That holds even if a ledger for the plan's own delta and adjacency lies beside it.
    """
    with_other_terms = CHANGES_OF_TERMS[ledger_name]
    run_until_released(plan_on_default_ledger(), folder=tmp_path / "a")
    run_until_released(with_other_terms(plan_on_default_ledger()), folder=tmp_path / "b")
    with REFUSED_TERMS[ledger_name]:
        train(with_other_terms(plan_of(ledger=tmp_path / "ledger.db")), output_dir=tmp_path / "e")


@pytest.mark.parametrize("ledger_name", CHANGES_OF_TERMS)
def test_moved_runs_keep_the_second_ledger_that_is_moved_with_them(
    ledger_name: str, tmp_path: Path
) -> None:
    """Runs that are moved to a new folder, together with the second ledger that they are charged to, keep that ledger.

    A new run in that folder uses it as well, and no first ledger is made there. The second ledger is one for another
    delta or adjacency.
    """
    other_plan = CHANGES_OF_TERMS[ledger_name](plan_on_default_ledger())
    run_until_released(plan_on_default_ledger(), folder=tmp_path / "a")
    train(other_plan, output_dir=tmp_path / "b")
    run_until_released(other_plan, folder=tmp_path / "c")
    (tmp_path / "new").mkdir()
    for folder_or_ledger in ("b", "c", ledger_name):
        (tmp_path / folder_or_ledger).rename(tmp_path / "new" / folder_or_ledger)
    train(other_plan, output_dir=tmp_path / "new" / "b")
    train(other_plan, output_dir=tmp_path / "new" / "c")
    run_until_released(other_plan, folder=tmp_path / "new" / "d")
    assert len(SharedLedger.stored(path=tmp_path / "new" / ledger_name).entries) == 3
    assert not (tmp_path / "new" / "ledger.db").exists()


@pytest.mark.parametrize("first_cap", [None, 100.0])
def test_a_cap_cannot_be_avoided_by_other_terms(first_cap: float | None, tmp_path: Path) -> None:
    """A run with another adjacency than the ledger in its parent folder is refused if it or an earlier run has a cap.

    If neither has one, the run is charged to a second ledger. From then on, a cap on the first ledger is refused.
    """
    run_until_released(
        replace(plan_on_default_ledger(), max_total_epsilon=first_cap), folder=tmp_path / "a"
    )
    cap = None if first_cap else 100.0
    with refused_parameter("adjacency", value="add_remove", rule_words="replace_one, as ledger="):
        plan = replace(with_another_adjacency(plan_on_default_ledger()), max_total_epsilon=cap)
        train(plan, output_dir=tmp_path / "b")
    assert [path.name for path in tmp_path.glob("*.db")] == ["ledger.db"]
    if first_cap is None:
        run_until_released(with_another_adjacency(plan_on_default_ledger()), folder=tmp_path / "b")
        with refused_parameter(
            "max_epsilon",
            value=100.0,
            rule_words="no cap, which would not count 1 charge for these",
        ):
            train(
                replace(plan_on_default_ledger(), max_total_epsilon=100.0),
                output_dir=tmp_path / "c",
            )


def _release(folder: Path, target_delta: float) -> None:
    """Runs the small plan at this delta until its release, in a process of its own."""
    run_until_released(replace(plan_on_default_ledger(), target_delta=target_delta), folder)


def test_a_run_under_other_terms_than_a_ledger_made_meanwhile_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is charged to a second ledger if another run makes the first one, with another delta, at the same moment.

    The run prints one line that the two totals cannot be added up.
    """
    usual = tmp_path / "ledger.db"
    make_folder = charging.make_folder

    def make_folder_late(path: Path, existing_parent: Path | None = None) -> Path:
        if path == tmp_path and not usual.exists():
            SharedLedger(path=usual, target_delta=1e-4)
        return make_folder(path, existing_parent=existing_parent)

    monkeypatch.setattr(charging, "make_folder", make_folder_late)
    monitor = run_until(
        plan_on_default_ledger(), folder=tmp_path / "run", stage="training the student"
    )
    other = tmp_path / "ledger-replace_one-1e-05.db"
    assert len(lines_of_two_sums(monitor)) == 1
    assert len(SharedLedger.stored(other).entries) == 1
    assert not SharedLedger.stored(usual).entries
    place = LedgerPlace.read(RunFolder(path=tmp_path / "run"))
    assert place is not None and place.ledger_file == other


def test_parallel_runs_under_two_terms_have_a_ledger_each(tmp_path: Path) -> None:
    """Two runs that start at once in one folder, with different deltas, are charged to a ledger each."""
    with multiprocessing.get_context("fork").Pool(processes=2) as pool:
        pool.starmap(_release, [(tmp_path / "a", 1e-4), (tmp_path / "b", 1e-5)])
    num_charges = [len(SharedLedger.stored(path).entries) for path in tmp_path.glob("ledger*.db")]
    assert num_charges == [1, 1]


def test_a_run_that_is_moved_before_its_release_keeps_its_ledger(tmp_path: Path) -> None:
    """A run that is moved before its release is charged to the ledger with which it began.

    If run and ledger are moved to the same folder later, the run finds the ledger there.
    """
    ledger_folder = tmp_path / "a"
    folder = ledger_folder / "run"
    run_until(plan_on_default_ledger(), folder, stage="training teachers")
    moved = tmp_path / "b" / "run"
    moved.parent.mkdir()
    folder.rename(moved)
    run_until_released(plan_on_default_ledger(), folder=moved)
    assert len(SharedLedger.stored(path=ledger_folder / "ledger.db").entries) == 1
    ledger_folder.rename(tmp_path / "c")
    moved.rename(tmp_path / "c" / "run")
    train(plan_on_default_ledger(), output_dir=tmp_path / "c" / "run")
    place = LedgerPlace.read(RunFolder(path=tmp_path / "c" / "run"))
    assert place is not None and place.ledger_file == tmp_path / "c" / "ledger.db"


def test_a_moved_finished_run_is_shown_as_long_as_its_ledger_stays(tmp_path: Path) -> None:
    """A finished run that was moved is shown again if its ledger is still at its old path.

    If the ledger was moved too, the run is refused. To remove the report does not help alone. Without the report, a
    plan that names the new path of the ledger is accepted.
    """
    earlier = tmp_path / "c" / "ledger.db"
    moved = tmp_path / "b" / "run"
    moved.parent.mkdir()
    report = train(plan_on_default_ledger(), output_dir=tmp_path / "c" / "run")
    (tmp_path / "c" / "run").rename(moved)
    assert train(plan_on_default_ledger(), output_dir=moved) == report
    earlier.rename(tmp_path / "elsewhere.db")
    present = tmp_path / "b" / "ledger.db"
    with refused_parameter(
        "ledger", value=present, rule_words=f"this finished run is charged to, {earlier}; or"
    ):
        train(plan_on_default_ledger(), output_dir=moved)
    (moved / "report.json").unlink()
    with refused_parameter("ledger", value=earlier, rule_words="the run's ledger, which is gone"):
        train(plan_on_default_ledger(), output_dir=moved)
    train(plan_of(ledger=tmp_path / "elsewhere.db"), output_dir=moved)


def test_a_folder_that_cannot_be_written_has_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is refused if the parent folder cannot be written, with the advice to name a ledger elsewhere.

    With such a ledger it runs.
    """
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with refused_parameter(
        "ledger", value=tmp_path / "ledger.db", rule_words="; ledger=PATH names another file"
    ):
        train(plan_on_default_ledger(), output_dir=tmp_path / "run")
    run_until_released(
        plan_of(ledger=tmp_path / "elsewhere" / "ledger.db"), folder=tmp_path / "run"
    )


@pytest.mark.parametrize("accountant_class", [AutoAccountant, RdpAccountant, ExactAccountant])
def test_ledger_card_and_report_state_the_same_price(
    accountant_class: Any, ledger: Path, tmp_path: Path
) -> None:
    """Ledger, card, report and console state the same epsilon of a run, by the accountant of its plan.

    That holds for three accountants, each with a cap on the total epsilon.
    """
    price = accountant_class().compose(EVENT).get_epsilon(target_delta=1e-5)
    monitor = SilentMonitor()
    plan = replace(plan_of(ledger), accountant=accountant_class, max_total_epsilon=2 * price)
    report = train(plan, output_dir=tmp_path / "run", monitor=monitor)
    (said,) = [line for line in monitor.lines if "this first release costs" in line]
    (account,) = map(account_values, ledgers_in(ledger))
    (charge,) = account["charges"]
    assert report.privacy.epsilon == account["spent_epsilon"] == charge["epsilon"] == price
    shown = format_epsilon(price)
    assert f"this first release costs epsilon {shown} at" in said
    assert (
        f"| epsilon | {shown} |" in (tmp_path / "run" / "release" / "privacy_card.md").read_text()
    )


def test_a_different_price_in_the_ledger_has_a_remark(ledger: Path, tmp_path: Path) -> None:
    """A first run is accepted if its epsilon is above the cap by the plan's accountant, but below it by a tighter one.

    The printed line has the epsilon by the plan's accountant, and adds that a tighter one stays within the cap.
    """
    price = epsilon_of(num_releases=1)
    tighter = AutoAccountant().compose(EVENT).get_epsilon(target_delta=1e-5)
    cap = (price + tighter) / 2
    lines = run_until(
        replace(plan_of(ledger), max_total_epsilon=cap),
        folder=tmp_path / "run",
        stage="training the student",
    ).lines
    assert f"costs epsilon {format_epsilon(price)} at" in lines[-1]
    assert lines[-1].endswith(
        f", by accountant=rdp; by a tighter one at most the cap {ceil_to_digits(cap)}"
    )
    (account,) = map(account_values, ledgers_in(ledger))
    assert (
        account["spent_epsilon"],
        account["accountant"],
        account["accountant_epsilon"],
    ) == (
        cap,
        "rdp",
        price,
    )


def loader_of_table(
    digest_letter: str, ids: range = range(0), groups: range = range(0)
) -> Callable[[], Dataset]:
    """Returns a function that loads the small data set as if it came from a table with these ids and groups.

    Args:
        digest_letter: the letter that the digest of the table's private cells repeats.
        ids: the ids of the private records; an empty range for a table without ids.
        groups: the groups of the private records; an empty range for a table without groups.
    """
    numbers_of = {"id": ids, "group": groups}
    owners = {
        kind: frozenset(b"%d" % number for number in numbers)
        for kind, numbers in numbers_of.items()
        if numbers
    }

    def load_dataset() -> Dataset:
        return replace(small_dataset(), private_cells=digest_letter * 64, owners=owners)

    return load_dataset


def test_owners_that_another_account_knows_are_refused(ledger: Path, tmp_path: Path) -> None:
    """A table is refused before training if an account of another table in the named ledger knows some of its ids.

    The first table is still accepted, and so is the second with `new_account`, which is needed once.
    """
    run_until_released(
        replace(plan_of(ledger), load_dataset=loader_of_table(digest_letter="a", ids=range(100))),
        folder=tmp_path / "a",
    )
    again = replace(
        plan_of(ledger), load_dataset=loader_of_table(digest_letter="b", ids=range(5, 105))
    )
    monitor = SilentMonitor()
    for _ in range(2):
        with refused_parameter(
            "ledger", value=ANY, rule_words="which knows 95 of these 100 ids and groups"
        ):
            train(again, output_dir=tmp_path / "b", monitor=monitor)
    assert "training teachers" not in monitor.stages
    assert len(SharedLedger.stored(ledger).entries) == 1
    run_until_released(
        replace(plan_of(ledger), load_dataset=loader_of_table(digest_letter="a", ids=range(100))),
        folder=tmp_path / "c",
    )
    run_until_released(replace(again, new_account=True), folder=tmp_path / "d")
    run_until_released(again, folder=tmp_path / "e")  # new_account= is needed once
    assert len(SharedLedger.stored(ledger).entries) == 4


def test_people_of_two_accounts_pay_for_a_second_draw_too(ledger: Path, tmp_path: Path) -> None:
    """The total of people in two accounts includes a second draw of a lost release, before that draw is charged.

    `redraw=True` replaces a release whose file is gone by a new draw, which is charged again.
    """
    tables = [loader_of_table(digest_letter=letter, ids=range(100)) for letter in "ab"]
    run_until_released(replace(plan_of(ledger), load_dataset=tables[0]), folder=tmp_path / "a")
    plan = replace(plan_of(ledger), load_dataset=tables[1], new_account=True, redraw=True)
    for num_releases in (2, 3):
        lines = run_until(plan, folder=tmp_path / "b", stage="training the student").lines
        [line] = [line for line in lines if "whoever is in all of them" in line]
        total = format_epsilon(epsilon_of(num_releases))
        assert line.endswith(f"has paid epsilon {total} with this release")
        RunFolder(tmp_path / "b").release_file.unlink()


def test_other_owners_and_other_kinds_of_owners_have_accounts_of_their_own(
    ledger: Path, tmp_path: Path
) -> None:
    """Tables with different ids, with groups in place of ids, or with neither have an account each.

    The groups 0 to 8 are not taken for the ids 0 to 8, and the file of the ledger does not contain the id 7654321.
    """
    for letter, load_dataset in (
        ("a", loader_of_table(digest_letter="a", ids=range(9))),
        ("b", loader_of_table(digest_letter="b", ids=range(7_654_321, 7_654_331))),
        ("c", loader_of_table(digest_letter="c", groups=range(9))),
        ("d", loader_of_table(digest_letter="d")),
    ):
        plan = replace(plan_of(ledger), load_dataset=load_dataset)
        run_until_released(plan, folder=tmp_path / letter)
    assert len(SharedLedger.stored(ledger).data) == 4
    assert not any(b"7654321" in path.read_bytes() for path in tmp_path.glob("ledger.db*"))


def test_owners_that_an_unnamed_ledger_knows_give_a_warning(tmp_path: Path) -> None:
    """A run on a default ledger only warns, once, if another account in the run's folder knows ids of the run's table.

    The run goes on, as two tables may both number their rows from 1. With a cap on the total epsilon, a run is refused.
    """
    usual = replace(
        plan_on_default_ledger(), load_dataset=loader_of_table(digest_letter="a", ids=range(100))
    )
    run_until_released(usual, folder=tmp_path / "a")
    again = with_another_delta(
        replace(
            plan_on_default_ledger(),
            load_dataset=loader_of_table(digest_letter="b", ids=range(5, 105)),
        )
    )
    rule = "the data of account aaaaaaaaaaaa, which knows 95 of these 100"
    capped = replace(
        plan_on_default_ledger(),
        load_dataset=loader_of_table(digest_letter="b", ids=range(5, 105)),
        max_total_epsilon=100.0,
    )
    with refused_parameter("ledger", value=tmp_path / "ledger.db", rule_words=rule):
        train(capped, output_dir=tmp_path / "b")
    warning = "not the data of account aaaaaaaaaaaa, which knows 95 of these 100 ids and groups"
    monitor = SilentMonitor()
    train(again, output_dir=tmp_path / "c", monitor=monitor)
    assert [warning in line for line in monitor.lines].count(True) == 1
    monitor = SilentMonitor()
    train(again, output_dir=tmp_path / "d", monitor=monitor)  # the warning comes once
    assert not any("which knows" in line for line in monitor.lines)
    run_until_released(replace(with_another_delta(usual), new_account=True), folder=tmp_path / "e")
    capped = replace(
        plan_on_default_ledger(),
        load_dataset=loader_of_table(digest_letter="c", ids=range(100, 120)),
        max_total_epsilon=100.0,
    )
    other = tmp_path / "ledger-replace_one-0.0001.db"
    with refused_parameter(
        "ledger", value=other, rule_words="the data of account bbbbbbbbbbbb, which knows 5 of"
    ):
        train(capped, output_dir=tmp_path / "f")


@pytest.mark.parametrize("has_cap", [False, True])
def test_a_ledger_or_cap_refuses_a_seed_twice(has_cap: bool, tmp_path: Path) -> None:
    """With a named ledger or a cap, a release is refused if an earlier, different release has the same seed.

    If the two differ in queries or records, the second is refused before its teachers are trained. If they differ in
    the teachers alone, it is refused before its noise is drawn. A release with another seed is accepted.
    """
    ledger = tmp_path / "ledger.db"
    named_ledger = None if has_cap else ledger
    run_until_released(
        replace(plan_of(ledger=named_ledger), seed=3, max_total_epsilon=100.0 if has_cap else None),
        folder=tmp_path / "a",
    )
    monitor = SilentMonitor()
    seeded_plan = replace(plan_of(ledger=named_ledger), seed=3)
    for plan in (
        replace(seeded_plan, num_queries=30),
        replace(seeded_plan, load_dataset=loader_of_table(digest_letter="c")),
    ):
        with refused_parameter("ledger", value=ANY, rule_words="another seed"):
            train(plan, output_dir=tmp_path / "b", monitor=monitor)
    assert "training teachers" not in monitor.stages
    teacher = LinearTeacher(device="cpu", penalty=100.0)  # whose votes are known late
    with refused_parameter(
        "noise", value="seed 3", rule_words="fresh noise, another release drew from this seed"
    ):
        train(
            replace(plan_of(ledger=named_ledger), seed=3, teacher=teacher),
            output_dir=tmp_path / "d",
        )
    assert not (tmp_path / "d" / "release").exists()
    assert len(SharedLedger.stored(ledger).entries) == 1
    run_until_released(
        replace(plan_of(ledger=named_ledger), seed=4, num_queries=30), folder=tmp_path / "c"
    )


@pytest.mark.parametrize(
    ("change_plan", "warning"),
    [
        (
            partial(replace, num_queries=30),
            "seed=3: this release shares its noise with an earlier one in ledger=",
        ),
        (
            partial(replace, teacher=LinearTeacher(device="cpu", penalty=100.0)),
            "seed=3: an earlier release in ledger=",
        ),
        (
            partial(replace, load_dataset=loader_of_table(digest_letter="c")),
            "seed=3: this release shares its noise with an earlier",
        ),
    ],
    ids=["another price", "other votes", "other records"],
)
def test_releases_that_share_their_noise_have_no_total(
    change_plan: Callable[[Plan], Plan], warning: str, tmp_path: Path
) -> None:
    """The default ledger, without a cap, accepts a second release with the same seed, and the run warns.

    The total epsilon is infinite from then on, and a cap is refused.
    """
    run_until_released(replace(plan_on_default_ledger(), seed=3), folder=tmp_path / "a")
    plan = change_plan(replace(plan_on_default_ledger(), seed=3))
    begun = run_until(plan, folder=tmp_path / "b", stage="training teachers")
    assert [line for line in begun.lines if line.startswith(warning)], begun.lines
    report = train(plan, output_dir=tmp_path / "b")
    assert math.isfinite(report.privacy.epsilon), "that of the release alone"
    assert train(plan, output_dir=tmp_path / "b") == report
    of_other_records = plan.load_dataset().private_cells is not None
    for ledger in ledgers_in(ledger_path=tmp_path / "ledger.db"):
        account = plain(account_values(ledger))
        assert (account["spent_epsilon"], account["accountant_epsilon"]) == ("inf", "inf")
        assert len(account["charges"]) == (1 if of_other_records else 2)
    assert any_share_noise(
        [*releases_of(folder=tmp_path / "a"), *releases_of(folder=tmp_path / "b")]
    )
    assert all(release.shares_noise_in_ledger for release in releases_of(folder=tmp_path / "a"))
    third = run_until(
        replace(plan_on_default_ledger(), seed=4),
        folder=tmp_path / "c",
        stage="training the student",
    )
    total = [line for line in third.lines if line.startswith("ledger=")][-1]
    assert " cost epsilon inf at " in total and total.endswith("two share their noise")
    rule = f"no cap, as releases in ledger={tmp_path / 'ledger.db'} share their noise"
    with refused_parameter("max_epsilon", value=1000.0, rule_words=rule):
        train(
            replace(plan_on_default_ledger(), max_total_epsilon=1000.0), output_dir=tmp_path / "e"
        )


def test_the_same_seeded_run_in_two_folders_is_one_release(tmp_path: Path) -> None:
    """Seeded runs with the same votes in three folders, one of them with another student, are one charge in the ledger.

    The reports state the same price.
    """
    plan = replace(plan_on_default_ledger(), seed=3)
    train(plan, output_dir=tmp_path / "a")
    report = train(plan, output_dir=tmp_path / "b")
    student = LinearStudent(penalties=(1.0,))
    other = train(replace(plan, student=student), output_dir=tmp_path / "c")  # of the same votes
    assert len(SharedLedger.stored(path=tmp_path / "ledger.db").entries) == 1
    assert report.privacy == other.privacy
    assert train(plan, output_dir=tmp_path / "b") == report
    totals = totals_of(
        [release for each in "abc" for release in releases_of(folder=tmp_path / each)]
    )
    assert [total.num_releases for total in totals] == [3], (
        "a sweep leaves out what has the same key"
    )


def test_a_finished_run_is_charged_to_another_ledger_on_request(
    ledger: Path, tmp_path: Path
) -> None:
    """A finished run is refused if the plan names another ledger than it is charged to.

    If its report is removed, it is charged to the named ledger once.
    """
    folder = tmp_path / "runs" / "run"
    train(plan_on_default_ledger(), output_dir=folder)
    ledger_of_run = ledger_beside(folder)
    with refused_parameter(
        "ledger",
        value=ledger,
        rule_words=f"this finished run is charged to, {ledger_of_run}; or remove",
    ):
        train(plan_of(ledger), output_dir=folder)
    assert not ledger.exists()
    (folder / "report.json").unlink()
    train(plan_of(ledger), output_dir=folder)
    train(plan_of(ledger), output_dir=folder)
    assert account_in(ledger).epsilon == epsilon_of(num_releases=1)


def test_a_file_in_a_folder_of_a_run_is_no_ledger(tmp_path: Path) -> None:
    """A run is refused if its ledger, named or by default, would lie in the folder of a run."""
    run_until_released(plan_on_default_ledger(), folder=tmp_path / "a")
    for folder in (tmp_path / "a", tmp_path / "b"):
        ledger = tmp_path / "a" / "ledger.db"
        with refused_parameter(
            "ledger", value=ledger, rule_words="a file outside of runs' folders"
        ):
            train(plan_of(ledger), output_dir=folder)
    with refused_parameter(
        "ledger", value=tmp_path / "a" / "ledger.db", rule_words="; ledger=PATH names one"
    ):
        train(plan_on_default_ledger(), output_dir=tmp_path / "a" / "b")
    assert not list(tmp_path.glob("*/ledger.db"))


def test_a_run_whose_name_was_changed_is_refused(tmp_path: Path) -> None:
    """A run is refused, with the path of its file run.id, if that file was overwritten."""
    plan = plan_of(ledger=tmp_path / "ledger.db")
    run_until(plan, folder=tmp_path / "run", stage="training teachers")
    (tmp_path / "run" / "run.id").write_text("fresh\n")
    with refused_parameter(
        "file", value=tmp_path / "run" / "run.id", rule_words="the names of the run"
    ):
        train(plan, output_dir=tmp_path / "run")


def _run(ledger: Path, folder: Path) -> str:
    """Trains, in a process of its own, under a cap with room for one release; returns "finished" or the refusal."""
    try:
        train(
            replace(plan_of(ledger), max_total_epsilon=1.2 * epsilon_of(num_releases=1)),
            output_dir=folder,
        )
    except InvalidValue as error:
        return str(error)
    return "finished"


def test_of_parallel_runs_no_more_are_released_than_the_cap_allows(
    ledger: Path, tmp_path: Path
) -> None:
    """Of three runs that start at once under a cap with room for one, one finishes and two are refused.

    The refused runs release nothing.
    """
    with multiprocessing.get_context("fork").Pool(processes=3) as pool:
        ends = pool.starmap(_run, [(ledger, tmp_path / name) for name in "abc"])
    assert sorted(ends)[0] == "finished", ends
    assert all(end.startswith("max_total_epsilon=") for end in sorted(ends)[1:]), ends
    assert account_in(ledger).epsilon == epsilon_of(num_releases=1)
    assert len([name for name in "abc" if (tmp_path / name / "release").exists()]) == 1
