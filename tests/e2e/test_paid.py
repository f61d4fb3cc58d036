"""The ledger holds a release together with its charge, whenever a run is killed, copied or damaged."""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from pate.accounting import Ledger, RdpAccountant, SharedLedger
from pate.accounting.store import LedgerLine, LineText, Store
from pate.aggregators import (
    BoundaryTopK,
    CenteredVotes,
    ClippedVotes,
    GaussianVotes,
    MemoryRecord,
    Release,
    ReleaseRecord,
)
from pate.models import KernelTeacher, LowRankStudent
from pate.report.tensorboard import RunWriter
from pate.run.folder import RunFolder
from pate.run.ledger_place import LedgerPlace
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue
from pate.votes.source import VoteSource
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    contents,
    ledger_beside,
    release_bytes_of_run,
    run_until,
    run_until_released,
    small_dataset,
    small_plan,
)
from tests.refusals import ANY, refused_parameter

DIGEST = small_dataset().private_digest()
Run = tuple[str, Path, float]  # name, folder, epsilon
RUNS = {
    "labels": replace(small_plan(), aggregator=GaussianVotes(noise_std=10.0)),
    "rounds": replace(
        small_plan(),
        teacher=KernelTeacher(),
        num_teachers=None,
        aggregator=CenteredVotes(noise_multiplier=1.0, prevalence_share=0.5, rounds=2),
        student=LowRankStudent(),
        target_epsilon=3.0,
    ),
    "session": replace(
        small_plan(),
        aggregator=BoundaryTopK(
            selection_scale=1.0,
            test_std=0.3,
            failure_prob=1e-9,
            target_hits=9,
            round_size=50,
            session_delta=1e-5,
        ),
        num_queries=100,
    ),
}
"""Releases that are drawn in one part, in rounds around sums, and in rounds of a session."""


def plan_of(run_name: str) -> Plan:
    """Returns the plan of one of the `RUNS`, with fresh noise."""
    return replace(RUNS[run_name], settings={"name": run_name}, seed=None)


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Makes one of the `RUNS` from beginning to end; returns its name, folder and epsilon."""
    folder = tmp_path_factory.mktemp("run") / "out"
    return (
        request.param,
        folder,
        train(plan_of(run_name=request.param), output_dir=folder).privacy.epsilon,
    )


def copy_without_report(folder: Path, copy_folder: Path) -> Path:
    """Copies a finished run without its report, as if killed before it wrote one; returns the copy's folder."""
    shutil.copytree(folder, copy_folder)
    for name in ("report.json", "report.html", "manifest.json"):
        (copy_folder / name).unlink()
    return copy_folder


def copy_with_ledger(folder: Path, copy_folder: Path) -> Path:
    """Copies a finished run without its report, together with its ledger; returns the copy's folder."""
    copy_without_report(folder, copy_folder)
    shutil.copy(ledger_beside(run_folder=folder), ledger_beside(run_folder=copy_folder))
    place = LedgerPlace.read(RunFolder(path=copy_folder))
    assert place is not None
    replace(place, ledger_file=ledger_beside(run_folder=copy_folder)).write(
        RunFolder(path=copy_folder)
    )
    return copy_folder


def account_in_ledger_of(folder: Path) -> Ledger:
    """Returns the account, that is, all charges, of the small data set in the ledger of a run."""
    return Ledger.stored(ledger_beside(run_folder=folder), data=DIGEST)


def num_charges(ledger: Path) -> int:
    """Returns the number of charges in a ledger."""
    return len(SharedLedger.stored(ledger).entries)


class Killed(BaseException):
    """An exception that no handler of the run catches, so that the run ends at once as by `kill -9`."""


