"""The student that knows the noise: what it makes of scores, with and without a span, and of bits."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from pate.student import LowRankStudent, StudentModel
from pate.validation import InvalidValue
from pate.votes.public_pca import PublicPCA

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(2000, 12)).astype(np.float32)
WEIGHTS = RNG.normal(size=(12, 2)) @ RNG.normal(size=(2, 10))  # rank 2
OUTPUTS = POOL @ WEIGHTS
LABELS = np.greater(OUTPUTS, np.quantile(OUTPUTS, 0.8, axis=0))
PREVALENCE = LABELS.mean(axis=0)
QUERIES = POOL[:300]
TRUE_SCORES = 0.1 * OUTPUTS[:300]


def fitted(noise_std, rng=0, **changes):
    noise = np.random.default_rng(rng).normal(0, noise_std, TRUE_SCORES.shape)
    settings = {"noise_std": noise_std, "prevalence": PREVALENCE, "public_inputs": POOL} | changes
    return LowRankStudent().fit_scores(QUERIES, TRUE_SCORES + noise, **settings)


def micro_f1(model):
    return f1_score(LABELS[300:], model.predict(POOL[300:]), average="micro")


def test_knowing_the_noise_helps():
    noise = np.random.default_rng(1).normal(0, 0.5, TRUE_SCORES.shape)
    settings = {"prevalence": PREVALENCE, "public_inputs": POOL}
    aware, unaware = (
        LowRankStudent().fit_scores(QUERIES, TRUE_SCORES + noise, noise_std=std, **settings) for std in (0.5, 0.0)
    )
    assert aware.choices["rank"] <= 2 < unaware.choices["rank"]
    assert micro_f1(aware) > micro_f1(unaware) + 0.02


def test_each_label_is_predicted_as_often_as_its_prevalence_says():
    model = fitted(0.05)
    np.testing.assert_allclose(model.predict(POOL).mean(axis=0), PREVALENCE, atol=0.01)


def test_votes_in_a_span_need_no_regression():
    directions = PublicPCA.of(POOL, 12)
    weights = RNG.normal(size=(12, 10))
    scores = directions.span(QUERIES) @ weights
    settings = {"noise_std": 0.0, "prevalence": PREVALENCE, "public_inputs": POOL}
    model = LowRankStudent(num_directions=12).fit_scores(QUERIES, scores, in_span=True, **settings)
    np.testing.assert_allclose(model.arrays["weights"], weights, rtol=1e-4, atol=1e-5)
    regressed = LowRankStudent(num_directions=12).fit_scores(
        QUERIES, directions.features(QUERIES) @ weights, **settings
    )
    np.testing.assert_allclose(regressed.arrays["weights"], weights, rtol=1e-4, atol=1e-5)


def test_nothing_but_noise_predicts_no_rare_label():
    model = LowRankStudent().fit_scores(
        QUERIES, RNG.normal(size=(300, 10)), noise_std=2.0, prevalence=PREVALENCE, public_inputs=POOL
    )
    assert model.choices["rank"] == 0
    assert not model.predict(POOL).any()
    assert np.isfinite(model.predict_proba(POOL)).all()


def test_it_learns_from_bits(tmp_path):
    student = LowRankStudent()
    model = student.fit(QUERIES, LABELS[:300], seed=0)
    assert micro_f1(model) > 0.7
    model.save(tmp_path)
    loaded = StudentModel.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(POOL), model.predict_proba(POOL))
    assert type(loaded) is type(model)
    losses = []
    student.fit(QUERIES, LABELS[:300], seed=0, on_epoch=lambda epoch, values: losses.append(values["loss"]))
    assert 0 < losses[0] < 0.2


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_that_are_all_alike_say_one_thing(count):
    inputs, labels = np.ones((count, 4), np.float32), np.tile([True, False], (count, 1))
    model = LowRankStudent().fit(inputs, labels, seed=0)
    assert (model.predict(np.zeros((5, 4))) == [count > 0, False]).all()


def test_impossible_scores_are_refused():
    settings = {"noise_std": 1.0, "prevalence": PREVALENCE, "public_inputs": POOL}
    with pytest.raises(InvalidValue, match=r"scores\.shape=\(299, 10\): expected finite numbers \[300, num_labels\]"):
        LowRankStudent().fit_scores(QUERIES, TRUE_SCORES[:299], **settings)
    with pytest.raises(InvalidValue, match=r"prevalence\.shape=\(2,\): expected \(10,\)"):
        LowRankStudent().fit_scores(QUERIES, TRUE_SCORES, **(settings | {"prevalence": PREVALENCE[:2]}))
    with pytest.raises(InvalidValue, match=r"noise_std=-1\.0: expected a number >= 0"):
        LowRankStudent().fit_scores(QUERIES, TRUE_SCORES, **(settings | {"noise_std": -1.0}))
