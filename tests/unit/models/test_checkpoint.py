"""Checkpoints of teachers are whole files or none, are signed by the key of the run, and give the teachers' votes."""

import os
import pickle
import shutil
import stat
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.tree import DecisionTreeClassifier

from pate.models import (
    CheckpointStore,
    LinearTeacher,
    MLPTeacher,
    SklearnTeacher,
    StackedEngine,
    TrainingJob,
    cast_votes,
)
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter

PLAIN = {"weights": np.zeros(2, np.float32), "loss_curve": np.zeros(1, np.float32)}


class Payload:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def state_of(value):
    """Returns the arrays of a teacher, as a store keeps them: the bytes of a value's pickle, and one loss."""
    content = np.frombuffer(pickle.dumps(value), np.uint8)
    return {"pickle": content, "loss_curve": np.zeros(1, np.float32)}


@pytest.fixture
def store(tmp_path):
    """Returns an empty store of teachers."""
    (tmp_path / "run").mkdir()
    return CheckpointStore(tmp_path / "run" / "teachers")


@pytest.fixture
def trained_teacher(store, shards):
    """Saves two trained teachers in a store, and returns the recipe (settings) of both."""
    teacher = SklearnTeacher(DecisionTreeClassifier())
    store.save(states=dict(enumerate(teacher.fit_many(shards=shards[:2], seeds=[1, 2]))))
    return teacher


def file_name(first_teacher, last_teacher=None):
    """Returns the name of the file of teachers `first_teacher` to `last_teacher`, or of the first alone."""
    last = first_teacher if last_teacher is None else last_teacher
    return f"teachers-{first_teacher:06d}-{last:06d}.safetensors"


def refused_as_unsigned():
    """Returns a context that expects the refusal of a file of teachers without this run's signature."""
    return refused_parameter("file", value=ANY, rule_words="teachers that this run signed")


def test_a_planted_pickle_is_refused_and_never_run(store, trained_teacher, tmp_path, queries):
    """A file of teachers that was replaced by a pickle with code is refused before the code runs."""
    created_file = tmp_path / "ran"
    content = np.stack([state_of(value=Payload(path=created_file))["pickle"]] * 2)
    arrays = {"pickle": content, "loss_curve": np.zeros((2, 1), np.float32)}
    save_file(arrays, filename=store.folder / file_name(first_teacher=0, last_teacher=1))
    with refused_as_unsigned():
        list(cast_votes(trained_teacher, store=store, num_teachers=2, inputs=queries))
    assert not created_file.exists()
    store.recover()
    # The teachers do not count as missing, so they are not trained again without a notice.
    assert store.missing(num_teachers=2) == []
    pickle.loads(content[0].tobytes()).close()
    assert created_file.exists()  # The payload works if it is read.


@pytest.mark.parametrize("state", [PLAIN, "a pickle"])
@pytest.mark.parametrize(
    "fault", ["another run's", "another teacher's", "without a signature", "a changed number"]
)
def test_a_file_with_a_wrong_signature_is_refused(store, tmp_path, fault, state):
    """A teacher's file is refused if it is of another run or teacher, has no signature, or has a changed number.

    The saved `state` has arrays of numbers, or a pickle.
    """
    state = state_of(value="a") if state == "a pickle" else state
    store.save(states={0: state})
    store.save(states={1: state})
    path = store.folder / file_name(first_teacher=0)
    if fault == "another run's":
        (tmp_path / "other").mkdir()
        other_store = CheckpointStore(tmp_path / "other" / "teachers")
        other_store.save(states={0: state})
        shutil.rmtree(store.folder)
        shutil.copytree(other_store.folder, store.folder)  # The folder holds no key.
    elif fault == "another teacher's":
        shutil.copy(store.folder / file_name(first_teacher=1), path)
    else:
        arrays = load_file(path)
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        if fault == "a changed number":
            arrays["loss_curve"] += 2.0**-20
            save_file(arrays, filename=path, metadata=metadata)
        else:
            save_file(arrays, filename=path)
    with refused_as_unsigned():
        store.load(teacher=0)


def test_a_key_is_made_for_its_owner_alone_and_is_needed_to_read(store):
    """A store makes its key with mode 0600 even under umask 0, outside of the teachers' files.

    Without the key, teachers are refused, and no new key is made.
    """
    before = os.umask(0)
    try:
        store.save(states={0: state_of(value="a")})
    finally:
        os.umask(before)
    path = store.folder.parent / "teachers.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(bytes.fromhex(path.read_text())) == 32
    assert {entry.name for entry in path.parent.iterdir()} == {"teachers", "teachers.key"}
    assert path.read_text().strip() not in str(load_file(store.folder / file_name(first_teacher=0)))
    path.unlink()
    with refused_as_unsigned():
        store.load(teacher=0)
    assert not path.exists()