def kill_at(patch: pytest.MonkeyPatch, commit_number: int, *, is_committed: bool) -> None:
    """Makes the ledger's store raise `Killed` at a commit.

    Args:
        patch: replaces the methods of the store.
        commit_number: how many commits succeed before.
        is_committed: True to raise after the commit was written, False to raise before.
    """
    insert = Store._insert
    commit = Store.commit
    num_inserted = 0

    def insert_or_die(self: Store, db: sqlite3.Connection, **columns: Any) -> LedgerLine:
        nonlocal num_inserted
        if not is_committed and num_inserted == commit_number:
            raise Killed
        num_inserted += 1
        return insert(self, db, **columns)

    def commit_and_die(
        self: Store,
        data_digest: str,
        *,
        key: str,
        content: bytes,
        line_under_lock: Callable[[], LineText],
    ) -> bytes:
        num_inserted_before = num_inserted
        stored_content = commit(
            self, data_digest, key=key, content=content, line_under_lock=line_under_lock
        )
        if is_committed and num_inserted == commit_number + 1 > num_inserted_before:
            raise Killed
        return stored_content

    patch.setattr(Store, "_insert", insert_or_die)
    patch.setattr(Store, "commit", commit_and_die)


@pytest.mark.parametrize("is_ledger_named", [False, True])
@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("run_name", RUNS)
def test_a_kill_at_any_commit_leaves_both_release_and_charge_or_neither(
    run_name: str,
    is_committed: bool,
    is_ledger_named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that is killed before its first commit to the ledger, or after each commit in turn, is charged once.

    After each kill the ledger has parts of the release and the charge, or neither. Parts that it has never change.
    """
    path = tmp_path / ("all.db" if is_ledger_named else "ledger.db")
    plan = replace(plan_of(run_name), ledger=path if is_ledger_named else None)
    folder = tmp_path / "run"
    parts_before: dict[str, bytes] = {}
    for _ in range(20):
        with monkeypatch.context() as patch:
            kill_at(patch, commit_number=0, is_committed=is_committed)
            try:
                train(
                    plan, output_dir=folder, monitor=SilentMonitor(stop_at="training the student")
                )
            except Killed:
                pass
            except KeyboardInterrupt:
                break
        ledger = Ledger.stored(path, data=DIGEST)
        assert len(ledger.entries) <= 1
        for key, content in parts_before.items():
            assert ledger.read(key) == content, "what was committed is never drawn again"
        parts_before = {key: ledger.read(key) or b"" for key in ledger.keys}
        assert bool(parts_before) == bool(ledger.entries), "neither is there without the other"
        if not is_committed:
            break
    else:
        pytest.fail("twenty kills were not enough")
    report = train(plan, output_dir=folder)
    ledger = Ledger.stored(path, data=DIGEST)
    assert len(ledger.entries) == 1
    assert report.privacy.epsilon >= ledger.epsilon
    assert all(ledger.read(key) == content for key, content in parts_before.items())
    assert not list(folder.rglob("*.db")), "it has no ledger of its own"


@pytest.mark.parametrize("run_name", RUNS)
def test_noise_has_no_secret_on_disk_and_is_drawn_afresh(
    run_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed before its first commit draws other noise when continued.

    No file of the run has "noise" in its name, and the only secret on disk is the one of training.
    """
    folder = tmp_path / "run"
    drawn = list[bytes]()

    def insert_and_die(self: Store, db: Any, *, stored_content: bytes, **_: object) -> Any:
        drawn.append(stored_content)
        raise Killed

    monkeypatch.setattr(Store, "_insert", insert_and_die)
    for _ in range(2):
        with pytest.raises(Killed):
            train(plan_of(run_name), output_dir=folder)
        assert not list(folder.rglob("*noise*"))
        assert [path.name for path in folder.rglob("*.secret")] == ["training.secret"]
    assert drawn[0] != drawn[1]


def test_no_result_is_shown_before_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of 50 queries a round shows only the first round if it is killed before the second is committed."""
    folder = tmp_path / "run"
    monitor = SilentMonitor()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, commit_number=1, is_committed=False)
        train(plan_of(run_name="session"), output_dir=folder, monitor=monitor)
    rounds = [key for key in account_in_ledger_of(folder).keys if ":round-" in key]
    assert len([note for note in monitor.notes if note]) == len(rounds) == 1


def test_a_round_is_released_around_one_sum_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed between rounds, and its copy, draw different noise if they continue with two ledgers.

    A round releases a sum of votes with noise. Only the two parts that were committed before the copy are equal. The
    same noise around two different sums would disclose their difference.
    """
    folder = tmp_path / "here" / "run"
    copy = tmp_path / "there" / "run"
    plan = plan_of(run_name="rounds")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, commit_number=1, is_committed=True)
        train(plan, output_dir=folder)
    shutil.copytree(folder.parent, copy.parent)
    train(plan, output_dir=folder)
    train(replace(plan, ledger=ledger_beside(run_folder=copy)), output_dir=copy)
    first, second = (
        {key: account_in_ledger_of(each).read(key) for key in account_in_ledger_of(each).keys}
        for each in (folder, copy)
    )
    equal_keys = [key for key in first if first[key] == second[key]]
    assert len(equal_keys) == 2, (
        "what was committed before the copy; after it both draw noise of their own"
    )
    assert len(first) == 8


