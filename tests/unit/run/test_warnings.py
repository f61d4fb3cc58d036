"""What a card says to the holders of records, and what a plan is warned of: where it holds, and nowhere else."""

import dataclasses
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pate.accounting import Adjacency, Budget, GaussianEvent
from pate.aggregators import BoundaryMax, ConfidentGNMax, GaussianVotes, GNMax, Release
from pate.data import Dataset
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
from tests.refusals import refused

EVENT = GaussianEvent(noise_multiplier=8.0)
BUDGET = Budget(delta=1e-6)


def promises(
    places: Places, adjacency: Adjacency = Adjacency.REPLACE_ONE, num_draws: int = 1
) -> str:
    """Returns the sentences of the privacy card on whose data the price protects."""
    release = Release(
        np.zeros((1, 1), bool), answered=np.ones(1, bool), event=EVENT, adjacency=adjacency
    )
    return "\n".join(places.promises(release, budget=BUDGET, num_draws=num_draws))


def price(group_size: int) -> str:
    """Returns the words of the card for the epsilon of a group of units."""
    return f"epsilon {format_epsilon(group_epsilon(event=EVENT, size=group_size, budget=BUDGET))}"


def test_the_card_states_the_price_of_a_record_a_holder_and_two_holders() -> None:
    """The card says which changes the epsilon covers: a record, a holder, and groups of them with their own epsilon.

    Under add-remove a changed record is two units. Each draw counts for groups too.
    """
    single_teacher = promises(places=Places(num_holders=40, teachers_each=1))
    several = promises(places=Places(num_holders=40, teachers_each=10))
    assert "40 holders of records, each of which is one teacher" in single_teacher
    assert (
        "A record of a holder, any number of its records, and the holder itself are covered by it."
        in single_teacher
    )
    assert f"For m = 2 that is group size 2: {price(group_size=2)}." in single_teacher
    assert (
        "One record of a holder, or one group of records that the holder keeps together, is covered by it."
        in several
    )
    assert (
        f"The holder itself, all of its records, is covered at group size 10: {price(group_size=10)}."
        in several
    )
    added = promises(places=Places(num_holders=5, teachers_each=1), adjacency=Adjacency.ADD_REMOVE)
    assert (
        "A holder that comes or goes is covered by it; a record of a holder is at group size 2."
        in added
    )
    assert f"group size 4: {price(group_size=4)}" in added
    assert "comes or goes is covered at group size 3" in promises(
        places=Places(num_holders=5, teachers_each=3), adjacency=Adjacency.ADD_REMOVE
    )
    places = Places(num_holders=4, teachers_each=2)
    assert price(group_size=2) in promises(places=places)
    assert price(group_size=2) not in promises(places=places, num_draws=2)


def test_holders_must_divide_the_number_of_teachers() -> None:
    """400 teachers are divided among 40 holders. Seven holders are refused."""
    assert Places.with_equal_holders(num_teachers=400, num_holders=40) == Places(
        num_holders=40, teachers_each=10
    )
    with refused("holders", value=7, rule="a number that divides the 400"):
        Places.with_equal_holders(num_teachers=400, num_holders=7)


PLAIN = GaussianVotes(noise_std=1.0)
LINEAR = LinearTeacher(device="cpu")
STUDENT = LinearStudent()


def test_few_records_per_teacher_give_a_doubt() -> None:
    """Of 960 private records, ten for each teacher give no warning, 9.9 give one. Kernel teachers give none."""
    data = small_dataset()
    assert not list(
        plan_warnings(data, aggregator=PLAIN, teacher=LINEAR, student=STUDENT, num_teachers=96)
    )
    (line,) = plan_warnings(
        data, aggregator=PLAIN, teacher=LINEAR, student=STUDENT, num_teachers=97
    )
    assert line.startswith(
        "teacher.num_teachers=97: 9.9 private records per teacher teach it little; fewer teachers, or "
    )
    assert not list(
        plan_warnings(
            data, aggregator=PLAIN, teacher=KernelTeacher(), student=STUDENT, num_teachers=960
        )
    ), "made for one record each"


def test_one_label_per_query_gives_a_warning_on_data_with_several() -> None:
    """An aggregator of one label a query gives a warning on data with several labels, and none on data with one."""
    several_labels = small_dataset()
    labels = np.arange(len(several_labels.private))[:, None] % 5 == np.arange(5)
    single_label = dataclasses.replace(
        several_labels, private=dataclasses.replace(several_labels.private, labels=labels)
    )
    confident = ConfidentGNMax(screening_std=1.0, noise_std=1.0, threshold_share=0.5)
    for aggregator in (GNMax(noise_std=1.0), confident, BoundaryMax(selection_scale=1.0)):
        (line,) = plan_warnings(
            several_labels, aggregator=aggregator, teacher=LINEAR, student=STUDENT, num_teachers=24
        )
        assert line.startswith(
            f"aggregator={type(aggregator).__name__}: names one label per query; any others"
        )
        assert not list(
            plan_warnings(
                single_label,
                aggregator=aggregator,
                teacher=LINEAR,
                student=STUDENT,
                num_teachers=24,
            )
        )


