import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score

from pate.teachers import LinearTeacher, Shard


def sklearn_ridge(part, penalty):
    centered = part.inputs - part.inputs.mean(axis=0)
    alpha = penalty * np.square(centered).sum(axis=1).mean()
    return Ridge(alpha=alpha, solver="svd").fit(part.inputs.astype(np.float64), part.labels.astype(float))


@pytest.mark.parametrize("penalty", [1e-3, 0.5, 20.0])
def test_unequal_parts_equal_one_ridge_each(parts, queries, penalty):
    states = LinearTeacher(penalty=penalty, threshold=0.5, device="cpu").fit_many(parts, range(6))
    for part, state in zip(parts, states, strict=True):  # more and fewer records than features
        reference = sklearn_ridge(part, penalty)
        np.testing.assert_allclose(state["weights"], reference.coef_.T, atol=1e-4)
        np.testing.assert_allclose(queries @ state["weights"] + state["bias"], reference.predict(queries), atol=1e-4)


@pytest.mark.parametrize("size", [8, 40])  # both Gram matrices
def test_leave_one_out_loss_equals_leaving_one_out(make_parts, size):
    (part,) = make_parts([size])
    (state,) = LinearTeacher(device="cpu").fit_many([part], [0])
    scale = np.square(part.inputs - part.inputs.mean(axis=0)).sum(axis=1).mean()
    errors = []
    for left in range(size):
        kept = np.arange(size) != left
        model = Ridge(alpha=0.5 * scale, solver="svd").fit(part.inputs[kept], part.labels[kept].astype(float))
        errors.append(np.square(model.predict(part.inputs[left : left + 1])[0] - part.labels[left]))
    assert state["loss_curve"][0] == pytest.approx(np.mean(errors), rel=1e-4)


def test_the_unit_of_the_inputs_does_not_matter(parts, queries):
    teacher = LinearTeacher(device="cpu")
    scaled = [Shard(100 * part.inputs, part.labels) for part in parts]
    expected = teacher.predict_many(teacher.fit_many(parts, range(6)), queries)
    found = teacher.predict_many(teacher.fit_many(scaled, range(6)), 100 * queries)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_own_threshold_is_that_of_the_best_held_out_micro_f1(make_parts):
    (part,) = make_parts([60])
    (state,) = LinearTeacher(device="cpu").fit_many([part], [0])
    scale = np.square(part.inputs - part.inputs.mean(axis=0)).sum(axis=1).mean()
    scores = np.empty(part.labels.shape)
    for left in range(60):
        kept = np.arange(60) != left
        model = Ridge(alpha=0.5 * scale, solver="svd").fit(part.inputs[kept], part.labels[kept].astype(float))
        scores[left] = model.predict(part.inputs[left : left + 1])[0]
    f1 = {t: f1_score(part.labels, scores >= t / 100, average="micro") for t in range(2, 99)}
    assert f1[round(100 * float(state["threshold"]))] == max(f1.values())


def test_own_threshold_finds_rare_labels():
    rng = np.random.default_rng(0)

    def draw(size):
        inputs = rng.standard_normal((size, 20)).astype(np.float32)
        return Shard(inputs, inputs[:, :6] + rng.standard_normal((size, 6)) > 2.3)  # 5% each

    parts, held_out = [draw(100) for _ in range(10)], draw(2000)
    f1 = {}
    for threshold in (0.5, None):
        teacher = LinearTeacher(threshold=threshold, device="cpu")
        votes = teacher.predict_many(teacher.fit_many(parts, range(10)), held_out.inputs) >= 0.5
        f1[threshold] = np.array([f1_score(held_out.labels, vote, average="micro") for vote in votes])
    assert (f1[None] > f1[0.5] + 0.1).all()


def test_a_fixed_threshold_is_folded_in(parts, queries):
    half = LinearTeacher(threshold=0.5, device="cpu")
    third = LinearTeacher(threshold=0.3, device="cpu")
    votes = third.predict_many(third.fit_many(parts, range(6)), queries) >= 0.5
    assert (votes == (half.predict_many(half.fit_many(parts, range(6)), queries) >= 0.3 - 1e-6)).all()


def test_without_any_label_the_threshold_stays(parts, queries):
    teacher = LinearTeacher(device="cpu")
    (state,) = teacher.fit_many([Shard(parts[0].inputs, np.zeros((30, 5), bool))], [0])
    assert state["threshold"] == 0.5
    assert not teacher.predict_many([state], queries).any()