@pytest.mark.parametrize(
    "damage", ["readable", "short", "long", "letters", "link", "folder", "empty"]
)
def test_a_damaged_key_is_refused_by_its_name(store, tmp_path, damage):
    """If the key is damaged, readable by others, a link or a folder, reading and saving teachers are refused."""
    store.save(states={0: state_of(value="a")})
    path = store.key
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
    with refused_parameter("secret", value=ANY, rule_words="remove it and"):
        store.load(teacher=0)
    with refused_parameter("secret", value=ANY, rule_words="remove it and"):
        store.save(states={1: state_of(value="b")})


def test_a_foreign_key_or_other_records_are_refused(tmp_path, monkeypatch):
    """Teachers that were saved for some records are refused for other records, and so is another user's key."""
    stores = {
        records_digest: CheckpointStore(tmp_path / "teachers", records_digest=records_digest)
        for records_digest in ("one", "another", "")
    }
    stores["one"].save(states={0: {"weights": np.ones(2)}})
    assert stores["one"].load(teacher=0).keys() == {"weights"}
    for records_digest in ("another", ""):
        with refused_as_unsigned():
            stores[records_digest].load(teacher=0)
    monkeypatch.setattr("pate.files.secret.os.geteuid", lambda: os.getuid() + 1)
    with refused_parameter("secret", value=ANY, rule_words="user"):
        stores["one"].load(teacher=0)


STATE = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "loss_curve": np.array([0.5], np.float32),
}


def test_saved_states_are_read_back(store):
    """Teachers are read as they were saved, and those that were not saved are missing.

    Consecutive teachers with the same names of arrays share a file, whatever the lengths of their arrays.
    """
    ragged = [
        STATE
        | {
            "pickle": np.arange(length, dtype=np.uint8),
            "threshold": np.array(length, np.float32),
        }
        for length in (3, 0, 5)
    ]
    store.save(states={7: STATE, 3: ragged[0], 4: ragged[1], 5: ragged[2], 8: STATE, 6: STATE})
    assert {path.name for path in store.folder.iterdir()} == {
        file_name(first_teacher=3, last_teacher=5),
        file_name(first_teacher=6, last_teacher=8),
    }
    for number, expected in enumerate([*ragged, STATE], start=3):
        loaded = store.load(teacher=number)
        assert loaded.keys() == expected.keys()
        for key, array in expected.items():
            assert (loaded[key].shape, loaded[key].dtype) == (array.shape, array.dtype)
            assert (loaded[key] == array).all()
    assert store.missing(num_teachers=10) == [0, 1, 2, 9]
    store.save(states={0: STATE, 1: STATE, 2: STATE})
    have_keys_of_state = [state.keys() == STATE.keys() for state in store.states(num_teachers=8)]
    assert have_keys_of_state == [True] * 3 + [False] * 3 + [True] * 2


@pytest.mark.parametrize("num_bytes", [0, 40])
def test_the_teachers_of_a_torn_file_are_missing(store, num_bytes):
    """The teachers of a file that was cut to `num_bytes` bytes count as missing.

    `recover` removes the file, and saving the teachers again gives the same bytes.
    """
    store.save(states={0: STATE, 1: STATE})
    path = store.folder / file_name(first_teacher=0, last_teacher=1)
    content = path.read_bytes()
    path.write_bytes(content[:num_bytes])
    (store.folder / f".{file_name(first_teacher=2)}.4711.partial").write_bytes(b"half")
    assert store.missing(num_teachers=3) == [0, 1, 2]
    with refused_parameter("file", value=ANY, rule_words="teacher 0"):
        store.load(teacher=0)
    store.recover()
    assert list(store.folder.iterdir()) == []
    store.save(states={0: STATE, 1: STATE})
    assert path.read_bytes() == content


def link_to_null(path):
    """Makes a link to the null device."""
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("make_folder_or_link", [Path.mkdir, link_to_null], ids=["folder", "link"])
def test_a_folder_in_place_of_a_checkpoint_is_refused(store, make_folder_or_link):
    """If a folder or a link has the name of a checkpoint, `recover`, `missing` and `load` refuse it."""
    store.save(states={0: STATE})
    make_folder_or_link(store.folder / file_name(first_teacher=1, last_teacher=9))
    with refused_parameter("file", value=ANY):
        store.recover()
    with refused_parameter("file", value=ANY):
        store.missing(num_teachers=1)
    with refused_parameter("file", value=ANY):
        store.load(teacher=0)


