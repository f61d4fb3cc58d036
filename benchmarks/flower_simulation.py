"""Flower's simulation, as tests and benchmarks need it: quiet, and without telemetry."""

from __future__ import annotations

import os
import warnings
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def simulate(server_app: Any, client_app: Any, num_nodes: int, *, cpus: int = 2) -> None:
    """Runs both apps with `num_nodes` nodes, at most `cpus` of them at a time."""
    from flwr.simulation import run_simulation

    init = {"num_cpus": cpus, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_simulation(
            server_app,
            client_app,
            num_nodes,
            backend_config={
                "init_args": init,
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
