"""One budget across runs: a ledger that all runs on the same records are charged to before anything of theirs."""

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pate.accounting import (
    AutoAccountant,
    BoundedRangeEvent,
    ExactAccountant,
    GaussianEvent,
    Ledger,
    PrivacyUnit,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    SharedLedger,
)
from pate.aggregators import GaussianVotes
from pate.pricing.quote import charges_of, ledgers_in
from pate.report import format_epsilon
from pate.run.payment import epsilon_of_all
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue, rounded_up
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    refuse,
    release_of,
    small_dataset,
    small_plan,
    stopped,
)

NOISE = GaussianVotes(noise_std=40.0)
EVENT = NOISE.event_for(num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)


def plan_of(ledger: Path | None, **changes: Any) -> Plan:
    return small_plan(**({"aggregator": NOISE, "seed": None, "ledger": ledger} | changes))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def epsilon_of(count: int) -> float:
    return RdpAccountant().compose(EVENT, count).get_epsilon(1e-5)


def account(path: Path, **terms: Any) -> Ledger:
    shared = SharedLedger(path, target_delta=1e-5, accountant=RdpAccountant, **terms)
    return shared.account(small_dataset().private_digest())


def test_the_total_is_that_of_all_runs_and_each_is_told_of_those_before(tmp_path: Path) -> None:
    ledger = tmp_path / "budget" / "ledger.db"
    first = stopped(plan_of(ledger), tmp_path / "a", "training the student")
    assert not any("earlier" in line or "beside" in line for line in first.lines)
    second = stopped(plan_of(ledger), tmp_path / "b", "training the student")
    each, both = (format_epsilon(epsilon_of(count)) for count in (1, 2))
    terms = (
        "at delta 1e-5, replace_one, for one group of records, those with one number in group_ids"
    )
    assert [line for line in second.lines if line.startswith("ledger=")] == [
        f"ledger={ledger}: 1 earlier release of these records, together epsilon {each} {terms}",
        f"ledger={ledger}: all 2 releases of these records cost epsilon {both} {terms}, "
        "if all prices were fixed beforehand",
    ]
    assert not any("beside" in line for line in second.lines), "the ledger knows of that one"
    assert account(ledger).epsilon == epsilon_of(2)
    assert Ledger.stored(tmp_path / "a" / "ledger.db").epsilon == epsilon_of(1)


def test_a_cap_refuses_a_run_before_its_teachers_and_spends_nothing(
    ledger: Path, tmp_path: Path
) -> None:
    cap = 1.2 * epsilon_of(1)
    monitor = SilentMonitor()
    plan = plan_of(ledger, max_total_epsilon=cap)
    release_of(plan, tmp_path / "a")
    spent = ledger.read_bytes()
    with pytest.raises(
        InvalidValue, match=r"^max_total_epsilon=[\d.]+: expected room .* epsilon [\d.]+ beside eps"
    ):
        train(plan_of(ledger), tmp_path / "b", monitor)  # the file has kept the cap
    assert "training teachers" not in monitor.stages
    assert not (tmp_path / "b" / "run.json").exists(), "the folder is free for a plan that has room"
    assert ledger.read_bytes() == spent
    assert not (tmp_path / "b" / "ledger.db").exists()
    refuse(
        replace(plan, max_total_epsilon=2 * cap),
        tmp_path / "c",
        r"^max_total_epsilon=[\d.]+: expected at most",
    )


def test_a_refusal_between_plan_and_draw_leaves_nothing_spent(ledger: Path, tmp_path: Path) -> None:
    """Another run was faster while the teachers of this one were trained."""
    other = account(ledger, max_epsilon=1.1 * epsilon_of(1))

    class Slow(SilentMonitor):
        def stage(self, name: str, total: int | None = None) -> Any:
            if name == "casting votes":
                other.charge(EVENT, adjacency="replace_one", key="another run")
            return super().stage(name, total)

    with pytest.raises(InvalidValue, match=r"^max_total_epsilon=.*; nothing is spent$"):
        train(plan_of(ledger), tmp_path / "run", Slow())
    assert [entry.key for entry in other.entries] == ["another run"]
    assert not (tmp_path / "run" / "release").exists()
    assert not Ledger.stored(tmp_path / "run" / "ledger.db").entries


PATIENT = PrivacyUnit.of_column("mrn")
VISIT = PrivacyUnit("one row")


