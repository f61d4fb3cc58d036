import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from pate.teachers import LinearTeacher, MLPTeacher, Shard, SklearnTeacher
from pate.validation import InvalidValue

TEACHERS = [
    LinearTeacher(device="cpu"),
    MLPTeacher(hidden=8, epochs=3, batch_size=7, device="cpu"),
    SklearnTeacher(DecisionTreeClassifier(max_depth=3)),
]


@pytest.fixture(params=TEACHERS, ids=lambda teacher: type(teacher).__name__)
def teacher(request):
    return request.param


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


def test_confidences_of_every_teacher_query_and_label(teacher, parts, queries):
    confidences = teacher.predict_many(teacher.fit_many(parts, range(6)), queries)
    assert confidences.shape == (6, 50, 5)
    assert confidences.dtype == np.float32
    assert confidences.min() >= 0
    assert confidences.max() <= 1
    assert len(np.unique((confidences >= 0.5).mean(axis=(1, 2)))) > 1  # the teachers differ


def test_teachers_learn_their_labels(teacher, make_parts):
    part, held_out = make_parts([400])[0], make_parts([400, 300])[1]
    (state,) = teacher.fit_many([part], [0])
    predicted = teacher.predict_many([state], held_out.inputs)[0] >= 0.5
    prior = np.maximum(held_out.labels.mean(axis=0), 1 - held_out.labels.mean(axis=0)).mean()
    assert (predicted == held_out.labels).mean() > prior + 0.01


def test_equal_calls_give_equal_bytes(teacher, parts):
    states, again = teacher.fit_many(parts, range(6)), teacher.fit_many(parts, range(6))
    assert all(same(a, b) for a, b in zip(states, again, strict=True))


def test_a_teacher_depends_on_its_own_part_alone(teacher, parts, queries):
    alone = teacher.predict_many(teacher.fit_many([parts[3]], [7]), queries)[0]
    states = teacher.fit_many([parts[2], parts[3], parts[0]], [1, 7, 2])
    np.testing.assert_allclose(teacher.predict_many(states, queries)[1], alone, atol=1e-4)


def test_every_state_carries_its_loss_curve(teacher, parts):
    for state in teacher.fit_many(parts, range(6)):
        assert all(isinstance(array, np.ndarray) for array in state.values())
        assert state["loss_curve"].dtype == np.float32
        assert np.isfinite(state["loss_curve"]).all()
        assert state["loss_curve"].ndim == 1
        assert len(state["loss_curve"]) >= 1


def test_images_are_flattened(teacher, parts, queries):
    images = [Shard(part.inputs.reshape(-1, 3, 2, 2), part.labels) for part in parts]
    flat = teacher.predict_many(teacher.fit_many(parts, range(6)), queries)
    assert (teacher.predict_many(teacher.fit_many(images, range(6)), queries.reshape(-1, 3, 2, 2)) == flat).all()


@pytest.mark.parametrize("value", [False, True])
def test_a_constant_label_is_predicted_constant(teacher, parts, queries, value):
    labels = parts[0].labels.copy()
    labels[:, 1] = value
    (state,) = teacher.fit_many([Shard(parts[0].inputs, labels)], [0])
    if not isinstance(teacher, MLPTeacher):  # which only tends to it
        assert ((teacher.predict_many([state], queries)[0, :, 1] >= 0.5) == value).all()


def test_without_queries_there_are_no_confidences(teacher, parts, queries):
    if not isinstance(teacher, SklearnTeacher):  # whose estimators refuse it
        states = teacher.fit_many(parts, range(6))
        assert teacher.predict_many(states, queries[:0]).shape == (6, 0, 5)


@pytest.mark.parametrize("size", [1, 2])
def test_hardly_any_records(teacher, parts, queries, size):
    part = Shard(parts[0].inputs[:size], parts[0].labels[:size])
    states = teacher.fit_many([part, parts[1]], [0, 1])
    assert np.isfinite(teacher.predict_many(states, queries)).all()


def test_records_all_alike(teacher, queries):
    part = Shard(np.ones((6, 12), np.float32), np.array([[0, 1, 0, 1, 0]] * 5 + [[1] * 5], bool))
    assert np.isfinite(teacher.predict_many(teacher.fit_many([part], [0]), queries)).all()


def test_refuses_parts_that_do_not_match(teacher, parts):
    with pytest.raises(InvalidValue, match=r"len\(shards\)=0: expected at least one shard"):
        teacher.fit_many([], [])
    with pytest.raises(InvalidValue, match=r"len\(seeds\)=2: expected 6, one for each shard"):
        teacher.fit_many(parts, [1, 2])
    narrow = Shard(parts[0].inputs[:, :3], parts[0].labels)
    with pytest.raises(InvalidValue, match=r"inputs\.shape\[1:\]=\(3,\): expected \(12,\) in every shard"):
        teacher.fit_many([parts[0], narrow], [0, 1])
    fewer = Shard(parts[0].inputs, parts[0].labels[:, :2])
    with pytest.raises(InvalidValue, match=r"labels\.shape\[1\]=2: expected 5 in every shard"):
        teacher.fit_many([parts[0], fewer], [0, 1])


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (np.zeros((0, 3)), np.zeros((0, 2), bool), r"len\(inputs\)=0: expected at least one record"),
        (np.zeros(3), np.zeros((3, 2), bool), r"inputs\.shape=\(3,\): expected \[n, …\]"),
        (np.zeros((3, 2)), np.zeros((2, 2), bool), r"labels\.shape=\(2, 2\): expected \[3, num_labels\]"),
        (np.zeros((3, 2)), np.zeros((3, 0), bool), r"labels\.shape=\(3, 0\): expected \[3, num_labels\]"),
        (np.zeros((3, 2)), np.zeros((3, 2)), r"labels\.dtype=float64: expected bool"),
        (np.full((3, 2), np.nan), np.zeros((3, 2), bool), r"inputs\[0, 0\]: expected finite"),
    ],
)
def test_a_part_checks_itself(inputs, labels, message):
    with pytest.raises(InvalidValue, match=message):
        Shard(inputs.astype(np.float32), labels)
