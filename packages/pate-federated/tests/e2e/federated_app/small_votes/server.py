"""The server's side of the app; folder, number of holders and absences come from the configuration of the run."""

import os
from pathlib import Path
from typing import Any

from pate_federated.flower import release_app
from small_federation.exchange import small_release
from small_federation.stages import deployed_plan

SECONDS = float(os.environ.get("SMALL_SECONDS", "120"))


def make_release(context: Any) -> Any:
    """Returns the server's release, with folder, holders and allowed absences from the run's configuration."""
    settings = context.run_config
    folder = Path(str(settings["folder"]))
    num_holders = int(settings["holders"])
    return small_release(
        deployed_plan(num_holders),
        folder=folder,
        num_holders=num_holders,
        max_absent=int(settings["max-absent"]),
    )


app = release_app(make_release, seconds=SECONDS, connect_seconds=SECONDS)
