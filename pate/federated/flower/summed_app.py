"""The ServerApp that sees the sum of what holders send, and nothing of any single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pate.federated.flower.secure_sum import secure_sum
from pate.federated.summed_release import SummedRelease
from pate.run.progress import Monitor

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp


def summed_app(
    release: SummedRelease | Callable[[Context], SummedRelease],
    *,
    seconds: float = 3600.0,
    connect_seconds: float = 60.0,
    monitor: Monitor | None = None,
) -> ServerApp:
    """An app that has a secure sum made once and releases it, at one charge.

    Args:
        release: what is asked and released, or a function that makes it from the run's configuration.
        seconds: how long holders have for each of the protocol's four steps; training is in the third.
        connect_seconds: how long to wait for all nodes.
        monitor: told of progress.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        made = release(context) if callable(release) else release
        wait = {"seconds": seconds, "connect_seconds": connect_seconds}
        said = {"request": made.request.to_bytes()}
        made.run(lambda: secure_sum(grid, context, made.roll, said, made.terms, **wait), monitor)

    app.main()(main)
    return app
