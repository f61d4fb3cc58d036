"""Sums of votes in rounds over shards in worker processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

from pate.array_types import IntArray
from pate.models.processes_engine import WORKER_ENVIRONMENT, end_with
from pate.models.worker_sums import HeldShard, Worker, WorkerDied, WorkerSums
from pate.votes.round_records import RecordBlock
from pate.votes.round_shard import RoundShard
from pate.votes.round_votes import RoundQuestion

_NO_NUMBERS: Final = None
"""The answer of a worker to a request that asks for no numbers: a shard or a block of records, which it keeps."""


class ProcessSums(WorkerSums):
    """Sums of clipped votes in worker processes, each with one thread and one shard, the records of some teachers.

    Records travel through sockets without names. A worker keeps them in its memory, or in a scratch file without a
    name. It ignores Ctrl-C, and ends with the run, however the run ends.
    """

    def _start(self, empty_shard: RoundShard, *, is_replacement: bool) -> Worker:
        return _WorkerProcess(empty_shard)

    def _reason(self, death: WorkerDied, *, num_deaths: int) -> str:
        cause = "killed, or out of memory: engine=threads takes less"
        return f"worker processes died {num_deaths} times ({death}; {cause})"


@dataclass(frozen=True)
class _Failure:
    """The answer of a worker whose computation raised an error."""

    error: Exception


class _WorkerProcess:
    """A worker process, as a `Worker`: it holds a shard, the records of some teachers.

    Args:
        empty_shard: the shard without records, which `append` adds.
    """

    def __init__(self, empty_shard: RoundShard) -> None:
        self._connection, end_of_worker = Pipe()
        python_path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        connection_descriptor = end_of_worker.fileno()
        worker_code = (
            f"from {__name__} import answer_requests; "
            f"answer_requests({connection_descriptor}, run_process_id={os.getpid()})"
        )
        with end_of_worker:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", worker_code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **WORKER_ENVIRONMENT, "PYTHONPATH": python_path},
                pass_fds=[connection_descriptor],
                start_new_session=True,  # the terminal sends Ctrl-C to the run alone
            )
        weakref.finalize(self, _kill, self._process)
        # The first request is the shard, which the worker only keeps.
        self._ask_worker_process(empty_shard)

    def append(self, record_block: RecordBlock) -> None:
        """Adds the next records of the shard's teachers, in the order of the shard."""
        self._ask_worker_process(record_block)

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of the shard's teachers, `[num_features, num_labels]`, in grid steps."""
        total: IntArray = self._ask_worker_process(question)
        return total

    def end(self) -> None:
        """Kills the process. In a thread that waits for its answer, `WorkerDied` is raised."""
        _kill(self._process)

    def _ask_worker_process(self, request: Any) -> Any:
        """Sends a request to the process; returns its answer, or raises the error of its computation."""
        try:
            self._connection.send(request)
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self.end()
            raise WorkerDied(f"exit code {self._process.returncode}") from error
        if isinstance(answer, _Failure):
            raise answer.error
        return answer


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, and waits until it has ended."""
    process.kill()
    process.wait()


def answer_requests(connection_descriptor: int, *, run_process_id: int) -> None:
    """Answers the requests of a run, in a worker process, until the run ends.

    The first request is a shard without records; `_answer` answers the others.

    Args:
        connection_descriptor: the number of the open file that requests come from.
        run_process_id: the id of the process of the run.
    """
    end_with(run_process_id)
    connection = Connection(connection_descriptor)
    with suppress(EOFError, ConnectionError):
        held_shard = HeldShard(empty_shard=connection.recv())
        connection.send(_NO_NUMBERS)
        while True:
            connection.send(_answer(held_shard, request=connection.recv()))


def _answer(
    held_shard: HeldShard, *, request: RecordBlock | RoundQuestion
) -> IntArray | _Failure | None:
    """Returns the answer of a worker to a request.

    To a question, the answer is the sum of the clipped votes of the shard's teachers. To a block of records, which is
    added to the shard, it is None (`_NO_NUMBERS`). If an error is raised, it is the error in a `_Failure`.
    """
    try:
        if isinstance(request, RoundQuestion):
            return held_shard.total(round_question=request)
        held_shard.append(record_block=request)
    except Exception as error:  # the process of the run raises it
        return _Failure(error)
    return _NO_NUMBERS
