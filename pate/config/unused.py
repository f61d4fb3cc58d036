"""Detection of settings on a command line that have no effect together with the other settings.

A user who sets a number expects an effect. So a setting that the chosen parts are known to ignore is reported in a
sentence, with the reason, before any privacy budget is spent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from pate.aggregators import Aggregator
from pate.aggregators.aggregator import fields_marked
from pate.config.schema import names_in_config_group

if TYPE_CHECKING:
    from pate.aggregators.stable_aggregator import StableAggregator

BuildPart = Callable[[str], Any]
"""A function that builds the part of a group, such as the one that `part_maker` returns."""
Reasons = dict[str, str]
"""The reasons why settings change nothing, by the settings' names."""

# Fields of an aggregator that a table of the stability test needs.
_TABLE_FIELDS = ("table_order", "table_budget")
# Fields of teachers of pictures that only training needs.
_TRAINING_FIELDS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "flip",
    "precision",
)
# Fields of an engine that only training needs, and not the sum of votes.
_ENGINE_TRAINING_FIELDS = ("chunk_size", "max_in_flight", "num_gpus")
# Groups of settings, and single settings, whose effect may depend on the aggregator.
_EFFECT_DEPENDS_ON_AGGREGATOR = frozenset(
    {"aggregator", "engine", "scratch", "student", "teacher", "num_teachers"}
)
# A number of teachers above every limit, for a number that follows from private records and is not known yet.
_UNKNOWN_NUM_TEACHERS = sys.maxsize


def unused_lines(
    config: DictConfig,
    *,
    command_line_settings: Mapping[str, str],
    command: str,
    build_part: BuildPart,
    has_data_dependent_cost: Callable[[Aggregator], bool],
) -> Iterator[str]:
    """Yields a sentence for each setting on the command line that the chosen parts are known to ignore.

    Args:
        config: the composed configuration.
        command_line_settings: the settings on the command line as text, by name.
        command: the name of the command.
        build_part: builds a part. Only parts that decide on the effect of a setting on the command line are built.
        has_data_dependent_cost: returns whether the data-dependent cost of an aggregator can be computed.
    """
    reasons = _reasons(
        config,
        command_line_settings=command_line_settings,
        command=command,
        build_part=build_part,
        has_data_dependent_cost=has_data_dependent_cost,
    )
    for setting_name, reason in reasons.items():
        if setting_name in command_line_settings:
            yield f"{setting_name}={command_line_settings[setting_name]}: changes nothing: {reason}"


def _reasons(
    config: DictConfig,
    *,
    command_line_settings: Mapping[str, str],
    command: str,
    build_part: BuildPart,
    has_data_dependent_cost: Callable[[Aggregator], bool],
) -> Reasons:
    """Returns the reasons why settings of the command and of its parts have no effect, by full names.

    Only parts that decide on the effect of a setting on the command line are built. For the arguments see
    `unused_lines`.
    """
    set_groups = {setting_name.partition(".")[0] for setting_name in command_line_settings}
    aggregator: Aggregator | None = None
    if config.get("aggregator") is not None and set_groups & _EFFECT_DEPENDS_ON_AGGREGATOR:
        aggregator = build_part("aggregator")
    reasons = _command_reasons(config, command=command)
    if aggregator is not None and any(
        setting_name.startswith("aggregator.") for setting_name in command_line_settings
    ):
        reasons |= _aggregator_setting_reasons(config, aggregator=aggregator)
    if "data_dependent" in command_line_settings and command == "train" and config.data_dependent:
        reasons |= _cost_setting_reasons(
            build_part("aggregator"), has_data_dependent_cost=has_data_dependent_cost
        )
    trains_teachers = config.get("teacher") is not None and command in ("train", "vote")
    if trains_teachers and set_groups & {"engine", "teacher"}:
        reasons |= _teacher_setting_reasons(
            config,
            teacher_recipe=build_part("teacher"),
            aggregator=aggregator,
            command_line_settings=command_line_settings,
        )
    if "scratch" in set_groups and not _keeps_features(
        aggregator, num_teachers=_num_teachers_of(config)
    ):
        reasons["scratch"] = "no features are kept, as these votes are not cast in rounds"
    if config.get("student") is not None and "student" in set_groups:
        reasons |= _student_setting_reasons(
            command=command,
            aggregator=aggregator,
            command_line_settings=command_line_settings,
            build_part=build_part,
        )
    if config.get("method") is not None and "method" in set_groups:
        reasons |= _prefixed("method", method_reasons(config.method))
    return reasons


