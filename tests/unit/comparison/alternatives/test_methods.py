"""The alternatives as methods: calibrated, repeatable, refused in one line, beside PATE in one comparison."""

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency, Budget, GaussianEvent, gaussian_epsilon
from pate.comparison import compare, read_runs
from pate.comparison.alternatives import AllRecords
from pate.comparison.alternatives.alternative import Alternative, Training
from pate.comparison.alternatives.covariance_method import CovarianceMethod
from pate.comparison.alternatives.dp_fc import DpFeatureCovariance
from pate.comparison.alternatives.dp_gd import DpGradientDescent
from pate.comparison.alternatives.dp_ls import DpLeastSquares
from pate.comparison.alternatives.dp_sgd import DpSgd
from pate.comparison.calibration import Calibration, calibrate_method
from pate.report import multilabel_metrics
from tests.e2e.small_run import SilentMonitor, small_dataset
from tests.refusals import ANY, refused
from tests.unit.comparison.conftest import plan, small_bench

pytestmark = pytest.mark.skipif(find_spec("opacus") is None, reason="needs opacus")  # not loaded
GRADIENT = DpGradientDescent(name="dp_gd")
COVARIANCE = DpFeatureCovariance(name="dp_fc")
SQUARES = DpLeastSquares(name="dp_ls")
LINEAR = DpSgd(name="dp_sgd", batch_size=256, num_steps=12)
MLP = replace(LINEAR, name="mlp", network="mlp", hidden=8)


