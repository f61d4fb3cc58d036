"""Linear teachers and students, fitted by least squares or by the logistic loss."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score

from pate.data import Split
from pate.models import (
    LinearStudent,
    LinearTeacher,
    LogisticStudent,
    LowRankStudent,
    Shard,
    logistic,
)
from pate.models.logistic import WhiteCoordinates
from pate.run.ceiling import train_on_all_records


def ridge_regression(inputs, labels, penalty, used_rows=slice(None)):
    """Fits scikit-learn's ridge regression of the labels on the inputs, and returns the fitted estimator.

    Args:
        inputs: the inputs.
        labels: the labels.
        penalty: the penalty as a share of the mean squared distance of the inputs from their mean.
        used_rows: the rows to which the regression is fitted; the penalty follows from all rows.
    """
    scale = np.square(inputs - inputs.mean(axis=0)).sum(axis=1).mean()
    regression = Ridge(alpha=penalty * scale, solver="svd")
    return regression.fit(inputs[used_rows].astype(np.float64), labels[used_rows].astype(float))


def leave_one_out_predictions(inputs, labels, penalty):
    """Returns, for each row, the prediction of a regression on all other rows, `[num_rows, num_labels]`."""
    rows = np.arange(len(inputs))

    def predict_left_out(row):
        regression = ridge_regression(
            inputs=inputs, labels=labels, penalty=penalty, used_rows=rows != row
        )
        return regression.predict(inputs[[row]])[0]

    return np.stack([predict_left_out(row=row) for row in rows])


@pytest.mark.parametrize("penalty", [1e-3, 0.5, 20.0])
def test_stacked_ridge_teachers_equal_separate_ridge_regressions(shards, queries, penalty):
    """Weights and predictions of six linear teachers are those of a ridge regression on each shard."""
    states = LinearTeacher(penalty=penalty, threshold=0.5, device="cpu").fit_many(
        shards=shards, seeds=range(6)
    )
    # The sizes are more and fewer records than features.
    for shard, state in zip(shards, states, strict=True):
        expected_ridge = ridge_regression(inputs=shard.inputs, labels=shard.labels, penalty=penalty)
        np.testing.assert_allclose(state["weights"], expected_ridge.coef_.T, atol=1e-4)
        np.testing.assert_allclose(
            queries @ state["weights"] + state["bias"], expected_ridge.predict(queries), atol=1e-4
        )


@pytest.mark.parametrize("size", [8, 40])  # both Gram matrices
def test_leave_one_out_loss_equals_leaving_one_out(make_shards, size):
    """The loss of a linear teacher is the mean squared error of regressions that leave out one row each."""
    (shard,) = make_shards(sizes=[size])
    (state,) = LinearTeacher(device="cpu").fit_many(shards=[shard], seeds=[0])
    predictions = leave_one_out_predictions(inputs=shard.inputs, labels=shard.labels, penalty=0.5)
    mean_squared_error = np.square(predictions - shard.labels).mean()
    assert state["loss_curve"][0] == pytest.approx(mean_squared_error, rel=1e-4)


def test_a_teachers_own_threshold_predicts_rare_labels():
    """If labels are rare, each of ten teachers has a micro F1 over 0.1 higher at its own threshold than at 0.5."""
    rng = np.random.default_rng(0)

    def draw_shard(size):
        """Returns records with six labels, each of which 5% of the records have."""
        inputs = rng.standard_normal((size, 20)).astype(np.float32)
        labels = inputs[:, :6] + rng.standard_normal((size, 6)) > 2.3
        return Shard(inputs=inputs, labels=labels)

    shards = [draw_shard(size=100) for _ in range(10)]
    held_out = draw_shard(size=2000)

    def f1_of_teachers(threshold):
        teacher = LinearTeacher(threshold=threshold, device="cpu")
        states = teacher.fit_many(shards=shards, seeds=range(10))
        votes = teacher.predict_many(states=states, inputs=held_out.inputs) >= 0.5
        return np.array(
            [
                f1_score(y_true=held_out.labels, y_pred=teacher_votes, average="micro")
                for teacher_votes in votes
            ]
        )

    f1_at_own_thresholds = f1_of_teachers(threshold=None)
    assert (f1_at_own_thresholds > f1_of_teachers(threshold=0.5) + 0.1).all()


@pytest.mark.parametrize("size", [10, 120])  # fewer and more rows than features
def test_equals_ridge_with_the_same_penalty(make_rows, held_out, size):
    """A linear student with one penalty predicts what scikit-learn's ridge regression predicts, cut to [0, 1]."""
    rows = make_rows(size=size)
    model = LinearStudent(penalties=(0.7,)).fit(rows.inputs, labels=rows.labels, seed=0)
    regression = ridge_regression(inputs=rows.inputs, labels=rows.labels, penalty=0.7)
    expected = regression.predict(held_out.inputs).clip(min=0, max=1)
    np.testing.assert_allclose(model.predict_proba(held_out.inputs), expected, atol=1e-4)


