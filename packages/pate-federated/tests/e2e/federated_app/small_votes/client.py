"""The holder's side of the app; environment variables name the number of holders, and the folder of their folders."""

import os
from pathlib import Path

from pate_federated.flower import holder_app
from small_federation.exchange import SmallHolders
from small_federation.stages import deployed_plan

NUM_HOLDERS = int(os.environ.get("SMALL_HOLDERS", "3"))

app = holder_app(
    SmallHolders(
        Path(os.environ.get("SMALL_FOLDER", "holders")),
        num_holders=NUM_HOLDERS,
        plan=deployed_plan(NUM_HOLDERS),
    )
)
