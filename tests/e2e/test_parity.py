"""With equal seeds, `pate-train` and `pate-compare` give the same release and student.

`PATEClassifier` gives the same release.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pate import PATEClassifier
from pate.accounting import RdpAccountant
from pate.aggregators import GaussianVotes, NotPriorTopK, StableTopK
from pate.aggregators.release import PublicNames
from pate.comparison import Bench, PATEMethod
from pate.config.schema import names_in_config_group
from pate.data import Dataset
from pate.models import (
    CNNStudent,
    ConvexTeacher,
    KernelTeacher,
    LinearStudent,
    LinearTeacher,
    LogisticStudent,
    LowRankStudent,
    MLPStudent,
    ResNet50Student,
    SequentialEngine,
    SklearnTeacher,
    Student,
    StudentModel,
    Voter,
)
from pate.run.plan import Plan
from tests.e2e.shipped_aggregators import shipped_aggregator
from tests.e2e.small_run import (
    NUM_QUERIES,
    NUM_TEACHERS,
    SEED,
    SilentMonitor,
    dataset_cut_at,
    run_until,
    seeded_plan,
    small_dataset,
)
from tests.refusals import refused_parameter

# The epsilon and delta of `seeded_plan`, for the classifier.
EPSILON = 50.0
DELTA = 1e-5


def small_images() -> Dataset:
    """Returns noisy images of squares and bars, `[400, 3, 16, 16]`, with more public samples than queries."""
    rng = np.random.default_rng(3)
    inputs = rng.random((400, 3, 16, 16), dtype=np.float32) / 2
    labels = rng.random((400, 2)) < 0.5
    inputs[labels[:, 0], :, 2:6, 2:6] += 0.5
    inputs[labels[:, 1], :, 10, :] += 0.5
    return dataset_cut_at(
        inputs,
        labels,
        stops=(200, 300, 400),
        label_names=("square", "bar"),
        name="images",
        kind="images",
    )


def run_comparison(plan: Plan, folder: Path) -> tuple[bytes, StudentModel]:
    """Runs a plan by the stages of a comparison; returns the bytes of its release, and its student."""
    method = PATEMethod(
        name="m",
        aggregator=plan.aggregator,
        teacher=plan.teacher,
        num_teachers=plan.num_teachers,
        student=plan.student,
    )
    folder.mkdir(exist_ok=True)
    bench = Bench.for_dataset(
        plan.load_dataset(),
        load_dataset=plan.load_dataset,
        num_queries=plan.num_queries,
        engine=SequentialEngine(),
        student_recipe=plan.student,
        ensemble_seed=plan.seed or 0,
        folder=folder,
    )
    method.check(bench)
    method.prepare(bench, SilentMonitor())
    release = method.release(
        priced_release=method.priced(plan.budget, bench),
        bench=bench,
        vote_source=method.votes(bench),
        seed=SEED,
    )
    release.save(folder / "release.npz", names=names_in(plan.load_dataset(), plan.num_queries))
    model: Any = method.at(plan.budget, bench).train(SEED).model
    return (folder / "release.npz").read_bytes(), model


def names_in(data: Dataset, num_queries: int) -> PublicNames:
    """Returns the names of the labels, and of the first `num_queries` public samples, as a release states them."""
    return PublicNames(data.published_ids[:num_queries], data.label_names)


def require_parity(plan: Plan, folder: Path) -> None:
    """Fails unless a run of `pate-train` and a comparison give the same release and the same student."""
    run_until(plan, folder=folder / "train", stage="training the majority")
    release, student = run_comparison(plan, folder=folder / "compare")
    assert release == (folder / "train" / "release" / "release.npz").read_bytes()
    trained = StudentModel.load(folder / "train" / "release" / "student")
    assert trained.arrays.keys() == student.arrays.keys()
    for name, array in trained.arrays.items():
        np.testing.assert_array_equal(array, student.arrays[name])
    assert (trained.threshold, trained.num_rows) == (student.threshold, student.num_rows)


@pytest.mark.parametrize(
    "name", [*names_in_config_group("aggregator"), "clipped_votes aggregator.norm=l1"]
)
def test_train_and_compare_release_the_same_for_every_aggregator(name: str, tmp_path: Path) -> None:
    """For each shipped aggregator, `pate-train` and `pate-compare` give the same release and student at a seed."""
    require_parity(seeded_plan(shipped_aggregator(name)), folder=tmp_path)


@pytest.mark.parametrize(
    ("teacher", "num_teachers"),
    [(KernelTeacher(), None), (KernelTeacher(), 40), (ConvexTeacher(), 40)],
)
def test_train_and_compare_agree_for_teachers_that_read_records(
    teacher: Voter, num_teachers: int | None, tmp_path: Path
) -> None:
    """With kernel and convex teachers, `pate-train` and `pate-compare` give the same release and student at a seed.

    If `num_teachers` is None, each group of records is a teacher.
    """
    require_parity(
        replace(
            seeded_plan(shipped_aggregator("centered_votes")),
            holders=None,
            teacher=teacher,
            num_teachers=num_teachers,
            student=LowRankStudent(),
        ),
        folder=tmp_path,
    )


STUDENTS: dict[str, Callable[[], Student]] = {
    "linear": LinearStudent,
    "logistic": LogisticStudent,
    "low_rank": LowRankStudent,
    "mlp": lambda: MLPStudent(epochs=5),
    "cnn": lambda: CNNStudent(epochs=3, width=8, blocks=1, patch=4, folds=2, device="cpu"),
    "resnet50": lambda: ResNet50Student(epochs=1, folds=2, max_unlabeled=4, device="cpu"),
}


@pytest.mark.parametrize("name", names_in_config_group("student"))
def test_a_run_and_its_stages_train_the_same_student(name: str, tmp_path: Path) -> None:
    """With equal seeds, each shipped student learns the same from pictures in `pate-train` and `pate-compare`.

    Convolutional students also learn from public samples that were not among the queries.
    """
    plan = replace(
        seeded_plan(GaussianVotes(noise_std=1.0)),
        holders=None,
        load_dataset=small_images,
        teacher=LinearTeacher(device="cpu"),
        num_teachers=10,
        num_queries=12,
        student=STUDENTS[name](),
    )
    require_parity(plan, folder=tmp_path)


@pytest.mark.parametrize(  # of each form of votes, and a session
    "name",
    [
        "gaussian_votes",
        "clipped_votes",
        "powerset_gnmax",
        "centered_votes",
        "stable_top_k_boundary",
    ],
)
def test_the_classifier_releases_what_a_run_releases(name: str, tmp_path: Path) -> None:
    """With equal teachers and seed, `PATEClassifier` and `pate-train` write the same bytes of release.npz."""
    folder = tmp_path / "run"
    data = small_dataset()
    aggregator = shipped_aggregator(name)
    plan = replace(seeded_plan(aggregator), holders=None, teacher=SklearnTeacher(GaussianNB()))
    run_until(plan, folder, stage="training the student")
    model = PATEClassifier(
        GaussianNB(),
        n_teachers=NUM_TEACHERS,
        aggregator=aggregator,
        epsilon=EPSILON,
        target_delta=DELTA,
        allow_useless=True,
        accountant=RdpAccountant,
        random_state=SEED,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # seeded noise, and one label per query
        model.fit(
            data.private.inputs, data.private.labels.astype(int), data.public.inputs[:NUM_QUERIES]
        )
    model.release_.save(folder / "of_classifier.npz", names=names_in(data, num_queries=NUM_QUERIES))
    assert (folder / "of_classifier.npz").read_bytes() == (
        folder / "release" / "release.npz"
    ).read_bytes()


def test_the_classifier_passes_a_prior_to_the_aggregator() -> None:
    """`PATEClassifier` passes the predictions of its student to `NotPriorTopK` as prior, which saves budget.

    A session is charged only for queries whose answer differs from the prior. Without a prior, these are all queries
    after the first 20. So the classifier asks more queries than a session without a prior.
    """
    data = small_dataset()
    aggregator = NotPriorTopK(
        prior_scale=1.0,
        selection_scale=1.0,
        table_order=3.0,
        table_budget=4.0,
        first_queries=20,
        target_hits=15,
        session_delta=DELTA,
    )
    model = PATEClassifier(
        GaussianNB(),
        n_teachers=NUM_TEACHERS,
        aggregator=aggregator,
        epsilon=None,
        target_delta=DELTA,
        allow_useless=True,
        random_state=0,
    )
    queries = data.public.inputs[:100]
    with pytest.warns(UserWarning, match="protects nobody"):
        model.fit(data.private.inputs, data.private.labels.astype(int), queries)
    # any votes would do: without a prior, each query after the first 20 is a hit
    votes = np.full((len(queries), len(model.classes_)), NUM_TEACHERS // 2)
    blind = aggregator.aggregate(votes, num_teachers=NUM_TEACHERS, rng=np.random.default_rng(0))
    assert blind.num_asked == 20 + 15, "every query after the first ones hits"
    assert model.release_.num_asked > blind.num_asked


def test_a_comparison_refuses_inputs_that_do_not_suit_the_student(tmp_path: Path) -> None:
    """A comparison refuses a student of pictures on data that are no pictures, before it trains any teacher."""
    plan = replace(
        seeded_plan(StableTopK(selection_scale=2.0, test_std=1.0)), student=CNNStudent(device="cpu")
    )
    with refused_parameter("inputs.shape", value=(1, 8)):
        run_comparison(plan, folder=tmp_path)
    assert not (tmp_path / "ensembles").exists()