@pytest.mark.parametrize("labels_per_sample", [0.5, 2.0, 4.0])
def test_a_public_mean_number_of_labels_determines_the_threshold(rows, held_out, labels_per_sample):
    """With `labels_per_sample`, predictions have this mean number of labels within 20%."""
    model = LinearStudent(labels_per_sample=labels_per_sample).fit(
        rows.inputs, labels=rows.labels, seed=0
    )
    mean_predicted = model.predict(held_out.inputs).sum(axis=1).mean()
    assert mean_predicted == pytest.approx(labels_per_sample, rel=0.2)


def test_equals_logistic_regression_with_the_same_penalty(make_rows, held_out):
    """A fit in whitened coordinates has the log-odds, within 0.02, of scikit-learn's logistic regression."""
    inputs, labels = make_rows(size=400)
    white_coordinates = WhiteCoordinates(inputs)
    features = white_coordinates.features(inputs, row_order=np.arange(len(inputs)))
    zeros = np.zeros((features.shape[1], 6))
    white_weights = white_coordinates.fit_weights(
        features, labels=labels, penalty=1e-2, initial_weights=zeros
    )
    weights = white_coordinates.directions @ white_weights[:-1]
    bias = white_weights[-1] - white_coordinates.center @ weights
    spread = np.square(inputs - inputs.mean(axis=0)).sum(axis=1).mean()
    scores = held_out.inputs @ weights + bias
    for label in range(6):
        strength = 1 / (1e-2 * spread * len(inputs))
        model = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(
            inputs, labels[:, label]
        )
        np.testing.assert_allclose(
            scores[:, label], model.decision_function(held_out.inputs), atol=0.02
        )


def test_of_many_rows_only_some_choose_the_penalty(make_rows, held_out, monkeypatch):
    """Above a limit on the number of rows, some rows choose the penalty, and the student is fitted to all rows.

    The probabilities are those of a student whose penalty all rows chose, within 0.002.
    """
    rows = make_rows(size=3000)
    num_fitted = []
    fit_weights = WhiteCoordinates.fit_weights

    def count_rows_and_fit(
        white_coordinates, features, *, labels, penalty, initial_weights, known_label_mask
    ):
        num_fitted.append(len(features))
        return fit_weights(
            white_coordinates,
            features,
            labels=labels,
            penalty=penalty,
            initial_weights=initial_weights,
            known_label_mask=known_label_mask,
        )

    monkeypatch.setattr(WhiteCoordinates, "fit_weights", count_rows_and_fit)
    student = LogisticStudent(penalties=(1e-3,))
    model_if_all_rows_choose = student.fit(rows.inputs, labels=rows.labels, seed=0)
    monkeypatch.setattr(logistic, "_MAX_ROWS", 700)
    model_if_some_rows_choose = student.fit(rows.inputs, labels=rows.labels, seed=0)
    # A fifth of the rows that choose the penalty is held out.
    assert num_fitted == [3000 - 600, 3000, 700 - 140, 3000]
    queries = held_out.inputs
    np.testing.assert_allclose(
        model_if_some_rows_choose.predict_proba(queries),
        model_if_all_rows_choose.predict_proba(queries),
        atol=2e-3,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("nonlinear", "kind"), [(False, "logistic"), (True, "mlp")])
def test_the_ceiling_is_the_best_on_held_out_private_groups(nonlinear: bool, kind: str) -> None:
    """The model of all records, which is chosen on held-out groups, is of the `kind` that fits the labels.

    For nonlinear labels the model is an MLP, and for linear ones a logistic student.
    """
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(1500, 6)).astype(np.float32)
    score = inputs[:, 0] * inputs[:, 1] if nonlinear else inputs[:, 0] + inputs[:, 1]
    labels = (score + 0.3 * rng.normal(size=1500) > 1)[:, None]
    private = Split(
        inputs=inputs, labels=labels, record_ids=np.arange(1500), group_ids=np.arange(1500) // 2
    )
    model = train_on_all_records(LowRankStudent(), records=private, seed=0)
    assert (model.kind, model.num_rows) == (kind, 1500)
