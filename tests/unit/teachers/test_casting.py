import numpy as np
import pytest

from pate.teachers import CheckpointStore, LinearTeacher, MLPTeacher, StackedEngine, TrainingJob, cast_votes
from pate.validation import InvalidValue

TEACHER = MLPTeacher(hidden=4, epochs=2, device="cpu")


@pytest.fixture
def trained(make_parts, tmp_path):
    parts = make_parts([14 + index % 2 for index in range(7)])
    job = TrainingJob(TEACHER, parts.__getitem__, range(7), CheckpointStore(tmp_path / "teachers"))
    StackedEngine(chunk_size=3).train(job)
    return job.store


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_votes_come_in_order_whatever_the_chunk(trained, queries, chunk_size):
    expected = TEACHER.predict_many([trained.load(index) for index in range(7)], queries)
    blocks = list(cast_votes(TEACHER, trained, 7, queries, chunk_size))
    assert [first for first, _ in blocks] == list(range(0, 7, chunk_size))
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), expected, atol=1e-6)


def test_votes_need_every_teacher(trained, queries):
    with pytest.raises(InvalidValue, match="expected the checkpoint of teacher 7"):
        list(cast_votes(TEACHER, trained, 8, queries))


def test_refuses_impossible_arguments(queries, tmp_path):
    with pytest.raises(InvalidValue, match="num_teachers=0: expected a whole number >= 1"):
        list(cast_votes(TEACHER, CheckpointStore(tmp_path), 0, queries))
    with pytest.raises(InvalidValue, match="chunk_size=0: expected a whole number >= 1"):
        list(cast_votes(TEACHER, CheckpointStore(tmp_path), 1, queries, 0))


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
