"""A holder's side: where it keeps its teachers is said by its own environment."""

import os
from pathlib import Path

from pate.aggregators import StableTopK
from pate.federated.flower import holder_app
from tests.e2e.federated_run import SmallHolders, federated_plan

HOLDERS = int(os.environ.get("SMALL_HOLDERS", "3"))
FOLDER = Path(os.environ.get("SMALL_FOLDER", "holders"))

app = holder_app(SmallHolders(FOLDER, HOLDERS, federated_plan(StableTopK(selection_scale=2.0, test_std=1.0), HOLDERS)))
