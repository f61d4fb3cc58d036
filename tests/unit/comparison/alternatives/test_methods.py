"""Private methods without teachers, as methods of a comparison: their prices, calibrations, seeds and refusals."""

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency, Budget, GaussianEvent, gaussian_epsilon
from pate.comparison import compare, read_runs
from pate.comparison.alternatives import AllRecords
from pate.comparison.alternatives.alternative import Alternative, TrainingData
from pate.comparison.alternatives.covariance_method import CovarianceMethod
from pate.comparison.alternatives.dp_fc import DpFeatureCovariance
from pate.comparison.alternatives.dp_gd import DpGradientDescent
from pate.comparison.alternatives.dp_ls import DpLeastSquares
from pate.comparison.alternatives.dp_sgd import DpSgd
from pate.comparison.calibration import Calibration, calibrate_method
from pate.files.reading import DamagedFile
from pate.report import multilabel_metrics
from tests.e2e.small_run import SilentMonitor, small_dataset
from tests.refusals import ANY, refused_parameter
from tests.unit.comparison.conftest import small_bench, small_comparison_plan

pytestmark = pytest.mark.skipif(find_spec("opacus") is None, reason="needs opacus")

# One method of each kind; `MLP_DP_SGD` is DP-SGD with a hidden layer.
DP_GRADIENT_DESCENT = DpGradientDescent(name="dp_gd")
DP_COVARIANCE_METHOD = DpFeatureCovariance(name="dp_fc")
DP_LEAST_SQUARES = DpLeastSquares(name="dp_ls")
LINEAR_DP_SGD = DpSgd(name="dp_sgd", batch_size=256, num_steps=12)
MLP_DP_SGD = replace(LINEAR_DP_SGD, name="mlp", network="mlp", hidden=8)


def budget_at_epsilon(epsilon: float) -> Budget:
    """Returns a budget of an epsilon at delta 1e-5."""
    return Budget(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize(
    "method",
    [DP_GRADIENT_DESCENT, DP_COVARIANCE_METHOD, DP_LEAST_SQUARES],
    ids=lambda method: method.name,
)
def test_methods_without_samples_cost_exactly_a_gaussian(method: Alternative) -> None:
    """A method that samples no groups costs one Gaussian event with the method's noise multiplier.

    Calibrated to epsilon 3, the method costs at most 3, and at least the epsilon of a Gaussian with the calibrated
    noise multiplier.
    """
    event = method.event_for(noise_multiplier=2.0, num_groups=960)
    assert isinstance(event, GaussianEvent)
    assert event.noise_multiplier == pytest.approx(2.0, rel=1e-9)
    assert event.noise_multiplier <= 2.0
    contender = method.at(budget=budget_at_epsilon(epsilon=3.0), bench=small_bench())
    mu = 1 / contender.parameters["noise_multiplier"]
    assert gaussian_epsilon(mu=mu, target_delta=1e-5) <= contender.epsilon <= 3.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "alternative", [DP_GRADIENT_DESCENT, LINEAR_DP_SGD], ids=lambda alternative: alternative.name
)
def test_a_stored_calibration_is_priced_again(alternative: Alternative, tmp_path: Path) -> None:
    """A calibration that is read from its file has the epsilon of the first calibration, at most 3.

    With 10% less noise in the file, the calibration is refused.
    """
    calibration_path = tmp_path / "calibrations" / "a.json"
    contender = calibrate_method(
        alternative,
        budget=budget_at_epsilon(epsilon=3.0),
        bench=small_bench(),
        calibration_file=calibration_path,
    )
    stored_contender = calibrate_method(
        alternative,
        budget=budget_at_epsilon(epsilon=3.0),
        bench=small_bench(),
        calibration_file=calibration_path,
    )
    assert stored_contender.epsilon == contender.epsilon <= 3.0
    lowered_multiplier = 0.9 * contender.parameters["noise_multiplier"]
    lowered_calibration = Calibration(
        parameters={"noise_multiplier": lowered_multiplier}, epsilon=3.0
    )
    lowered_calibration.write(calibration_path)
    with refused_parameter("epsilon", value=ANY, rule_words="3 once calibrated"):
        calibrate_method(
            alternative,
            budget=budget_at_epsilon(epsilon=3.0),
            bench=small_bench(),
            calibration_file=calibration_path,
        )


