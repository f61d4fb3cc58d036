"""The sentences of a card for the holders of records, and the warnings about a plan, appear only where they apply."""

import dataclasses
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pate.accounting import Adjacency, Budget, GaussianEvent
from pate.aggregators import BoundaryMax, ConfidentGNMax, GaussianVotes, GNMax, Release
from pate.data import Dataset, Split
from pate.models import (
    CNNStudent,
    CNNTeacher,
    KernelTeacher,
    LinearStudent,
    LinearTeacher,
    LowRankStudent,
    SklearnTeacher,
)
from pate.report import format_epsilon
from pate.run.account_words import fitting_in_words
from pate.run.places import Places, group_epsilon
from pate.run.plan_warnings import constant_student_warnings, plan_warnings, remedies_of
from tests.e2e.small_run import small_dataset
from tests.refusals import refused_parameter

EVENT = GaussianEvent(noise_multiplier=8.0)
BUDGET = Budget(delta=1e-6)


def promises_of(
    places: Places, adjacency: Adjacency = Adjacency.REPLACE_ONE, num_draws: int = 1
) -> str:
    """Returns the sentences of the privacy card on whose data the price protects."""
    drawn_release = Release(
        labels=np.zeros((1, 1), bool),
        answered=np.ones(1, bool),
        event=EVENT,
        adjacency=adjacency,
    )
    return "\n".join(places.promises(drawn_release, budget=BUDGET, num_draws=num_draws))


def price_in_words(num_privacy_units: int) -> str:
    """Returns the words of the card for the epsilon of a group of units."""
    return f"epsilon {format_epsilon(group_epsilon(event=EVENT, group_size=num_privacy_units, budget=BUDGET))}"


def test_the_card_states_the_price_of_a_record_a_holder_and_two_holders() -> None:
    """The card says which changes epsilon covers, a record or a data holder, and the epsilon of groups of them.

    Under add_remove a changed record counts as two units. The epsilon of a group depends on the number of draws.
    """
    single_teacher = promises_of(places=Places(num_holders=40, teachers_per_holder=1))
    several_teachers = promises_of(places=Places(num_holders=40, teachers_per_holder=10))
    assert "40 holders of records, each of which is one teacher" in single_teacher
    assert (
        "A record of a holder, any number of its records, and the holder itself are covered by it."
        in single_teacher
    )
    assert (
        f"For m = 2 that is group size 2: {price_in_words(num_privacy_units=2)}." in single_teacher
    )
    assert (
        "One record of a holder, or one group of records that the holder keeps together, is covered by it."
        in several_teachers
    )
    assert (
        f"The holder itself, all of its records, is covered at group size 10: {price_in_words(num_privacy_units=10)}."
        in several_teachers
    )
    under_add_remove = promises_of(
        places=Places(num_holders=5, teachers_per_holder=1), adjacency=Adjacency.ADD_REMOVE
    )
    assert (
        "A holder that comes or goes is covered by it; a record of a holder is at group size 2."
        in under_add_remove
    )
    assert f"group size 4: {price_in_words(num_privacy_units=4)}" in under_add_remove
    assert "comes or goes is covered at group size 3" in promises_of(
        places=Places(num_holders=5, teachers_per_holder=3), adjacency=Adjacency.ADD_REMOVE
    )
    places = Places(num_holders=4, teachers_per_holder=2)
    assert price_in_words(num_privacy_units=2) in promises_of(places=places)
    assert price_in_words(num_privacy_units=2) not in promises_of(places=places, num_draws=2)


def test_holders_must_divide_the_number_of_teachers() -> None:
    """400 teachers can be divided among 40 holders, but not among seven."""
    assert Places.with_equal_holders(num_teachers=400, num_holders=40) == Places(
        num_holders=40, teachers_per_holder=10
    )
    with refused_parameter("holders", value=7, rule_words="a number that divides the 400"):
        Places.with_equal_holders(num_teachers=400, num_holders=7)


GAUSSIAN = GaussianVotes(noise_std=1.0)
LINEAR = LinearTeacher(device="cpu")
STUDENT = LinearStudent()


