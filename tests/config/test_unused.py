"""A setting is reported as unused if and only if another value of it changes nothing that a run computes.

Tests try other values, and read nothing from the code. A setting that is not reported must change a price, answers to
made-up votes, the noise that is solved for a target, or a model that is trained on a few rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from pate.accounting import RdpAccountant
from pate.accounting.event_json import event_to_json
from pate.aggregators import Aggregator, CenteredVotes, StableFixedTopK, StableTopK
from pate.aggregators.record import MemoryRecord
from pate.auditing.aggregator_cost import has_data_dependent_cost
from pate.config.build import part_maker
from pate.config.schema import names_in_config_group
from pate.config.unused import (
    aggregator_reasons,
    engine_reasons,
    method_reasons,
    student_reasons,
    teacher_reasons,
    unused_lines,
)
from pate.models import (
    CNNTeacher,
    ConvexTeacher,
    KernelTeacher,
    LinearStudent,
    LinearTeacher,
    LogisticStudent,
    MLPStudent,
    MLPTeacher,
)
from pate.validation import InvalidValue
from pate.votes import Recipe
from pate.votes.made_up import MadeUpVotes
from pate.votes.source import TeacherVotes
from tests.e2e.commands import call

NUM_QUERIES = 200
NUM_LABELS = 6
NUM_TEACHERS = 600
VOTES = [
    MadeUpVotes(
        num_queries=NUM_QUERIES,
        num_labels=NUM_LABELS,
        num_teachers=NUM_TEACHERS,
        agreement=share,
        num_present=number,
    )
    for share, number in ((0.9, 2), (0.5, 5), (1.0, 1))
]
OTHER_VALUES = {  # changed values, for fields in which a factor or a negation gives no useful one
    "center": 0.3,
    "clip": 3.0,
    "failure_prob": 1e-6,
    "max_answers": 5,
    "max_k": 2,
    "max_labels": 2,
    "max_size": 2,
    "max_votes": 2,
    "mechanism": "canonical",
    "norm": "l2",
    "penalty": 900.0,
    "regularizer": (9000.0, 200.0, 100.0, 0.0, 0.0),
    "rounds": 2,
    "selection_noise": "laplace",
    "selection_share": 0.2,
    "table_budget": 0.01,
    "table_order": 3.0,
    "teachers_reached": 2,
    "test": "laplace",
    "test_std": 9.0,
    "vote_clip": 1,
    "recipe": Recipe(prevalence_split=(0.3, 0.3, 0.4)),
}
# `table` names a file. `round_size`, the number of queries that a session asks at once, changes no outcome if all votes
# are there. `span`, `weights` and `start` come from votes and data, not from a command line.
FIELDS_LEFT_OUT = {"adjacency", "table", "round_size", "span", "weights", "start"}
# Of what a run has and these votes do not: several holders, private records beside the votes, rounds.
FIELDS_OF_RUNS = {
    "num_holders",
    "max_dropouts",
    "max_colluders",
    "rounds",
    "target_hits",
    "session_delta",
    "first_queries",
}


def price_and_answers(aggregator: Aggregator) -> Any:
    """Returns the price of an aggregator, and its answers to made-up votes with a fixed seed."""
    parts = [
        event_to_json(
            aggregator.event_for(
                num_queries=NUM_QUERIES, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
            )
        )
    ]
    # a changed peel is seen in few draws, so the whole distribution is compared
    if isinstance(aggregator, (StableTopK, StableFixedTopK)):
        parts.append(
            aggregator.distribution(
                np.array([560, 330, 310, 300, 30, 20]), num_teachers=NUM_TEACHERS
            )
        )
    for votes in VOTES:
        release = aggregator.release(votes, np.random.default_rng(3), MemoryRecord())
        parts.append({name: array.tobytes() for name, array in release.arrays().items()})
    return parts


def copies_with_one_change(aggregator: Aggregator) -> Iterator[tuple[str, Aggregator]]:
    """Yields the name of each field that can be changed, with a copy of the aggregator in which it is changed."""
    for item in fields(aggregator):
        if not item.init or item.name in FIELDS_LEFT_OUT:
            continue
        value = getattr(aggregator, item.name)
        if item.name in OTHER_VALUES:
            changed: Any = "joint" if value == "canonical" else OTHER_VALUES[item.name]
        elif isinstance(value, bool):
            changed = not value
        elif isinstance(value, (int, float)):
            changed = type(value)(value * 1.4 + 1) if isinstance(value, int) else value * 0.7
        else:
            raise NotImplementedError(f"{item.name}: another value of it, in OTHER_VALUES")
        try:
            yield item.name, replace(aggregator, **{item.name: changed})
        except InvalidValue:
            continue  # which the command refuses, too


@pytest.mark.slow
@pytest.mark.parametrize("name", names_in_config_group(group="aggregator"))
def test_aggregator_fields_reported_as_unused_change_nothing(
    composed: Callable[..., Any], name: str
) -> None:
    """A field of an aggregator changes price or answers if and only if it is not reported as unused.

    A field that changes nothing with solved noise either is reported as unused beside a target.
    """
    aggregator = part_maker(composed(arguments=[f"aggregator={name}"]))("aggregator")
    if aggregator.expects_prior or aggregator.reads is TeacherVotes:
        pytest.skip("made-up votes have no student and no confidences")
    of_given = aggregator_reasons(aggregator, is_noise_solved=False)
    of_solved = aggregator_reasons(aggregator, is_noise_solved=True)
    try:
        usual = price_and_answers(aggregator)
    except InvalidValue:
        pytest.skip("takes no made-up votes")
    for field, changed_aggregator in copies_with_one_change(aggregator):
        if field in FIELDS_OF_RUNS:
            continue
        unused = aggregator_reasons(changed_aggregator, is_noise_solved=False)
        try:
            changes = price_and_answers(changed_aggregator) != usual
        except InvalidValue:
            continue  # a combination that is refused
        assert changes or field in unused, (
            f"aggregator.{field} of {name} changes nothing, and nobody is told"
        )
        assert not (changes and field in of_given), (
            f"aggregator.{field} of {name} is said to change nothing"
        )
        if not changes:  # with a target it may be a share of the budget
            solved_aggregators = [
                unsolved.calibrated(
                    target_epsilon=20.0,
                    target_delta=1e-6,
                    accountant=RdpAccountant,
                    num_queries=NUM_QUERIES,
                    num_labels=NUM_LABELS,
                    num_teachers=NUM_TEACHERS,
                )
                for unsolved in (aggregator, changed_aggregator)
            ]
            is_unchanged = price_and_answers(solved_aggregators[0]) == price_and_answers(
                solved_aggregators[1]
            )
            assert not is_unchanged or field in of_solved, (
                f"aggregator.{field} of {name} changes nothing beside a target"
            )


def bytes_of_fit(fit: Callable[[Any, Any], Any]) -> bytes:
    """Returns the bytes that `fit` returns for 90 random rows with three labels."""
    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((90, 6)).astype(np.float32)
    labels = inputs[:, :3] + 0.5 * rng.standard_normal((90, 3)) > 0.4
    return fit(inputs, labels)


@pytest.mark.parametrize(
    ("student", "changed"),
    [
        (LinearStudent(), {"rank": 1}),
        (LinearStudent(), {"labels_per_sample": 2.5}),
        (LinearStudent(), {"threshold": 0.3}),
        (LinearStudent(), {"threshold_each_label": True}),
        (LinearStudent(threshold=0.3), {"threshold_each_label": True}),
        (LinearStudent(labels_per_sample=1.0), {"threshold": 0.3}),
        (LinearStudent(labels_per_sample=1.0), {"threshold_each_label": True}),
        (LogisticStudent(), {"held_out": 0.4}),
        (LogisticStudent(threshold=0.3), {"threshold_each_label": True}),
        pytest.param(MLPStudent(hidden=4, epochs=5), {"hidden": 5}, marks=pytest.mark.slow),
        pytest.param(
            MLPStudent(hidden=4, epochs=5, threshold=0.3),
            {"threshold_each_label": True},
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_student_fields_reported_as_unused_change_nothing(
    student: Any, changed: dict[str, Any]
) -> None:
    """A changed field of a student leaves its predictions as they are if and only if it is reported as unused."""

    def bytes_of_student(recipe: Any) -> bytes:
        """Returns the predictions of a student that is fitted by a recipe."""

        def fit_and_predict(inputs: Any, labels: Any) -> bytes:
            fitted = recipe.fit(inputs, labels, seed=1)
            return fitted.predict_proba(inputs).tobytes() + fitted.predict(inputs).tobytes()

        return bytes_of_fit(fit_and_predict)

    changed_student = replace(student, **changed)
    (field,) = changed
    assert (bytes_of_student(student) == bytes_of_student(changed_student)) == (
        field in student_reasons(changed_student)
    )


def test_engine_settings_are_reported_for_teachers_without_engine() -> None:
    """Settings of an engine are reported as unused for convex teachers, and not for linear and MLP teachers.

    For CNNs with `stacked=False` only `engine.chunk_size` is unused.
    """
    settings = {"engine": "ray", "engine.num_cpus": "2", "teacher": "kernel"}
    centered_votes = CenteredVotes(noise_multiplier=1.0)
    reasons_of_convex = engine_reasons(
        ConvexTeacher(),
        aggregator=centered_votes,
        num_teachers=None,
        command_line_settings=settings,
    )
    assert reasons_of_convex.keys() == {"engine", "engine.num_cpus"}
    for teacher in (LinearTeacher(device="cpu"), MLPTeacher(device="cpu")):
        assert (
            engine_reasons(
                teacher,
                aggregator=centered_votes,
                num_teachers=None,
                command_line_settings=settings,
            )
            == {}
        )
    unstacked_teacher = CNNTeacher(stacked=False, device="cpu")
    reasons = engine_reasons(
        unstacked_teacher, aggregator=None, num_teachers=None, command_line_settings=settings
    )
    assert reasons.keys() == {"engine.chunk_size"}


def test_engines_sum_votes_of_kernel_teachers_in_rounds_alone() -> None:
    """For kernel teachers in rounds, three settings of the engine are reported as unused, such as `chunk_size`.

    In each round all teachers vote on the errors of the student so far, and an engine sums the votes. The whole engine
    is unused if the teachers cast one matrix of votes.
    """
    settings = {"engine": "ray", "engine.num_cpus": "2", "teacher": "kernel"}
    centered_votes = CenteredVotes(noise_multiplier=1.0)
    reasons = engine_reasons(
        KernelTeacher(),
        aggregator=centered_votes,
        num_teachers=None,
        command_line_settings=settings,
    )
    assert reasons.keys() == {"engine.chunk_size", "engine.max_in_flight", "engine.num_gpus"}
    for at_once in (replace(centered_votes, rounds=1), replace(centered_votes, clip=1.0), None):
        reasons = engine_reasons(
            KernelTeacher(), aggregator=at_once, num_teachers=None, command_line_settings=settings
        )
        assert reasons.keys() == {"engine", "engine.num_cpus"}


@pytest.mark.parametrize(
    ("num_teachers", "is_unused"),
    [(199, True), (200, False), (None, False)],
    ids=["too few for rounds", "fewest for rounds", "one for each private group"],
)
@pytest.mark.parametrize("nonlinear", [True, False])
def test_nonlinear_is_reported_for_too_few_teachers_for_rounds(
    num_teachers: int | None, is_unused: bool, nonlinear: bool
) -> None:
    """The teachers' setting `nonlinear` is reported as unused for fewer than 200 kernel teachers.

    So few teachers cast one matrix of votes, and the setting is about votes in rounds.
    """
    reasons = teacher_reasons(
        KernelTeacher(nonlinear=nonlinear),
        aggregator=CenteredVotes(noise_multiplier=1.0),
        num_teachers=num_teachers,
    )
    assert ("nonlinear" in reasons) == is_unused


def test_settings_that_networks_of_methods_do_not_read_are_reported() -> None:
    """For a method of a comparison, the settings that its `network` does not read are reported as unused.

    `linear` reads neither `hidden` nor `learning_rate`, `cnn` does not read `hidden`, and `mlp` reads both. For PATE
    with linear teachers nothing is reported.
    """
    assert teacher_reasons(LinearTeacher(device="cpu"), aggregator=None, num_teachers=400) == {}
    assert method_reasons(OmegaConf.create({"network": "linear"})).keys() == {
        "hidden",
        "learning_rate",
    }
    assert method_reasons(OmegaConf.create({"network": "cnn"})).keys() == {"hidden"}
    assert (
        method_reasons(OmegaConf.create({"network": "mlp"}))
        == method_reasons(OmegaConf.create({"clip_factor": 1}))
        == {}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("experiment=centered_votes engine=ray", []),
        (
            "experiment=centered_votes engine=processes engine.num_workers=2 engine.chunk_size=3",
            ["engine.chunk_size=3"],
        ),
        ("experiment=centered_votes aggregator.rounds=1 engine=ray", ["engine=ray"]),
        ("experiment=centered_votes teacher=convex engine=sequential", ["engine=sequential"]),
        ("teacher=linear engine=sequential", []),
        (
            "experiment=centered_votes teacher.num_teachers=100 teacher.nonlinear=true",
            ["teacher.nonlinear=true"],
        ),
        ("experiment=centered_votes teacher.num_teachers=100 scratch=false", ["scratch=false"]),
        ("experiment=centered_votes teacher.num_teachers=100 engine=ray", ["engine=ray"]),
        ("experiment=centered_votes teacher.num_teachers=400 teacher.nonlinear=true", []),
        (
            "experiment=centered_votes teacher.num_teachers=100 aggregator.rounds=2"
            " teacher.nonlinear=true",
            [],
        ),
        ("experiment=centered_votes teacher.nonlinear=true", []),
        ("experiment=centered_votes scratch=false", []),
        ("aggregator=stable_top_k scratch=false", ["scratch=false"]),
        ("experiment=centered_votes aggregator.rounds=1 scratch=false", ["scratch=false"]),
        ("aggregator=stable_top_k aggregator.table_order=4", ["aggregator.table_order=4"]),
        ("aggregator=stable_top_k_table aggregator.test_std=4", ["aggregator.test_std=4"]),
        (
            "aggregator=stable_top_k_table aggregator.selection_share=0.3 noise=given",
            ["aggregator.selection_share=0.3"],
        ),
        ("aggregator=stable_top_k_table aggregator.selection_share=0.3", []),
        (
            "aggregator=stable_top_k aggregator.selection_share=0.3",
            ["aggregator.selection_share=0.3"],
        ),
        ("aggregator=stable_top_k aggregator.selection_share=null", []),
        ("aggregator=centered_votes aggregator.center=0.3", ["aggregator.center=0.3"]),
        (
            "student=linear student.threshold=0.3 student.threshold_each_label=true",
            ["student.threshold_each_label=true"],
        ),
        (
            "aggregator=gaussian_votes target_epsilon=3 aggregator.noise_std=100",
            ["aggregator.noise_std=100"],
        ),
        ("aggregator=gaussian_votes noise=given aggregator.noise_std=100", []),
        # the ratio of two noises counts
        ("aggregator=stable_top_k target_epsilon=3 aggregator.test_std=4", []),
        ("new_account=true", []),
        ("data_dependent=true", ["data_dependent=true"]),
        ("data_dependent=true aggregator=gaussian_votes", []),
    ],
)
def test_given_setting_without_effect_is_reported(
    composed: Callable[..., Any], words: str, told: list[str]
) -> None:
    """For a command line, exactly the settings in `told` are reported to change nothing."""
    config = composed(arguments=words.split())
    settings = dict(word.split("=") for word in words.split())
    lines = list(
        unused_lines(
            config,
            command_line_settings=settings,
            command="train",
            build_part=part_maker(config),
            has_data_dependent_cost=has_data_dependent_cost,
        )
    )
    assert [line.partition(": changes nothing: ")[0] for line in lines] == told


@pytest.mark.slow
def test_unused_setting_is_reported_before_data_are_read() -> None:
    """pate-train names an unused engine in its first line, before it refuses the missing data."""
    done = call(
        "train",
        arguments=["data=table", "teacher=convex", "aggregator=centered_votes", "engine=ray"],
    )
    assert done.returncode == 2
    first, refused = done.stderr.splitlines()
    assert first == "engine=ray: changes nothing: no engine trains the teachers of ConvexTeacher"
    assert refused.startswith("data.private=None")