def data_with_scaled_public(scale: np.ndarray) -> Dataset:
    """Returns the small data set with its public columns multiplied by a scale."""
    data = small_dataset()
    return dataclasses.replace(
        data, public=dataclasses.replace(data.public, inputs=data.public.inputs * scale)
    )


def test_columns_with_unequal_ranges_give_a_doubt_for_linear_models_alone() -> None:
    """One public column is 200 times as wide.

    Linear teachers and students are named in a warning, others are not.

    The private inputs are not looked at.
    """
    uneven = data_with_scaled_public(scale=np.array([1, 1, 1, 1, 1, 1, 1, 200], dtype=np.float32))
    (line,) = plan_warnings(
        uneven, aggregator=PLAIN, teacher=LINEAR, student=STUDENT, num_teachers=24
    )
    assert (
        "times as wide as the middle one, and linear: teacher and student; scale the columns"
        in line
    )
    assert not list(
        plan_warnings(
            uneven,
            aggregator=PLAIN,
            teacher=KernelTeacher(),
            student=LowRankStudent(),
            num_teachers=24,
        )
    )
    (tree,) = plan_warnings(
        uneven,
        aggregator=PLAIN,
        teacher=SklearnTeacher(DecisionTreeClassifier()),
        student=STUDENT,
        num_teachers=24,
    )
    assert "linear: student;" in tree
    (logistic,) = plan_warnings(
        uneven,
        aggregator=PLAIN,
        teacher=SklearnTeacher(LogisticRegression()),
        student=LowRankStudent(),
        num_teachers=24,
    )
    assert "linear: teacher;" in logistic
    even = data_with_scaled_public(scale=np.array([1, 1, 1, 1, 1, 1, 1, 5], dtype=np.float32))
    assert not list(
        plan_warnings(even, aggregator=PLAIN, teacher=LINEAR, student=STUDENT, num_teachers=24)
    )


def test_a_constant_student_gives_a_warning() -> None:
    """A student that predicts the same labels for every public sample gives a warning; another does not."""
    data = small_dataset()
    rows = data.public.inputs[:40]
    dull = STUDENT.fit(rows, np.zeros((40, 5), dtype=bool), seed=0)
    (line,) = constant_student_warnings(dull, public_inputs=data.public.inputs)
    assert line.startswith(
        "student: it predicts the same labels for every public sample, as the prior does"
    )
    assert not list(
        constant_student_warnings(
            STUDENT.fit(rows, data.public.labels[:40], seed=0), public_inputs=data.public.inputs
        )
    )


def of_pictures() -> Dataset:
    """Returns the small data set as pictures of 2 x 4 pixels of one color."""
    data = small_dataset()
    splits = {
        name: dataclasses.replace(
            split, inputs=(split.inputs > 0).astype(np.float32).reshape(-1, 1, 2, 4)
        )
        for name, split in (("private", data.private), ("public", data.public), ("test", data.test))
    }
    return dataclasses.replace(
        data, kind="images", private=splits["private"], public=splits["public"], test=splits["test"]
    )


def test_linear_models_of_raw_pixels_give_a_warning() -> None:
    """A linear student of raw pixels gives a warning with its remedies. Networks for images give none."""
    pictures = of_pictures()
    (line,) = plan_warnings(
        pictures, aggregator=PLAIN, teacher=CNNTeacher(), student=LinearStudent(), num_teachers=24
    )
    assert line == (
        "data: the inputs are raw pixels, and linear: student; features=patches helps, or "
        "teacher=cnn student=cnn, which look at pictures"
    )
    assert not list(
        plan_warnings(
            pictures, aggregator=PLAIN, teacher=CNNTeacher(), student=CNNStudent(), num_teachers=24
        )
    )


@pytest.mark.parametrize(
    ("teacher", "advised", "not_advised"),
    [
        (CNNTeacher(), "more records for each teacher, more epochs, or features=patches", "scaled"),
        (LINEAR, "features=patches, or teacher=cnn student=cnn, which look at pictures", "scaled"),
    ],
)
def test_scaling_is_not_recommended_for_teachers_of_pictures(
    teacher: CNNTeacher, advised: str, not_advised: str
) -> None:
    """On pictures, the remedy for the teachers is this advice, and not to scale inputs."""
    remedy = remedies_of(PLAIN, teacher, dataset=of_pictures())["the teachers"]
    assert remedy.startswith(advised)
    assert not_advised not in remedy


def test_scaling_is_recommended_for_scale_sensitive_teachers_alone() -> None:
    """Linear teachers are advised to scale inputs, trees to take other features."""
    data = small_dataset()
    assert (
        remedies_of(PLAIN, teacher=LINEAR, dataset=data)["the teachers"]
        == "more records for each teacher, or scaled inputs"
    )
    tree = SklearnTeacher(DecisionTreeClassifier())
    assert (
        remedies_of(PLAIN, teacher=tree, dataset=data)["the teachers"]
        == "more records for each teacher, or other features"
    )
    assert remedies_of(PLAIN, teacher=LINEAR, dataset=data)["noise"] == PLAIN.remedies["noise"]


@pytest.mark.parametrize(
    ("count", "line"),
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
def test_the_room_under_a_cap_is_a_sentence(count: float, line: str) -> None:
    """The number of releases that fit under a cap is put into this sentence."""
    assert fitting_in_words(count) == line