@pytest.mark.parametrize("run_name", RUNS)
def test_copies_are_one_release_until_they_draw_again(run_name: str, tmp_path: Path) -> None:
    """Copies of a run with a common ledger have one release and one charge.

    With `redraw=true` each copy draws a release of its own, which is charged.
    """
    ledger = tmp_path / "all.db"
    plan = replace(plan_of(run_name), ledger=ledger)
    run_until(plan, folder=tmp_path / "a", stage="releasing labels")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for copy_name in ("a", "b"):
        train(plan, output_dir=tmp_path / copy_name)
    assert release_bytes_of_run(run_folder=tmp_path / "a") == release_bytes_of_run(
        run_folder=tmp_path / "b"
    )
    assert num_charges(ledger) == 1
    for copy_name in ("c", "d"):
        folder = copy_without_report(folder=tmp_path / "a", copy_folder=tmp_path / copy_name)
        shutil.rmtree(folder / "release")
        train(replace(plan, redraw=True), output_dir=folder)
    releases = {
        release_bytes_of_run(run_folder=tmp_path / copy_name) for copy_name in ("a", "c", "d")
    }
    assert len(releases) == 3
    assert [entry.draw for entry in SharedLedger.stored(ledger).entries] == [1, 2, 3]


@pytest.mark.parametrize("run_name", RUNS)
def test_copies_that_drew_in_two_ledgers_are_charged_each_in_a_third(
    run_name: str, tmp_path: Path
) -> None:
    """Two copies of a run that drew different releases, with two ledgers, are two charges in a third ledger.

    The releases do not change.
    """
    run_until(plan_of(run_name), folder=tmp_path / "a" / "run", stage="releasing labels")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    folders = [tmp_path / copy_name / "run" for copy_name in ("a", "b")]
    for folder in folders:
        run_until_released(
            plan=replace(plan_of(run_name), ledger=ledger_beside(run_folder=folder)), folder=folder
        )
    releases = [release_bytes_of_run(folder) for folder in folders]
    assert releases[0] != releases[1]
    for folder in (*folders, *folders):
        train(replace(plan_of(run_name), ledger=tmp_path / "all.db"), output_dir=folder)
        (folder / "report.json").unlink()
    assert num_charges(ledger=tmp_path / "all.db") == 2
    assert [release_bytes_of_run(folder) for folder in folders] == releases


@pytest.mark.parametrize("is_release_lost", [False, True])
def test_a_committed_release_is_written_again_for_free(
    is_release_lost: bool, run: Run, tmp_path: Path
) -> None:
    """A run that lost its report, or report and release, writes them again with the same bytes and no new charge."""
    run_name, finished_folder, epsilon = run
    folder = copy_with_ledger(finished_folder, copy_folder=tmp_path / "copy")
    if is_release_lost:
        shutil.rmtree(folder / "release")
    plan = plan_of(run_name)
    assert train(plan, output_dir=folder).privacy.epsilon == epsilon
    assert contents(folder=folder / "release") == contents(folder=finished_folder / "release")
    assert (
        ledger_beside(run_folder=folder).read_bytes() == ledger_beside(finished_folder).read_bytes()
    )


