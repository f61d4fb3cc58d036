"""The aggregator's side: folder and number of holders come from the run's configuration."""

import os
from pathlib import Path
from typing import Any

from pate.federated.flower import release_app
from tests.e2e.federated_run import small_release
from tests.e2e.stages_of_run import deployed_plan

SECONDS = float(os.environ.get("SMALL_SECONDS", "120"))


def made(context: Any) -> Any:
    said = context.run_config
    folder = Path(str(said["folder"]))
    holders = int(said["holders"])
    return small_release(
        deployed_plan(holders), folder, holders, max_absent=int(said["max-absent"])
    )


app = release_app(made, seconds=SECONDS, connect_seconds=SECONDS)
