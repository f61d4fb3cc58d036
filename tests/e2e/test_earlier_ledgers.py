"""Earlier versions kept a ledger in each run's own folder; such runs can still be shown, continued and charged."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pate.accounting import GaussianEvent, Ledger, RdpAccountant, SharedLedger
from pate.accounting.ledger_entry import ChargeNote
from pate.aggregators import GaussianVotes
from pate.files.manifest import Manifest
from pate.run.folder import RunFolder
from pate.run.ledger_keys import LedgerKeys
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue
from tests.e2e.small_run import (
    SilentMonitor,
    ledger_beside,
    release_bytes_of_run,
    run_until,
    run_until_released,
    small_dataset,
    small_plan,
)
from tests.refusals import refused_parameter

DIGEST = small_dataset().private_digest()
UNIT = small_dataset().privacy_unit


def gaussian_plan() -> Plan:
    """Returns the small plan with Gaussian votes and fresh noise."""
    return replace(small_plan(), aggregator=GaussianVotes(noise_std=40.0), seed=None)


def own_ledger(folder: Path) -> Ledger:
    """Opens the ledger in the own folder of a run, where earlier versions kept it; it is made if missing."""
    return Ledger(
        RunFolder(path=folder).own_ledger,
        target_delta=1e-5,
        accountant=RdpAccountant,
        data=DIGEST,
        unit=UNIT,
    )


def turn_into_earlier_run(run_folder: Path) -> Path:
    """Changes the folder of a run into that of an earlier version, and returns the same folder.

    The ledger next to the folder is removed; charge and parts of the run move into a ledger in the folder.
    """
    run = RunFolder(path=run_folder)
    account = Ledger.stored(ledger_beside(run_folder), data=DIGEST)
    own_account = own_ledger(run_folder)
    for key in LedgerKeys.read(run).all:
        for name in account.parts(key):
            own_account.commit(
                key=f"{key}:{name}",
                event=account.entries[0].event,
                content=account.read(f"{key}:{name}") or b"",
                charge_note=ChargeNote(run_key=key[:32]),
                adjacency=own_account.adjacency,
                release_key=key,
            )
    run.pointer_to_ledger.unlink()
    ledger_beside(run_folder).unlink()
    if run.report.exists():
        listed = Manifest.read(run_folder, rule="the digests", remedy="none").sha256
        names = ["ledger.db", *listed]
        Manifest.from_files(
            run_folder,
            file_names=[name for name in names if name != "manifest.json"],
            missing_file_remedy="none",
        ).write(run_folder)
    return run_folder


def entry_keys(ledger_path: Path) -> list[str]:
    """Returns the keys of all entries of a ledger."""
    return [entry.key for entry in SharedLedger.stored(path=ledger_path).entries]


def test_a_finished_run_is_charged_to_the_usual_ledger_on_request(
    tmp_path: Path,
) -> None:
    """A finished run with a ledger of its own is shown again, and is charged to no other ledger.

    A plan that names another ledger is refused. If the report is removed, the run is charged once to the usual ledger,
    and its own ledger does not change.
    """
    folder = tmp_path / "run"
    report = train(gaussian_plan(), output_dir=folder)
    turn_into_earlier_run(folder)
    before = RunFolder(path=folder).own_ledger.read_bytes()
    monitor = SilentMonitor()
    assert train(gaussian_plan(), output_dir=folder, monitor=monitor) == report
    assert (
        "this run is finished" in monitor.lines[-1]
        and not ledger_beside(run_folder=folder).exists()
    )
    with refused_parameter(
        "ledger",
        value=tmp_path / "all.db",
        rule_words="the ledger that this finished run is charged to",
    ):
        train(replace(gaussian_plan(), ledger=tmp_path / "all.db"), output_dir=folder)
    (folder / "report.json").unlink()
    assert train(gaussian_plan(), output_dir=folder).privacy == report.privacy
    assert len(entry_keys(ledger_beside(run_folder=folder))) == 1
    assert RunFolder(path=folder).own_ledger.read_bytes() == before
    (folder / "ledger.db").unlink()  # a finished run needs no earlier ledger
    train(gaussian_plan(), output_dir=folder)


@pytest.mark.parametrize("stage", ["training teachers", "training the student"])
@pytest.mark.parametrize("is_ledger_named", [False, True])
def test_a_run_that_goes_on_draws_and_pays_once(
    stage: str, is_ledger_named: bool, tmp_path: Path
) -> None:
    """A stopped run of an earlier version, continued with the usual or a named ledger, is charged to that ledger once.

    If its release was drawn before the stop, it keeps the same bytes.
    """
    folder = tmp_path / "run"
    run_until(gaussian_plan(), folder=folder, stage=stage)
    release = release_bytes_of_run(folder) if stage == "training the student" else None
    turn_into_earlier_run(folder)
    before = RunFolder(path=folder).own_ledger.read_bytes()
    path = tmp_path / "all.db" if is_ledger_named else ledger_beside(run_folder=folder)
    if not is_ledger_named:
        run_until_released(gaussian_plan(), folder=tmp_path / "another")
    earlier_keys = entry_keys(path) if path.exists() else []
    plan = replace(gaussian_plan(), ledger=path if is_ledger_named else None)
    report = train(plan, output_dir=folder)
    assert release in (None, release_bytes_of_run(folder))
    run_key = LedgerKeys.read(RunFolder(path=folder)).run_key_prefix
    assert entry_keys(path) == [*earlier_keys, f"{run_key}:release"]
    assert train(plan, output_dir=folder) == report
    assert RunFolder(path=folder).own_ledger.read_bytes() == before


def test_a_redraw_after_an_earlier_ledger_costs_both_draws(tmp_path: Path) -> None:
    """If a run that has a ledger of its own draws again, it costs two draws, and the usual ledger has both."""
    folder = tmp_path / "run"
    first_price = train(gaussian_plan(), output_dir=folder).privacy.epsilon
    turn_into_earlier_run(folder)
    release = release_bytes_of_run(folder)
    for name in ("report.json", "release/release.npz"):
        (folder / name).unlink()
    report = train(replace(gaussian_plan(), redraw=True), output_dir=folder)
    assert release_bytes_of_run(folder) != release
    assert first_price < report.privacy.epsilon < 2.001 * first_price
    assert [
        entry.draw for entry in SharedLedger.stored(ledger_beside(run_folder=folder)).entries
    ] == [1, 2]


def test_copies_with_ledgers_of_their_own_are_two_charges(tmp_path: Path) -> None:
    """Two copies of a run that drew different releases are two charges once they share a ledger.

    Each had a ledger of its own, as in earlier versions, before both were moved into one folder of outputs. If both are
    continued once more, nothing more is charged.
    """
    run_until(gaussian_plan(), folder=tmp_path / "a" / "run", stage="releasing labels")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    folders = [tmp_path / name / "run" for name in "ab"]
    for folder in folders:
        run_until_released(
            replace(gaussian_plan(), ledger=ledger_beside(run_folder=folder)), folder
        )
        turn_into_earlier_run(folder)
    releases = [release_bytes_of_run(folder) for folder in folders]
    assert releases[0] != releases[1]
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    moved = [folder.rename(outputs / folder.parent.name) for folder in folders]
    for folder in (*moved, *moved):
        train(gaussian_plan(), output_dir=folder)
        (folder / "report.json").unlink()
    assert len(entry_keys(ledger_path=outputs / "ledger.db")) == 2
    assert [release_bytes_of_run(folder) for folder in moved] == releases


def test_a_cap_counts_the_charges_of_an_earlier_ledger(tmp_path: Path) -> None:
    """A run with a cap of 0.1 on the total epsilon is refused if the charges in its own ledger exceed the cap.

    No other ledger is made.
    """
    folder = tmp_path / "run"
    run_until_released(gaussian_plan(), folder)
    turn_into_earlier_run(folder)
    plan_by_renyi = replace(gaussian_plan(), accountant=RdpAccountant)
    with refused_parameter("max_epsilon", value=0.1, rule_words="room for this release of epsilon"):
        train(replace(plan_by_renyi, max_total_epsilon=0.1), output_dir=folder)
    assert not ledger_beside(run_folder=folder).exists()


def charge_more(folder: Path) -> None:
    """Charges an unrelated event to the own ledger of a run."""
    own_ledger(folder).charge(
        GaussianEvent(noise_multiplier=50.0), adjacency="replace_one", key="foreign"
    )


def replace_by_another(folder: Path) -> None:
    """Replaces the own ledger of a run with that of another run."""
    other = folder.parent / "other" / "run"
    run_until_released(gaussian_plan(), folder=other)
    turn_into_earlier_run(other)
    shutil.copy(other / "ledger.db", folder / "ledger.db")


DAMAGES = {
    "gone": lambda folder: (folder / "ledger.db").unlink(),
    "emptied": lambda folder: (folder / "ledger.db").write_bytes(b""),
    "of text": lambda folder: (folder / "ledger.db").write_text("charges\n" * 1000),
    "charged for something else": charge_more,
    "of another run": replace_by_another,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_foreign_ledger_is_refused(damage: str, tmp_path: Path) -> None:
    """A run is refused if its own ledger is missing, damaged, of another run, or has a charge of something else.

    The refusal names the ledger, and the release does not change.
    """
    folder = tmp_path / "run"
    run_until_released(gaussian_plan(), folder)
    turn_into_earlier_run(folder)
    DAMAGES[damage](folder)
    release = release_bytes_of_run(folder)
    with pytest.raises(InvalidValue) as caught:
        train(gaussian_plan(), output_dir=folder)
    assert caught.value.name == "ledger"
    assert Path(str(caught.value.value)).name == "ledger.db"
    assert release_bytes_of_run(folder) == release and not (folder / "report.json").exists()
