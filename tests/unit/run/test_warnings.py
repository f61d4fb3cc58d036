"""What is allowed and hardly meant: said where it holds, and nowhere else."""

import dataclasses

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pate.aggregators import BoundaryMax, ConfidentGNMax, GaussianVotes, GNMax
from pate.data import Dataset
from pate.run.plan import plan_warnings, student_is_the_prior
from pate.student import LinearStudent, LowRankStudent
from pate.teachers import KernelTeacher, LinearTeacher, SklearnTeacher
from tests.e2e.small_run import small_dataset

PLAIN, LINEAR, STUDENT = GaussianVotes(noise_std=1.0), LinearTeacher(device="cpu"), LinearStudent()


def test_few_records_a_teacher() -> None:
    """960 private records: ten each are nothing to speak of, 9.9 are."""
    data = small_dataset()
    assert not list(plan_warnings(data, PLAIN, LINEAR, STUDENT, num_teachers=96))
    (line,) = plan_warnings(data, PLAIN, LINEAR, STUDENT, num_teachers=97)
    assert line.startswith(
        "teacher.num_teachers=97: 9.9 private records per teacher teach it little; fewer teachers, or "
    )
    assert not list(plan_warnings(data, PLAIN, KernelTeacher(), STUDENT, num_teachers=960)), "made for one record each"


def test_one_label_a_query_for_samples_with_more() -> None:
    many = small_dataset()
    labels = np.arange(len(many.private))[:, None] % 5 == np.arange(5)
    one = dataclasses.replace(many, private=dataclasses.replace(many.private, labels=labels))
    confident = ConfidentGNMax(screening_std=1.0, noise_std=1.0, threshold_share=0.5)
    for aggregator in (GNMax(noise_std=1.0), confident, BoundaryMax(selection_scale=1.0)):
        (line,) = plan_warnings(many, aggregator, LINEAR, STUDENT, num_teachers=24)
        assert line.startswith(f"aggregator={type(aggregator).__name__}: names one label per query; any others")
        assert not list(plan_warnings(one, aggregator, LINEAR, STUDENT, num_teachers=24))


def with_public(scale: np.ndarray) -> Dataset:
    data = small_dataset()
    return dataclasses.replace(data, public=dataclasses.replace(data.public, inputs=data.public.inputs * scale))


def test_columns_of_very_different_widths_are_said_for_linear_parts_alone() -> None:
    """Judged by the public pool: the private inputs are those of the other tests."""
    uneven = with_public(np.array([1, 1, 1, 1, 1, 1, 1, 200], dtype=np.float32))
    (line,) = plan_warnings(uneven, PLAIN, LINEAR, STUDENT, num_teachers=24)
    assert "times as wide as the middle one, and linear: teacher and student; scale the columns" in line
    assert not list(plan_warnings(uneven, PLAIN, KernelTeacher(), LowRankStudent(), num_teachers=24))
    (tree,) = plan_warnings(uneven, PLAIN, SklearnTeacher(DecisionTreeClassifier()), STUDENT, num_teachers=24)
    assert "linear: student;" in tree
    (logistic,) = plan_warnings(uneven, PLAIN, SklearnTeacher(LogisticRegression()), LowRankStudent(), num_teachers=24)
    assert "linear: teacher;" in logistic
    even = with_public(np.array([1, 1, 1, 1, 1, 1, 1, 5], dtype=np.float32))
    assert not list(plan_warnings(even, PLAIN, LINEAR, STUDENT, num_teachers=24))


def test_a_student_that_says_the_same_of_everything() -> None:
    data = small_dataset()
    rows = data.public.inputs[:40]
    dull = STUDENT.fit(rows, np.zeros((40, 5), dtype=bool), seed=0)
    (line,) = student_is_the_prior(dull, data.public.inputs)
    assert line.startswith("student: it predicts the same labels for every public sample, as the prior does")
    assert not list(student_is_the_prior(STUDENT.fit(rows, data.public.labels[:40], seed=0), data.public.inputs))
