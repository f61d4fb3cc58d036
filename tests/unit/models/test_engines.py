"""Engines that train teachers give the same bytes, and lose no stored teacher if a process is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed

from pate.device import DeviceFull
from pate.models import (
    CheckpointStore,
    LinearTeacher,
    MLPTeacher,
    ProcessesEngine,
    RayEngine,
    SequentialEngine,
    Shard,
    StackedEngine,
    TrainingJob,
    training,
)
from pate.models.training import WorkersLost
from tests.refusals import refused_parameter

LINEAR = LinearTeacher(device="cpu")
MLP = MLPTeacher(hidden=8, epochs=3, device="cpu")


@pytest.fixture(scope="module")
def ten_shards(make_shards):
    """Returns ten shards of 20 to 22 records."""
    return make_shards(sizes=[20 + index % 3 for index in range(10)])


def train(engine, teacher, shards, folder, on_progress=None):
    """Trains a teacher for each shard with an engine, and returns the store of the teachers.

    Args:
        engine: the engine.
        teacher: the recipe of the teachers.
        shards: the shards of the teachers.
        folder: the folder of the store.
        on_progress: called with the index and the losses of each teacher.
    """
    store = CheckpointStore(folder)
    job = TrainingJob(
        teacher=teacher,
        shards=shards,
        seeds=range(len(shards)),
        store=store,
        on_progress=on_progress,
    )
    engine.train(job)
    return store


def bytes_of_teachers(folder):
    """Returns the shape and bytes of each teacher's arrays by name, in the order of the teachers of a folder's store.

    How teachers are divided among files does not matter.
    """
    return [
        {name: (array.shape, array.tobytes()) for name, array in state.items()}
        for state in states_of_teachers(folder=folder)
    ]


def states_of_teachers(folder):
    """Returns the states of all teachers in the store of a folder."""
    store = CheckpointStore(folder)
    last_teachers = [int(path.stem.split("-")[2]) for path in folder.glob("teachers-*")]
    num_teachers = max(last_teachers) + 1
    missing = store.missing(num_teachers=num_teachers)
    return [store.load(teacher=index) for index in range(num_teachers) if index not in missing]


@pytest.fixture
def saved_after_every_chunk(monkeypatch):
    """Makes a training write a file of teachers after each chunk."""
    monkeypatch.setattr(training, "SAVE_SECONDS", 0)
    monkeypatch.setattr(training, "SAVE_SHARE", 0)


@pytest.mark.process
def test_all_engines_train_the_same_teachers(ten_shards, queries, tmp_path):
    """The stacked engine and worker processes train ten teachers to the same bytes.

    Two engines that train one teacher at a time also agree in all bytes. The confidences of stacked and single teachers
    agree within 1e-5.
    """
    teacher = MLP
    stacked_store = train(
        engine=StackedEngine(chunk_size=4),
        teacher=teacher,
        shards=ten_shards,
        folder=tmp_path / "stacked",
    )
    processes_store = train(
        engine=ProcessesEngine(num_workers=2, chunk_size=4),
        teacher=teacher,
        shards=ten_shards,
        folder=tmp_path / "processes",
    )
    sequential_store = train(
        engine=SequentialEngine(),
        teacher=teacher,
        shards=ten_shards,
        folder=tmp_path / "sequential",
    )
    single_store = train(
        engine=StackedEngine(chunk_size=1),
        teacher=teacher,
        shards=ten_shards,
        folder=tmp_path / "single",
    )
    assert bytes_of_teachers(folder=stacked_store.folder) == bytes_of_teachers(
        folder=processes_store.folder
    )
    assert bytes_of_teachers(folder=sequential_store.folder) == bytes_of_teachers(
        folder=single_store.folder
    )
    for index in range(10):
        stacked_confidences = teacher.predict_many(
            states=[stacked_store.load(teacher=index)], inputs=queries
        )
        sequential_confidences = teacher.predict_many(
            states=[sequential_store.load(teacher=index)], inputs=queries
        )
        np.testing.assert_allclose(stacked_confidences, sequential_confidences, atol=1e-5)
    # The pool that joblib shares still works: the engine has one of its own.
    assert Parallel(n_jobs=2)(delayed(int)(text) for text in "12") == [1, 2]


@pytest.mark.usefixtures("saved_after_every_chunk")
@pytest.mark.parametrize(
    ("engine", "teacher"), [(SequentialEngine(), LINEAR), (StackedEngine(chunk_size=4), MLP)]
)
def test_a_continued_run_ends_with_the_same_teachers(engine, teacher, ten_shards, tmp_path):
    """If one file of ten trained teachers is cut and one is removed, the next call trains these teachers only.

    All teachers are then as before.
    """
    store = train(engine=engine, teacher=teacher, shards=ten_shards, folder=tmp_path)
    before = bytes_of_teachers(folder=tmp_path)
    size = engine.chunk_size
    untouched_file = tmp_path / f"teachers-{0:06d}-{size - 1:06d}.safetensors"
    torn_file = tmp_path / f"teachers-{size:06d}-{2 * size - 1:06d}.safetensors"
    time_of_untouched = untouched_file.stat().st_mtime_ns
    torn_file.write_bytes(torn_file.read_bytes()[:50])
    last_file = max(tmp_path.iterdir())
    last_file.unlink()
    reported_teachers = []

    def report(teacher_index, _losses):
        reported_teachers.append(teacher_index)

    train(engine=engine, teacher=teacher, shards=ten_shards, folder=tmp_path, on_progress=report)
    assert bytes_of_teachers(folder=tmp_path) == before
    assert reported_teachers == ([1, 9] if size == 1 else [4, 5, 6, 7, 8, 9])
    assert untouched_file.stat().st_mtime_ns == time_of_untouched
    assert store.missing(num_teachers=10) == []


def test_each_teacher_is_trained_on_its_own_shard(ten_shards, tmp_path):
    """Each linear teacher's output at the mean of its shard's inputs is the frequency of each label, plus a shift.

    The shift moves the teacher's threshold to 0.5. A training without any teacher is refused.
    """
    with refused_parameter("num_teachers", value=0, rule_words="a whole number >= 1"):
        TrainingJob(teacher=LINEAR, shards=ten_shards, seeds=[], store=CheckpointStore(tmp_path))
    store = train(
        engine=StackedEngine(chunk_size=4), teacher=LINEAR, shards=ten_shards, folder=tmp_path
    )
    for index, shard in enumerate(ten_shards):
        state = store.load(teacher=index)
        at_mean = shard.inputs.mean(axis=0) @ state["weights"] + state["bias"]
        np.testing.assert_allclose(
            at_mean, shard.labels.mean(axis=0) + 0.5 - state["threshold"], atol=1e-5
        )


def test_each_teacher_is_reported_once_after_its_file_is_written(ten_shards, tmp_path):
    """Each of ten teachers is reported once, with its losses, after it is stored.

    The first training fails at the seventh teacher, and a second one continues it.
    """
    reported = {}
    store = CheckpointStore(tmp_path)
    broken = {6}

    def report(teacher_index, step_losses):
        assert teacher_index not in reported
        assert teacher_index not in store.missing(num_teachers=10)
        reported[teacher_index] = step_losses

    class BreakingShards:
        def __getitem__(self, teacher_index):
            if teacher_index in broken:
                raise ValueError("broken record")
            return ten_shards[teacher_index]

    job = TrainingJob(
        teacher=MLP, shards=BreakingShards(), seeds=range(10), store=store, on_progress=report
    )
    with pytest.raises(ValueError, match="broken record"):
        StackedEngine(chunk_size=2).train(job)
    assert store.missing(num_teachers=10) == [6, 7, 8, 9]
    broken.clear()
    # With another chunk size, the missing teachers alone are saved.
    StackedEngine(chunk_size=4).train(job)
    assert sorted(reported) == list(range(10))
    for teacher_index, step_losses in reported.items():
        np.testing.assert_array_equal(step_losses, store.load(teacher=teacher_index)["loss_curve"])


@dataclass(frozen=True)
class LargeTeacher(LinearTeacher):
    """A teacher that does not fit into the memory of the GPU if its seed is 6."""

    def fit_many(self, shards, seeds):
        if 6 in seeds:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. GPU 0")
        return super().fit_many(shards, seeds=seeds)


@pytest.mark.process
def test_a_full_gpu_keeps_earlier_teachers_and_advises_a_smaller_chunk(ten_shards, tmp_path):
    """If the GPU is full at the seventh of ten teachers, the six before stay, and the error advises a smaller chunk."""
    with pytest.raises(
        DeviceFull,
        match=r"out of memory.*9 GiB \(a smaller engine\.chunk_size or teacher\.batch_size",
    ):
        train(
            engine=ProcessesEngine(num_workers=1, chunk_size=2),
            teacher=LargeTeacher(device="cpu"),
            shards=ten_shards,
            folder=tmp_path,
        )
    # The worker may have trained the next teachers, which then stay.
    assert CheckpointStore(tmp_path).missing(num_teachers=8) == [6, 7]


@dataclass(frozen=True)
class DyingTeacher(LinearTeacher):
    """A teacher whose process is killed if its seed is 3: every time, or once if it has a marker file."""

    marker_file: str = ""

    def fit_many(self, shards, seeds):
        if 3 in seeds and not (self.marker_file and Path(self.marker_file).exists()):
            if self.marker_file:
                Path(self.marker_file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit_many(shards, seeds=seeds)


@pytest.mark.process
def test_a_dead_worker_is_reported_and_finished_teachers_stay(ten_shards, tmp_path):
    """If a worker is killed at the fourth teacher, the error counts the stored teachers.

    The next call trains the other teachers.
    """
    engine = ProcessesEngine(num_workers=1, chunk_size=2, max_deaths=0)  # one after another
    rule = r"^worker processes died 1 times \(killed, or out of memory: .* takes less\); \d of 10 teachers are safe"
    with pytest.raises(WorkersLost, match=rule) as raised:
        train(engine=engine, teacher=DyingTeacher(device="cpu"), shards=ten_shards, folder=tmp_path)
    assert isinstance(raised.value, OSError)  # Commands print such an error in one line.
    assert CheckpointStore(tmp_path).missing(num_teachers=10) == list(range(2, 10))
    train(engine=engine, teacher=LINEAR, shards=ten_shards, folder=tmp_path)
    assert CheckpointStore(tmp_path).missing(num_teachers=10) == []


TRAINING_SCRIPT = """
import os, sys, time
import numpy as np
from pate.models import CheckpointStore, LinearTeacher, Shard, ProcessesEngine, TrainingJob
from pathlib import Path

