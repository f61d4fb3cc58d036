"""A holder's side: where it keeps its teachers is said by its own environment."""

import os
from pathlib import Path

from pate.federated.flower import holder_app
from tests.e2e.federated_run import SmallHolders
from tests.e2e.stages_of_run import deployed_plan

HOLDERS = int(os.environ.get("SMALL_HOLDERS", "3"))

app = holder_app(
    SmallHolders(Path(os.environ.get("SMALL_FOLDER", "holders")), HOLDERS, deployed_plan(HOLDERS))
)
