"""Chunks of teachers spread over a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pate.teachers.engines.engine import Engine, WorkersLost
from pate.teachers.engines.job import Chunk, ChunkTask, TrainingJob, last_loss
from pate.teachers.engines.worker import ONE_THREAD, end_unless
from pate.teachers.teacher import State
from pate.validation import InvalidValue, require_count, require_non_negative

_ENVIRONMENT = {"env_vars": ONE_THREAD}
_ANSWER_S = 10


@dataclass(frozen=True)
class RayEngine(Engine):
    """Trains chunks of teachers as tasks of Ray (optional: `pip install 'pate-multilabel[ray]'`).

    This process alone writes checkpoints, so nodes need no shared disk: each chunk's teachers are saved here as soon
    as they are trained. A worker or node that dies costs the teachers it was training, which Ray starts again
    elsewhere. A node started here ends with the run, and workers with their node: none trains on beside the next run.
    Records travel through Ray's object store, which writes to its nodes' disks where memory is short: all nodes must
    be trusted with private data.

    Attributes:
        address: of an existing cluster, or "auto" for the one that this machine belongs to. None uses the cluster that
            the program is connected to, or else starts one on this machine for the length of the call.
        chunk_size: teachers in a batch; equal sizes give equal bytes, as with the other engines.
        num_cpus: that a task asks for; > 0.
        num_gpus: that a task asks for; a fraction lets several tasks share one.
        max_retries: how many times a task that was lost is started again.
        max_in_flight: tasks whose records are with Ray at one time.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    address: str | None = None
    chunk_size: int = 16
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    max_retries: int = 8
    max_in_flight: int = 64

    def __post_init__(self) -> None:
        require_count("chunk_size", self.chunk_size)
        require_count("max_retries", self.max_retries, minimum=0)
        require_count("max_in_flight", self.max_in_flight)
        require_non_negative("num_cpus", self.num_cpus)
        require_non_negative("num_gpus", self.num_gpus)

    def train(self, job: TrainingJob) -> None:
        """See `Engine.train`; progress is reported in the order in which chunks end."""
        chunks = job.chunks(self.chunk_size)
        if not chunks:
            return
        ray = _ray()
        started_here = not ray.is_initialized()
        if started_here:
            self._connect(ray, job)
        try:
            self._train(ray, job, chunks)
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError) and not isinstance(error.cause, ray.exceptions.RayError):
                raise error.cause from None  # the teacher's own, without a worker's traceback in the message
            found = f"{type(error).__name__}, after up to {self.max_retries} retries"
            raise WorkersLost(f"Ray lost a worker or node ({found}); {job.summary}") from error
        finally:
            if started_here:
                ray.shutdown()

    def _connect(self, ray: Any, job: TrainingJob) -> None:
        """Starts a node or finds the cluster; without an address Ray would look for one of anybody's."""
        try:
            _require_answer(self.address or "local")
            ray.init(self.address or "local", include_dashboard=False, log_to_driver=False, runtime_env=_ENVIRONMENT)
        except Exception as error:  # Ray raises nothing narrower where a process of a starting node dies
            found = str(error).partition("\n")[0] or type(error).__name__
            asked = f"engine.address={self.address}: {found}"
            raise WorkersLost(f"Ray did not start or answer ({asked}); {job.summary}") from error

    def _train(self, ray: Any, job: TrainingJob, chunks: Sequence[Chunk]) -> None:
        """Sends the chunks out and saves what comes back."""
        task = ray.remote(_states).options(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=self.max_retries)
        running: list[Any] = []

        def collect(timeout: float | None = None) -> None:
            done, running[:] = ray.wait(running, timeout=timeout)
            for reference in done:
                states = ray.get(reference)
                job.store.save_chunk(states)
                job.report({index: last_loss(state) for index, state in states.items()})

        for chunk in chunks:
            if running:  # what is trained reaches the disk while others are still sent out
                collect(None if len(running) >= self.max_in_flight else 0)
            running.append(task.remote(job.task(chunk)))
        while running:
            collect()


def _require_answer(address: str) -> None:
    """Knocks at a host and port: where nobody answers, Ray tries for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()


def _states(task: ChunkTask) -> dict[int, State]:
    """Trains a chunk in a worker."""
    _end_with_node(int(os.environ.get("RAY_RAYLET_PID", os.getppid())))
    return task.states()


@cache  # one watching thread per worker
def _end_with_node(raylet: int) -> None:
    """Ends this worker soon after its node, which takes Ray seconds."""
    parent = os.getppid()  # of a node that is not there any more: somebody else, so `raylet` is asked for as well
    end_unless(lambda: os.getppid() == parent and _runs(raylet))


def _runs(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _ray() -> Any:
    """The package, or one line on how to get it."""
    try:
        import ray
    except ImportError as error:
        raise InvalidValue("engine=ray: expected Ray to be installed: pip install 'pate-multilabel[ray]'") from error
    return ray
