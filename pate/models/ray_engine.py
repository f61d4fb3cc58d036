"""The engine that trains teachers on the nodes of a Ray cluster."""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pate.extras import require_extra
from pate.models.engines import Engine
from pate.models.hyperparameters import require_settings
from pate.models.processes_engine import WORKER_ENVIRONMENT, end_with
from pate.models.teacher import State
from pate.models.training import ChunkTask, TrainingJob, WorkersLost

_ANSWER_SECONDS = 10


@dataclass(frozen=True)
class RayEngine(Engine):
    """Trains chunks of teachers as tasks of Ray (the extra `ray`).

    This process alone writes checkpoints, so nodes need no shared disk. A worker or node that dies costs the teachers
    it was training, which Ray starts again elsewhere. A node started here ends with the run, and workers with their
    node: none trains on beside the next run. Records travel through Ray's object store, which writes to its nodes'
    disks where memory is short: all nodes must be trusted with private data.

    Attributes:
        address: of an existing cluster, or "auto" for the one that this machine belongs to. None uses the cluster that
            the program is connected to, or else starts one on this machine for the length of the call.
        chunk_size: teachers in a batch; equal sizes give equal bytes, as with the other engines.
        num_cpus: processors that a task asks for; > 0.
        num_gpus: GPUs that a task asks for; a fraction lets several tasks share one.
        max_retries: how many times a task that was lost is started again.
        max_in_flight: tasks whose records are with Ray at one time.
    """

    address: str | None = None
    chunk_size: int = 16
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    max_retries: int = 8
    max_in_flight: int = 64

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers; raises `WorkersLost` if Ray does not answer, or loses too many workers."""
        chunks = job.chunks(self.chunk_size)
        if not chunks:
            return
        require_extra("engine", "ray", "ray")
        import ray  # loads slowly, and is optional

        with self._cluster(ray, job):
            remote_function = ray.remote(_train_on_node).options(
                num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=self.max_retries
            )
            workers = _RayTasks(ray, remote_function.remote, max_running=self.max_in_flight)
            try:
                job.run(chunks, workers)
            except ray.exceptions.RayTaskError as error:
                if not isinstance(error.cause, ray.exceptions.RayError):
                    # the teacher's own error, without a worker's traceback in the message
                    raise error.cause from None
                raise self._lost(error, job) from error
            except ray.exceptions.RayError as error:
                raise self._lost(error, job) from error

    @contextmanager
    def _cluster(self, ray: Any, job: TrainingJob) -> Iterator[None]:
        """Runs its body on the cluster that the program is connected to, or connects for its length."""
        if ray.is_initialized():
            yield
            return
        # without an address Ray would look for a cluster of anybody's
        address = self.address or "local"
        try:
            _require_answer(address)
            ray.init(
                address,
                include_dashboard=False,
                log_to_driver=False,
                runtime_env={"env_vars": WORKER_ENVIRONMENT},
            )
        # Ray raises nothing narrower if a process of a starting node dies
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise WorkersLost(
                f"Ray did not start or answer (engine.address={self.address}: {reason}); {job.summary}"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()

    def _lost(self, error: Exception, job: TrainingJob) -> WorkersLost:
        reason = f"{type(error).__name__}, after up to {self.max_retries} retries"
        return WorkersLost(f"Ray lost a worker or node ({reason}); {job.summary}")


class _RayTasks:
    """Tasks of Ray as `Workers`."""

    def __init__(self, ray: Any, train_remotely: Any, max_running: int) -> None:
        self._ray = ray
        self._train_remotely = train_remotely
        self.max_running = max_running

    def submit(self, task: ChunkTask) -> Any:
        """Sends a task to the cluster; returns the reference of its result."""
        return self._train_remotely(task)

    def gather(
        self, handles: list[Any], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Returns the teachers of finished tasks, and the references of the unfinished."""
        finished, unfinished = self._ray.wait(handles, timeout=timeout)
        return map(self._ray.get, finished), unfinished


def _require_answer(address: str) -> None:
    """Raises `OSError` if nobody answers at an address with a port: Ray would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        place = (host.strip("[]"), int(port))
        socket.create_connection(place, timeout=_ANSWER_SECONDS).close()


def _train_on_node(task: ChunkTask) -> dict[int, State]:
    """Trains a chunk in a worker that ends with its node.

    Ray takes seconds to end the worker of a node that is gone; the worker's parent is then another process.
    """
    parent = os.getppid()
    end_with(parent, int(os.environ.get("RAY_RAYLET_PID", parent)))
    return task()
