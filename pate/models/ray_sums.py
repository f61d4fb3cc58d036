"""Sums of votes in rounds over shards in actors of a Ray cluster."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pate.array_types import IntArray
from pate.models.processes_engine import end_with
from pate.models.ray_engine import RayEngine, connected
from pate.models.worker_sums import SAVED_ROUNDS, HeldShard, Worker, WorkerDied, WorkerSums
from pate.votes.round_records import RecordBlock, RoundRecords
from pate.votes.round_shard import RoundShard
from pate.votes.round_votes import RoundQuestion


class RaySums(WorkerSums):
    """Sums of clipped votes in actors of a cluster, each with one thread and one shard, the records of some teachers.

    Records travel through Ray's object store when an actor is filled. In a round an actor gets the student's weights
    and returns as many whole numbers. An actor keeps its records in its memory, or in a scratch file without a name on
    its node. It ends with the run.

    If an actor or its node dies, another actor takes its place on a remaining node. That actor requests no processor,
    as each remaining processor may have an actor already.

    Args:
        private_records: the private records of all teachers.
        engine: the settings of the cluster.
    """

    def __init__(self, private_records: RoundRecords, engine: RayEngine) -> None:
        import ray  # loads slowly, and is optional

        self._ray: Any = ray
        self._engine = engine
        self._connection = ExitStack()
        self._connection.enter_context(
            connected(ray, address=engine.address, saved_work_text=SAVED_ROUNDS)
        )
        num_workers = engine.num_workers or self._num_free
        super().__init__(private_records, num_workers=num_workers, max_deaths=engine.max_retries)

    def close(self) -> None:
        """Ends all actors, and disconnects from the cluster, which ends if it was started here (`connected`).

        If the program was connected before, or another `connected` block is open, the connection stays.
        """
        super().close()
        self._connection.close()

    @property
    def _num_free(self) -> int:
        """The number of actors for which the cluster has free processors, at least 1.

        An actor counts as `RayEngine.num_cpus` processors, but as at least one.
        """
        num_free = self._ray.available_resources().get("CPU", 1.0)
        return max(1, int(num_free / max(self._engine.num_cpus, 1.0)))

    def _start(self, empty_shard: RoundShard, *, is_replacement: bool) -> Worker:
        # The folder of the run is on another machine, so features lie in the node's own folder of temporary files.
        empty_shard.feature_storage = replace(empty_shard.feature_storage, folder=None)
        actor_class = self._ray.remote(_Actor).options(
            num_cpus=0 if is_replacement else self._engine.num_cpus,
            scheduling_strategy="SPREAD",
        )
        return _ActorWorker(ray=self._ray, actor=actor_class.remote(empty_shard))

    def _reason(self, death: WorkerDied, *, num_deaths: int) -> str:
        return f"Ray lost a worker or node {num_deaths} times ({death})"


class _Actor(HeldShard):
    """A shard in an actor, which ends soon after its node has ended.

    Ray itself takes seconds to end the workers of a node that is gone.

    Args:
        empty_shard: the shard without records, which `append` adds.
    """

    def __init__(self, empty_shard: RoundShard) -> None:
        parent_process_id = os.getppid()
        end_with(
            parent_process_id,
            node_process_id=int(os.environ.get("RAY_RAYLET_PID", parent_process_id)),
        )
        super().__init__(empty_shard)


class _ActorWorker:
    """An actor that holds a shard, as a `Worker`.

    Args:
        ray: the package `ray`.
        actor: Ray's handle of the actor.
    """

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray = ray
        self._actor = actor

    def append(self, record_block: RecordBlock) -> None:
        """Adds the next records of the shard's teachers, in the order of the shard."""
        self._result(self._actor.append.remote(record_block))

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of the shard's teachers, `[num_features, num_labels]`, in grid steps."""
        total: IntArray = self._result(self._actor.total.remote(question))
        return total

    def end(self) -> None:
        """Kills the actor. In a thread that waits for its answer, `WorkerDied` is raised."""
        self._ray.kill(self._actor)

    def _result(self, result_reference: Any) -> Any:
        """Waits for the result of a method of the actor, and returns it.

        The error of the computation is raised as it is; if the actor or its node is lost, `WorkerDied` is raised.
        """
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(result_reference)
        except exceptions.RayTaskError as error:
            if not isinstance(error.cause, exceptions.RayError):
                raise error.cause from None
            raise WorkerDied(type(error.cause).__name__) from error
        except exceptions.RayError as error:
            raise WorkerDied(type(error).__name__) from error