def test_parameters_of_another_method_are_a_damaged_calibration(tmp_path: Path) -> None:
    """A file with the noise of an aggregator is no calibration of an alternative, and the error names the file."""
    calibration_path = tmp_path / "calibrations" / "a.json"
    Calibration(parameters={"noise_std": 2.0}, epsilon=3.0).write(calibration_path)
    with pytest.raises(DamagedFile, match=r"a\.json.*other parameters"):
        calibrate_method(
            DP_GRADIENT_DESCENT,
            budget=budget_at_epsilon(epsilon=3.0),
            bench=small_bench(),
            calibration_file=calibration_path,
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [DP_GRADIENT_DESCENT, DP_COVARIANCE_METHOD, DP_LEAST_SQUARES, LINEAR_DP_SGD, MLP_DP_SGD],
    ids=lambda method: method.name,
)
def test_a_seed_gives_the_same_model_and_another_seed_another(method: Alternative) -> None:
    """Two trainings with one seed give equal probabilities, and a training with another seed different ones.

    At epsilon 20 the mean average precision exceeds chance by 0.2.
    """
    bench = small_bench()
    test_split = bench.dataset.test
    contender = method.at(budget=budget_at_epsilon(epsilon=20.0), bench=bench)
    first, repeated, other = (
        contender.train(seed).model.predict_proba(test_split.inputs) for seed in (3, 3, 4)
    )
    assert (first == repeated).all()
    assert (first != other).any()
    metrics = multilabel_metrics(
        predicted_labels=first >= 0.5, scores=first, true_labels=test_split.labels
    )
    chance = float(np.mean(test_split.labels.mean(axis=0)))
    assert metrics.mean_average_precision is not None
    assert metrics.mean_average_precision > chance + 0.2


def test_a_method_for_add_remove_is_refused() -> None:
    """A method whose adjacency is add_remove is refused, as it divides by the number of groups."""
    with refused_parameter("adjacency", value="add_remove"):
        replace(DP_GRADIENT_DESCENT, adjacency=str(Adjacency.ADD_REMOVE))


def test_a_convolutional_network_is_refused_for_other_inputs_than_images() -> None:
    """DP-SGD with the network `cnn` is refused for a data set whose inputs are no images."""
    with refused_parameter("method.network", value="cnn"):
        replace(LINEAR_DP_SGD, network="cnn").check(small_bench())


def test_unknown_covariance_is_refused() -> None:
    """A method refuses `covariance=private`, as the setting takes `public`, `noisy` or None."""
    with refused_parameter("covariance", value="private"):
        replace(DP_COVARIANCE_METHOD, covariance="private")


@pytest.mark.parametrize(
    ("pool_size", "noise_multiplier", "is_noisy"),
    [
        pytest.param(140, 30.0, False, id="large pool, much noise"),
        pytest.param(140, 0.1, True, id="large pool, little noise"),
        pytest.param(30, 1.0, True, id="small pool, medium noise"),
        pytest.param(30, 30.0, False, id="small pool, much noise"),
    ],
)
def test_the_covariance_with_less_error_is_taken(
    pool_size: int, noise_multiplier: float, is_noisy: bool
) -> None:
    """A noisy covariance of private features is released if it has less error than the covariance of the public pool.

    That is so at little noise, and with a small pool at medium noise, but not at much noise. With `covariance=public`
    none is released, and with `covariance=noisy` one is, for any pool and noise.
    """
    dataset = small_dataset()
    small_pool = dataset.public.take(row_numbers=slice(0, pool_size))
    training_data = TrainingData(bench=small_bench(dataset=replace(dataset, public=small_pool)))

    def is_covariance_released(method: CovarianceMethod) -> bool:
        """Returns True if a method releases a noisy covariance."""
        mechanism = method.released_covariance(
            training_data, noise_multiplier=noise_multiplier, num_features=9
        )
        return mechanism is not None

    assert is_covariance_released(method=DP_COVARIANCE_METHOD) == is_noisy
    assert is_covariance_released(method=DP_LEAST_SQUARES) == is_noisy
    assert not is_covariance_released(method=replace(DP_COVARIANCE_METHOD, covariance="public"))
    assert is_covariance_released(method=replace(DP_COVARIANCE_METHOD, covariance="noisy"))


