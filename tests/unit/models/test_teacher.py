"""The guarantees of teachers: shapes, equal bytes, and independence of the shards of other teachers."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from pate.data import Split
from pate.models import (
    CNNTeacher,
    LinearTeacher,
    MLPTeacher,
    SequentialEngine,
    Shard,
    SklearnTeacher,
)
from pate.models.teacher import IsolatedTeacher, isolate_shard_sizes
from pate.run.train import train
from tests.e2e.small_run import small_dataset, small_plan
from tests.refusals import refused_parameter

TEACHERS = [
    LinearTeacher(device="cpu"),
    MLPTeacher(hidden=8, epochs=3, batch_size=7, device="cpu"),
    SklearnTeacher(DecisionTreeClassifier(max_depth=3)),
]


@pytest.fixture(params=TEACHERS, ids=lambda teacher: type(teacher).__name__)
def teacher(request):
    """Returns the recipe of a teacher that is linear, an MLP or a decision tree."""
    return request.param


def are_equal_states(first_state, second_state):
    """Returns True if two states of teachers have the same names of arrays and equal arrays."""
    return first_state.keys() == second_state.keys() and all(
        np.array_equal(first_state[name], second_state[name]) for name in first_state
    )


def test_confidences_of_every_teacher_query_and_label(teacher, shards, queries):
    """Six teachers give confidences of 50 queries and 5 labels, from 0 to 1.

    Teachers differ in the share of labels for which they vote. Inputs with several axes give the same as flat ones.
    """
    confidences = teacher.predict_many(
        states=teacher.fit_many(shards=shards, seeds=range(6)), inputs=queries
    )
    assert (confidences.shape, confidences.dtype) == ((6, 50, 5), np.float32)
    assert 0 <= confidences.min() < confidences.max() <= 1
    assert len(np.unique((confidences >= 0.5).mean(axis=(1, 2)))) > 1  # the teachers differ
    shards_of_images = [
        Shard(inputs=shard.inputs.reshape((-1, 3, 2, 2)), labels=shard.labels) for shard in shards
    ]
    confidences_of_images = teacher.predict_many(
        states=teacher.fit_many(shards=shards_of_images, seeds=range(6)),
        inputs=queries.reshape((-1, 3, 2, 2)),
    )
    assert (confidences_of_images == confidences).all()


def test_equal_calls_give_equal_bytes_with_loss_curves(teacher, shards):
    """Two calls give equal states of arrays, each with a finite curve of losses."""
    states = teacher.fit_many(shards=shards, seeds=range(6))
    again = teacher.fit_many(shards=shards, seeds=range(6))
    for state, repeated_state in zip(states, again, strict=True):
        assert are_equal_states(first_state=state, second_state=repeated_state)
        assert all(isinstance(array, np.ndarray) for array in state.values())
        step_losses = state["loss_curve"]
        assert (step_losses.dtype, step_losses.ndim) == (np.float32, 1)
        assert len(step_losses) > 0
        assert np.isfinite(step_losses).all()


def test_a_teacher_depends_on_its_own_shard_alone(teacher, shards, queries):
    """A teacher has the same confidences, within 1e-4, if it is trained alone or among others."""
    own_state = teacher.fit_many(shards=[shards[3]], seeds=[7])
    (confidences_alone,) = teacher.predict_many(states=own_state, inputs=queries)
    states = teacher.fit_many(shards=[shards[2], shards[3], shards[0]], seeds=[1, 7, 2])
    _, confidences_among_others, _ = teacher.predict_many(states=states, inputs=queries)
    np.testing.assert_allclose(confidences_among_others, confidences_alone, atol=1e-4)


def test_shards_that_do_not_match_are_refused(teacher, shards):
    """An empty list of shards, too few seeds, and shards of different widths or numbers of labels are refused."""
    first_shard = shards[0]
    seeds_of_two_teachers = [1, 2]
    with refused_parameter("len(shards)", value=0):
        teacher.fit_many(shards=[], seeds=[])
    with refused_parameter("len(seeds)", value=2, rule_words="6"):
        teacher.fit_many(shards=shards, seeds=seeds_of_two_teachers)
    narrow_shard = Shard(inputs=first_shard.inputs[:, :3], labels=first_shard.labels)
    with refused_parameter("inputs.shape[1:]", value=(3,), rule_words="(12,)"):
        teacher.fit_many(shards=[first_shard, narrow_shard], seeds=[0, 1])
    shard_with_fewer_labels = Shard(inputs=first_shard.inputs, labels=first_shard.labels[:, :2])
    with refused_parameter("labels.shape[1]", value=2, rule_words="5"):
        teacher.fit_many(shards=[first_shard, shard_with_fewer_labels], seeds=[0, 1])


@pytest.mark.parametrize(
    ("inputs", "labels", "refusal"),
    [
        (
            np.zeros((0, 3)),
            np.zeros((0, 2), bool),
            refused_parameter("len(inputs)", value=0),
        ),
        (np.zeros(3), np.zeros((3, 2), bool), refused_parameter("inputs.shape", value=(3,))),
        (
            np.zeros((3, 2)),
            np.zeros((2, 2), bool),
            refused_parameter("labels.shape", value=(2, 2)),
        ),
        (
            np.zeros((3, 2)),
            np.zeros((3, 0), bool),
            refused_parameter("labels.shape", value=(3, 0)),
        ),
        (np.zeros((3, 2)), np.zeros((3, 2)), refused_parameter("labels.dtype", value="float64")),
        (
            np.full((3, 2), np.nan),
            np.zeros((3, 2), bool),
            refused_parameter("inputs[0, 0]", rule_words="finite"),
        ),
    ],
)
def test_an_impossible_shard_is_refused(inputs, labels, refusal):
    """A shard is refused if it is empty, has inputs or labels of a wrong shape, labels that are no bits, or NaN."""
    with refusal:
        Shard(inputs=inputs.astype(np.float32), labels=labels)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", TEACHERS[:2], ids=lambda teacher: type(teacher).__name__)
def test_isolated_states_do_not_depend_on_the_sizes_of_other_shards(teacher, make_shards):
    """The state of an isolated teacher is the same, bit for bit, alone and among shards of other sizes.

    An isolated teacher is computed without the shards of others.
    """
    isolated_teacher = IsolatedTeacher(teacher)
    shards_together = make_shards(sizes=[30, 22, 41, 5, 30])
    shards_with_larger_last = [*shards_together[:4], *make_shards(sizes=[73], seed=4)]
    states = isolated_teacher.fit_many(shards=shards_together, seeds=range(5))
    other_states = isolated_teacher.fit_many(shards=shards_with_larger_last, seeds=range(5))
    for index in range(4):
        assert are_equal_states(first_state=states[index], second_state=other_states[index])
    for index in range(5):
        (alone,) = teacher.fit_many(shards=[shards_together[index]], seeds=[index])
        assert are_equal_states(first_state=alone, second_state=states[index])
    assert isolated_teacher.is_isolated


def test_teachers_are_isolated_if_groups_have_several_records():
    """`isolate_shard_sizes` has teachers trained one by one instead of together if a group has several records.

    The size of a shard is private then, and must not influence other teachers. Networks for images stay together, as
    training them one by one takes too long.
    """
    linear_teacher = TEACHERS[0]
    distinct_group_ids = np.arange(6)
    group_ids_with_a_pair = np.array([0, 1, 2, 2, 3, 4])
    assert isolate_shard_sizes(linear_teacher, group_ids=distinct_group_ids) is linear_teacher
    assert isolate_shard_sizes(linear_teacher, group_ids=group_ids_with_a_pair) == IsolatedTeacher(
        linear_teacher
    )
    for stacked in (None, True):
        network_teacher = CNNTeacher(device="cpu", stacked=stacked)
        assert (
            isolate_shard_sizes(network_teacher, group_ids=group_ids_with_a_pair) == network_teacher
        )


@dataclass(frozen=True)
class RecordingEngine(SequentialEngine):
    """An engine that records the recipe of each training."""

    trained: list[Any] = field(default_factory=list)

    def train(self, job):
        self.trained.append(job.teacher)
        super().train(job)


@pytest.mark.slow
def test_a_run_isolates_teachers_if_groups_have_several_records(tmp_path):
    """A run whose groups have two records trains isolated teachers, each of them without the shards of others."""

    def load_dataset_in_pairs():
        dataset = small_dataset()
        private = dataset.private
        private_in_pairs = Split(
            inputs=private.inputs,
            labels=private.labels,
            record_ids=private.record_ids,
            group_ids=private.record_ids // 2,
        )
        return replace(dataset, private=private_in_pairs)

    engine = RecordingEngine()
    train(
        replace(small_plan(), load_dataset=load_dataset_in_pairs, engine=engine),
        output_dir=tmp_path / "run",
    )
    assert engine.trained == [IsolatedTeacher(TEACHERS[0])]