folder = Path(sys.argv[1])

class SlowTeacher(LinearTeacher):
    def fit_many(self, shards, seeds):
        (folder / f"worker-{os.getpid()}").touch()
        time.sleep(0 if seeds[0] < 4 else 60)
        return super().fit_many(shards, seeds=seeds)

rng = np.random.default_rng(0)
shard = Shard(
    inputs=rng.standard_normal((9, 3)).astype(np.float32), labels=rng.random((9, 2)) < 0.5
)
store = CheckpointStore(folder / "teachers")
engine = ProcessesEngine(num_workers=2, chunk_size=2)

def print_teacher(index, losses):
    print(index, flush=True)

engine.train(
    TrainingJob(
        teacher=SlowTeacher(device="cpu"),
        shards=[shard] * 8,
        seeds=range(8),
        store=store,
        on_progress=print_teacher,
    )
)
"""


def start_script(tmp_path):
    """Starts a script that trains eight teachers, the last four slowly, in worker processes; returns its process.

    The script prints the index of each teacher that is stored.
    """
    script_path = tmp_path / "train.py"
    script_path.write_text(TRAINING_SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script_path), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        start_new_session=True,
    )


NO_SIGNALS: tuple[signal.Signals, ...] = ()


@dataclass(frozen=True)
class DeafTeacher(LinearTeacher):
    """A teacher that fails if its process does not block SIGINT."""

    def fit_many(self, shards, seeds):
        if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, NO_SIGNALS):
            raise RuntimeError("a worker hears Ctrl-C, which would end in a traceback of its own")
        return super().fit_many(shards, seeds=seeds)


def train_deaf_workers(folder):
    """Trains ten teachers in workers, and fails unless workers block SIGINT and this process does not."""
    shards = [Shard(inputs=np.eye(4, dtype=np.float32), labels=np.eye(4, dtype=np.bool_))] * 10
    train(
        engine=ProcessesEngine(num_workers=1, chunk_size=5),
        teacher=DeafTeacher(device="cpu"),
        shards=shards,
        folder=Path(folder),
    )
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, NO_SIGNALS)


@pytest.mark.process
def test_workers_ignore_an_interrupt_and_the_run_handles_it(tmp_path):
    """The workers of a run block SIGINT, and the process of the run does not.

    The run has a process of its own, in which no other test has started workers before.
    """
    python_code = "import sys; from tests.unit.models import test_engines as t; t.train_deaf_workers(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    finished_process = subprocess.run(
        [sys.executable, "-c", python_code, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished_process.returncode == 0, finished_process.stderr


@pytest.mark.process
def test_an_interrupt_leaves_whole_checkpoints_and_a_script_needs_no_guard(tmp_path):
    """If a script without a main guard is interrupted after four teachers, four are stored.

    A later call trains the other four.
    """
    process = start_script(tmp_path=tmp_path)
    reported_teachers = {int(process.stdout.readline()) for _ in range(4)}
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    store = CheckpointStore(tmp_path / "teachers")
    assert reported_teachers == {0, 1, 2, 3}
    assert store.missing(num_teachers=8) == [4, 5, 6, 7]
    before = bytes_of_teachers(folder=store.folder)
    rng = np.random.default_rng(0)
    shard = Shard(
        inputs=rng.standard_normal((9, 3)).astype(np.float32), labels=rng.random((9, 2)) < 0.5
    )
    train(
        engine=StackedEngine(chunk_size=2), teacher=LINEAR, shards=[shard] * 8, folder=store.folder
    )
    assert store.missing(num_teachers=8) == []
    assert bytes_of_teachers(folder=store.folder)[:4] == before


@pytest.mark.parametrize(
    ("make_engine", "name"),
    [
        pytest.param(partial(StackedEngine, chunk_size=-1), "chunk_size", id="stacked chunk_size"),
        pytest.param(
            partial(ProcessesEngine, chunk_size=-1), "chunk_size", id="processes chunk_size"
        ),
        pytest.param(
            partial(ProcessesEngine, num_workers=-1), "num_workers", id="processes num_workers"
        ),
        pytest.param(partial(RayEngine, chunk_size=-1), "chunk_size", id="ray chunk_size"),
        pytest.param(partial(RayEngine, num_workers=-1), "num_workers", id="ray num_workers"),
        pytest.param(partial(RayEngine, max_retries=-1), "max_retries", id="ray max_retries"),
        pytest.param(partial(RayEngine, num_gpus=-1), "num_gpus", id="ray num_gpus"),
    ],
)
def test_impossible_settings_of_engines_are_refused(make_engine, name):
    """A negative number in an engine's settings is refused under its name."""
    with refused_parameter(name, value=-1):
        make_engine()


