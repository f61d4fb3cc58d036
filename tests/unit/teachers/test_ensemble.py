import numpy as np
import pytest

from pate.teachers import CheckpointStore, LinearTeacher, MLPTeacher, StackedEngine, cast_votes, train_ensemble
from pate.validation import InvalidValue

TEACHER = MLPTeacher(hidden=4, epochs=2, device="cpu")


@pytest.fixture
def trained(make_parts, tmp_path):
    (part,) = make_parts([100])

    def train(teacher, seed, folder):
        store = CheckpointStore(tmp_path / folder)
        train_ensemble(
            teacher,
            StackedEngine(chunk_size=3),
            part.inputs,
            part.labels,
            lambda index: np.arange(index, 100, 7),
            num_teachers=7,
            seed=seed,
            store=store,
        )
        return store

    return train


def test_each_teacher_is_trained_on_its_own_rows(make_parts, trained):
    (part,) = make_parts([100])
    store = trained(LinearTeacher(device="cpu"), 0, "linear")
    means = [part.labels[index::7].mean(axis=0) for index in range(7)]
    for index in range(7):
        state = store.load(index)
        at_mean = part.inputs[index::7].mean(axis=0) @ state["weights"] + state["bias"]
        np.testing.assert_allclose(at_mean, means[index] + 0.5 - state["threshold"], atol=1e-5)


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_votes_come_in_order_whatever_the_chunk(trained, queries, chunk_size):
    store = trained(TEACHER, 0, "teachers")
    expected = TEACHER.predict_many([store.load(index) for index in range(7)], queries)
    blocks = list(cast_votes(TEACHER, store, 7, queries, chunk_size))
    assert [first for first, _ in blocks] == list(range(0, 7, chunk_size))
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), expected, atol=1e-6)


def test_seeds_follow_from_one(trained):
    first, again, other = (trained(TEACHER, seed, f"{seed}-{n}") for n, seed in enumerate((1, 1, 2)))
    for index in range(7):
        assert (first.load(index)["weights"] == again.load(index)["weights"]).all()
        assert (first.load(index)["weights"] != other.load(index)["weights"]).any()
    assert (first.load(0)["weights"] != first.load(1)["weights"]).any()


def test_votes_need_every_teacher(trained, queries):
    store = trained(TEACHER, 0, "teachers")
    with pytest.raises(InvalidValue, match="teacher=7: expected a checkpoint"):
        list(cast_votes(TEACHER, store, 8, queries))


def test_refuses_impossible_arguments(make_parts, queries, tmp_path):
    (part,) = make_parts([10])
    store = CheckpointStore(tmp_path)

    def train(num_teachers, seed, rows=1):
        train_ensemble(
            TEACHER,
            StackedEngine(),
            part.inputs,
            part.labels,
            lambda index: np.arange(rows),
            num_teachers=num_teachers,
            seed=seed,
            store=store,
        )

    with pytest.raises(InvalidValue, match="num_teachers=0: expected a whole number >= 1"):
        train(0, 0)
    with pytest.raises(InvalidValue, match="seed=-1: expected a whole number >= 0"):
        train(2, -1)
    with pytest.raises(InvalidValue, match=r"len\(inputs\)=0: expected at least one record a teacher"):
        train(2, 0, rows=0)
    with pytest.raises(InvalidValue, match="num_teachers=0: expected a whole number >= 1"):
        list(cast_votes(TEACHER, store, 0, queries))
    with pytest.raises(InvalidValue, match="chunk_size=0: expected a whole number >= 1"):
        list(cast_votes(TEACHER, store, 1, queries, 0))


def test_votes_of_a_killed_run_are_taken_up(parts, queries, tmp_path, monkeypatch):
    teacher, store, scratch = LinearTeacher(device="cpu"), CheckpointStore(tmp_path / "teachers"), tmp_path / "casting"
    StackedEngine().train(teacher, parts.__getitem__, 6, range(6), store)
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


@pytest.mark.parametrize("change", [{"seed": 1}, {"teacher": MLPTeacher(hidden=5, epochs=2, device="cpu")}])
def test_a_store_of_other_teachers_is_refused(trained, change):
    trained(TEACHER, 0, "store")
    trained(TEACHER, 0, "store")
    with pytest.raises(InvalidValue, match="expected a new folder, this one has teachers of another partition"):
        trained(**({"teacher": TEACHER, "seed": 0, "folder": "store"} | change))


def test_a_store_of_another_partition_is_refused(make_parts, tmp_path):
    """Else a record could be with a teacher of the first and with one of the second."""
    (part,) = make_parts([100])
    store, how = CheckpointStore(tmp_path), {"num_teachers": 2, "seed": 0}
    given = TEACHER, StackedEngine(), part.inputs, part.labels
    train_ensemble(*given, lambda index: np.arange(index, 100, 2), store=store, **how)
    with pytest.raises(InvalidValue, match="another partition"):
        train_ensemble(*given, lambda index: np.arange(50 * index, 50 * index + 50), store=store, **how)
