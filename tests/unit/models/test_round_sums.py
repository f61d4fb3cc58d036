"""Sums of votes in rounds by worker processes, Ray actors and a GPU: they equal those of threads, also after deaths."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.ray_nodes import RayNodes
from pate.array_types import IntArray
from pate.device import torch
from pate.models import Engine, ProcessesEngine, RayEngine, StackedEngine, ThreadsEngine
from pate.models.gpu_sums import GpuSums
from pate.models.training import WorkersLost
from pate.models.worker_sums import WorkerSums
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import RoundSums, ThreadSums
from pate.votes.round_votes import RoundQuestion
from tests.refusals import refused_parameter
from tests.unit.models.small_rounds import deadly_question, question_of, records_of


def moment_sum_of_threads(private_records: RoundRecords, question: RoundQuestion) -> IntArray:
    """Returns the sum of a round in the threads of this process."""
    return ThreadSums(private_records).total(question)


@pytest.fixture
def close_at_test_end() -> Iterator[Callable[[RoundSums], RoundSums]]:
    """Returns a function that takes and returns an object that sums votes, and closes it when the test ends."""
    open_summers: list[RoundSums] = []

    def close_at_end(vote_summer: RoundSums) -> RoundSums:
        open_summers.append(vote_summer)
        return vote_summer

    yield close_at_end
    for vote_summer in open_summers:
        vote_summer.close()


CloseAtEnd = Callable[[RoundSums], RoundSums]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 3])
def test_processes_sum_votes_to_the_numbers_of_threads(
    num_workers: int, close_at_test_end: CloseAtEnd
) -> None:
    """The sums of two rounds in one or three processes are those of threads.

    Teachers have 1 to 70 records and random weights. With three processes, labels have gaps.
    """
    records = records_of(are_teachers_weighted=True, labels_have_gaps=num_workers == 3)
    vote_summer = close_at_test_end(ProcessesEngine(num_workers=num_workers).round_sums(records))
    for question in (
        question_of(round_records=records),
        question_of(round_records=records, vote_clip=3.0),
    ):
        np.testing.assert_array_equal(
            vote_summer.total(question),
            moment_sum_of_threads(private_records=records, question=question),
        )


@pytest.mark.process
@pytest.mark.slow
def test_a_process_killed_in_a_round_is_replaced(
    tmp_path: Path, close_at_test_end: CloseAtEnd
) -> None:
    """If a worker is killed while it computes its part of a round, the round has the sum of threads."""
    records = records_of()
    vote_summer = close_at_test_end(ProcessesEngine(num_workers=2).round_sums(records))
    question = question_of(round_records=records)
    vote_summer.total(question)
    marker_file = tmp_path / "died"
    moment_sum = vote_summer.total(deadly_question(question=question, marker_file=str(marker_file)))
    assert marker_file.exists()
    np.testing.assert_array_equal(
        moment_sum, moment_sum_of_threads(private_records=records, question=question)
    )


class CountedInputs:
    """Inputs that call a function when they are read for the third time.

    Args:
        inputs: float32 `[num_records, ...]`.
        on_third_read: the function.
    """

    def __init__(self, inputs: Any, on_third_read: Callable[[], object]) -> None:
        self._inputs = inputs
        self.shape = inputs.shape
        self._on_third_read = on_third_read
        self._num_read = 0

    def __getitem__(self, rows: Any) -> Any:
        """Returns rows."""
        self._num_read += 1
        if self._num_read == 3:
            self._on_third_read()
        return self._inputs[rows]


@pytest.mark.process
@pytest.mark.slow
def test_a_process_killed_while_it_is_filled_gets_all_records_again(
    close_at_test_end: CloseAtEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a worker is killed when it has two of three blocks of records, the round has the sum of threads."""
    monkeypatch.setattr("pate.votes.round_records._BLOCK_BYTES", 60 * 16)  # 60 rows
    records = records_of()

    def kill_worker() -> None:
        assert isinstance(vote_summer, WorkerSums)
        (slot,) = vote_summer._worker_slots
        assert slot.worker is not None
        slot.worker.end()

    counted_inputs = CountedInputs(inputs=records.inputs, on_third_read=kill_worker)
    counted_records = replace(records, inputs=counted_inputs)
    vote_summer = close_at_test_end(ProcessesEngine(num_workers=1).round_sums(counted_records))
    question = question_of(round_records=records)
    np.testing.assert_array_equal(
        vote_summer.total(question),
        moment_sum_of_threads(private_records=records, question=question),
    )


