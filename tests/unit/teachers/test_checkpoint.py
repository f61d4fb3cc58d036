import numpy as np
import pytest
from safetensors.numpy import load_file

from pate.teachers import CheckpointStore
from pate.validation import InvalidValue

STATE = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "loss_curve": np.array([0.5], np.float32)}


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "teachers")


def test_round_trip(store):
    scalar = np.array(0.25, np.float32)
    store.save(3, {**STATE, "threshold": scalar})
    loaded = store.load(3)
    assert loaded.keys() == {"weights", "loss_curve", "threshold"}
    assert (loaded["weights"] == STATE["weights"]).all()
    assert loaded["threshold"].shape == ()
    assert loaded["threshold"] == scalar


def test_missing_names_the_teachers_that_are_not_there(store):
    assert store.missing(3) == [0, 1, 2]
    store.save(1, STATE)
    assert store.missing(3) == [0, 2]
    assert store.has(1)


@pytest.mark.parametrize("kept", [0, 4, 40, -1])
def test_a_torn_file_counts_as_missing(store, kept):
    store.save(0, STATE)
    path = store.folder / "teacher-000000.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert store.missing(1) == [0]
    with pytest.raises(InvalidValue, match=r"^file=.*teacher-000000.safetensors: expected the checkpoint of teacher 0"):
        store.load(0)
    store.save(0, STATE)
    assert store.missing(1) == []


def test_a_save_that_fails_leaves_the_old_file(store, monkeypatch):
    store.save(0, STATE)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("pate.files.atomic.os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        store.save(0, {"weights": np.zeros(2)})
    assert (store.load(0)["weights"] == STATE["weights"]).all()
    assert [path.name for path in store.folder.iterdir()] == ["teacher-000000.safetensors"]


def test_the_order_of_names_does_not_change_the_bytes(store):
    path = store.folder / "teacher-000000.safetensors"
    store.save(0, STATE)
    first = path.read_bytes()
    store.save(0, dict(reversed(STATE.items())))
    assert path.read_bytes() == first


def test_files_are_plain_safetensors(store):
    store.save(12, STATE)
    assert (load_file(store.folder / "teacher-000012.safetensors")["weights"] == STATE["weights"]).all()


def test_a_missing_teacher_is_named(store):
    with pytest.raises(InvalidValue, match=r"^file=.*teacher-000005.safetensors: expected the checkpoint of teacher 5"):
        store.load(5)
    with pytest.raises(InvalidValue, match="teacher=-1: expected a whole number >= 0"):
        store.save(-1, STATE)
