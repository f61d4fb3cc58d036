"""The aggregator's side: folder and number of holders come from the run's configuration."""

import os
from pathlib import Path
from typing import Any

from pate.aggregators import StableTopK
from pate.federated.flower import release_app
from tests.e2e.federated_run import federated_plan, small_release

SECONDS = float(os.environ.get("SMALL_SECONDS", "120"))


def made(context: Any) -> Any:
    said = context.run_config
    holders = int(said["holders"])
    plan = federated_plan(StableTopK(selection_scale=2.0, test_std=1.0), holders)
    return small_release(plan, Path(str(said["folder"])), holders, max_absent=int(said["max-absent"]))


app = release_app(made, seconds=SECONDS, connect_seconds=SECONDS)