@pytest.mark.process
@pytest.mark.slow
def test_processes_that_die_too_often_end_the_run_in_one_line(
    close_at_test_end: CloseAtEnd,
) -> None:
    """If each worker dies in the round, an `OSError` of one line counts the deaths."""
    records = records_of()
    vote_summer = close_at_test_end(
        ProcessesEngine(num_workers=1, max_deaths=1).round_sums(records)
    )
    rule = (
        r"^worker processes died 2 times \(exit code -9; killed, or out of memory: engine=threads takes less\); "
        r"rounds that were drawn are in the ledger, and are not drawn again$"
    )
    with pytest.raises(WorkersLost, match=rule) as raised:
        vote_summer.total(deadly_question(question=question_of(round_records=records)))
    assert isinstance(raised.value, OSError)  # Commands print such an error in one line.


@pytest.mark.process
@pytest.mark.slow
def test_an_error_in_a_process_is_raised_here_under_its_name(close_at_test_end: CloseAtEnd) -> None:
    """A record with NaN, which a worker process finds, is refused by the process that asked, in two calls."""
    records = records_of()
    records.inputs[5, 1] = np.nan
    vote_summer = close_at_test_end(ProcessesEngine(num_workers=1).round_sums(records))
    for _ in range(2):
        with refused_parameter("inputs", value="NaN or infinity"):
            vote_summer.total(question_of(round_records=records))


@pytest.mark.process
@pytest.mark.slow
def test_a_round_after_an_interrupted_one_gets_its_own_answer(
    close_at_test_end: CloseAtEnd,
) -> None:
    """After a round was interrupted while a worker was paused, the next round has the sum of its own question."""
    records = records_of()
    vote_summer = close_at_test_end(ProcessesEngine(num_workers=2).round_sums(records))
    assert isinstance(vote_summer, WorkerSums)
    vote_summer.total(question_of(round_records=records))
    worker: Any = vote_summer._worker_slots[0].worker
    for number in range(5):
        os.kill(worker._process.pid, signal.SIGSTOP)
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            vote_summer.total(question_of(round_records=records, vote_clip=3.0))
        threading.Timer(0.1, os.kill, [worker._process.pid, signal.SIGCONT]).start()
        question = question_of(round_records=records, student_weight_std=number + 2.0)
        np.testing.assert_array_equal(
            vote_summer.total(question),
            moment_sum_of_threads(private_records=records, question=question),
        )