def test_a_save_that_fails_leaves_the_old_file(store, monkeypatch):
    """If the disk is full while a teacher is saved again, only the earlier file is left."""
    store.save(states={0: STATE})

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("pate.files.atomic.os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        store.save(states={0: {"weights": np.zeros(2)}})
    assert (store.load(teacher=0)["weights"] == STATE["weights"]).all()
    assert [path.name for path in store.folder.iterdir()] == [file_name(first_teacher=0)]


MLP = MLPTeacher(hidden=4, epochs=2, device="cpu")


def test_votes_have_the_order_of_teachers_for_any_chunk_size(make_shards, queries, store):
    """Votes that are cast in chunks of 1, 3 and 100 teachers have the order of the teachers.

    The confidences in chunks agree within 1e-6 with those of all teachers at once.
    """
    shards = make_shards(sizes=[14 + index % 2 for index in range(7)])
    StackedEngine(chunk_size=3).train(
        TrainingJob(teacher=MLP, shards=shards, seeds=range(7), store=store)
    )
    expected_confidences = MLP.predict_many(
        states=[store.load(teacher=index) for index in range(7)], inputs=queries
    )
    for chunk_size in (1, 3, 100):
        confidence_blocks = list(
            cast_votes(MLP, store=store, num_teachers=7, inputs=queries, chunk_size=chunk_size)
        )
        assert [first for first, _ in confidence_blocks] == list(range(0, 7, chunk_size))
        np.testing.assert_allclose(
            np.concatenate([confidences for _, confidences in confidence_blocks]),
            expected_confidences,
            atol=1e-6,
        )


def test_confidences_of_a_wrong_shape_or_range_are_refused(shards, queries, store, monkeypatch):
    """Confidences that are NaN, above 1 or of another shape are refused.

    A state without its losses is not saved.
    """
    job = TrainingJob(teacher=MLP, shards=shards, seeds=range(2), store=store)
    states_without_losses = [{"weights": np.zeros(3)}] * 2
    fit_many = MagicMock(return_value=states_without_losses)
    monkeypatch.setattr(MLPTeacher, "fit_many", fit_many)
    with refused_parameter("state", value="weights"):
        StackedEngine().train(job)
    assert store.missing(num_teachers=2) == [0, 1]
    monkeypatch.undo()
    StackedEngine().train(job)
    confidences = MLP.predict_many(
        states=[store.load(teacher=0), store.load(teacher=1)], inputs=queries
    )
    with_nan = np.where(confidences == confidences[0, 0, 0], np.nan, confidences)
    for wrong_confidences, rule in (
        (with_nan, r"in \[0, 1\]"),
        (confidences + 1, r"in \[0, 1\]"),
        (confidences[:1], r"\(2, \d+, L\)"),
    ):
        predict_many = MagicMock(return_value=wrong_confidences)
        monkeypatch.setattr(MLPTeacher, "predict_many", predict_many)
        with pytest.raises(InvalidValue, match=rf"^MLPTeacher\.predict_many.*: expected .*{rule}"):
            list(cast_votes(MLP, store=store, num_teachers=2, inputs=queries))


def test_a_continued_run_reads_the_votes_of_a_killed_run(shards, queries, tmp_path, monkeypatch):
    """If casting votes is stopped after two of three chunks of two teachers, the next call asks the last two alone.

    All confidences are the same as without the stop.
    """
    teacher = LinearTeacher(device="cpu")
    store = CheckpointStore(tmp_path / "teachers")
    scratch_folder = tmp_path / "casting"
    StackedEngine().train(TrainingJob(teacher=teacher, shards=shards, seeds=range(6), store=store))
    expected_blocks = [
        confidences
        for _, confidences in cast_votes(
            teacher, store=store, num_teachers=6, inputs=queries, chunk_size=2
        )
    ]
    unfinished_casting = cast_votes(
        teacher, store=store, num_teachers=6, inputs=queries, chunk_size=2, scratch=scratch_folder
    )
    next(unfinished_casting)
    next(unfinished_casting)
    unfinished_casting.close()
    num_asked = []
    predict_many = LinearTeacher.predict_many

    def counting_predict_many(teacher, states, inputs):
        num_asked.append(len(states))
        return predict_many(teacher, states=states, inputs=inputs)

    monkeypatch.setattr(LinearTeacher, "predict_many", counting_predict_many)
    continued_blocks = list(
        cast_votes(
            teacher,
            store=store,
            num_teachers=6,
            inputs=queries,
            chunk_size=2,
            scratch=scratch_folder,
        )
    )
    assert [first for first, _ in continued_blocks] == [0, 2, 4]
    assert all(
        (confidences == expected_confidences).all()
        for (_, confidences), expected_confidences in zip(
            continued_blocks, expected_blocks, strict=True
        )
    )
    assert num_asked == [2]