def test_a_redrawn_release_costs_two_draws(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that lost its release and has `redraw=true` draws another one, for the price of two draws.

    The ledger has two charges. If it is replaced with the ledger of one charge, the run is refused. The first draw has
    paid for all queries, so the curve of epsilon begins at no less than the price of one draw. The report states the
    failure probability of both draws, and for a session the price of both under plain composition.
    """
    run_name, finished_folder, epsilon = run
    privacy_of_one_draw = train(plan_of(run_name), output_dir=finished_folder).privacy
    folder = copy_with_ledger(finished_folder, copy_folder=tmp_path / "copy")
    ledger = ledger_beside(run_folder=folder)
    ledger_of_one_draw = ledger.read_bytes()
    plan = replace(plan_of(run_name), redraw=True)
    plan_without_redraw = replace(plan, redraw=False)
    shutil.rmtree(folder / "release")
    first_monitor = run_until(plan, folder, stage="releasing labels")
    # the second draw was asked for once, by the first of the two
    second_monitor = run_until(plan_without_redraw, folder, stage="training the student")
    assert release_bytes_of_run(folder) != release_bytes_of_run(finished_folder), (
        "the noise is fresh"
    )
    assert any("redraw=true" in line for line in (*first_monitor.lines, *second_monitor.lines))
    curves: list[np.ndarray] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            RunWriter,
            "write_queries",
            lambda _, is_answered, epsilon_after_query: curves.append(epsilon_after_query),
        )
        report = train(plan_without_redraw, output_dir=folder)
    [epsilon_after_query] = curves
    assert epsilon_after_query.min() >= epsilon
    if run_name == "labels":
        event = plan.aggregator.event_for(
            num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
        )
        assert report.privacy.epsilon == RdpAccountant().compose(event, count=2).get_epsilon(
            target_delta=1e-5
        )
    assert epsilon < report.privacy.epsilon < 2.001 * epsilon
    assert privacy_of_one_draw.failure_prob is not None
    assert report.privacy.failure_prob == 2 * privacy_of_one_draw.failure_prob
    if privacy_of_one_draw.plain_epsilon is not None:
        assert report.privacy.plain_epsilon is not None
        assert report.privacy.plain_epsilon > 1.2 * privacy_of_one_draw.plain_epsilon
    assert num_charges(ledger) == 2
    assert train(plan, output_dir=folder).privacy == report.privacy, (
        "a release that is there is not drawn again"
    )
    copy = copy_without_report(folder, copy_folder=tmp_path / "twice")
    ledger.write_bytes(ledger_of_one_draw)
    with refused_parameter(
        "ledger",
        value=ledger,
        rule_words=f"the one that {copy / 'release' / 'release.npz'} came from",
    ):
        train(plan_without_redraw, output_dir=copy)


def test_a_seeded_release_is_the_same_in_another_folder_and_on_request(tmp_path: Path) -> None:
    """Seeded runs in two folders have one release and one charge, even with `redraw=true`."""
    plan = replace(plan_of(run_name="rounds"), seed=3, redraw=True)
    report = train(plan, output_dir=tmp_path / "a")
    train(plan, output_dir=tmp_path / "b")
    for name in ("report.json", "release/release.npz"):
        (tmp_path / "b" / name).unlink()
    assert train(plan, output_dir=tmp_path / "b").privacy == report.privacy
    assert release_bytes_of_run(run_folder=tmp_path / "a") == release_bytes_of_run(
        run_folder=tmp_path / "b"
    )
    assert num_charges(ledger=tmp_path / "ledger.db") == 1, "they are one release"


class Damage(Protocol):
    """A function that damages the ledger of the run in a folder; `run_name` is the run's name in `RUNS`."""

    def __call__(self, folder: Path, run_name: str) -> None: ...


@contextmanager
def opened_for_damage(folder: Path) -> Iterator[sqlite3.Connection]:
    """Opens the database of a run's ledger without the triggers that protect its lines, and commits the changes."""
    with closing(sqlite3.connect(ledger_beside(run_folder=folder))) as db:
        for trigger in ("charges_stay", "charges_are"):
            db.execute(f"DROP TRIGGER {trigger}")
        yield db
        db.commit()


def damage_by_sql(statement: str) -> Damage:
    """Returns a function that executes an SQL statement in the database of a ledger without its triggers."""

    def damage(folder: Path, run_name: str) -> None:
        with opened_for_damage(folder) as db:
            db.execute(statement)

    return damage


def set_back_by_one_line(folder: Path, run_name: str) -> None:
    """Removes the last line of a run's ledger, and sets back the head, the stored number and digest of that line."""
    with opened_for_damage(folder) as db:
        ((num_lines,),) = db.execute("SELECT max(number) FROM line").fetchall()
        db.execute("DELETE FROM line WHERE number = ?", (num_lines,))
        db.execute(
            "UPDATE head SET (number, digest) = (SELECT number, digest FROM line WHERE number = ?)",
            (num_lines - 1,),
        )


def set_back_to_no_line(folder: Path, run_name: str) -> None:
    """Removes all lines of a run's ledger, and sets back the head, the stored number and digest of the last line."""
    with opened_for_damage(folder) as db:
        ((settings,),) = db.execute("SELECT settings FROM head").fetchall()
        first_digest = hashlib.sha256(json.dumps(["", settings]).encode()).hexdigest()
        db.execute("DELETE FROM line")
        db.execute("UPDATE head SET number = 0, digest = ?", (first_digest,))


def damage_by_other_run(change_plan: Callable[[Plan], Plan]) -> Damage:
    """Returns a function that replaces the ledger with that of another run, whose plan is changed."""

    def damage(folder: Path, run_name: str) -> None:
        other = folder.parent / "other" / "run"
        run_until_released(change_plan(plan_of(run_name)), folder=other)
        shutil.copy(ledger_beside(run_folder=other), ledger_beside(run_folder=folder))

    return damage


def flip_bit(folder: Path, run_name: str) -> None:
    """Inverts one bit in the text of an event in a run's ledger."""
    content = bytearray(ledger_beside(run_folder=folder).read_bytes())
    position = content.rfind(b"noise_multiplier")
    if position < 0:
        position = content.rfind(b"Event")
    content[position] ^= 1
    ledger_beside(run_folder=folder).write_bytes(bytes(content))


def remove_ledger(folder: Path, run_name: str) -> None:
    """Removes the ledger of a run."""
    ledger_beside(run_folder=folder).unlink()


def empty_ledger(folder: Path, run_name: str) -> None:
    """Makes the ledger of a run empty."""
    ledger_beside(run_folder=folder).write_bytes(b"")


def cut_ledger(folder: Path, run_name: str) -> None:
    """Cuts the ledger of a run off after 6,000 bytes."""
    os.truncate(ledger_beside(run_folder=folder), 6000)


def write_text_in_ledger(folder: Path, run_name: str) -> None:
    """Replaces the ledger of a run with lines of text."""
    ledger_beside(run_folder=folder).write_text("charges\n" * 1000)


CHEAPER = json.dumps({"kind": "GaussianEvent", "noise_multiplier": 1000.0})
DAMAGES: dict[str, Damage] = {
    "gone": remove_ledger,
    "emptied": empty_ledger,
    "cut off": cut_ledger,
    "of text": write_text_in_ledger,
    "one bit": flip_bit,
    "all lines removed": damage_by_sql(statement="DELETE FROM line"),
    "the last line removed, and the head set back": set_back_by_one_line,
    "all lines removed, and the head set back": set_back_to_no_line,
    "a price edited": damage_by_sql(
        statement=f"UPDATE line SET event = '{CHEAPER}' WHERE event != ''"
    ),
    "a release exchanged": damage_by_sql(statement="UPDATE line SET release = x'00'"),
    "of another run": damage_by_other_run(change_plan=partial(replace, target_epsilon=2.0)),
    "of the same run with another seed": damage_by_other_run(change_plan=partial(replace, seed=8)),
}


@pytest.mark.parametrize("run", ["session"], indirect=True)  # a charge and two later parts
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_continues_with_its_own_ledger_alone(run: Run, damage: str, tmp_path: Path) -> None:
    """An unfinished run is refused if its ledger is missing, damaged or another run's.

    The refusal names the ledger. No report is written, and the release does not change.
    """
    run_name, finished_folder, _ = run
    folder = copy_with_ledger(finished_folder, copy_folder=tmp_path / "copy")
    DAMAGES[damage](folder=folder, run_name=run_name)
    before = contents(folder=folder / "release")
    with pytest.raises(InvalidValue) as caught:
        train(plan_of(run_name), output_dir=folder)
    assert caught.value.name == "ledger"
    assert str(caught.value.value).startswith(str(ledger_beside(run_folder=folder)))
    assert not (folder / "report.json").exists()
    assert not (folder / "report.html").exists()
    assert contents(folder=folder / "release") == before


def test_a_ledger_changed_during_training_is_noticed_before_the_report(
    tmp_path: Path,
) -> None:
    """A run is refused before it writes report or card if its ledger loses all lines during training."""
    folder = tmp_path / "out"

    class Damaging(SilentMonitor):
        def stage(self, stage: str, total: int | None = None) -> Any:
            if stage.startswith("training the majority"):
                DAMAGES["all lines removed"](folder=folder, run_name="labels")
            return super().stage(stage, total)

    with refused_parameter("ledger", value=ANY):
        train(plan_of(run_name="labels"), output_dir=folder, monitor=Damaging())
    assert not (folder / "report.json").exists()
    assert not (folder / "release" / "privacy_card.md").exists()


@pytest.mark.parametrize("run", ["labels"], indirect=True)
def test_a_release_that_was_exchanged_is_not_read_back(run: Run, tmp_path: Path) -> None:
    """An unfinished run refuses its file release.npz if the labels in it are inverted."""
    run_name, finished_folder, _ = run
    folder = copy_with_ledger(finished_folder, copy_folder=tmp_path / "copy")
    path = folder / "release" / "release.npz"
    with np.load(path) as release:
        arrays = dict(release)
    arrays["labels"] = ~arrays["labels"]
    np.savez(path, **arrays)
    with refused_parameter(
        "release", value=path, rule_words="the file as it was when the release was drawn"
    ):
        train(plan_of(run_name), output_dir=folder)


class Unpaid(GaussianVotes):
    """An aggregator that draws its release without the given record, which charges the ledger before the first draw."""

    def release(
        self, votes: VoteSource, rng: np.random.Generator, record: ReleaseRecord
    ) -> Release:
        return super().release(votes, rng, MemoryRecord())


class Underpaid(GaussianVotes):
    """An aggregator that draws with less noise than its event states, and charges that event."""

    def release(
        self, votes: VoteSource, rng: np.random.Generator, record: ReleaseRecord
    ) -> Release:
        return GaussianVotes(noise_std=1.0).release(votes, rng, record)


@pytest.mark.parametrize("aggregator_class", [Unpaid, Underpaid])
def test_an_aggregator_that_bypasses_its_record_releases_nothing(
    aggregator_class: type[GaussianVotes], tmp_path: Path
) -> None:
    """A run refuses an aggregator that draws without the given record, or with less noise than its event states.

    The record charges the ledger before the first draw. No release is written.
    """
    folder = tmp_path / "run"
    with refused_parameter("aggregator", value=aggregator_class.__name__):
        train(replace(small_plan(), aggregator=aggregator_class(noise_std=20.0)), output_dir=folder)
    assert not (folder / "release" / "release.npz").exists()


def test_a_run_that_was_killed_does_not_go_on_with_another_aggregator(tmp_path: Path) -> None:
    """A run that was killed before its release is refused if it is continued with another clip of votes."""
    plan = replace(small_plan(), aggregator=ClippedVotes(noise_std=5.0, vote_clip=4))
    run_until(plan, folder=tmp_path / "run", stage="releasing")
    other = replace(plan, aggregator=ClippedVotes(noise_std=5.0, vote_clip=1))
    with refused_parameter(
        "release", value="another", rule_words="the release that this run began with"
    ):
        train(plan=other, output_dir=tmp_path / "run")
