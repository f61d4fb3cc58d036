"""The engine that trains teachers, and sums votes in rounds, on the nodes of a Ray cluster."""

import logging
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
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import RoundSums

_ANSWER_SECONDS = 10  # the time that a cluster has for its first answer
# The number of `connected` blocks that are open. They share a connection, which the first of them has made.
_num_blocks = 0


@dataclass(frozen=True)
class RayEngine(Engine):
    """An engine that trains chunks of teachers as tasks of Ray, and sums votes in rounds in actors of Ray.

    It needs the extra `ray`. Only this process writes checkpoints, so the nodes need no shared disk. If a worker or a
    node dies, Ray trains its teachers again on a remaining node. A node that was started here ends with the run, and
    workers end with their node, so none trains teachers beside the next run. Records travel through Ray's object store,
    which writes to the disks of the nodes if memory is short. So all nodes must be trusted with private data.

    Attributes:
        address: the address of an existing cluster, or "auto" for the cluster that this machine belongs to. None uses
            the cluster that the program is connected to. If there is none, a cluster is started on this machine for the
            duration of the call.
        num_workers: the number of actors that sum votes; None starts one for each `num_cpus` free processors, or for
            each free processor if `num_cpus` is below 1.
        chunk_size: the number of teachers in a chunk. With equal chunk sizes, the teachers of all engines have equal
            bytes.
        num_cpus: the number of processors that a task or actor needs, >= 0.
        num_gpus: the number of GPUs that a task needs, >= 0; a fraction lets several tasks share a GPU.
        max_retries: the number of times that a lost task is started again; for votes in rounds, the number of lost
            actors, all together, that are replaced.
        max_in_flight: the greatest number of tasks whose records are in Ray's object store at one time.
    """

    address: str | None = None
    num_workers: int | None = None
    chunk_size: int = 16
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    max_retries: int = 8
    max_in_flight: int = 64

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers of a job on the cluster.

        Raises:
            WorkersLost: the cluster does not answer, or has lost too many workers.
        """
        teacher_index_ranges = job.chunks(self.chunk_size)
        if not teacher_index_ranges:
            return
        require_extra(name="engine", extra="ray", value="ray")
        import ray  # loads slowly, and is optional

        with connected(ray, address=self.address, saved_work_text=job.summary):
            remote_function = ray.remote(_train_on_node).options(
                num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=self.max_retries
            )
            ray_workers = _RayWorkers(
                ray=ray, train_remotely=remote_function.remote, max_running=self.max_in_flight
            )
            try:
                job.run(teacher_index_ranges, workers=ray_workers)
            except ray.exceptions.RayTaskError as error:
                if not isinstance(error.cause, ray.exceptions.RayError):
                    # This is the teacher's own error, without a worker's traceback in the message.
                    raise error.cause from None
                raise self._workers_lost(cause=error, training_job=job) from error
            except ray.exceptions.RayError as error:
                raise self._workers_lost(cause=error, training_job=job) from error

    def round_sums(self, records: RoundRecords) -> RoundSums:
        """Returns an object that sums the votes of each round in actors of the cluster.

        If an actor or a node dies, another actor takes its place, with the same records, up to `max_retries` times in
        all rounds together.

        Raises:
            WorkersLost: the cluster does not answer.
        """
        require_extra(name="engine", extra="ray", value="ray")
        from pate.models.ray_sums import RaySums

        return RaySums(private_records=records, engine=self)

    def _workers_lost(self, *, cause: Exception, training_job: TrainingJob) -> WorkersLost:
        """Returns the error for a lost worker or node of Ray; its message has the number of saved teachers."""
        reason = f"{type(cause).__name__}, after up to {self.max_retries} retries"
        return WorkersLost(f"Ray lost a worker or node ({reason}); {training_job.summary}")


class _RayWorkers:
    """Tasks of Ray that implement the protocol `Workers`."""

    def __init__(self, ray: Any, train_remotely: Any, max_running: int) -> None:
        self._ray = ray
        self._train_remotely = train_remotely
        self.max_running = max_running

    def submit(self, task: ChunkTask) -> Any:
        """Sends a task to the cluster; returns the reference of its result."""
        return self._train_remotely(task)

    def gather(
        self, task_handles: list[Any], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Waits until a task has ended, at most `timeout` seconds.

        Returns the teachers of at most one ended task, which are read lazily, and the references of all other tasks.
        """
        finished, unfinished = self._ray.wait(task_handles, timeout=timeout)
        return map(self._ray.get, finished), unfinished


@contextmanager
def connected(ray: Any, *, address: str | None, saved_work_text: str) -> Iterator[None]:
    """Connects to a cluster for the duration of a `with` block.

    If the program is connected to a cluster already, that cluster is used. Of several blocks that overlap, the last to
    end disconnects.

    Args:
        ray: the package `ray`.
        address: as `RayEngine.address`.
        saved_work_text: a phrase on the work that is saved so far, for an error.

    Raises:
        WorkersLost: the cluster does not answer, or does not start.
    """
    global _num_blocks
    is_connected = ray.is_initialized()
    if is_connected and _num_blocks == 0:
        yield
        return
    if not is_connected:
        _connect(ray, address=address, saved_work_text=saved_work_text)
    _num_blocks += 1
    try:
        yield
    finally:
        _num_blocks -= 1
        if _num_blocks == 0:
            ray.shutdown()


def _connect(ray: Any, *, address: str | None, saved_work_text: str) -> None:
    """Connects this program to the cluster at an address, or starts one on this machine if the address is None.

    Arguments and errors are those of `connected`.
    """
    try:
        # Without an address Ray would use any cluster that it finds.
        _require_answer(address or "local")
        ray.init(
            address or "local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": WORKER_ENVIRONMENT},
        )
    # Ray raises nothing narrower if a process of a starting node dies.
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise WorkersLost(
            f"Ray did not start or answer (engine.address={address}: {reason}); {saved_work_text}"
        ) from error


def _require_answer(address: str) -> None:
    """Raises `OSError` if no cluster answers at `address`, where Ray itself would try for many minutes.

    Only an address with a port is checked.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        cluster_address = (host.strip("[]"), int(port))
        socket.create_connection(cluster_address, timeout=_ANSWER_SECONDS).close()


def _train_on_node(task: ChunkTask) -> dict[int, State]:
    """Trains a chunk in a worker of Ray that ends soon after its node has ended.

    Ray itself takes seconds to end the workers of a node that is gone.
    """
    parent_process_id = os.getppid()
    end_with(
        parent_process_id, node_process_id=int(os.environ.get("RAY_RAYLET_PID", parent_process_id))
    )
    return task()