def protecting(unit: PrivacyUnit) -> Any:
    """The small data set, of which one change replaces that."""
    return lambda: replace(small_dataset(), group_unit=unit)


@pytest.mark.parametrize(("first", "second"), [(VISIT, PATIENT), (PATIENT, VISIT)])
def test_prices_for_a_visit_and_for_a_patient_are_not_added_up(
    first: PrivacyUnit, second: PrivacyUnit, ledger: Path, tmp_path: Path
) -> None:
    """Also not where the price of a patient bounds that of a visit: an account has one unit."""
    release_of(plan_of(ledger, load_dataset=protecting(first)), tmp_path / "a" / "run")
    spent = ledger.read_bytes()
    monitor = SilentMonitor()
    rule = rf"^unit={second.words}: expected {first.words}, as .*ledger=.* counts; .*: take the same data.group= .*"
    with pytest.raises(InvalidValue, match=rule):
        train(plan_of(ledger, load_dataset=protecting(second)), tmp_path / "b" / "run", monitor)
    assert "training teachers" not in monitor.stages and ledger.read_bytes() == spent
    again = stopped(
        plan_of(ledger, load_dataset=protecting(first)),
        tmp_path / "c" / "run",
        "training the student",
    )
    assert again.lines[-1].endswith(
        f"replace_one, for {first.words}, if all prices were fixed beforehand"
    )


def test_charges_of_earlier_versions_are_counted_for_the_unit_of_the_run_which_is_said(
    ledger: Path, tmp_path: Path
) -> None:
    account(ledger).charge(EVENT, adjacency="replace_one", key="of an earlier version")
    plan = plan_of(ledger, load_dataset=protecting(PATIENT))
    first, last = [
        line
        for line in stopped(plan, tmp_path / "run", "training the student").lines
        if line.startswith("ledger=")
    ]
    assumed = ", provided that the 1 charge that names no unit is for the same"
    assert (
        f"1 earlier release of these records, together epsilon {format_epsilon(epsilon_of(1))} at"
        in first
    )
    assert (
        f"all 2 releases of these records cost epsilon {format_epsilon(epsilon_of(2))} at" in last
    )
    assert first.endswith(assumed) and last.endswith(assumed)


def test_folders_beside_that_protect_another_unit_are_not_added_up(tmp_path: Path) -> None:
    for name, unit in (("a", PATIENT), ("b", VISIT)):
        release_of(plan_of(None, load_dataset=protecting(unit)), tmp_path / name)
    third = stopped(
        plan_of(None, load_dataset=protecting(PATIENT)), tmp_path / "c", "training the student"
    )
    both = format_epsilon(AutoAccountant().compose(EVENT, 2).get_epsilon(1e-5))
    (added, left_out) = [line for line in third.lines if "beside this one" in line]
    assert added.startswith(
        "output_dir: 1 other run beside this one released something of these records"
    )
    assert f"together with this one epsilon {both} at delta" in added
    assert left_out.startswith(
        "output_dir: 1 other run beside this one on these records cannot be added up with this"
    )
    assert "unit of privacy differs" in left_out


@pytest.mark.parametrize("accountant", [AutoAccountant, RdpAccountant, ExactAccountant])
def test_ledger_card_and_report_say_one_price_of_one_run(
    accountant: Any, ledger: Path, tmp_path: Path
) -> None:
    """Under a cap, too, whose filter counts by Renyi divergences."""
    price = accountant().compose(EVENT).get_epsilon(1e-5)
    monitor = SilentMonitor()
    plan = plan_of(ledger, accountant=accountant, max_total_epsilon=2 * price)
    report = train(plan, tmp_path / "run", monitor)
    (said,) = [line for line in monitor.lines if "this first release costs" in line]
    (account,) = map(charges_of, ledgers_in(ledger))
    (charge,) = account["charges"]
    assert report.privacy.epsilon == account["spent_epsilon"] == charge["epsilon"] == price
    shown = format_epsilon(price)
    assert f"this first release costs epsilon {shown} at" in said
    assert (
        f"| epsilon | {shown} |" in (tmp_path / "run" / "release" / "privacy_card.md").read_text()
    )