@pytest.mark.usefixtures("saved_after_every_chunk")
def test_a_failed_save_loses_no_earlier_teacher(ten_shards, tmp_path, monkeypatch):
    """If the third save fails, the six teachers of the first two stay stored.

    The same call of `train` tries the third save once more before it raises the error.
    """
    save = CheckpointStore.save
    teachers_of_saves = []

    def save_twice_then_fail(self, states):
        teachers_of_saves.append(sorted(states))
        if len(teachers_of_saves) > 2:
            raise OSError("no space left")
        save(self, states=states)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"):
        patch.setattr(CheckpointStore, "save", save_twice_then_fail)
        train(
            engine=StackedEngine(chunk_size=3), teacher=LINEAR, shards=ten_shards, folder=tmp_path
        )
    # again at the end, as a disk may have room by then
    assert teachers_of_saves == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [6, 7, 8]]
    assert CheckpointStore(tmp_path).missing(num_teachers=10) == [6, 7, 8, 9]


@pytest.mark.process
def test_a_dead_worker_is_replaced_and_every_teacher_is_reported_once(make_shards, tmp_path):
    """If one of two worker processes is killed once, another process trains its teachers.

    Each teacher is reported once, with its losses. The arrays of the stored teachers have the same bytes as those of
    an undisturbed run in one process.
    """
    shards = make_shards(sizes=[20 + teacher_index for teacher_index in range(6)])
    reported = []

    def append_report(teacher_index, step_losses):
        reported.append((teacher_index, step_losses))

    teacher = DyingTeacher(device="cpu", marker_file=str(tmp_path / "died"))
    store = CheckpointStore(tmp_path / "teachers")
    engine = ProcessesEngine(num_workers=2, chunk_size=2)
    engine.train(
        TrainingJob(
            teacher=teacher,
            shards=shards,
            seeds=range(6),
            store=store,
            on_progress=append_report,
        )
    )
    assert (tmp_path / "died").exists()
    assert sorted(teacher_index for teacher_index, _ in reported) == list(range(6))
    for teacher_index, step_losses in reported:
        stored_step_losses = store.load(teacher=teacher_index)["loss_curve"]
        np.testing.assert_array_equal(step_losses, stored_step_losses, strict=True)
    train(
        engine=StackedEngine(chunk_size=2), teacher=LINEAR, shards=shards, folder=tmp_path / "calm"
    )
    assert bytes_of_teachers(folder=tmp_path / "teachers") == bytes_of_teachers(
        folder=tmp_path / "calm"
    )


