"""Kills at the worst moments: within the saving of a chunk, of a worker, of the run above its workers."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from pate.teachers import CheckpointStore, LinearTeacher, ProcessesEngine, StackedEngine, TrainingJob

LINEAR = LinearTeacher(device="cpu")


def files(folder):
    return {path.name: save(load_file(path)) for path in folder.iterdir()}


@pytest.fixture
def states():
    return {teacher: {"weights": np.full(3, teacher), "loss_curve": np.zeros(1, np.float32)} for teacher in (4, 5, 6)}


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_chunk_is_there_as_a_whole_whenever_its_saving_is_cut(states, writes, tmp_path, monkeypatch):
    store, done = CheckpointStore(tmp_path), []
    save = CheckpointStore.save

    def cut(self, teacher, state):
        if len(done) == writes - 1:
            raise KeyboardInterrupt
        done.append(teacher)
        save(self, teacher, state)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CheckpointStore, "save", cut)
        store.save_chunk(states)
    assert len(store.missing(7)) == 7 - len(done)
    before = {name: (tmp_path / name).stat().st_ino for name in files(tmp_path) if name.startswith("teacher")}
    store.recover()
    assert store.missing(7) == [0, 1, 2, 3]
    assert all((store.load(teacher)["weights"] == teacher).all() for teacher in states)
    assert all((tmp_path / name).stat().st_ino == inode for name, inode in before.items())
    assert not list(tmp_path.glob("chunk-*"))


def test_a_chunk_saved_undisturbed_leaves_what_single_saves_leave(states, tmp_path):
    CheckpointStore(tmp_path / "chunk").save_chunk(states)
    for teacher, state in states.items():
        CheckpointStore(tmp_path / "single").save(teacher, state)
    CheckpointStore(tmp_path / "chunk").save_chunk({})
    assert files(tmp_path / "chunk") == files(tmp_path / "single")


def test_a_torn_chunk_and_half_written_files_are_thrown_away(tmp_path):
    (tmp_path / "chunk-000004-000006.safetensors").write_bytes(b"torn")
    (tmp_path / ".chunk-000000-000001.safetensors.4711.partial").write_bytes(b"")
    (tmp_path / ".teacher-000002.safetensors.4711.partial").write_bytes(b"half")
    CheckpointStore(tmp_path).recover()
    assert files(tmp_path) == {}


def test_a_chunk_of_a_killed_run_is_not_trained_again(make_parts, tmp_path, monkeypatch):
    job = TrainingJob(LINEAR, make_parts([20] * 4).__getitem__, range(4), CheckpointStore(tmp_path))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CheckpointStore, "_take_apart", lambda self, path: (_ for _ in ()).throw(KeyboardInterrupt))
        StackedEngine(chunk_size=4).train(job)
    monkeypatch.setattr(LinearTeacher, "fit_many", None)
    StackedEngine(chunk_size=4).train(job)
    assert CheckpointStore(tmp_path).missing(4) == []


@dataclass(frozen=True)
class DyingOnceTeacher(LinearTeacher):
    marker: str = ""

    def fit_many(self, shards, seeds):
        if 3 in seeds and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit_many(shards, seeds)


@pytest.mark.process
def test_a_dead_worker_is_replaced_and_every_teacher_is_reported_once(make_parts, tmp_path):
    parts, heard = make_parts([20 + index for index in range(6)]), []
    teacher = DyingOnceTeacher(device="cpu", marker=str(tmp_path / "died"))
    store = CheckpointStore(tmp_path / "teachers")
    engine = ProcessesEngine(num_workers=2, chunk_size=2)
    engine.train(TrainingJob(teacher, parts.__getitem__, range(6), store, lambda *told: heard.append(told)))
    assert (tmp_path / "died").exists()
    assert sorted(index for index, _ in heard) == list(range(6))
    assert all(loss == store.load(index)["loss_curve"][-1] for index, loss in heard)
    calm = CheckpointStore(tmp_path / "calm")
    StackedEngine(chunk_size=2).train(TrainingJob(LINEAR, parts.__getitem__, range(6), calm))
    assert files(tmp_path / "teachers") == files(calm.folder)


SCRIPT = """
import os, sys, time
import numpy as np
from pathlib import Path
from pate.teachers import CheckpointStore, LinearTeacher, Shard, ProcessesEngine, TrainingJob

class SlowTeacher(LinearTeacher):
    def fit_many(self, shards, seeds):
        Path(sys.argv[1], f"worker-{os.getpid()}").touch()
        time.sleep(60)

part = Shard(np.ones((9, 3), np.float32), np.ones((9, 2), bool))
store = CheckpointStore(Path(sys.argv[1], "teachers"))
ProcessesEngine(num_workers=1).train(TrainingJob(SlowTeacher(device="cpu"), lambda i: part, range(2), store))
"""


@pytest.mark.process
def test_workers_of_a_killed_run_end_themselves(tmp_path):
    script = SCRIPT.replace("sys.argv[1]", repr(str(tmp_path)))
    run = subprocess.Popen([sys.executable, "-c", script], cwd=os.getcwd(), stderr=subprocess.DEVNULL)
    while not (workers := list(tmp_path.glob("worker-*"))):
        assert run.poll() is None
        time.sleep(0.05)
    run.kill()
    run.wait()
    process = Path("/proc", workers[0].name.removeprefix("worker-"))
    deadline = time.monotonic() + 10
    while process.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process.exists() or "Z" in (process / "stat").read_text().rpartition(")")[2].split()[0]
