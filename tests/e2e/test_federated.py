"""Votes that travel with Flower: the release of `pate-train`, with holders that fail, and with secure aggregation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from pate.pipeline import train
from tests.e2e.federated_run import SmallHolders, federated_plan, small_release
from tests.e2e.simulation import simulate
from tests.e2e.small_run import SilentMonitor

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'pate-multilabel[flower]'")
pytest.importorskip("ray", reason="Flower's simulation needs Ray: pip install 'pate-multilabel[flower]'")

HOLDERS = 12


def release_of_train(aggregator: Aggregator, folder: Path, holders: int = HOLDERS) -> bytes:
    with pytest.raises(KeyboardInterrupt):  # before the student
        train(federated_plan(aggregator, holders), folder / "train", SilentMonitor(stop_at="training the student"))
    return (folder / "train" / "release" / "release.npz").read_bytes()


def fails(name: str) -> None:
    if name == "3":
        raise RuntimeError("record 17 of patient 4711 is broken")


def test_the_release_is_that_of_train_with_the_same_seed(tmp_path: Path) -> None:
    from pate.federated.flower import holder_app, release_app

    plan, monitor = federated_plan(StableTopK(selection_scale=2.0, test_std=1.0), HOLDERS), SilentMonitor()
    app = release_app(small_release(plan, tmp_path, HOLDERS), seconds=300, monitor=monitor)
    simulate(app, holder_app(SmallHolders(tmp_path / "holders", HOLDERS, plan)), HOLDERS)
    found = (tmp_path / "release" / "release" / "release.npz").read_bytes()
    assert found == release_of_train(plan.aggregator, tmp_path)
    assert len((tmp_path / "release" / "ledger.jsonl").read_text().splitlines()) == 2  # a head and one charge


def test_a_holder_that_fails_is_absent_and_nothing_of_its_records_is_said(tmp_path: Path) -> None:
    from pate.federated.flower import holder_app, release_app

    plan, monitor = federated_plan(GaussianVotes(noise_std=1.0), 4), SilentMonitor()
    made = small_release(plan, tmp_path, 4, max_absent=1)
    simulate(
        release_app(made, seconds=300, monitor=monitor),
        holder_app(SmallHolders(tmp_path / "holders", 4, plan, fails)),
        4,
    )
    assert "holder=3: its app failed (RuntimeError)" in monitor.lines
    assert not any("4711" in line for line in monitor.lines)
    terms = json.loads((tmp_path / "release" / "terms.json").read_text())
    assert terms["num_teachers"] == 24
    assert "4711" not in (tmp_path / "inbox" / "collected.json").read_text()
