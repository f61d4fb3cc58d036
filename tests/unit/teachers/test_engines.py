import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed
from safetensors.numpy import load_file, save

from pate.networks.device import DeviceFull
from pate.teachers import (
    CheckpointStore,
    LinearTeacher,
    MLPTeacher,
    ProcessesEngine,
    SequentialEngine,
    Shard,
    StackedEngine,
    TrainingJob,
)
from pate.teachers.engines import WorkersLost
from pate.validation import InvalidValue

LINEAR = LinearTeacher(device="cpu")
MLP = MLPTeacher(hidden=8, epochs=3, device="cpu")


@pytest.fixture(scope="module")
def many(make_parts):
    return make_parts([20 + index % 3 for index in range(10)])


def train(engine, teacher, parts, folder, on_progress=None):
    store = CheckpointStore(folder)
    engine.train(TrainingJob(teacher, parts.__getitem__, range(len(parts)), store, on_progress))
    return store


def files(folder):
    return {path.name: save(load_file(path)) for path in folder.iterdir()}


@pytest.mark.process
@pytest.mark.parametrize("teacher", [LINEAR, MLP], ids=lambda teacher: type(teacher).__name__)
def test_engines_agree(teacher, many, queries, tmp_path):
    stacked = train(StackedEngine(chunk_size=4), teacher, many, tmp_path / "stacked")
    processes = train(ProcessesEngine(num_workers=2, chunk_size=4), teacher, many, tmp_path / "processes")
    sequential = train(SequentialEngine(), teacher, many, tmp_path / "sequential")
    single = train(StackedEngine(chunk_size=1), teacher, many, tmp_path / "single")
    assert files(stacked.folder) == files(processes.folder)
    assert files(sequential.folder) == files(single.folder)
    for index in range(10):
        one, other = (teacher.predict_many([s.load(index)], queries) for s in (stacked, sequential))
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("teacher", [LINEAR, MLP], ids=lambda teacher: type(teacher).__name__)
@pytest.mark.parametrize("engine", [SequentialEngine(), StackedEngine(chunk_size=4)], ids=["one", "four"])
def test_a_continued_run_ends_with_the_same_bytes(engine, teacher, many, tmp_path):
    store = train(engine, teacher, many, tmp_path)
    before = files(tmp_path)
    kept = tmp_path / "teacher-000004.safetensors"
    stamp = kept.stat().st_mtime_ns
    for index in (0, 5, 6, 9):
        (tmp_path / f"teacher-{index:06d}.safetensors").unlink()
    torn = tmp_path / "teacher-000002.safetensors"
    torn.write_bytes(torn.read_bytes()[:50])
    reported = []
    train(engine, teacher, many, tmp_path, lambda index, loss: reported.append(index))
    assert files(tmp_path) == before
    assert reported == [0, 2, 5, 6, 9]
    assert kept.stat().st_mtime_ns == stamp
    assert store.missing(10) == []


def test_each_teacher_is_trained_on_its_own_shard(many, tmp_path):
    store = train(StackedEngine(chunk_size=4), LINEAR, many, tmp_path)
    for index, shard in enumerate(many):
        state = store.load(index)
        at_mean = shard.inputs.mean(axis=0) @ state["weights"] + state["bias"]
        np.testing.assert_allclose(at_mean, shard.labels.mean(axis=0) + 0.5 - state["threshold"], atol=1e-5)


def test_each_teacher_has_its_own_seed(many, tmp_path):
    def weights(seeds, folder):
        store = CheckpointStore(tmp_path / folder)
        StackedEngine(chunk_size=2).train(TrainingJob(MLP, lambda index: many[0], seeds, store))
        return [store.load(index)["weights"] for index in range(2)]

    (one, two), (two_again, one_again) = weights([1, 2], "there"), weights([2, 1], "back")
    assert (one == one_again).all()
    assert (two == two_again).all()
    assert (one != two).any()


def test_only_chunks_with_a_gap_are_trained(many, tmp_path):
    train(StackedEngine(chunk_size=4), LINEAR, many, tmp_path)
    (tmp_path / "teacher-000005.safetensors").unlink()
    asked = []

    def shards(index):
        asked.append(index)
        return many[index]

    StackedEngine(chunk_size=4).train(TrainingJob(LINEAR, shards, range(10), CheckpointStore(tmp_path)))
    assert asked == [4, 5, 6, 7]


@pytest.mark.process
@pytest.mark.parametrize(
    "engine",
    [SequentialEngine(), StackedEngine(chunk_size=4), ProcessesEngine(num_workers=2, chunk_size=4)],
    ids=lambda engine: type(engine).__name__,
)
def test_progress_tells_each_teacher_once_after_its_file_is_there(engine, many, tmp_path):
    heard = {}
    store = CheckpointStore(tmp_path)

    def hear(index, loss):
        assert index not in heard
        assert store.has(index)
        heard[index] = loss

    train(engine, MLP, many, tmp_path, hear)
    assert sorted(heard) == list(range(10))
    assert all(loss == store.load(index)["loss_curve"][-1] for index, loss in heard.items())


def test_an_error_keeps_the_teachers_before_it(many, tmp_path):
    def shards(index):
        if index == 6:
            raise ValueError("broken record")
        return many[index]

    with pytest.raises(ValueError, match="broken record"):
        StackedEngine(chunk_size=2).train(TrainingJob(LINEAR, shards, range(10), CheckpointStore(tmp_path)))
    assert CheckpointStore(tmp_path).missing(10) == [6, 7, 8, 9]


