"""Settings that were given and change nothing beside the others: each is named, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from pate.aggregators import Aggregator
from pate.aggregators.aggregator import declared
from pate.config.schema import members

if TYPE_CHECKING:
    from pate.aggregators.stable_top_k import StableAggregator

Make = Callable[[str], Any]  # the part of a group, as `part_maker` makes it
Reasons = dict[str, str]  # why a setting changes nothing, by its name

_OF_A_TABLE = ("table_order", "table_budget")
_OF_A_TRAINED_NETWORK = (
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "flip",
    "precision",
)


def unused_lines(
    config: DictConfig,
    given: Mapping[str, str],
    command: str,
    make: Make,
    *,
    has_known_cost: Callable[[Aggregator], bool],
) -> Iterator[str]:
    """Yields a line for each setting of a command line that the chosen parts do not read.

    Args:
        config: composed.
        given: settings of the command line, as text, by name.
        command: which command they were given to.
        make: makes a part; only parts of which settings were given are made.
        has_known_cost: tells whether a theorem bounds the cost of an aggregator on given votes.
    """
    for name, reason in _reasons(config, given, command, make, has_known_cost).items():
        if name in given:
            yield f"{name}={given[name]}: changes nothing: {reason}"


def _reasons(
    config: DictConfig,
    given: Mapping[str, str],
    command: str,
    make: Make,
    has_known_cost: Callable[[Aggregator], bool],
) -> Reasons:
    """Returns why settings change nothing, of the groups that were given."""
    groups = {name.partition(".")[0] for name in given}
    reasons = _of_the_command(config, command)
    is_solved = config.get("noise") != "given" and (
        config.get("target_epsilon") is not None or config.get("budgets") is not None
    )
    aggregator: Aggregator | None = None
    if config.get("aggregator") is not None and groups & {
        "aggregator",
        "student",
        "teacher",
        "num_teachers",
    }:
        aggregator = make("aggregator")
    if aggregator is not None and any(name.startswith("aggregator.") for name in given):
        reasons |= _within("aggregator", of_aggregator(aggregator, is_solved=is_solved))
        noise = declared(type(aggregator))
        if is_solved and len(noise) == 1:  # of several noises their ratio counts
            why = "the noise follows from the budget"
            if "noise" in config:
                why += "; noise=given takes it as it is"
            reasons |= _within("aggregator", dict.fromkeys(noise, why))
    asks_cost = "data_dependent" in given and command == "train" and config.data_dependent
    if asks_cost and not has_known_cost(make("aggregator")):
        reasons["data_dependent"] = "no theorem says what this aggregator costs on given votes"
    if (
        config.get("teacher") is not None
        and groups & {"engine", "teacher"}
        and command in ("train", "vote")
    ):
        teacher = make("teacher")
        reasons |= _within("teacher", of_teacher(teacher, aggregator))
        reasons |= of_engine(teacher, given)
    if config.get("student") is not None and "student" in groups:
        if command == "release" and aggregator is not None and not aggregator.expects_prior:
            why = "this aggregator does not ask what a student predicts; pate-student trains on the release"
            reasons |= {name: why for name in given if name.partition(".")[0] == "student"}
        else:
            reasons |= _within("student", of_student(make("student")))
    if config.get("method") is not None and "method" in groups:
        reasons |= _within("method", of_method(config.method))
    return reasons


def _within(group: str, reasons: Mapping[str, str]) -> Reasons:
    return {f"{group}.{name}": reason for name, reason in reasons.items()}


def of_aggregator(aggregator: Aggregator, *, is_solved: bool) -> Reasons:
    """Returns which fields of an aggregator change neither its price nor its answers, and why.

    `is_solved` says whether noise is solved for: shares of a budget are read then alone.
    """
    # which no page of help, and no price, needs
    from pate.aggregators import CenteredVotes, NotPriorTopK
    from pate.aggregators.stable_top_k import StableAggregator

    reasons: Reasons = {}
    if isinstance(aggregator, StableAggregator):
        reasons |= _of_stable_top_k(aggregator, is_solved=is_solved)
    if isinstance(aggregator, NotPriorTopK) and not is_solved:
        reasons["release_share"] = "it shares a target_epsilon, and the noise is given"
    if isinstance(aggregator, CenteredVotes):
        if aggregator.prevalence_share > 0:
            reasons["center"] = (
                "the center is released, with prevalence_share; aggregator.prevalence_share=0 reads it"
            )
        if aggregator.clip is not None:
            reasons["clip_factor"] = "clip is given"
    return reasons


def _of_stable_top_k(aggregator: StableAggregator, *, is_solved: bool) -> Reasons:
    from pate.aggregators import StableFixedTopK, StableTopK

    reasons: Reasons = {}
    if aggregator.table is not None:
        why = "the ready table brings its own"
        reasons |= dict.fromkeys((*_OF_A_TABLE, "failure_prob"), why)
    if aggregator.test == "table":
        reasons["test_std"] = "test=table has no such noise"
    else:
        reasons |= dict.fromkeys(_OF_A_TABLE, f"test={aggregator.test} has no table")
    shares = [
        "selection_share",
        *(["peel_share"] if isinstance(aggregator, StableFixedTopK) else []),
    ]
    if not is_solved:
        reasons |= dict.fromkeys(shares, "it shares a target_epsilon, and the noise is given")
    elif aggregator.table is not None:
        reasons |= dict.fromkeys(shares, "a ready table has a price of its own")
    elif aggregator.test != "table":
        is_open = isinstance(aggregator, StableTopK) and aggregator.selection_share is None
        if not is_open:
            reasons |= dict.fromkeys(
                shares, f"beside test={aggregator.test} the ratio of the noises says it"
            )
    return reasons


def of_teacher(teacher: Any, aggregator: Aggregator | None) -> Reasons:
    """Returns which fields of a recipe for teachers change nothing, and why."""
    from pate.aggregators import CenteredVotes
    from pate.models import KernelTeacher, ResNet50Teacher

    if isinstance(teacher, ResNet50Teacher):
        if teacher.frozen:
            return dict.fromkeys(
                _OF_A_TRAINED_NETWORK,
                "with frozen=true a head is solved for, and nothing is trained",
            )
        return {"penalty": "it is that of the head of frozen features"}
    if not isinstance(teacher, KernelTeacher) or not isinstance(aggregator, CenteredVotes):
        return {}
    is_in_rounds = aggregator.rounds != 1 and aggregator.clip is None
    return {} if is_in_rounds else {"nonlinear": "these votes are not cast in rounds"}


def of_engine(teacher: Any, given: Mapping[str, str]) -> Reasons:
    """Returns which settings of the engine change nothing beside these teachers, and why."""
    from pate.models import Teacher

    if not isinstance(teacher, Teacher):
        why = f"no engine trains the teachers of {type(teacher).__name__}"
        return {name: why for name in given if name.partition(".")[0] == "engine"}
    if teacher.is_isolated:
        return {"engine.chunk_size": "each of these teachers is trained by itself"}
    return {}


def of_student(student: Any) -> Reasons:
    """Returns which fields of a recipe for a student change nothing, and why."""
    from pate.models import LinearStudent
    from pate.models.thresholds import ThresholdedStudent

    reasons: Reasons = {}
    if isinstance(student, LinearStudent) and student.labels_per_sample is not None:
        reasons |= dict.fromkeys(
            ("threshold", "threshold_each_label"), "labels_per_sample places the threshold"
        )
    elif isinstance(student, ThresholdedStudent) and not isinstance(student.threshold, str):
        reasons["threshold_each_label"] = "the threshold is a number, or one for each label"
    return reasons


def of_method(node: Mapping[str, Any]) -> Reasons:
    """Returns which fields of a method change nothing, and why, from its settings."""
    network = node.get("network")
    if network is None:
        return {}
    reasons: Reasons = {}
    if network != "mlp":
        reasons["hidden"] = f"network={network} has no hidden layer"
    if network == "linear":
        reasons["learning_rate"] = "the steps of network=linear follow from the noise"
    return reasons


def _of_the_command(config: DictConfig, command: str) -> Reasons:
    """Returns which settings of a command alone change nothing, and why."""
    reasons: Reasons = {}
    if command == "account" and config.votes is None:
        reasons["prior"] = "no votes= are given"
    if command == "attack" and str(config.aggregator.get("_target_", "")).endswith(
        ".CenteredVotes"
    ):
        reasons["num_teachers"] = "canaries are records beside centered votes, one teacher each"
    if command == "compare":
        names = (
            [config.aggregators]
            if isinstance(config.aggregators, str)
            else list(config.aggregators)
        )
        bring_their_own = {str(name).partition("@")[0] for name in names} <= set(
            members("experiment")
        )
        if bring_their_own:
            why = "every name of aggregators= is an experiment, which brings its teachers"
            reasons |= {"teacher": why}
    return reasons
