import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.numpy import load_file, save

from pate.teachers import CheckpointStore, LinearTeacher, MLPTeacher, RayEngine, StackedEngine, TrainingJob
from pate.teachers.engines import WorkersLost
from pate.validation import InvalidValue

MLP = MLPTeacher(hidden=8, epochs=3, device="cpu")


def files(folder):
    return {path.name: save(load_file(path)) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="Ray is an optional dependency: pip install 'pate-multilabel[ray]'")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@dataclass(frozen=True)
class DyingOnceTeacher(MLPTeacher):
    """Kills its worker the first time that teacher 3 is asked for."""

    marker: str = ""

    def fit_many(self, shards, seeds):
        if 3 in seeds and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit_many(shards, seeds)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_bytes_of_the_other_engines(cluster, make_parts, tmp_path):
    parts, heard = make_parts([20 + index % 3 for index in range(10)]), []
    for name, engine in (("ray", RayEngine(chunk_size=4, max_in_flight=2)), ("here", StackedEngine(chunk_size=4))):
        store = CheckpointStore(tmp_path / name)
        engine.train(TrainingJob(MLP, parts.__getitem__, range(10), store, lambda *told: heard.append(told)))
    assert files(tmp_path / "ray") == files(tmp_path / "here")
    assert sorted(heard[:10]) == [(index, store.load(index)["loss_curve"][-1]) for index in range(10)]


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_costs_its_own_teachers_and_is_replaced(cluster, make_parts, tmp_path):
    parts, heard = make_parts([20] * 6), []
    teacher = DyingOnceTeacher(hidden=8, epochs=3, device="cpu", marker=str(tmp_path / "died"))
    store = CheckpointStore(tmp_path / "teachers")
    job = TrainingJob(teacher, parts.__getitem__, range(6), store, lambda i, loss: heard.append(i))
    RayEngine(chunk_size=2).train(job)
    assert (tmp_path / "died").exists()
    assert sorted(heard) == list(range(6))
    here = CheckpointStore(tmp_path / "here")
    StackedEngine(chunk_size=2).train(TrainingJob(MLP, parts.__getitem__, range(6), here))
    assert files(tmp_path / "teachers") == files(tmp_path / "here")


WORKER = """
import sys, time
from pate.teachers.engines import _end_with_node
_end_with_node(int(sys.argv[1]))
print("trains", flush=True)
time.sleep(120)
"""


@pytest.mark.process
def test_a_worker_ends_with_its_node():
    node = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(node.pid)], stdout=subprocess.PIPE)
    with node, worker:
        try:
            assert worker.stdout.readline() == b"trains\n"
            node.kill()
            node.wait()
            assert worker.wait(timeout=60) == 1
        finally:
            node.kill()
            worker.kill()


@pytest.mark.process
def test_a_worker_whose_node_is_gone_does_not_begin():
    node = subprocess.Popen([sys.executable, "-c", ""])
    node.wait()
    worker = [sys.executable, "-c", WORKER, str(node.pid)]
    assert subprocess.run(worker, stdout=subprocess.DEVNULL, timeout=60).returncode == 1


@pytest.fixture
def one_teacher(make_parts, tmp_path):
    return TrainingJob(LinearTeacher(), make_parts([20]).__getitem__, [0], CheckpointStore(tmp_path))


@pytest.fixture
def broken(monkeypatch):
    """A Ray whose node does not start; what it was asked for."""
    asked = []

    def init(address, **settings):
        asked.append(address)
        raise Exception("The current node timed out\nduring startup")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    return asked


def test_a_node_that_does_not_start_is_said_in_one_line(broken, one_teacher):
    rule = r"^Ray did not start or answer \(engine.address=None: The current node timed out\); 0 of 1 teachers are safe"
    with pytest.raises(WorkersLost, match=rule + r" in [^\n]*$"):
        RayEngine().train(one_teacher)
    assert broken == ["local"]  # never a cluster that this machine happens to know


def test_a_cluster_that_does_not_answer_is_not_waited_for(broken, one_teacher):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(WorkersLost, match=rf"engine.address={address}: .*refused.*; 0 of 1 teachers"):
            RayEngine(address=address).train(one_teacher)
    assert broken == []


def test_a_missing_ray_is_said_in_one_line(one_teacher, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        InvalidValue, match=r"engine=ray: expected Ray to be installed: pip install 'pate-multilabel\[ray\]'"
    ):
        RayEngine().train(one_teacher)


def test_refuses_impossible_engines():
    with pytest.raises(InvalidValue, match="chunk_size=0: expected a whole number >= 1"):
        RayEngine(chunk_size=0)
    with pytest.raises(InvalidValue, match="max_retries=-1: expected a whole number >= 0"):
        RayEngine(max_retries=-1)
    with pytest.raises(InvalidValue, match="num_gpus=-1: expected a number >= 0"):
        RayEngine(num_gpus=-1)