def _aggregator_setting_reasons(config: DictConfig, *, aggregator: Aggregator) -> Reasons:
    """Returns the reasons why settings of the aggregator have no effect, by their full names."""
    has_budget = any(
        config.get(setting_name) is not None
        for setting_name in ("target_epsilon", "target_mu", "budgets")
    )
    is_noise_solved = has_budget and config.get("noise") != "given"
    reasons = aggregator_reasons(aggregator, is_noise_solved=is_noise_solved)
    noise_fields = fields_marked(type(aggregator), mark="noise")
    # With several noises their ratio has an effect.
    if is_noise_solved and len(noise_fields) == 1:
        reason = "the noise follows from the budget"
        if "noise" in config:
            reason += "; noise=given takes it as it is"
        reasons |= dict.fromkeys(noise_fields, reason)
    return _prefixed("aggregator", reasons)


def _cost_setting_reasons(
    aggregator: Aggregator, *, has_data_dependent_cost: Callable[[Aggregator], bool]
) -> Reasons:
    """Returns the reason why `data_dependent=true` has no effect; empty if the cost on votes can be computed.

    Args:
        aggregator: the aggregator.
        has_data_dependent_cost: returns whether the data-dependent cost of an aggregator can be computed.
    """
    if has_data_dependent_cost(aggregator):
        return {}
    return {"data_dependent": "no theorem says what this aggregator costs on given votes"}


def _teacher_setting_reasons(
    config: DictConfig,
    *,
    teacher_recipe: Any,
    aggregator: Aggregator | None,
    command_line_settings: Mapping[str, str],
) -> Reasons:
    """Returns the reasons why settings of the teachers and of the engine have no effect, by their full names.

    Args:
        config: the composed configuration, with the number of teachers.
        teacher_recipe: the recipe for teachers.
        aggregator: the aggregator that receives the teachers' votes; None if the command has none.
        command_line_settings: the settings on the command line as text, by name.
    """
    num_teachers = _num_teachers_of(config)
    reasons = teacher_reasons(teacher_recipe, aggregator=aggregator, num_teachers=num_teachers)
    return _prefixed("teacher", reasons) | engine_reasons(
        teacher_recipe,
        aggregator=aggregator,
        num_teachers=num_teachers,
        command_line_settings=command_line_settings,
    )


def _student_setting_reasons(
    *,
    command: str,
    aggregator: Aggregator | None,
    command_line_settings: Mapping[str, str],
    build_part: BuildPart,
) -> Reasons:
    """Returns the reasons why settings of the student have no effect, by their full names."""
    if command == "release" and aggregator is not None and not aggregator.expects_prior:
        reason = "this aggregator does not ask what a student predicts; pate-student trains on the release"
        return dict.fromkeys(_settings_of("student", command_line_settings), reason)
    return _prefixed("student", student_reasons(build_part("student")))


def _settings_of(group_name: str, command_line_settings: Mapping[str, str]) -> list[str]:
    """Returns settings on the command line that choose or set up a group, such as `engine` and `engine.num_gpus`."""
    return [
        setting_name
        for setting_name in command_line_settings
        if setting_name.partition(".")[0] == group_name
    ]


def _num_teachers_of(config: DictConfig) -> int | None:
    """Returns the number of teachers that a configuration sets; None if it sets none.

    A run for which none is set takes the number of private groups of its data set.
    """
    teacher_settings = config.get("teacher")
    num_teachers: int | None = (
        None if teacher_settings is None else teacher_settings.get("num_teachers")
    )
    return num_teachers


def _prefixed(group_name: str, field_reasons: Mapping[str, str]) -> Reasons:
    """Returns reasons by the full names of settings, such as `teacher.epochs` for `epochs` of the group `teacher`."""
    return {f"{group_name}.{field_name}": reason for field_name, reason in field_reasons.items()}


