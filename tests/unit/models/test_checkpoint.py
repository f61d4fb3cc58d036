"""Teachers on disk: whole or not there, read only where this run's own key signed them, and asked in chunks."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.tree import DecisionTreeClassifier

from pate.teachers import (
    CheckpointStore,
    LinearTeacher,
    MLPTeacher,
    SklearnTeacher,
    StackedEngine,
    TrainingJob,
    cast_votes,
)
from pate.validation import InvalidValue

PLAIN = {"weights": np.zeros(2, np.float32), "loss_curve": np.zeros(1, np.float32)}


class Payload:
    """What runs where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def state_of(value):
    content = np.frombuffer(pickle.dumps(value), np.uint8)
    return {"pickle": content, "loss_curve": np.zeros(1, np.float32)}


@pytest.fixture
def store(tmp_path):
    (tmp_path / "run").mkdir()
    return CheckpointStore(tmp_path / "run" / "teachers")


@pytest.fixture
def trained(store, parts):
    """Two teachers in a store, by their recipe."""
    teacher = SklearnTeacher(DecisionTreeClassifier())
    for index, state in enumerate(teacher.fit_many(parts[:2], [1, 2])):
        store.save(index, state)
    return teacher


def refused(store, teacher=0):
    rule = rf"^file=.*-00000{teacher}.*: expected a checkpoint that this run signed .*; remove it, and .*again"
    return pytest.raises(InvalidValue, match=rule)


@pytest.mark.usefixtures("trained")
def test_a_planted_pickle_is_refused_and_never_run(store, trained, tmp_path, queries):
    mark = tmp_path / "ran"
    save_file(state_of(Payload(mark)), store.folder / "teacher-000000.safetensors")
    with refused(store):
        list(cast_votes(trained, store, 2, queries))
    assert not mark.exists()
    assert store.has(0)  # it does not count as missing, so it is not trained again in silence
    pickle.loads(state_of(Payload(mark))["pickle"].tobytes()).close()
    assert mark.exists()  # the payload works, where it is read


def test_a_planted_chunk_is_refused_and_never_signed(store, tmp_path):
    store.save(5, state_of("mine"))
    planted = {f"0/{name}": array for name, array in state_of(Payload(tmp_path / "ran")).items()}
    save_file(planted, store.folder / "chunk-000000-000001.safetensors")
    with refused(store):
        store.recover()
    assert not store.has(0)


@pytest.mark.parametrize("killed", [False, True])
def test_a_chunk_of_ones_own_is_read(store, monkeypatch, killed):
    with monkeypatch.context() as patch:
        if killed:
            patch.setattr(CheckpointStore, "_take_apart", lambda *_: None)
        store.save_chunk({0: state_of("a"), 1: PLAIN})
    assert store.missing(2) == ([0, 1] if killed else [])
    store.recover()
    assert pickle.loads(store.load(0)["pickle"].tobytes()) == "a"
    assert store.load(1).keys() == PLAIN.keys()


@pytest.mark.parametrize("state", [PLAIN, "a pickle"])
@pytest.mark.parametrize("what", ["another run's", "another teacher's", "without a signature", "a bit flipped"])
def test_a_checkpoint_that_the_key_did_not_sign_as_this_teacher(store, tmp_path, what, state):
    state = state_of("a") if state == "a pickle" else state
    store.save(0, state)
    store.save(1, state)
    path = store.folder / "teacher-000000.safetensors"
    if what == "another run's":
        (tmp_path / "other").mkdir()
        other = CheckpointStore(tmp_path / "other" / "teachers")
        other.save(0, state)
        shutil.rmtree(store.folder)
        shutil.copytree(other.folder, store.folder)  # the folder whole, as it holds no key
    elif what == "another teacher's":
        shutil.copy(store.folder / "teacher-000001.safetensors", path)
    else:
        arrays = load_file(path)
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        if what == "a bit flipped":
            arrays["loss_curve"] += 2.0**-20
        save_file(arrays, path, metadata=metadata if what == "a bit flipped" else None)
    with refused(store):
        store.load(0)


def test_without_its_key_nothing_is_read_and_no_other_key_is_made(store):
    store.save(0, state_of("a"))
    store.key.path.unlink()
    with refused(store):
        store.load(0)
    assert not store.key.path.exists()


def test_the_key_is_the_owners_alone_and_beside_the_folder(store):
    before = os.umask(0)
    try:
        store.save(0, state_of("a"))
    finally:
        os.umask(before)
    path = store.folder.parent / "teachers.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(bytes.fromhex(path.read_text())) == 32
    assert {entry.name for entry in path.parent.iterdir()} == {"teachers", "teachers.key"}
    assert path.read_text().strip() not in str(load_file(store.folder / "teacher-000000.safetensors"))


@pytest.mark.parametrize("damage", ["readable", "short", "long", "letters", "link", "folder", "empty"])
def test_a_key_that_is_not_a_key_is_named(store, tmp_path, damage):
    store.save(0, state_of("a"))
    path = store.key.path
    text = path.read_text()
    changed = {"short": text[:-3], "long": text + "0", "letters": "g" * 64 + "\n", "empty": ""}
    if damage == "readable":
        path.chmod(0o644)
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_text(changed[damage])
    for act in (lambda: store.load(0), lambda: store.save(1, state_of("b"))):
        with pytest.raises(
            InvalidValue, match=r"secret=.*teachers\.key: expected .*; remove it and .*teachers to train"
        ):
            act()