def test_a_second_price_of_one_run_has_its_reason(ledger: Path, tmp_path: Path) -> None:
    """A cap lets a first release in that another accountant puts under it; the card is by the run's."""
    price = epsilon_of(1)
    tighter = AutoAccountant().compose(EVENT).get_epsilon(1e-5)
    cap = (price + tighter) / 2
    lines = stopped(
        plan_of(ledger, max_total_epsilon=cap), tmp_path / "run", "training the student"
    ).lines
    assert f"costs epsilon {format_epsilon(price)} at" in lines[-1]
    assert lines[-1].endswith(
        f", by accountant=rdp; by a tighter one at most the cap {rounded_up(cap)}"
    )
    (account,) = map(charges_of, ledgers_in(ledger))
    assert (account["spent_epsilon"], account["accountant"], account["accountant_epsilon"]) == (
        cap,
        "rdp",
        price,
    )


def spelled(digest: str, **owners: range) -> Any:
    """The small data set as another table would have it: another digest, and whoever is in it."""
    names = {kind: frozenset(b"%d" % each for each in numbers) for kind, numbers in owners.items()}
    return lambda: replace(small_dataset(), private_cells=digest * 64, owners=names)


def test_people_whom_another_account_knows_are_given_no_new_one(
    ledger: Path, tmp_path: Path
) -> None:
    release_of(plan_of(ledger, load_dataset=spelled("a", id=range(100))), tmp_path / "a")
    again = plan_of(ledger, load_dataset=spelled("b", id=range(5, 105)))
    monitor = SilentMonitor()
    rule = r"^ledger=.*: expected the data of account aaaaaaaaaaaa, which knows 95 of these 100 ids and groups; or new_"
    for _ in range(2):
        with pytest.raises(InvalidValue, match=rule):
            train(again, tmp_path / "b", monitor)
    assert "training teachers" not in monitor.stages
    assert len(SharedLedger.stored(ledger).entries) == 1
    release_of(plan_of(ledger, load_dataset=spelled("a", id=range(100))), tmp_path / "c")
    for name, changes in (("d", {"new_account": True}), ("e", {})):  # asked once
        release_of(replace(again, **changes), tmp_path / name)
    assert len(SharedLedger.stored(ledger).entries) == 4
    ledger = tmp_path / "of_others.db"  # other people and other kinds of names are let in
    for name, owners in (
        ("a", {"id": range(9)}),
        ("b", {"id": range(10, 20)}),
        ("c", {"group": range(9)}),
        ("d", {}),
    ):
        release_of(
            plan_of(ledger, load_dataset=spelled(name, **owners)), tmp_path / "others" / name
        )
    assert len(SharedLedger.stored(ledger).data) == 4
    assert b"b'11'" not in ledger.read_bytes()


def test_two_releases_from_one_seed_have_no_total(ledger: Path, tmp_path: Path) -> None:
    release_of(plan_of(ledger, seed=3), tmp_path / "a")
    with pytest.raises(
        InvalidValue, match=r"^ledger=.*: expected another seed, as an earlier release"
    ):
        train(plan_of(ledger, seed=3, num_queries=30), tmp_path / "b")
    assert len(account(ledger).entries) == 1
    release_of(plan_of(ledger, seed=4, num_queries=30), tmp_path / "c")


