"""The ServerApp of the aggregator: asks all holders, and releases what they answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pate.federated.federated_release import FederatedRelease
from pate.federated.flower.asking import ask
from pate.federated.flower.messages import ACTION, request_content
from pate.run.progress import Monitor

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp


def release_app(
    release: FederatedRelease | Callable[[Context], FederatedRelease],
    *,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """An app that collects the votes of all holders once and releases them, at one charge.

    Args:
        release: what is asked and released, or a function that makes it from the run's configuration.
        seconds: how long holders have for their answer. Whoever is later is absent.
        connect_seconds: how long to wait for as many nodes as there are holders.
        monitor: told of progress, and who was refused.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        made = release(context) if callable(release) else release
        wait = {"seconds": seconds, "connect_seconds": connect_seconds}
        content = request_content(made.request)
        made.run(lambda: ask(grid, made.roll, content, ACTION, group="votes", **wait), monitor)

    app.main()(main)
    return app