@pytest.mark.process
def test_workers_of_a_killed_run_end_themselves(tmp_path):
    """If a run with worker processes is killed, a worker process ends within ten seconds."""
    run_process = start_script(tmp_path=tmp_path)
    while not (worker_files := list(tmp_path.glob("worker-*"))):
        assert run_process.poll() is None
        time.sleep(0.05)
    run_process.kill()
    run_process.communicate()
    process_folder = Path("/proc", worker_files[0].name.removeprefix("worker-"))
    deadline = time.monotonic() + 10
    while process_folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (
        not process_folder.exists()
        or "Z" in (process_folder / "stat").read_text().rpartition(")")[2].split()[0]
    )


@pytest.fixture(scope="module")
def cluster():
    """Starts Ray on this machine for a module's tests."""
    ray = pytest.importorskip("ray", reason="Ray is an optional dependency: the extra ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_same_bytes_as_the_other_engines(cluster, make_shards, tmp_path):
    """Ray and the stacked engine give the same bytes for ten teachers, and Ray reports each once, with its losses."""
    shards = make_shards(sizes=[20 + teacher_index % 3 for teacher_index in range(10)])
    reported = []

    def append_report(teacher_index, step_losses):
        reported.append((teacher_index, step_losses))

    for name, engine in (
        ("ray", RayEngine(chunk_size=4, max_in_flight=2)),
        ("here", StackedEngine(chunk_size=4)),
    ):
        store = CheckpointStore(tmp_path / name)
        engine.train(
            TrainingJob(
                teacher=MLP,
                shards=shards,
                seeds=range(10),
                store=store,
                on_progress=append_report,
            )
        )
    assert bytes_of_teachers(folder=tmp_path / "ray") == bytes_of_teachers(folder=tmp_path / "here")
    losses_of_ray = dict(reported[:10])
    assert sorted(losses_of_ray) == list(range(10))
    for teacher_index, step_losses in losses_of_ray.items():
        np.testing.assert_array_equal(step_losses, store.load(teacher=teacher_index)["loss_curve"])


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_teachers_of_a_killed_worker_of_ray_are_trained_again(cluster, make_shards, tmp_path):
    """If a worker of Ray is killed once, all teachers are reported once and have the bytes of the stacked engine."""
    shards = make_shards(sizes=[20] * 6)
    reported_teachers = []

    def append_teacher(teacher_index, _losses):
        reported_teachers.append(teacher_index)

    teacher = DyingTeacher(device="cpu", marker_file=str(tmp_path / "died"))
    store = CheckpointStore(tmp_path / "teachers")
    job = TrainingJob(
        teacher=teacher,
        shards=shards,
        seeds=range(6),
        store=store,
        on_progress=append_teacher,
    )
    RayEngine(chunk_size=2).train(job)
    assert (tmp_path / "died").exists()
    assert sorted(reported_teachers) == list(range(6))
    train(
        engine=StackedEngine(chunk_size=2), teacher=LINEAR, shards=shards, folder=tmp_path / "here"
    )
    assert bytes_of_teachers(folder=tmp_path / "teachers") == bytes_of_teachers(
        folder=tmp_path / "here"
    )


WORKER_SCRIPT = """
import os, sys, time
from pate.models.processes_engine import end_with
end_with(os.getppid(), node_process_id=int(sys.argv[1]))
print("trains", flush=True)
time.sleep(120)
"""


@pytest.mark.process
def test_a_worker_of_ray_ends_with_its_node():
    """If the process of Ray's node is killed, a worker that watches it ends with code 1."""
    node = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER_SCRIPT, str(node.pid)], stdout=subprocess.PIPE
    )
    with node, worker:
        try:
            assert worker.stdout.readline() == b"trains\n"
            node.kill()
            node.wait()
            assert worker.wait(timeout=60) == 1
        finally:
            node.kill()
            worker.kill()
    worker_command = [sys.executable, "-c", WORKER_SCRIPT, str(node.pid)]
    assert subprocess.run(worker_command, stdout=subprocess.DEVNULL, timeout=60).returncode == 1


def test_a_node_that_does_not_answer_is_an_error_of_one_line(make_shards, tmp_path, monkeypatch):
    """If Ray does not start, or its address does not answer, the error is one line with the address.

    Ray is not started for an address that does not answer.
    """
    job = TrainingJob(
        teacher=LINEAR, shards=make_shards(sizes=[20]), seeds=[0], store=CheckpointStore(tmp_path)
    )
    addresses = []

    def refuse_to_start(address, **settings):
        addresses.append(address)
        raise Exception("The current node timed out\nduring startup")

    monkeypatch.setitem(
        sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=refuse_to_start)
    )
    rule = r"^Ray did not start or answer \(engine.address=None: The current node timed out\); 0 of 1 teachers are safe"
    with pytest.raises(WorkersLost, match=rule + r" in [^\n]*$"):
        RayEngine().train(job)
    assert addresses == ["local"]  # never a cluster that this machine happens to know
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            WorkersLost, match=rf"engine.address={address}: .*refused.*; 0 of 1 teachers"
        ):
            RayEngine(address=address).train(job)
    assert addresses == ["local"]