@pytest.mark.process
@pytest.mark.slow
def test_closed_sums_have_no_process_left(close_at_test_end: CloseAtEnd) -> None:
    """If the object that sums votes is closed in the middle of a round, the round fails and its worker has ended."""
    records = records_of()
    entered = threading.Event()
    may_go_on = threading.Event()

    def wait_until_closing() -> None:
        entered.set()
        assert may_go_on.wait(timeout=60)

    counted_inputs = CountedInputs(inputs=records.inputs, on_third_read=wait_until_closing)
    counted_records = replace(records, inputs=counted_inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pate.votes.round_records._BLOCK_BYTES", 60 * 16)  # 60 rows
        vote_summer = close_at_test_end(ProcessesEngine(num_workers=1).round_sums(counted_records))
        failures: list[BaseException] = []

        def sum_round() -> None:
            try:
                vote_summer.total(question_of(round_records=records))
            except WorkersLost as error:
                failures.append(error)

        asking = threading.Thread(target=sum_round)
        asking.start()
        assert entered.wait(timeout=60)
        assert isinstance(vote_summer, WorkerSums)
        worker: Any = vote_summer._worker_slots[0].worker
        closing = threading.Thread(target=vote_summer.close)
        closing.start()
        worker._process.wait(timeout=60)
        may_go_on.set()
        closing.join()
        asking.join()
    assert len(failures) == 1
    assert worker._process.returncode == -signal.SIGKILL


ROUNDS_SCRIPT = """
import os, sys, threading, time
import numpy as np
from pate.models import ProcessesEngine
from tests.unit.models.small_rounds import question_of, records_of

records = records_of()
vote_summer = ProcessesEngine(num_workers=2).round_sums(records)
vote_summer.total(question_of(records))
print(*(slot.worker._process.pid for slot in vote_summer._worker_slots), flush=True)
while True:
    vote_summer.total(question_of(records))
"""


def is_running(pid: int) -> bool:
    """Returns True if a process is there and is no zombie."""
    status = Path("/proc", str(pid), "stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "Ctrl-C"])
def test_processes_end_with_a_run_that_ends_in_a_round(signal_number: int, tmp_path: Path) -> None:
    """If a script without a main guard is killed or interrupted in a round, its workers end."""
    script_path = tmp_path / "rounds.py"
    script_path.write_text(ROUNDS_SCRIPT)
    run = subprocess.Popen(
        [sys.executable, str(script_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    assert run.stdout is not None
    worker_ids = [int(word) for word in run.stdout.readline().split()]
    assert len(worker_ids) == 2
    os.killpg(run.pid, signal_number)  # A terminal, too, signals the whole group.
    _, errors = run.communicate(timeout=60)
    assert run.returncode != 0
    # Only the run itself prints a traceback, and no worker.
    num_tracebacks = 1 if signal_number == signal.SIGINT else 0
    assert errors.count("Traceback") == num_tracebacks
    deadline = time.monotonic() + 10
    while any(map(is_running, worker_ids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, worker_ids))
    assert list(tmp_path.iterdir()) == [script_path]


@pytest.mark.parametrize("engine", [ThreadsEngine(), StackedEngine()])
def test_an_engine_of_one_process_without_gpu_sums_in_threads(engine: Engine) -> None:
    """Engines of one process sum in threads if there is no GPU."""
    assert isinstance(engine.round_sums(records_of()), ThreadSums)


def gpu_sums_on_processor(round_records: RoundRecords) -> GpuSums:
    """Returns an object that sums votes by the code for a GPU, with tensors on the CPU."""
    return GpuSums(round_records, device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("are_teachers_weighted", "labels_have_gaps"), [(False, False), (True, False), (True, True)]
)
def test_a_gpu_sums_votes_on_a_student_without_weights_as_threads(
    are_teachers_weighted: bool, labels_have_gaps: bool
) -> None:
    """For a student whose weights are 0, the code for a GPU sums votes of teachers with one record as threads do.

    The sums are equal, as all probabilities are then 1/2 on every machine.
    """
    records = records_of(
        teacher_sizes=(1,) * 50,
        are_teachers_weighted=are_teachers_weighted,
        labels_have_gaps=labels_have_gaps,
    )
    for vote_clip in (0.3, 3.0):
        question = question_of(round_records=records, vote_clip=vote_clip, student_weight_std=0.0)
        moment_sum = gpu_sums_on_processor(round_records=records).total(question)
        np.testing.assert_array_equal(
            moment_sum, moment_sum_of_threads(private_records=records, question=question)
        )


@pytest.mark.parametrize("size", [1, 3, 40])
def test_a_gpu_sums_votes_up_to_rounding(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For teachers of 1, 3 or 40 records, the code for a GPU has the sum of threads up to rounding.

    The length of the difference is at most 0.001 per teacher, times the largest length of a vote (the clip).
    """
    monkeypatch.setattr("pate.models.gpu_sums._MAX_ROWS", 64)
    records = records_of(
        teacher_sizes=(size,) * 9, are_teachers_weighted=True, labels_have_gaps=size == 3
    )
    question = question_of(round_records=records)
    moment_clipping = question.moment_clipping
    gpu_total = gpu_sums_on_processor(round_records=records).total(question)
    gpu_minus_threads = gpu_total - moment_sum_of_threads(
        private_records=records, question=question
    )
    assert np.linalg.norm(gpu_minus_threads * moment_clipping.step) < 9e-3 * moment_clipping.clip


def test_a_gpu_multiplies_a_large_teacher_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is the same if a teacher's records are read in three parts or in one, up to one step.

    A step is the unit in which sums are whole numbers.
    """
    records = records_of(teacher_sizes=(1, 150))
    question = question_of(round_records=records)
    sum_in_one_part = gpu_sums_on_processor(round_records=records).total(question)
    monkeypatch.setattr("pate.models.gpu_sums._MAX_ROWS", 64)
    vote_summer = gpu_sums_on_processor(round_records=records)
    np.testing.assert_allclose(vote_summer.total(question), sum_in_one_part, atol=1)
    vote_summer.close()
    # The tensors are made again for this sum.
    np.testing.assert_allclose(vote_summer.total(question), sum_in_one_part, atol=1)


def test_a_gpu_refuses_votes_with_nan() -> None:
    """A question with NaN in its label scale, a factor of each label, gives votes that are refused."""
    records = records_of()
    question = replace(question_of(round_records=records), label_scale=np.array([np.nan, 1.0, 1.0]))
    with refused_parameter("votes", value="NaN or infinity"):
        gpu_sums_on_processor(round_records=records).total(question)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_records_of_a_lost_node_go_to_another_node() -> None:
    """If one of two nodes of a cluster is killed, the next round has the sum of all records.

    Each node has an actor.
    """
    pytest.importorskip("ray", reason="Ray is an optional dependency: the extra ray")
    records = records_of()
    question = question_of(round_records=records)
    with RayNodes() as nodes:
        vote_summer = RayEngine(address=nodes.address).round_sums(records)
        try:
            before = vote_summer.total(question)
            assert isinstance(vote_summer, WorkerSums)
            assert len(vote_summer._worker_slots) == 2
            nodes.lose_second()
            np.testing.assert_array_equal(vote_summer.total(question), before)
            assert any(slot.has_died for slot in vote_summer._worker_slots)
        finally:
            vote_summer.close()
    np.testing.assert_array_equal(
        before, moment_sum_of_threads(private_records=records, question=question)
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Starts Ray on this machine for a module's tests."""
    ray = pytest.importorskip("ray", reason="Ray is an optional dependency: the extra ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("cluster")
def test_ray_sums_votes_to_the_numbers_of_threads(close_at_test_end: CloseAtEnd) -> None:
    """The sums of two rounds in the actors of a Ray cluster are those of threads.

    Teachers have 1 to 70 records and random weights.
    """
    records = records_of(are_teachers_weighted=True)
    vote_summer = close_at_test_end(RayEngine().round_sums(records))
    for question in (
        question_of(round_records=records),
        question_of(round_records=records, vote_clip=3.0),
    ):
        np.testing.assert_array_equal(
            vote_summer.total(question),
            moment_sum_of_threads(private_records=records, question=question),
        )


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("cluster")
def test_an_actor_killed_in_a_round_is_replaced(
    tmp_path: Path, close_at_test_end: CloseAtEnd
) -> None:
    """If an actor is killed once in a round, the round has the sum of threads. An error counts too many deaths."""
    records = records_of()
    question = question_of(round_records=records)
    vote_summer = close_at_test_end(RayEngine(max_retries=1).round_sums(records))
    marker_file = tmp_path / "died"
    moment_sum = vote_summer.total(deadly_question(question=question, marker_file=str(marker_file)))
    assert marker_file.exists()
    np.testing.assert_array_equal(
        moment_sum, moment_sum_of_threads(private_records=records, question=question)
    )
    with pytest.raises(WorkersLost, match=r"^Ray lost a worker or node [23] times \(Actor\w+\); "):
        vote_summer.total(deadly_question(question=question))
