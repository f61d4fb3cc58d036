"""Rounds between holders, without a network: the release of `pate-train`, absences, and servers that are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pate.pipeline import train
from tests.e2e.federated_run import SmallHolders
from tests.e2e.rounds_run import Exchanges, rounds_plan, small_rounds
from tests.e2e.small_run import SilentMonitor, charges


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("train")
    with pytest.raises(KeyboardInterrupt):  # before the student
        train(rounds_plan(), folder / "train", SilentMonitor(stop_at="training the student"))
    return (folder / "train" / "release" / "release.npz").read_bytes()


def test_rounds_of_holders_release_what_train_does(expected: bytes, tmp_path: Path) -> None:
    plan = rounds_plan()
    made = small_rounds(plan, tmp_path)
    exchange = Exchanges(SmallHolders(tmp_path / "holders", 4, plan), made.roll)
    made.run(exchange, SilentMonitor())
    assert exchange.asked == ["opening", "lengths", "shares", "shares", "moments", "moments"]
    assert (tmp_path / "release" / "release" / "release.npz").read_bytes() == expected
    assert len(charges(tmp_path / "release")) == 2  # the prevalence, and all rounds
