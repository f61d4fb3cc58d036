"""A release leaves only if the ledger holds its whole price, and a run goes on only as what it began as."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import AutoAccountant, ExactAccountant, GaussianEvent, Ledger
from pate.aggregators import BoundaryTopK, CenteredVotes, ClippedVotes, GaussianVotes, Release, VoteRounds
from pate.pipeline import train
from pate.run.plan import Plan
from pate.run.randomness import Randomness
from pate.student import LowRankStudent
from pate.teachers import KernelTeacher
from pate.validation import InvalidValue
from tests.e2e.small_run import NUM_LABELS, NUM_QUERIES, NUM_TEACHERS, SilentMonitor, small_dataset, small_plan

LEDGER = ("ledger.jsonl", ".ledger.jsonl.head")


@pytest.mark.parametrize("accountant", [None, ExactAccountant])
def test_a_ledger_that_lost_the_first_of_two_charges_is_refused(tmp_path: Path, accountant: Any) -> None:
    """The prevalence was released and kept; without its charge the release would look cheaper than it is."""
    changes = {} if accountant is None else {"accountant": accountant}
    plan = small_plan(
        teacher=KernelTeacher(),
        num_teachers=None,
        aggregator=CenteredVotes(noise_multiplier=1.0, prevalence_share=0.5),
        student=LowRankStudent(),
        target_epsilon=3.0,
        **changes,
    )
    with pytest.raises(KeyboardInterrupt):
        train(plan, tmp_path, SilentMonitor(stop_at="training the student"))
    (tmp_path / "release" / "release.npz").unlink()
    for name in LEDGER:
        (tmp_path / name).unlink()
    with pytest.raises(InvalidValue, match=r"ledger=.*: expected exactly the charges of this release, 2 in all, not 0"):
        train(plan, tmp_path, SilentMonitor())
    assert not (tmp_path / "release" / "release.npz").exists()


class Cheap(GaussianVotes):
    """Charges an eighth of what it releases."""

    def aggregate(self, votes: Any, *, num_teachers: int, rng: Any, ledger: Ledger | None = None) -> Release:
        few = len(votes) // 8
        super().aggregate(votes[:few], num_teachers=num_teachers, rng=rng, ledger=ledger)
        return super().aggregate(votes, num_teachers=num_teachers, rng=np.random.default_rng(), ledger=None)


def test_an_aggregator_that_charges_too_little_releases_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValue, match=r"expected exactly the charges of this release, 1 in all; charge 1 is another"
    ):
        train(small_plan(aggregator=Cheap(noise_std=20.0)), tmp_path, SilentMonitor())
    assert not (tmp_path / "release" / "release.npz").exists()


def test_a_run_that_was_killed_does_not_go_on_with_another_aggregator(tmp_path: Path) -> None:
    """What was gathered for a clip of 4 must not be released at the price of a clip of 1."""
    plan = small_plan(aggregator=ClippedVotes(noise_std=5.0, vote_clip=4))
    with pytest.raises(KeyboardInterrupt):
        train(plan, tmp_path, SilentMonitor(stop_at="releasing"))
    other = replace(plan, aggregator=ClippedVotes(noise_std=5.0, vote_clip=1))
    with pytest.raises(InvalidValue, match=r"release=.*expected the release that this run began with"):
        train(other, tmp_path, SilentMonitor())


CENTERED: dict[str, Any] = {
    "teacher": KernelTeacher(),
    "num_teachers": None,
    "aggregator": CenteredVotes(noise_multiplier=1.0, prevalence_share=0.5),
    "student": LowRankStudent(),
    "target_epsilon": 3.0,
}
SESSION = BoundaryTopK(
    selection_scale=1.0, test_std=0.3, failure_prob=1e-9, target_hits=9, round_size=20, session_delta=1e-5
)
RUNS: dict[str, dict[str, Any]] = {
    "labels": {"aggregator": GaussianVotes(noise_std=10.0)},
    "centered": CENTERED,
    "session": {"aggregator": SESSION, "num_queries": 100},
}


def plan_of(name: str, **changes: Any) -> Plan:
    return small_plan(**({"settings": {"name": name}, "seed": None} | RUNS[name] | changes))


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, float]:
    folder = tmp_path_factory.mktemp("run") / "out"
    return request.param, folder, train(plan_of(request.param), folder, SilentMonitor()).privacy.epsilon


def unfinished(folder: Path, to: Path) -> Path:
    """A copy of a finished run that was stopped before its report."""
    shutil.copytree(folder, to)
    for name in ("report.json", "report.html", "manifest.json"):
        (to / name).unlink()
    return to


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def changed_lines(change: Callable[[list[str]], list[str]]) -> Callable[[Path, str], None]:
    def damage(folder: Path, name: str) -> None:
        path = folder / "ledger.jsonl"
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))

    return damage


def cheaper(lines: list[str]) -> list[str]:
    record = json.loads(lines[-1])
    record["event"] = {"kind": "GaussianEvent", "noise_multiplier": 1000.0}
    return [*lines[:-1], json.dumps(record) + "\n"]


@cache
def digest() -> str:
    return small_dataset().private_digest()


def charged_more(folder: Path, name: str) -> None:
    accountant = small_plan().accountant
    ledger = Ledger(folder / "ledger.jsonl", target_delta=1e-5, accountant=accountant, data=digest())
    ledger.charge(GaussianEvent(50.0), adjacency="replace_one", key="foreign")


def exchanged(**changes: Any) -> Callable[[Path, str], None]:
    """The ledger of another run, whole and sound in itself."""

    def damage(folder: Path, name: str) -> None:
        other = folder.parent / "other"
        with pytest.raises(KeyboardInterrupt):
            train(plan_of(name, **changes), other, SilentMonitor(stop_at="training the student"))
        for file in LEDGER:
            shutil.copy(other / file, folder / file)

    return damage


def without_ledger(folder: Path, name: str) -> None:
    for file in LEDGER:
        (folder / file).unlink()


DAMAGES: dict[str, Callable[[Path, str], None]] = {
    "gone": without_ledger,
    "gone but for its head": lambda folder, _: (folder / "ledger.jsonl").unlink(),
    "emptied": changed_lines(lambda _: []),
    "header alone": changed_lines(lambda lines: lines[:1]),
    "last charge gone": changed_lines(lambda lines: lines[:-1]),
    "first charge gone": changed_lines(lambda lines: [lines[0], *lines[2:]]),
    "last charge twice": changed_lines(lambda lines: [*lines, lines[-1]]),
    "number edited": changed_lines(cheaper),
    "charged for something else": charged_more,
    "of another run": exchanged(target_epsilon=2.0),
    "of the same run with another seed": exchanged(seed=8),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_goes_on_with_no_ledger_but_its_own(run: tuple[str, Path, float], damage: str, tmp_path: Path) -> None:
    name, whole, _ = run
    folder = unfinished(whole, tmp_path / "copy")
    DAMAGES[damage](folder, name)
    before = files_of(folder / "release")
    with pytest.raises(InvalidValue, match=r"^ledger=\S+/copy/ledger\.jsonl.*: expected [^\n]+$"):
        train(plan_of(name), folder, SilentMonitor())
    assert not (folder / "report.json").exists()
    assert not (folder / "report.html").exists()
    assert files_of(folder / "release") == before


@pytest.mark.parametrize("damage", [name for name in DAMAGES if "seed" not in name])
def test_without_what_it_remembers_of_its_payment_the_plan_alone_decides(
    run: tuple[str, Path, float], damage: str, tmp_path: Path
) -> None:
    """As in a folder of an earlier version: the price is the plan's, and the charges are those that it knows of."""
    name, whole, _ = run
    folder = unfinished(whole, tmp_path / "copy")
    (folder / "paid.json").unlink()
    DAMAGES[damage](folder, name)
    with pytest.raises(InvalidValue, match=r"^ledger="):
        train(plan_of(name), folder, SilentMonitor())