def test_few_records_per_teacher_give_a_warning() -> None:
    """With 9.9 of 960 private records for each teacher there is a warning, and with ten there is none.

    Kernel teachers, which are made for one record each, give no warning.
    """
    data = small_dataset()
    assert not list(
        plan_warnings(
            data,
            aggregator=GAUSSIAN,
            teacher_recipe=LINEAR,
            student_recipe=STUDENT,
            num_teachers=96,
        )
    )
    (line,) = plan_warnings(
        data, aggregator=GAUSSIAN, teacher_recipe=LINEAR, student_recipe=STUDENT, num_teachers=97
    )
    assert line.startswith(
        "teacher.num_teachers=97: 9.9 private records per teacher teach it little; fewer teachers, or "
    )
    assert not list(
        plan_warnings(
            data,
            aggregator=GAUSSIAN,
            teacher_recipe=KernelTeacher(),
            student_recipe=STUDENT,
            num_teachers=960,
        )
    )


def test_one_label_per_query_gives_a_warning_on_data_with_several() -> None:
    """An aggregator of one label per query gives a warning for data with several labels, and none for data with one."""
    multilabel_dataset = small_dataset()
    labels = np.arange(len(multilabel_dataset.private))[:, None] % 5 == np.arange(5)
    single_label_dataset = dataclasses.replace(
        multilabel_dataset, private=dataclasses.replace(multilabel_dataset.private, labels=labels)
    )
    confident = ConfidentGNMax(screening_std=1.0, noise_std=1.0, threshold_share=0.5)
    for aggregator in (GNMax(noise_std=1.0), confident, BoundaryMax(selection_scale=1.0)):
        (line,) = plan_warnings(
            multilabel_dataset,
            aggregator=aggregator,
            teacher_recipe=LINEAR,
            student_recipe=STUDENT,
            num_teachers=24,
        )
        assert line.startswith(
            f"aggregator={type(aggregator).__name__}: names one label per query; any others"
        )
        assert not list(
            plan_warnings(
                single_label_dataset,
                aggregator=aggregator,
                teacher_recipe=LINEAR,
                student_recipe=STUDENT,
                num_teachers=24,
            )
        )


def data_with_scaled_public(scale: np.ndarray) -> Dataset:
    """Returns the small data set with the columns of its public inputs multiplied by a scale, `[num_columns]`."""
    data = small_dataset()
    return dataclasses.replace(
        data, public=dataclasses.replace(data.public, inputs=data.public.inputs * scale)
    )


def test_columns_with_unequal_ranges_give_a_warning_for_linear_models_alone() -> None:
    """If a public column is 200 times as wide as the others, a warning names linear teachers and students only.

    A column five times as wide gives no warning.
    """
    data_with_a_wide_column = data_with_scaled_public(
        scale=np.array([1, 1, 1, 1, 1, 1, 1, 200], dtype=np.float32)
    )
    (line,) = plan_warnings(
        data_with_a_wide_column,
        aggregator=GAUSSIAN,
        teacher_recipe=LINEAR,
        student_recipe=STUDENT,
        num_teachers=24,
    )
    assert (
        "times as wide as the middle one, and linear: teacher and student; scale the columns"
        in line
    )
    assert not list(
        plan_warnings(
            data_with_a_wide_column,
            aggregator=GAUSSIAN,
            teacher_recipe=KernelTeacher(),
            student_recipe=LowRankStudent(),
            num_teachers=24,
        )
    )
    (tree,) = plan_warnings(
        data_with_a_wide_column,
        aggregator=GAUSSIAN,
        teacher_recipe=SklearnTeacher(DecisionTreeClassifier()),
        student_recipe=STUDENT,
        num_teachers=24,
    )
    assert "linear: student;" in tree
    (logistic,) = plan_warnings(
        data_with_a_wide_column,
        aggregator=GAUSSIAN,
        teacher_recipe=SklearnTeacher(LogisticRegression()),
        student_recipe=LowRankStudent(),
        num_teachers=24,
    )
    assert "linear: teacher;" in logistic
    data_with_similar_columns = data_with_scaled_public(
        scale=np.array([1, 1, 1, 1, 1, 1, 1, 5], dtype=np.float32)
    )
    assert not list(
        plan_warnings(
            data_with_similar_columns,
            aggregator=GAUSSIAN,
            teacher_recipe=LINEAR,
            student_recipe=STUDENT,
            num_teachers=24,
        )
    )