def budget_at_epsilon(epsilon: float) -> Budget:
    """Returns a budget of an epsilon at delta 1e-5."""
    return Budget(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize("method", [GRADIENT, COVARIANCE, SQUARES], ids=lambda method: method.name)
def test_methods_without_samples_cost_exactly_a_gaussian(method: Alternative) -> None:
    """The event of a method without samples is one Gaussian with the given noise multiplier:
    prevalence and steps add their mu^2.

    Fitted to epsilon 3, it costs between the Gaussian's epsilon and 3.
    """
    event = method.event_for(2.0, num_groups=960)
    assert isinstance(event, GaussianEvent)
    assert event.noise_multiplier == pytest.approx(2.0, rel=1e-9)
    assert event.noise_multiplier <= 2.0
    contender = method.at(budget_at_epsilon(epsilon=3.0), small_bench())
    noise = contender.parameters["noise_multiplier"]
    assert gaussian_epsilon(mu=1 / noise, target_delta=1e-5) <= contender.epsilon <= 3.0


@pytest.mark.slow
@pytest.mark.parametrize("method", [GRADIENT, LINEAR], ids=lambda method: method.name)
def test_a_kept_calibration_is_priced_again(method: Alternative, tmp_path: Path) -> None:
    """A stored calibration gives the same epsilon, at most 3.

    With 10% less noise in the file, it is refused.
    """
    path = tmp_path / "kept" / "a.json"
    contender = calibrate_method(
        method, budget=budget_at_epsilon(epsilon=3.0), bench=small_bench(), file_path=path
    )
    assert (
        calibrate_method(
            method, budget=budget_at_epsilon(epsilon=3.0), bench=small_bench(), file_path=path
        ).epsilon
        == contender.epsilon
        <= 3.0
    )
    Calibration(
        parameters={"noise_multiplier": 0.9 * contender.parameters["noise_multiplier"]}, epsilon=3.0
    ).write(path)
    with refused("epsilon", value=ANY, rule="3 once calibrated"):
        calibrate_method(
            method, budget=budget_at_epsilon(epsilon=3.0), bench=small_bench(), file_path=path
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [GRADIENT, COVARIANCE, SQUARES, LINEAR, MLP], ids=lambda method: method.name
)
def test_a_seed_gives_the_same_model_and_another_seed_another(method: Alternative) -> None:
    """A method trained twice with one seed gives equal probabilities, and with another seed
    different ones.

    At epsilon 20 its mean average precision exceeds chance by 0.2.
    """
    here = small_bench()
    contender = method.at(budget_at_epsilon(epsilon=20.0), here)
    probabilities = [
        contender.train(seed).model.predict_proba(here.dataset.test.inputs) for seed in (3, 3, 4)
    ]
    assert (probabilities[0] == probabilities[1]).all()
    assert (probabilities[0] != probabilities[2]).any()
    true = here.dataset.test.labels
    found = multilabel_metrics(
        predicted_labels=probabilities[0] >= 0.5, scores=probabilities[0], true_labels=true
    )
    chance = float(np.mean(true.mean(axis=0)))
    assert found.mean_average_precision is not None
    assert found.mean_average_precision > chance + 0.2


def test_invalid_method_is_refused_in_one_line() -> None:
    """A method for the add-remove adjacency, or with an unknown network, is refused."""
    with refused("adjacency", value="add_remove"):
        replace(GRADIENT, adjacency=str(Adjacency.ADD_REMOVE))
    with refused("method.network", value="cnn"):
        replace(LINEAR, network="cnn").check(small_bench())


def test_unknown_covariance_is_refused() -> None:
    """A covariance that is neither public nor noisy is refused."""
    with refused("covariance", value="private"):
        replace(COVARIANCE, covariance="private")


@pytest.mark.parametrize(
    ("pool_size", "noise_multiplier", "is_noisy"),
    [(300, 30.0, False), (300, 0.1, True), (30, 1.0, True), (30, 30.0, False)],
)
def test_the_covariance_with_less_error_is_taken(
    pool_size: int, noise_multiplier: float, is_noisy: bool
) -> None:
    """A noisy covariance of 960 groups is released where the pool is small or the noise is.

    `covariance=public` and `covariance=noisy` decide it whatever the noise.
    """
    dataset = small_dataset()
    some = slice(0, pool_size)
    bench = small_bench(data=replace(dataset, public=dataset.public.take(some)))
    training = Training(bench)

    def is_covariance_released(method: CovarianceMethod) -> bool:
        release = method.released_covariance(training, noise_multiplier, num_features=9)
        return release is not None

    assert (
        is_covariance_released(method=COVARIANCE)
        == is_covariance_released(method=SQUARES)
        == is_noisy
    )
    assert not is_covariance_released(method=replace(COVARIANCE, covariance="public"))
    assert is_covariance_released(method=replace(COVARIANCE, covariance="noisy"))


@pytest.mark.parametrize("covariance", ["public", "noisy"])
def test_least_squares_without_noise_or_clip_is_ordinary(covariance: str) -> None:
    """With next to no noise and nothing clipped, `dp_ls` predicts as least squares does on the centered labels."""
    bench = small_bench()
    training = Training(bench)
    method = replace(SQUARES, covariance=covariance, clip_factor=50.0)
    model = method.train_model(noise_multiplier=1e-5, training=training, seed=0)
    private = bench.dataset.private
    shares = training.shares(1e-5, rng=np.random.default_rng(0))
    ridge = method.schedule(training, 1e-5, shares).ridge
    prevalence = private.labels.mean(axis=0)
    weights = np.linalg.lstsq(
        training.directions.features(private.inputs, ridge=ridge),
        private.labels - prevalence,
        rcond=None,
    )[0]
    test_features = training.directions.features(bench.dataset.test.inputs, ridge=ridge)
    expected = (prevalence + test_features @ weights).clip(1e-3, 1 - 1e-3)
    error = np.abs(model.predict_proba(bench.dataset.test.inputs) - expected).mean()
    assert error < (0.01 if covariance == "noisy" else 0.08)
    assert np.abs(prevalence - expected).mean() > 0.1


def test_without_opacus_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opacus is not installed: a DP-SGD method is refused, and full-batch gradient descent is not."""
    monkeypatch.setitem(sys.modules, "opacus", None)
    with refused("method", value="dp_sgd"):
        replace(LINEAR)
    replace(GRADIENT)  # which does without


@pytest.mark.slow
@pytest.mark.process
def test_comparison_notes_methods_that_are_useless_or_diverge(
    tmp_path: Path,
) -> None:
    """A comparison at epsilons 0.001 and 30 has scores where a method is useful.

    A useless method, or one that diverges, has a note and no scores; the ceiling of all records
    equals its baseline row.
    """
    wild = replace(MLP, name="wild", learning_rate=1e7)
    comparison_plan = plan(
        (GRADIENT, wild, AllRecords(name="all_records")),
        epsilons=(0.001, 30.0),
        seeds=(0,),
        allow_useless=False,
    )
    compare(comparison_plan, output_dir=tmp_path / "all", monitor=SilentMonitor())
    runs = {
        (run.aggregator, run.epsilon): run for run in read_runs(tmp_path / "all" / "comparison.csv")
    }
    good = runs["dp_gd", 30.0]
    useless = runs["dp_gd", 0.001]
    assert good.mean_average_precision is not None
    assert good.priced_epsilon is not None and good.priced_epsilon <= 30.0
    assert useless.mean_average_precision is None
    assert useless.note.startswith("methods=dp_gd: expected to learn 0.")
    assert runs["wild", 30.0].note.startswith(
        "method.learning_rate=10000000.0: expected a smaller one"
    )
    ceiling = runs["all_records", None]
    alone = runs["all_records_model", None]
    assert ceiling.mean_average_precision == alone.mean_average_precision


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [GRADIENT, COVARIANCE, SQUARES, LINEAR, MLP], ids=lambda method: method.name
)
def test_unknown_labels_of_private_records_are_left_out(method: Alternative) -> None:
    """Three labels of ten are known. Left out, the others let a model predict about as many labels as there are.

    Read as absent, they let it predict less than half as many.
    """
    dataset = small_dataset()
    private = dataset.private
    known = np.random.default_rng(5).random(private.labels.shape) < 0.3
    labels = private.labels & known
    shares = []
    for mask in (known, None):
        data = replace(dataset, private=replace(private, labels=labels, known=mask))
        contender = method.at(budget_at_epsilon(epsilon=50.0), small_bench(data=data))
        probabilities = contender.train(0).model.predict_proba(dataset.test.inputs)
        shares.append(probabilities.mean() / dataset.test.labels.mean())
    assert shares[0] == pytest.approx(1.0, abs=0.2)
    assert shares[1] < 0.6
