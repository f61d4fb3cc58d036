"""Teachers kept apart: no length of another part reaches them, not even by rounding."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from pate.data import Split
from pate.pipeline import train
from pate.teachers import CNNTeacher, LinearTeacher, MLPTeacher, SequentialEngine
from pate.teachers.teacher import IsolatedTeacher, isolated
from tests.e2e.small_run import small_dataset, small_plan

TEACHERS = [LinearTeacher(device="cpu"), MLPTeacher(hidden=8, epochs=3, batch_size=7, device="cpu")]


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda teacher: type(teacher).__name__)
def test_states_have_the_same_bytes_whatever_the_others_lengths(teacher, make_parts):
    apart, together = IsolatedTeacher(teacher), make_parts([30, 22, 41, 5, 30])
    longer = [*together[:4], *make_parts([73], seed=4)]
    first, second = apart.fit_many(together, range(5)), apart.fit_many(longer, range(5))
    assert all(same(first[index], second[index]) for index in range(4))
    assert all(same(teacher.fit_many([together[index]], [index])[0], first[index]) for index in range(5))
    assert apart.is_isolated


def test_predictions_are_the_recipes(make_parts, queries):
    states = TEACHERS[0].fit_many(make_parts([30, 22]), range(2))
    said = IsolatedTeacher(TEACHERS[0]).predict_many(states, queries)
    np.testing.assert_array_equal(said, TEACHERS[0].predict_many(states, queries))


def test_apart_where_groups_have_several_records():
    linear, each, several = TEACHERS[0], np.arange(6), np.array([0, 1, 2, 2, 3, 4])
    assert isolated(linear, each) is linear
    assert isolated(linear, several) == IsolatedTeacher(linear)
    assert isolated(CNNTeacher(device="cpu"), several) == CNNTeacher(device="cpu")
    assert isolated(CNNTeacher(device="cpu", stacked=True), several) == CNNTeacher(device="cpu", stacked=True)


@dataclass(frozen=True)
class Listening(SequentialEngine):
    """Remembers the recipe."""

    heard: tuple[list[Any], ...] = ([],)

    def train(self, job):
        self.heard[0].append(job.teacher)
        super().train(job)


@pytest.mark.slow
def test_a_run_keeps_teachers_apart_where_groups_have_several_records(tmp_path):
    def load():
        data = small_dataset()
        private = data.private
        return replace(data, private=Split(private.inputs, private.labels, private.record_ids, private.record_ids // 2))

    engine = Listening(heard=([],))
    train(small_plan(load_dataset=load, engine=engine), tmp_path / "run")
    assert engine.heard[0] == [IsolatedTeacher(TEACHERS[0])]