@pytest.mark.parametrize("covariance", ["public", "noisy"])
def test_least_squares_without_noise_or_clip_is_ordinary(covariance: str) -> None:
    """With almost no noise and a large clip, `dp_ls` predicts nearly as ordinary least squares on centered labels."""
    bench = small_bench()
    training_data = TrainingData(bench=bench)
    method = replace(DP_LEAST_SQUARES, covariance=covariance, clip_factor=50.0)
    model = method.train_model(noise_multiplier=1e-5, training_data=training_data, seed=0)
    private_split = bench.dataset.private
    released_shares = training_data.release_shares(
        noise_multiplier=1e-5, rng=np.random.default_rng(0)
    )
    ridge = method.schedule(
        training_data, noise_multiplier=1e-5, released_shares=released_shares
    ).ridge
    prevalence_of_labels = private_split.labels.mean(axis=0)
    weights = np.linalg.lstsq(
        training_data.public_feature_map.features(private_split.inputs, ridge=ridge),
        private_split.labels - prevalence_of_labels,
        rcond=None,
    )[0]
    test_features = training_data.public_feature_map.features(
        bench.dataset.test.inputs, ridge=ridge
    )
    expected_probabilities = np.clip(
        prevalence_of_labels + test_features @ weights, a_min=1e-3, a_max=1 - 1e-3
    )
    error = np.abs(model.predict_proba(bench.dataset.test.inputs) - expected_probabilities).mean()
    assert error < (0.01 if covariance == "noisy" else 0.08)
    assert np.abs(prevalence_of_labels - expected_probabilities).mean() > 0.1


def test_without_opacus_dp_sgd_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Opacus is not installed, DP-SGD is refused, and gradient descent on all groups is not."""
    monkeypatch.setitem(sys.modules, "opacus", None)
    with refused_parameter("method", value="dp_sgd"):
        replace(LINEAR_DP_SGD)
    replace(DP_GRADIENT_DESCENT)


@pytest.mark.slow
@pytest.mark.process
def test_comparison_notes_methods_that_are_useless_or_diverge(
    tmp_path: Path,
) -> None:
    """In a comparison, a method that is useless at an epsilon, or that diverges, has a note in place of scores.

    The epsilons are 0.001 and 30. The model of all records has the same mean average precision as a method and as a
    baseline.
    """
    diverging_method = replace(MLP_DP_SGD, name="wild", learning_rate=1e7)
    comparison_plan = small_comparison_plan(
        methods=(DP_GRADIENT_DESCENT, diverging_method, AllRecords(name="all_records")),
        epsilons=(0.001, 30.0),
        seeds=(0,),
        allow_useless=False,
    )
    compare(comparison_plan, output_dir=tmp_path / "all", monitor=SilentMonitor())
    runs = {
        (run.aggregator, run.epsilon): run for run in read_runs(tmp_path / "all" / "comparison.csv")
    }
    useful_run = runs["dp_gd", 30.0]
    useless_run = runs["dp_gd", 0.001]
    assert useful_run.mean_average_precision is not None
    assert useful_run.priced_epsilon is not None and useful_run.priced_epsilon <= 30.0
    assert useless_run.mean_average_precision is None
    assert useless_run.note.startswith("methods=dp_gd: expected to learn 0.")
    assert runs["wild", 30.0].note.startswith(
        "method.learning_rate=10000000.0: expected a smaller one"
    )
    method_run = runs["all_records", None]
    baseline_run = runs["all_records_model", None]
    assert method_run.mean_average_precision == baseline_run.mean_average_precision


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [DP_GRADIENT_DESCENT, DP_COVARIANCE_METHOD, DP_LEAST_SQUARES, LINEAR_DP_SGD, MLP_DP_SGD],
    ids=lambda method: method.name,
)
def test_unknown_labels_of_private_records_are_left_out(method: Alternative) -> None:
    """If 70% of the private labels are unknown and left out, the mean prediction is about the true prevalence.

    If unknown labels counted as absent, the mean prediction would be less than 60% of the prevalence.
    """
    dataset = small_dataset()
    private = dataset.private
    known = np.random.default_rng(5).random(private.labels.shape) < 0.3
    labels = private.labels & known

    def mean_prediction(known_labels: np.ndarray | None) -> float:
        """Returns the mean prediction divided by the prevalence; `known_labels` is None if all labels are known."""
        private_with_gaps = replace(private, labels=labels, known=known_labels)
        bench = small_bench(dataset=replace(dataset, private=private_with_gaps))
        contender = method.at(budget=budget_at_epsilon(epsilon=50.0), bench=bench)
        probabilities = contender.train(seed=0).model.predict_proba(dataset.test.inputs)
        return float(probabilities.mean() / dataset.test.labels.mean())

    assert mean_prediction(known_labels=known) == pytest.approx(1.0, abs=0.2)
    assert mean_prediction(known_labels=None) < 0.6