def aggregator_reasons(aggregator: Aggregator, *, is_noise_solved: bool) -> Reasons:
    """Returns the reasons why fields of an aggregator affect neither its price nor its answers, by field.

    Args:
        aggregator: the aggregator, as configured.
        is_noise_solved: whether its noise is solved for a target. Only then do `selection_share`, `peel_share` and
            `release_share` have an effect.
    """
    # imported here, as a page of help and a price need neither
    from pate.aggregators import CenteredVotes, NotPriorTopK
    from pate.aggregators.stable_aggregator import StableAggregator

    reasons: Reasons = {}
    if isinstance(aggregator, StableAggregator):
        reasons |= _stable_top_k_reasons(aggregator, is_noise_solved=is_noise_solved)
    if isinstance(aggregator, NotPriorTopK) and not is_noise_solved:
        reasons["release_share"] = "it shares a target_epsilon, and the noise is given"
    if isinstance(aggregator, CenteredVotes):
        if aggregator.prevalence_share > 0:
            reasons["center"] = (
                "the center is released, with prevalence_share; aggregator.prevalence_share=0 reads it"
            )
        if aggregator.clip is not None:
            reasons["clip_factor"] = "clip is given"
    return reasons


def _stable_top_k_reasons(aggregator: StableAggregator, *, is_noise_solved: bool) -> Reasons:
    """Returns the reasons why fields of a stable top-k aggregator have no effect, by field.

    Args:
        aggregator: the aggregator, as configured.
        is_noise_solved: whether its noise is solved for a target.
    """
    from pate.aggregators import StableFixedTopK, StableTopK

    reasons: Reasons = {}
    if aggregator.table is not None:
        reason = "the ready table brings its own"
        reasons |= dict.fromkeys((*_TABLE_FIELDS, "failure_prob"), reason)
    if aggregator.test == "table":
        reasons["test_std"] = "test=table has no such noise"
    else:
        reasons |= dict.fromkeys(_TABLE_FIELDS, f"test={aggregator.test} has no table")
    budget_share_fields = ["selection_share"]
    if isinstance(aggregator, StableFixedTopK):
        budget_share_fields.append("peel_share")
    if not is_noise_solved:
        reasons |= dict.fromkeys(
            budget_share_fields, "it shares a target_epsilon, and the noise is given"
        )
    elif aggregator.table is not None:
        reasons |= dict.fromkeys(budget_share_fields, "a ready table has a price of its own")
    elif aggregator.test != "table":
        is_open = isinstance(aggregator, StableTopK) and aggregator.selection_share is None
        if not is_open:
            reason = f"beside test={aggregator.test} the ratio of the noises says it"
            reasons |= dict.fromkeys(budget_share_fields, reason)
    return reasons


def teacher_reasons(
    teacher_recipe: Any, *, aggregator: Aggregator | None, num_teachers: int | None
) -> Reasons:
    """Returns the reasons why fields of a recipe for teachers have no effect, by field.

    Args:
        teacher_recipe: the recipe.
        aggregator: the aggregator that receives the teachers' votes; None if the command has none.
        num_teachers: the number of teachers; None if it follows from the private records.
    """
    from pate.aggregators import CenteredVotes
    from pate.models import KernelTeacher

    if isinstance(teacher_recipe, KernelTeacher):
        is_centered = isinstance(aggregator, CenteredVotes)
        if not is_centered or _may_vote_in_rounds(aggregator, num_teachers=num_teachers):
            return {}
        return {"nonlinear": "these votes are not cast in rounds"}

    # imported here, as it loads torch, which takes seconds and kernel teachers do without
    from pate.models import ResNet50Teacher

    if not isinstance(teacher_recipe, ResNet50Teacher):
        return {}
    if teacher_recipe.frozen:
        reason = "with frozen=true a head is solved for, and nothing is trained"
        return dict.fromkeys(_TRAINING_FIELDS, reason)
    return {"penalty": "it is that of the head of frozen features"}


def _keeps_features(aggregator: Aggregator | None, *, num_teachers: int | None) -> bool:
    """Returns True if centered votes might be cast in rounds, so that `scratch=true` or `scratch=false` has an effect.

    With `scratch=true`, the features of private records are kept between rounds.

    Args:
        aggregator: the aggregator; None, for which the result is True, if the command has none.
        num_teachers: the number of teachers; None if it follows from the private records.
    """
    return aggregator is None or _may_vote_in_rounds(aggregator, num_teachers=num_teachers)