def test_an_undamaged_run_goes_on_at_its_price(run: tuple[str, Path, float], tmp_path: Path) -> None:
    name, whole, epsilon = run
    folder = unfinished(whole, tmp_path / "copy")
    assert train(plan_of(name), folder, SilentMonitor()).privacy.epsilon == epsilon
    assert files_of(folder / "release") == files_of(whole / "release")


def test_a_ledger_that_is_changed_while_students_learn_is_noticed_before_the_report(
    run: tuple[str, Path, float], tmp_path: Path
) -> None:
    name, folder = run[0], tmp_path / "out"

    class Damaging(SilentMonitor):
        def stage(self, stage: str, total: int | None = None) -> Any:
            if stage.startswith("training the majority"):
                DAMAGES["last charge gone"](folder, name)
            return super().stage(stage, total)

    with pytest.raises(InvalidValue, match=r"^ledger="):
        train(plan_of(name), folder, Damaging())
    assert not (folder / "report.json").exists()
    assert not (folder / "release" / "privacy_card.md").exists()


def test_a_release_that_is_gone_is_drawn_again_on_request_at_the_price_of_both(
    run: tuple[str, Path, float], tmp_path: Path
) -> None:
    name, whole, epsilon = run
    folder = unfinished(whole, tmp_path / "copy")
    first = (folder / "release" / "release.npz").read_bytes()
    shutil.rmtree(folder / "release")
    with pytest.raises(InvalidValue, match=r"^release=.*release\.npz: expected .* redraw=true .* cost epsilon [\d.]+$"):
        train(plan_of(name), folder, SilentMonitor())
    assert not (folder / "release").exists()
    assert (folder / "ledger.jsonl").read_bytes() == (whole / "ledger.jsonl").read_bytes()
    plan, monitor = plan_of(name, redraw=True), SilentMonitor(stop_at="training the student")
    with pytest.raises(KeyboardInterrupt):
        train(plan, folder, monitor)
    assert (folder / "release" / "release.npz").read_bytes() != first, "the noise is fresh"
    assert any("redraw=true" in line for line in monitor.lines)
    report = train(plan_of(name), folder, SilentMonitor())  # which was asked for once
    if name == "labels":
        event = plan.aggregator.event_for(num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
        assert report.privacy.epsilon == AutoAccountant().compose(event, 2).get_epsilon(1e-5)
    assert epsilon < report.privacy.epsilon < 2.001 * epsilon
    assert len((folder / "ledger.jsonl").read_text().splitlines()) == 2 * _charges(whole) + 1
    assert train(plan, folder, SilentMonitor()).privacy == report.privacy, "a release that is there is not drawn again"


def _charges(folder: Path) -> int:
    return len((folder / "ledger.jsonl").read_text().splitlines()) - 1


def test_a_second_draw_that_was_cut_off_continues_and_a_ledger_of_one_draw_is_not_enough(
    run: tuple[str, Path, float], tmp_path: Path
) -> None:
    name, whole, _ = run
    folder = unfinished(whole, tmp_path / "copy")
    once = (folder / "ledger.jsonl").read_bytes()
    (folder / "release" / "release.npz").unlink()
    with pytest.raises(KeyboardInterrupt):
        train(plan_of(name, redraw=True), folder, SilentMonitor(stop_at="releasing"))
    train(plan_of(name), folder, SilentMonitor())
    twice = unfinished(folder, tmp_path / "twice")
    (twice / "ledger.jsonl").write_bytes(once)
    with pytest.raises(InvalidValue, match=r"^ledger="):
        train(plan_of(name), twice, SilentMonitor())


def test_a_draw_whose_noise_was_lost_on_the_way_is_charged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a power cut, where the secret lay in memory: the prevalence is charged, and was perhaps drawn."""

    def cut_off(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    plan = plan_of("centered")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(VoteRounds, "release", cut_off)
        patch.setattr(CenteredVotes, "aggregate_summary", cut_off)
        train(plan, tmp_path, SilentMonitor())
    Randomness(tmp_path).forget_noise()
    assert _charges(tmp_path) == 1
    with pytest.raises(InvalidValue, match=r"^release=.*its noise is gone: .*redraw=true"):
        train(plan, tmp_path, SilentMonitor())
    report = train(replace(plan, redraw=True), tmp_path, SilentMonitor())
    assert _charges(tmp_path) == 3
    ledger = Ledger.stored(tmp_path / "ledger.jsonl")
    assert ledger.entries[0].event == ledger.entries[1].event != ledger.entries[2].event
    assert report.privacy.epsilon == pytest.approx(ledger.epsilon, rel=1e-12)  # charges in another order
    assert ledger.epsilon > 3.0
    (tmp_path / "report.json").unlink()
    assert train(plan, tmp_path, SilentMonitor()).privacy.epsilon == report.privacy.epsilon


def test_a_seeded_release_that_is_gone_is_the_same_again_and_free(tmp_path: Path) -> None:
    plan = plan_of("centered", seed=3)
    report = train(plan, tmp_path, SilentMonitor())
    released, spent = ((tmp_path / name).read_bytes() for name in ("release/release.npz", "ledger.jsonl"))
    for name in ("report.json", "release/release.npz"):
        (tmp_path / name).unlink()
    assert train(plan, tmp_path, SilentMonitor()).privacy == report.privacy
    assert ((tmp_path / "release/release.npz").read_bytes(), (tmp_path / "ledger.jsonl").read_bytes()) == (
        released,
        spent,
    )


def test_a_release_that_was_exchanged_is_not_read_back(run: tuple[str, Path, float], tmp_path: Path) -> None:
    name, whole, _ = run
    folder = unfinished(whole, tmp_path / "copy")
    path = folder / "release" / "release.npz"
    with np.load(path) as arrays:
        values = dict(arrays)
    np.savez(path, **values | {"labels": ~values["labels"]})
    with pytest.raises(InvalidValue, match=r"^release=.*release\.npz: expected the file as it was when"):
        train(plan_of(name), folder, SilentMonitor())
