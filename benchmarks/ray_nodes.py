"""A Ray cluster of two nodes on this machine, one of which can be lost."""

from __future__ import annotations

import contextlib
import os
import signal
from types import TracebackType
from typing import Any

from benchmarks.descendants import children, command_of, descendants


class RayNodes:
    """A cluster of the node that runs connect to and a second node. A context manager, which ends both.

    Attributes:
        address: what `engine.address` takes.
    """

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False},
            shutdown_at_exit=True,
        )
        self._second: Any = self._cluster.add_node(num_cpus=1)
        self.address = str(self._cluster.address)

    def __enter__(self) -> RayNodes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cluster.shutdown()

    def workers(self) -> list[int]:
        """Returns the processes on both nodes that train, or wait for teachers to train."""
        processes = [child for raylet in self._raylets() for child in children(raylet)]
        return [pid for pid in processes if "Agent" not in command_of(pid)]

    def lose_second(self) -> None:
        """Kills all of the second node at once, as a pulled plug would; starts another in its place."""
        (raylet,) = self._pids(self._second)
        for pid in [raylet, *descendants(raylet)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(self._second, allow_graceful=False)
        self._second = self._cluster.add_node(num_cpus=1)

    def _raylets(self) -> list[int]:
        return [pid for node in (self._cluster.head_node, self._second) for pid in self._pids(node)]

    @staticmethod
    def _pids(node: Any) -> list[int]:
        return [entry.process.pid for entry in node.all_processes["raylet"]]