def _may_vote_in_rounds(aggregator: Aggregator | None, *, num_teachers: int | None) -> bool:
    """Returns True if teachers may cast centered votes in rounds, each of which improves a student.

    Args:
        aggregator: the aggregator; None, for which the result is False, if the command has none.
        num_teachers: the number of teachers. None stands for one that follows from the private records: it may be
            large enough for rounds.
    """
    from pate.aggregators import CenteredVotes

    if not isinstance(aggregator, CenteredVotes):
        return False
    if num_teachers is None:
        num_teachers = _UNKNOWN_NUM_TEACHERS
    return not aggregator.casts_one_matrix(num_teachers)


def engine_reasons(
    teacher_recipe: Any,
    *,
    aggregator: Aggregator | None,
    num_teachers: int | None,
    command_line_settings: Mapping[str, str],
) -> Reasons:
    """Returns the reasons why settings of the engine have no effect for these teachers.

    An engine trains teachers, and sums the votes of kernel teachers in rounds.

    Args:
        teacher_recipe: the recipe for teachers.
        aggregator: the aggregator that receives the teachers' votes; None if the command has none.
        num_teachers: the number of teachers; None if it follows from the private records.
        command_line_settings: the settings on the command line as text, by name.
    """
    from pate.models import KernelTeacher, Teacher

    is_in_rounds = _may_vote_in_rounds(aggregator, num_teachers=num_teachers)
    if is_in_rounds and isinstance(teacher_recipe, KernelTeacher):
        reason = "no engine trains the teachers of KernelTeacher, engines sum their votes"
        return {f"engine.{field_name}": reason for field_name in _ENGINE_TRAINING_FIELDS}
    if not isinstance(teacher_recipe, Teacher):
        reason = f"no engine trains the teachers of {type(teacher_recipe).__name__}"
        return dict.fromkeys(_settings_of("engine", command_line_settings), reason)
    if teacher_recipe.is_isolated:
        return {"engine.chunk_size": "each of these teachers is trained by itself"}
    return {}


def student_reasons(student_recipe: Any) -> Reasons:
    """Returns the reasons why fields of a recipe for a student have no effect, by field."""
    from pate.models import LinearStudent
    from pate.models.thresholds import ThresholdedStudent

    reasons: Reasons = {}
    if isinstance(student_recipe, LinearStudent) and student_recipe.labels_per_sample is not None:
        reasons |= dict.fromkeys(
            ("threshold", "threshold_each_label"), "labels_per_sample places the threshold"
        )
    elif isinstance(student_recipe, ThresholdedStudent) and not isinstance(
        student_recipe.threshold, str
    ):
        reasons["threshold_each_label"] = "the threshold is a number, or one for each label"
    return reasons


def method_reasons(method_settings: Mapping[str, Any]) -> Reasons:
    """Returns, by the settings' names, why settings of a method that is compared with PATE have no effect."""
    network = method_settings.get("network")
    if network is None:
        return {}
    reasons: Reasons = {}
    if network != "mlp":
        reasons["hidden"] = f"network={network} has no hidden layer"
    if network == "linear":
        reasons["learning_rate"] = "the steps of network=linear follow from the noise"
    return reasons


def _command_reasons(config: DictConfig, *, command: str) -> Reasons:
    """Returns the reasons why settings of the command `command` itself have no effect, by name."""
    reasons: Reasons = {}
    if command == "account" and config.votes is None:
        reasons["prior"] = "no votes= are given"
    if command == "attack" and str(config.aggregator.get("_target_", "")).endswith(
        ".CenteredVotes"
    ):
        reasons["num_teachers"] = "canaries are records beside centered votes, one teacher each"
    if command == "compare":
        aggregators_setting = config.aggregators
        aggregator_names = (
            [aggregators_setting]
            if isinstance(aggregators_setting, str)
            else list(aggregators_setting)
        )
        names_without_teachers = {
            str(aggregator_name).partition("@")[0] for aggregator_name in aggregator_names
        }
        if names_without_teachers <= set(names_in_config_group("experiment")):
            reason = "every name of aggregators= is an experiment, which brings its teachers"
            reasons["teacher"] = reason
    return reasons