def test_a_constant_student_gives_a_warning() -> None:
    """A student that predicts the same labels for every public sample gives a warning, and another student none."""
    data = small_dataset()
    public_rows = data.public.inputs[:40]
    constant_model = STUDENT.fit(public_rows, np.zeros((40, 5), dtype=bool), seed=0)
    (line,) = constant_student_warnings(constant_model, public_inputs=data.public.inputs)
    assert line.startswith(
        "student: it predicts the same labels for every public sample, as the prior does"
    )
    model = STUDENT.fit(public_rows, data.public.labels[:40], seed=0)
    assert not list(constant_student_warnings(model, public_inputs=data.public.inputs))


def picture_dataset() -> Dataset:
    """Returns the small data set as pictures of 2 x 4 pixels of one color."""

    def as_pictures(split: Split) -> Split:
        pixels = (split.inputs > 0).astype(np.float32)
        return dataclasses.replace(split, inputs=pixels.reshape(-1, 1, 2, 4))

    data = small_dataset()
    return dataclasses.replace(
        data,
        kind="images",
        private=as_pictures(data.private),
        public=as_pictures(data.public),
        test=as_pictures(data.test),
    )


def test_linear_models_of_raw_pixels_give_a_warning() -> None:
    """A linear student of raw pixels gives a warning with its remedies, and networks for images give none."""
    pictures = picture_dataset()
    (line,) = plan_warnings(
        pictures,
        aggregator=GAUSSIAN,
        teacher_recipe=CNNTeacher(),
        student_recipe=LinearStudent(),
        num_teachers=24,
    )
    assert line == (
        "data: the inputs are raw pixels, and linear: student; features=patches helps, or "
        "teacher=cnn student=cnn, which look at pictures"
    )
    assert not list(
        plan_warnings(
            pictures,
            aggregator=GAUSSIAN,
            teacher_recipe=CNNTeacher(),
            student_recipe=CNNStudent(),
            num_teachers=24,
        )
    )


@pytest.mark.parametrize(
    ("teacher", "advice"),
    [
        pytest.param(
            CNNTeacher(),
            "more records for each teacher, more epochs, or features=patches",
            id="networks",
        ),
        pytest.param(
            LINEAR,
            "features=patches, or teacher=cnn student=cnn, which look at pictures",
            id="linear",
        ),
    ],
)
def test_scaling_is_not_recommended_for_teachers_of_pictures(
    teacher: CNNTeacher | LinearTeacher, advice: str
) -> None:
    """The remedy for weak teachers of images is not to scale the inputs."""
    remedies = remedies_of(GAUSSIAN, teacher_recipe=teacher, dataset=picture_dataset())
    remedy = remedies["the teachers"]
    assert remedy.startswith(advice)
    assert "scaled" not in remedy


def test_scaling_is_recommended_for_scale_sensitive_teachers_alone() -> None:
    """Linear teachers are advised to scale inputs, trees to take other features."""
    data = small_dataset()
    remedies = remedies_of(GAUSSIAN, teacher_recipe=LINEAR, dataset=data)
    assert remedies["the teachers"] == "more records for each teacher, or scaled inputs"
    assert remedies["noise"] == GAUSSIAN.remedies["noise"]
    tree = SklearnTeacher(DecisionTreeClassifier())
    remedies = remedies_of(GAUSSIAN, teacher_recipe=tree, dataset=data)
    assert remedies["the teachers"] == "more records for each teacher, or other features"


@pytest.mark.parametrize(
    ("num_releases", "sentence"),
    [
        (0.0, "this release does not fit into what is left for these records"),
        (1.0, "this release fits into what is left for these records, and no second one like it"),
        (
            3.0,
            "3 releases like this one fit into what is left for these records, this one included",
        ),
        (
            math.inf,
            "any number of releases like this one fit into what is left for these records, this one included",
        ),
    ],
)
def test_the_room_under_a_cap_is_a_sentence(num_releases: float, sentence: str) -> None:
    """A sentence says how many releases fit under a cap: none, one, several or any number."""
    assert fitting_in_words(num_releases) == sentence