@dataclass(frozen=True)
class LargeTeacher(LinearTeacher):
    def fit_many(self, shards, seeds):
        if 6 in seeds:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. GPU 0")
        return super().fit_many(shards, seeds)


@pytest.mark.process
@pytest.mark.parametrize("engine", [StackedEngine(chunk_size=2), ProcessesEngine(num_workers=1, chunk_size=2)])
def test_a_full_gpu_says_what_takes_less_and_keeps_the_teachers_before_it(engine, many, tmp_path):
    with pytest.raises(DeviceFull, match=r"out of memory.*9 GiB \(a smaller engine\.chunk_size or teacher\.batch_size"):
        train(engine, LargeTeacher(device="cpu"), many, tmp_path)
    missing = CheckpointStore(tmp_path).missing(10)
    assert missing == [6, 7, 8, 9]


@dataclass(frozen=True)
class DyingTeacher(LinearTeacher):
    def fit_many(self, shards, seeds):
        if 3 in seeds:
            time.sleep(1)  # until the other chunk is on the disk
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit_many(shards, seeds)


@pytest.mark.process
def test_joblib_works_in_the_same_process_afterwards(many, tmp_path):
    """Its pool is another than the engine's."""
    train(ProcessesEngine(num_workers=2, chunk_size=5), LINEAR, many, tmp_path)
    assert Parallel(n_jobs=2)(delayed(int)(text) for text in "12") == [1, 2]


@pytest.mark.process
def test_a_dead_worker_is_reported_and_finished_teachers_stay(many, tmp_path):
    engine = ProcessesEngine(num_workers=2, chunk_size=2)
    rule = r"^worker processes died 3 times \(killed, or out of memory: .* takes less\); \d of 10 teachers are safe"
    with pytest.raises(WorkersLost, match=rule) as raised:
        train(engine, DyingTeacher(device="cpu"), many, tmp_path)
    assert isinstance(raised.value, OSError)  # which the commands say in one line
    left = CheckpointStore(tmp_path).missing(10)
    assert {2, 3} <= set(left)
    assert {0, 1}.isdisjoint(left)
    train(engine, LINEAR, many, tmp_path)
    assert CheckpointStore(tmp_path).missing(10) == []


SCRIPT = """
import sys, time
import numpy as np
from pate.teachers import CheckpointStore, LinearTeacher, Shard, ProcessesEngine, TrainingJob
from pathlib import Path

class SlowTeacher(LinearTeacher):
    def fit_many(self, shards, seeds):
        time.sleep(0 if seeds[0] < 4 else 60)
        return super().fit_many(shards, seeds)

rng = np.random.default_rng(0)
part = Shard(rng.standard_normal((9, 3)).astype(np.float32), rng.random((9, 2)) < 0.5)
store = CheckpointStore(Path(sys.argv[1]))
engine = ProcessesEngine(num_workers=2, chunk_size=2)
told = lambda i, loss: print(i, flush=True)
engine.train(TrainingJob(SlowTeacher(device="cpu"), lambda i: part, range(8), store, told))
"""


def run_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "teachers")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        start_new_session=True,
    )


@dataclass(frozen=True)
class DeafTeacher(LinearTeacher):
    def fit_many(self, shards, seeds):
        if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
            raise RuntimeError("a worker hears Ctrl-C, which would end in a traceback of its own")
        return super().fit_many(shards, seeds)


def train_deaf_workers(folder):
    parts = [Shard(np.eye(4, dtype=np.float32), np.eye(4, dtype=np.bool_))] * 10
    train(ProcessesEngine(num_workers=2, chunk_size=5), DeafTeacher(device="cpu"), parts, Path(folder))
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.process
def test_workers_leave_an_interrupt_to_the_run_which_still_hears_it(tmp_path):
    """In a process of its own, whose first workers they are."""
    code = "import sys; from tests.unit.teachers import test_engines as t; t.train_deaf_workers(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_an_interrupt_leaves_whole_checkpoints_and_a_script_needs_no_guard(tmp_path):
    process = run_script(tmp_path)
    seen = {int(process.stdout.readline()) for _ in range(4)}
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    store = CheckpointStore(tmp_path / "teachers")
    assert seen == {0, 1, 2, 3}
    assert store.missing(8) == [4, 5, 6, 7]
    before = files(store.folder)
    rng = np.random.default_rng(0)
    part = Shard(rng.standard_normal((9, 3)).astype(np.float32), rng.random((9, 2)) < 0.5)
    train(StackedEngine(chunk_size=2), LINEAR, [part] * 8, store.folder)
    assert store.missing(8) == []
    assert {name: files(store.folder)[name] for name in before} == before


def test_refuses_an_ensemble_of_nobody(many, tmp_path):
    with pytest.raises(InvalidValue, match="num_teachers=0: expected a whole number >= 1"):
        TrainingJob(LINEAR, many.__getitem__, [], CheckpointStore(tmp_path))


def test_refuses_impossible_engines():
    with pytest.raises(InvalidValue, match="chunk_size=0: expected a whole number >= 1"):
        StackedEngine(chunk_size=0)
    with pytest.raises(InvalidValue, match="chunk_size=0: expected a whole number >= 1"):
        ProcessesEngine(chunk_size=0)
    with pytest.raises(InvalidValue, match="num_workers=0: expected a whole number >= 1"):
        ProcessesEngine(num_workers=0)
