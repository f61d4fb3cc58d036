"""`python -m benchmarks.campaign` kills, damages and misuses runs at random; these tests make a few of its attempts."""

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.campaign.__main__ import campaign
from benchmarks.campaign.damage import damage
from benchmarks.campaign.mistakes import call_of, public_calls
from benchmarks.campaign.runs import (
    RUN,
    SETTINGS,
    Kind,
    Truth,
    digests_of_draws,
    find_faults,
    find_unpaid,
    relocate_ledger,
)
from benchmarks.campaign.stops import Kills
from benchmarks.campaign.tally import LOW_PRICE, WRONG_RELEASE
from benchmarks.campaign.warm import Child, warm_up


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Imports the packages of the runs once, so that a run in a forked process starts without delay."""
    warm_up()


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """Returns the folder of a run that nothing disturbed, and its release, charges and price."""
    folder = tmp_path_factory.mktemp("calm") / "run"
    return folder, Truth.from_undisturbed_run(Kind(name="centered"), folder)


@pytest.fixture
def _only_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves only the fastest kind of run in the campaigns."""
    for name in set(SETTINGS) - {"centered"}:
        monkeypatch.delitem(SETTINGS, name)


@pytest.mark.slow
@pytest.mark.usefixtures("_only_the_fastest")
@pytest.mark.parametrize("campaign_name", ["kills", "input"])
def test_a_few_tries_find_no_breach(campaign_name: str) -> None:
    """One attempt of a campaign finds no changed release and no price that is too low, and the summary counts it."""
    tally = campaign(campaign_name, tries=range(1), seed=0)
    assert tally.tries == 1
    assert tally.counts[WRONG_RELEASE] == tally.counts[LOW_PRICE] == 0
    assert campaign_name != "kills" or tally.findings == []
    assert tally.summary().startswith(
        f"{campaign_name}: 1 tries, 0 wrong releases, 0 prices below the truth, "
    )


def test_every_public_name_is_called() -> None:
    """The list of public names to call at random contains four well-known ones.

    The call that `call_of` makes for each name in the list begins with this name.
    """
    calls = public_calls()
    for public_name in (
        ("pate.aggregators", "StableTopK"),
        ("pate.mechanisms", "PeelingTopK"),
        ("pate.accounting", "RdpAccountant"),
        ("pate.accounting.target_charging", "TargetCharging"),
    ):
        assert public_name in calls
    for module_name, public_name in calls:
        call, _ = call_of(module_name, public_name, rng=random.Random(0))
        assert call.startswith(f"{module_name}.{public_name}(")


@pytest.mark.slow
@pytest.mark.usefixtures("_only_the_fastest")
def test_a_run_that_lies_about_its_price_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign finds a price that is too low in a run whose report states half the epsilon."""
    attack = Kills(tmp_path)
    start_run = Kind.start
    assert attack.attempt(random.Random(1)) == []

    def start_run_with_half_the_price(
        kind_of_run: Kind, folder: Path, prepare: Callable[[], None] | None = None
    ) -> Child:
        return start_run(kind_of_run, folder, prepare=_halve_epsilon_in_report)

    monkeypatch.setattr(Kind, "start", start_run_with_half_the_price)
    assert LOW_PRICE in {finding.sort for finding in attack.attempt(random.Random(1))}


def _halve_epsilon_in_report() -> None:
    """Changes `os.replace` in this process so that report.json is written with half its epsilon."""
    replace_file: Any = os.replace

    def replace_halved(source_path: Any, destination_path: Any) -> None:
        if Path(destination_path).name == "report.json":
            report = json.loads(Path(source_path).read_text(encoding="utf-8"))
            report["privacy"]["epsilon"] /= 2
            Path(source_path).write_text(json.dumps(report), encoding="utf-8")
        replace_file(source_path, destination_path)

    os.replace = replace_halved


def test_what_is_wrong_with_a_finished_run_is_found(
    undisturbed_run: tuple[Path, Truth], tmp_path: Path
) -> None:
    """The campaign finds nothing wrong in a finished run.

    If release, ledger, report or card is changed, it finds a wrong release or a price that is too low.
    """
    folder, truth = undisturbed_run
    digests = digests_of_draws(folder)
    assert len(truth.charges) == 1
    assert (
        find_faults(folder, truth, committed_digests=digests, published_release=truth.release)
        == find_unpaid(folder, truth)
        == []
    )

    def sorts_of_findings(
        change_run: Callable[[Path], object],
        *,
        committed_digests: dict[str, str] = digests,
        published: bytes | None = None,
    ) -> set[str]:
        """Returns the sorts of findings in a copy of the run that `change_run` has changed.

        Args:
            change_run: changes the copy, given its folder.
            committed_digests: the digests of the parts that were drawn.
            published: the release that was published before; None if there was none.
        """
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        relocate_ledger(copy)
        change_run(copy)
        findings = [
            *find_faults(
                copy, truth, committed_digests=committed_digests, published_release=published
            ),
            *find_unpaid(copy, truth),
        ]
        shutil.rmtree(copy)
        return {finding.sort for finding in findings}

    def replace_text(file_name: str, old_text: str, new_text: str) -> Callable[[Path], object]:
        return lambda run: (run / RUN / file_name).write_text(
            (run / RUN / file_name).read_text(encoding="utf-8").replace(old_text, new_text)
        )

    def delete_lines(sql_condition: str) -> Callable[[Path], object]:
        """Returns a function that deletes the lines of a run's ledger for which an SQL condition holds."""

        def delete(run: Path) -> None:
            db = sqlite3.connect(run / "ledger.db")
            db.executescript(f"DROP TRIGGER charges_stay; DELETE FROM line WHERE {sql_condition}")
            db.close()

        return delete

    assert sorts_of_findings(
        change_run=lambda run: (run / RUN / "release" / "release.npz").write_bytes(b"other")
    ) == {WRONG_RELEASE}
    assert sorts_of_findings(
        change_run=lambda run: (run / RUN / "release" / "release.npz").unlink()
    ) == {WRONG_RELEASE}
    assert sorts_of_findings(change_run=lambda run: None, published=b"another") == {WRONG_RELEASE}
    assert sorts_of_findings(
        change_run=lambda run: None, committed_digests=digests | {next(iter(digests)): "0"}
    ) == {WRONG_RELEASE}
    parts_after_the_charge, charge = "under != ''", "under = ''"
    assert sorts_of_findings(change_run=delete_lines(sql_condition=parts_after_the_charge)) == {
        WRONG_RELEASE
    }
    assert LOW_PRICE in sorts_of_findings(change_run=delete_lines(sql_condition=charge))
    assert LOW_PRICE in sorts_of_findings(change_run=lambda run: (run / "ledger.db").unlink())
    assert LOW_PRICE in sorts_of_findings(
        change_run=lambda run: damage(
            path=run / "ledger.db",
            kind_of_damage="empty",
            file_of_other_run=folder / "ledger.db",
            rng=random.Random(0),
        )
    )
    assert sorts_of_findings(change_run=lambda run: (run / RUN / "report.json").unlink()) == {
        LOW_PRICE
    }
    assert sorts_of_findings(
        change_run=replace_text(
            file_name="report.json", old_text='"epsilon": ', new_text='"epsilon": 0.00'
        )
    ) == {LOW_PRICE}
    assert sorts_of_findings(
        change_run=replace_text(
            file_name="release/privacy_card.md",
            old_text="| epsilon | 20.00 |",
            new_text="| epsilon | 2.00 |",
        )
    ) == {LOW_PRICE}
