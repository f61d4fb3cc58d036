"""The aggregator's side: folder and number of holders come from the run's configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pate.aggregators import StableTopK
from pate.federated.flower import release_app, rounds_app
from tests.e2e.federated_run import federated_plan, small_release
from tests.e2e.rounds_run import rounds_plan, small_rounds
from tests.e2e.small_run import PrintingMonitor

AGGREGATOR = StableTopK(selection_scale=2.0, test_std=1.0)


def made(context: Any) -> Any:
    said = context.run_config
    plan = federated_plan(AGGREGATOR, int(said["holders"]))
    folder = Path(str(said["folder"]))
    return small_release(plan, folder, int(said["holders"]), max_absent=int(said["max-absent"]))


def made_in_rounds(context: Any) -> Any:
    said = context.run_config
    holders = int(said["holders"])
    return small_rounds(rounds_plan(holders), Path(str(said["folder"])), holders, max_absent=int(said["max-absent"]))


SECONDS = float(os.environ.get("SMALL_SECONDS", "120"))
WAIT: dict[str, Any] = {"seconds": SECONDS, "connect_seconds": SECONDS, "monitor": PrintingMonitor()}
app = rounds_app(made_in_rounds, **WAIT) if os.environ.get("SMALL_ROUNDS") else release_app(made, **WAIT)
