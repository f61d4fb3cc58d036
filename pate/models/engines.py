"""How an ensemble is trained: in this process, in several, on a cluster; the same bytes from each."""

import _thread
import os
import signal
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing.resource_tracker import ensure_running
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.device import device_memory
from pate.extras import require_extra
from pate.models.checkpoint import CheckpointStore
from pate.models.networks.network import require_settings
from pate.models.teacher import Shard, Shards, State, Teacher
from pate.threads import one_thread
from pate.validation import require, require_count

# Called in the caller's process with a teacher's index and the losses of its steps, after its checkpoint is on the
# disk.
OnProgress = Callable[[int, NDArray[Any]], None]
Task = Callable[[], dict[int, State]]  # trains a chunk's teachers wherever it is called
Finished = Callable[[list[Any], float], tuple[Iterable[dict[int, State]], Iterable[Any]]]
# the environment of a worker
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
_WATCH_S = 0.1
_ANSWER_S = 10

# Trained teachers wait for a file until it would be so large, or a kill would cost more than so many seconds and such a
# share of the training: so files grow in number as the logarithm of its length, or as the bytes of the states.
_FILE_BYTES = 64 * 2**20
_SAVE_S = 1.0
_SAVE_SHARE = 0.02


def _loss_curve(state: State) -> NDArray[Any]:
    """Takes the losses of a teacher's steps from its state; raises `InvalidValue` where there are none."""
    has_curve = np.size(state.get("loss_curve", ())) > 0
    require(
        has_curve,
        "state",
        ", ".join(state),
        "a state with the array loss_curve, the losses of its steps",
    )
    return state["loss_curve"]