def test_a_finished_run_that_a_ledger_does_not_know_is_charged_to_it_on_request(
    ledger: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    train(plan_of(None), folder)
    refuse(
        plan_of(ledger),
        folder,
        r"^ledger=.*: expected the ledger that this finished run is charged to; or",
    )
    assert not ledger.exists()
    (folder / "report.json").unlink()
    train(plan_of(ledger), folder)
    train(plan_of(ledger), folder)
    assert account(ledger).epsilon == epsilon_of(1)


def test_without_a_ledger_the_folders_beside_a_run_tell_of_earlier_releases(tmp_path: Path) -> None:
    plan = plan_of(None)
    release_of(plan, tmp_path / "a")
    stopped(plan, tmp_path / "b", "training teachers")  # which released nothing
    release_of(replace(plan, target_delta=1e-4), tmp_path / "c")
    lines = stopped(plan, tmp_path / "d", "training the student").lines
    others, different = [line for line in lines if line.startswith("output_dir")]
    total = format_epsilon(AutoAccountant().compose(EVENT, 2).get_epsilon(1e-5))
    told = "1 other run beside this one released something of these records, together with this one epsilon"
    assert f"{told} {total} at" in others
    assert different.startswith(
        "output_dir: 1 other run beside this one on these records cannot be added up"
    )


def test_a_total_with_folders_beside_counts_each_draw_of_this_run(tmp_path: Path) -> None:
    release_of(plan_of(None), tmp_path / "a")
    release_of(plan_of(None), tmp_path / "b")
    (tmp_path / "b" / "release" / "release.npz").unlink()
    lines = stopped(plan_of(None, redraw=True), tmp_path / "b", "training the student").lines
    total = format_epsilon(AutoAccountant().compose(EVENT, 3).get_epsilon(1e-5))
    assert any(f"beside this one released something of these records, together with this one epsilon {total} at" in line
               for line in lines)  # fmt: skip


def test_two_runs_beside_this_one_that_share_a_seed_are_not_added_up(tmp_path: Path) -> None:
    """Said by a run without a seed, too."""
    plan = plan_of(None)
    release_of(replace(plan, seed=3), tmp_path / "a")
    release_of(replace(plan, seed=3, num_queries=30), tmp_path / "b")
    for seed in (None, 4):
        payment_lines = stopped(
            replace(plan, seed=seed), tmp_path / f"of {seed}", "training teachers"
        ).lines
        (line,) = [line for line in payment_lines if line.startswith("output_dir")]
        assert line.endswith(
            "and no epsilon covers all of them: two drew their noise from one seed"
        )
        assert "together" not in line
    other = replace(plan, seed=3, load_dataset=spelled("c"))
    (line,) = [
        line
        for line in stopped(other, tmp_path / "other", "training teachers").lines
        if "output_dir" in line
    ]
    rule = "on other records, and this one drew their noise from one seed: no epsilon covers both"
    assert rule in line


def test_the_ledger_of_a_run_is_not_that_of_all_runs_and_charged_by_no_other(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "a" / "ledger.db"
    refuse(plan_of(ledger), tmp_path / "a", r"^ledger=.*: expected another file than the run's own")
    release_of(plan_of(None), tmp_path / "a")
    before = ledger.read_bytes()
    refuse(
        plan_of(ledger),
        tmp_path / "b",
        r"^ledger=.*: expected another file than a run's own, which",
    )
    assert ledger.read_bytes() == before


def test_a_run_whose_name_was_changed_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "ledger.db")
    stopped(plan, tmp_path / "run", "training teachers")
    (tmp_path / "run" / "run.id").write_text("fresh\n")
    refuse(plan, tmp_path / "run", r"^file=.*run\.id: expected the names of the run")


def _run(ledger: Path, folder: Path) -> str:
    try:
        train(plan_of(ledger, max_total_epsilon=1.2 * epsilon_of(1)), folder)
    except InvalidValue as error:
        return str(error)
    return "finished"


def test_of_parallel_runs_no_more_are_released_than_the_cap_allows(
    ledger: Path, tmp_path: Path
) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        ends = pool.starmap(_run, [(ledger, tmp_path / name) for name in "abc"])
    assert sorted(ends)[0] == "finished", ends
    assert all(end.startswith("max_total_epsilon=") for end in sorted(ends)[1:]), ends
    assert account(ledger).epsilon == epsilon_of(1)
    assert len([name for name in "abc" if (tmp_path / name / "release").exists()]) == 1


def test_releases_whose_order_nobody_knows_are_bounded_in_every_order() -> None:
    """60 pure releases of .1 and then 60 ranges of .2 cost 5.3720 at best play; the other way round 5.3645."""
    pure = SelfComposedEvent(PureDpEvent(0.1), 60)
    ranges = SelfComposedEvent(BoundedRangeEvent(0.2), 60)
    worst = ExactAccountant().compose(pure).compose(ranges).get_epsilon(1e-6)
    assert worst == pytest.approx(5.3720, abs=3e-3)
    assert epsilon_of_all([pure, ranges], 1e-6) == epsilon_of_all([ranges, pure], 1e-6) >= worst
    gaussians = [GaussianEvent(3.0), GaussianEvent(5.0), pure]
    spent = (
        ExactAccountant()
        .compose(GaussianEvent((1 / 9 + 1 / 25) ** -0.5))
        .compose(pure)
        .get_epsilon(1e-6)
    )
    assert epsilon_of_all(gaussians, 1e-6) == pytest.approx(spent, rel=1e-9), (
        "Gaussians have one figure in every order"
    )