def test_a_key_of_somebody_else_does_not_count(store, monkeypatch):
    store.save(0, state_of("a"))
    monkeypatch.setattr("pate.files.disk.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InvalidValue, match=r"teachers\.key: expected a file of user"):
        store.load(0)


def test_writers_side_by_side_share_one_key(store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda teacher: store.save(teacher, state_of(teacher)), range(24)))
    assert [pickle.loads(store.load(teacher)["pickle"].tobytes()) for teacher in range(24)] == list(range(24))
    assert {entry.name for entry in store.folder.parent.iterdir()} == {"teachers", "teachers.key"}


def test_a_teacher_of_other_records_is_refused(tmp_path):
    CheckpointStore(tmp_path / "teachers", records="one partition").save(0, {"weights": np.ones(2)})
    assert CheckpointStore(tmp_path / "teachers", records="one partition").load(0).keys() == {"weights"}
    for records in ("another", ""):
        with pytest.raises(InvalidValue, match="expected a checkpoint that this run signed"):
            CheckpointStore(tmp_path / "teachers", records=records).load(0)


STATE = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "loss_curve": np.array([0.5], np.float32)}


def test_round_trip(store):
    scalar = np.array(0.25, np.float32)
    store.save(3, {**STATE, "threshold": scalar})
    loaded = store.load(3)
    assert loaded.keys() == {"weights", "loss_curve", "threshold"}
    assert (loaded["weights"] == STATE["weights"]).all()
    assert loaded["threshold"].shape == ()
    assert loaded["threshold"] == scalar


@pytest.mark.parametrize("kept", [0, 40])
def test_a_torn_file_counts_as_missing(store, kept):
    store.save(0, STATE)
    path = store.folder / "teacher-000000.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert store.missing(2) == [0, 1]
    with pytest.raises(InvalidValue, match=r"^file=.*teacher-000000.safetensors: expected the checkpoint of teacher 0"):
        store.load(0)
    store.save(0, STATE)
    assert store.missing(1) == []


def test_a_save_that_fails_leaves_the_old_file(store, monkeypatch):
    store.save(0, STATE)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("pate.files.disk.os.fsync", fail)
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


def test_a_missing_teacher_is_named(store):
    with pytest.raises(InvalidValue, match=r"^file=.*teacher-000005.safetensors: expected the checkpoint of teacher 5"):
        store.load(5)
    with pytest.raises(InvalidValue, match="teacher=-1: expected a whole number >= 0"):
        store.save(-1, STATE)


MLP = MLPTeacher(hidden=4, epochs=2, device="cpu")


@pytest.fixture
def ensemble(make_parts, tmp_path):
    parts = make_parts([14 + index % 2 for index in range(7)])
    job = TrainingJob(MLP, parts.__getitem__, range(7), CheckpointStore(tmp_path / "teachers"))
    StackedEngine(chunk_size=3).train(job)
    return job.store


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_votes_come_in_order_whatever_the_chunk(ensemble, queries, chunk_size):
    expected = MLP.predict_many([ensemble.load(index) for index in range(7)], queries)
    blocks = list(cast_votes(MLP, ensemble, 7, queries, chunk_size))
    assert [first for first, _ in blocks] == list(range(0, 7, chunk_size))
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), expected, atol=1e-6)


def test_refuses_impossible_arguments(queries, tmp_path):
    with pytest.raises(InvalidValue, match="num_teachers=0: expected a whole number >= 1"):
        list(cast_votes(MLP, CheckpointStore(tmp_path), 0, queries))
    with pytest.raises(InvalidValue, match="chunk_size=0: expected a whole number >= 1"):
        list(cast_votes(MLP, CheckpointStore(tmp_path), 1, queries, 0))


def test_votes_of_a_killed_run_are_taken_up(parts, queries, tmp_path, monkeypatch):
    teacher, store, scratch = LinearTeacher(device="cpu"), CheckpointStore(tmp_path / "teachers"), tmp_path / "casting"
    StackedEngine().train(TrainingJob(teacher, parts.__getitem__, range(6), store))
    whole = [block for _, block in cast_votes(teacher, store, 6, queries, chunk_size=2)]
    cut = cast_votes(teacher, store, 6, queries, chunk_size=2, scratch=scratch)
    next(cut)
    next(cut)
    cut.close()
    asked, predict = [], LinearTeacher.predict_many
    monkeypatch.setattr(LinearTeacher, "predict_many", lambda *given: asked.append(1) or predict(*given))
    continued = list(cast_votes(teacher, store, 6, queries, chunk_size=2, scratch=scratch))
    assert [first for first, _ in continued] == [0, 2, 4]
    assert all((block == wanted).all() for (_, block), wanted in zip(continued, whole, strict=True))
    assert len(asked) == 1