def _trained(
    teacher: Teacher, members: range, shards: Sequence[Shard], seeds: Sequence[int]
) -> dict[int, State]:
    """A chunk's teachers by their index, on one thread, in whatever process."""
    with (
        one_thread(),
        device_memory("a smaller engine.chunk_size or teacher.batch_size takes less"),
    ):
        return dict(zip(members, teacher.fit_many(shards, seeds), strict=True))


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """The teachers that a store is to hold in the end."""

    teacher: Teacher  # the recipe
    shards: Shards  # a teacher's records by its index; taken one chunk at a time
    seeds: Sequence[int]  # one per teacher, 0 <= seed < 2**32
    store: CheckpointStore  # where checkpoints are and go
    on_progress: OnProgress | None = None  # called once per teacher that was missing

    def __post_init__(self) -> None:
        require_count("num_teachers", len(self.seeds))

    @property
    def summary(self) -> str:
        """The line that says how many teachers are there and how many are left to train."""
        total = len(self.seeds)
        return f"{total - len(self.store.missing(total))} of {total} teachers are safe in {self.store.folder}"

    def chunks(self, size: int) -> list[range]:
        """The chunks that lack a teacher, of one where teachers are isolated; first clears what a killed run left."""
        size = 1 if self.teacher.is_isolated else size
        total = len(self.seeds)
        self.store.recover()
        lacking = sorted({index // size for index in self.store.missing(total)})
        return [range(size * chunk, min(size * (chunk + 1), total)) for chunk in lacking]

    def run(
        self,
        chunks: Sequence[range],
        begin: Callable[[Task], Any] = lambda task: task(),
        finished: Finished = lambda begun, _: (begun, ()),
        most: int = 1,
    ) -> None:
        """Has chunks trained, at most so many at a time, and saves and reports the teachers that the store lacks.

        `begin` starts a chunk's task. Of those begun `finished` gives, after so many seconds at most, what is trained
        and the others.
        """
        lacking = set(self.store.missing(len(self.seeds)))
        waiting: dict[int, State] = {}
        running: list[Any] = []
        started = saved = time.monotonic()
        size = 0

        def write() -> None:
            nonlocal saved, size
            curves = {index: _loss_curve(state) for index, state in waiting.items()}
            self.store.save(waiting)
            waiting.clear()
            saved = time.monotonic()
            size = 0
            if self.on_progress is not None:
                for index, losses in curves.items():
                    self.on_progress(index, losses)

        def collect(timeout: float = _SAVE_S) -> None:
            nonlocal size
            done, unfinished = finished(running, timeout)
            for states in done:
                wanted_states = {
                    index: state for index, state in states.items() if index in lacking
                }
                waiting.update(wanted_states)
                size += sum(
                    array.nbytes for state in wanted_states.values() for array in state.values()
                )
            running[:] = unfinished
            now = time.monotonic()
            # those that wait go to the disk, however long the next ones take
            if waiting and (
                now - saved >= max(_SAVE_S, _SAVE_SHARE * (now - started)) or size >= _FILE_BYTES
            ):
                write()

        try:
            for members in chunks:
                if running:  # what is trained comes back while others are still sent out
                    collect(0)
                while len(running) >= most:
                    collect()
                shards = [self.shards[index] for index in members]
                seeds = [self.seeds[index] for index in members]
                running.append(begin(partial(_trained, self.teacher, members, shards, seeds)))
            while running:
                collect()
        finally:
            write()


class WorkersLost(ChildProcessError, RuntimeError):
    """Processes that trained teachers died, more often than the engine replaces them; what was saved is safe."""


class Engine(ABC):
    """A way to train the teachers that a store lacks; a setting outside its range raises `InvalidValue`.

    Formal guarantees:
        * Teachers are trained in chunks fixed by their index: chunk c holds teachers c*C … (c+1)*C-1. A
          chunk with a missing member is trained again as a whole, so a killed run, started again, ends with
          the same bytes as one that was not. Files already there are not touched. Teachers that
          are isolated (`Teacher.is_isolated`) are chunks of one.
        * A chunk's teachers reach the disk in one step. They wait for others no longer than a second or a fiftieth of
          the training, so that SIGKILL costs no more; whatever else ends a run, nothing is trained again.
        * Engines with equal chunk size give equal bytes on one kind of machine: each chunk is computed on
          one thread, in whatever process. With another chunk size teachers agree up to rounding.
        * Whatever ends a run (a signal, a dead worker, an error in one teacher), the teachers reported
          before are in the store.
    """

    @abstractmethod
    def train(self, job: TrainingJob) -> None:
        """Trains and saves the teachers that the job's store lacks; raises `WorkersLost` or `DeviceFull`."""


@dataclass(frozen=True)
class StackedEngine(Engine):
    """Trains a chunk of teachers at a time in this process, by batched matrix products: the way for a GPU.

    Attributes:
        chunk_size: teachers in a batch. On a CPU more than fit its cache are slower; a GPU likes hundreds.
    """

    chunk_size: int = 16

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the shards that lack a state, many in one batch of one process."""
        job.run(job.chunks(self.chunk_size))


@dataclass(frozen=True)
class SequentialEngine(StackedEngine):
    """Trains teachers one at a time in this process: the least memory, and the reference for the others."""

    chunk_size: int = field(default=1, init=False)


@dataclass(frozen=True)
class ProcessesEngine(Engine):
    """Trains a chunk of teachers in each of several processes, one thread each.

    Each record is sent to one worker, and each teacher back, through a pipe, never through a file. A script needs no
    `if __name__ == "__main__"` guard. A worker that dies costs the teachers in work at that moment, and the run goes on
    with new workers; workers of a run that was killed end themselves.

    Attributes:
        num_workers: processes; None for as many as there are cores to this process.
        chunk_size: teachers in a batch; with that of `StackedEngine` the checkpoints are the same bytes.
        max_deaths: how many times workers may die before the run gives up.
    """

    num_workers: int | None = None
    chunk_size: int = 16
    max_deaths: int = 2

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the shards that lack a state, in processes of this machine."""
        for deaths in range(self.max_deaths + 1):
            try:
                self._train(job, job.chunks(self.chunk_size))
                return
            except BrokenProcessPool as error:
                if deaths == self.max_deaths:
                    cause = "killed, or out of memory: a smaller engine.num_workers or engine.chunk_size takes less"
                    raise WorkersLost(
                        f"worker processes died {deaths + 1} times ({cause}); {job.summary}"
                    ) from error

    def _train(self, job: TrainingJob, waiting: list[range]) -> None:
        from joblib import cpu_count  # loads slowly

        # its own: the shared one is of another kind in joblib
        from joblib.externals.loky import ProcessPoolExecutor

        num_workers = min(self.num_workers or cpu_count(), max(len(waiting), 1))
        with _interrupts_held():
            executor = ProcessPoolExecutor(
                num_workers, env=_ONE_THREAD, initializer=_end_without, initargs=(os.getpid(),)
            )
        left = True

        def begin(task: Task) -> Any:
            with _interrupts_held():
                return executor.submit(task)

        def finished(running: list[Any], timeout: float) -> Any:
            done, unfinished = wait(running, timeout, FIRST_COMPLETED)
            # the finished before an error
            ordered = sorted(done, key=lambda one: one.exception() is not None)
            return (future.result() for future in ordered), unfinished

        try:
            # one chunk waits, the others are in work
            job.run(waiting, begin, finished, num_workers + 1)
            left = False
        finally:
            # its thread may look for a task that was just dropped with the others, and would print a traceback
            before, threading.excepthook = threading.excepthook, lambda _: None
            try:
                executor.shutdown(wait=True, kill_workers=left)
            finally:
                threading.excepthook = before


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Workers that start meanwhile leave signals to this process, which answers them a moment later and stops them."""
    ensure_running()  # a tracker that starts with the first worker would let Ctrl-C through again
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache  # one watching thread for each worker
def _end_without(parent: int, node: int | None = None) -> None:
    """Ends this process soon after its parent, or another one, so that it never trains what the next run trains too."""

    def watch() -> None:
        while os.getppid() == parent:
            with suppress(PermissionError):  # another user's
                try:
                    os.kill(node or parent, 0)
                except ProcessLookupError:
                    break
            time.sleep(_WATCH_S)
        os._exit(1)

    # threading's would wait for ever for one that finds no memory to begin with
    _thread.start_new_thread(watch, ())


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
        num_cpus: that a task asks for; > 0.
        num_gpus: that a task asks for; a fraction lets several tasks share one.
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
        """Trains the shards that lack a state, on the nodes of a Ray cluster."""
        chunks = job.chunks(self.chunk_size)
        if not chunks:
            return
        require_extra("engine", "ray", "ray")
        import ray  # loads slowly, and is optional

        if started_here := not ray.is_initialized():
            # without one Ray would look for a cluster of anybody's
            address = self.address or "local"
            host, _, port = address.removeprefix("ray://").rpartition(":")
            try:
                if port.isdigit():  # where nobody answers, Ray tries for many minutes
                    socket.create_connection(
                        (host.strip("[]"), int(port)), timeout=_ANSWER_S
                    ).close()
                environment = {"env_vars": _ONE_THREAD}
                ray.init(
                    address, include_dashboard=False, log_to_driver=False, runtime_env=environment
                )
            # Ray raises nothing narrower where a process of a starting node dies
            except Exception as error:
                reason = str(error).partition("\n")[0] or type(error).__name__
                asked = f"engine.address={self.address}: {reason}"
                raise WorkersLost(
                    f"Ray did not start or answer ({asked}); {job.summary}"
                ) from error
        begin = (
            ray.remote(_on_node)
            .options(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=self.max_retries)
            .remote
        )

        def finished(running: list[Any], timeout: float) -> Any:
            done, unfinished = ray.wait(running, timeout=timeout)
            return map(ray.get, done), unfinished

        try:
            job.run(chunks, begin, finished, self.max_in_flight)
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError) and not isinstance(
                error.cause, ray.exceptions.RayError
            ):
                # the teacher's own, without a worker's traceback in the message
                raise error.cause from None
            reason = f"{type(error).__name__}, after up to {self.max_retries} retries"
            raise WorkersLost(f"Ray lost a worker or node ({reason}); {job.summary}") from error
        finally:
            if started_here:
                ray.shutdown()


def _on_node(task: Task) -> dict[int, State]:
    """Ends with its node, which takes Ray seconds; the parent of a node that is gone is somebody else."""
    _end_without(os.getppid(), int(os.environ.get("RAY_RAYLET_PID", os.getppid())))
    return task()
