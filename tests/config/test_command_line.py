"""What a command line leaves open: public features and kernel teachers for pictures; noise, where it is named.

Noise is given where the command line or an experiment names it and no target; whatever the field is called.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.aggregators import GaussianVotes, PerQueryAggregator, StableTopK
from pate.aggregators.aggregator import noise_fields
from pate.cli import train as command
from pate.config.command_line import (
    allowed_modules,
    given_settings,
    said_of_student,
    said_of_way,
    student_left_open,
    way_left_open,
)
from pate.mechanisms import CertifiedTable
from pate.validation import InvalidValue
from pate.votes import VoteShape
from tests.config.conftest import Composed, with_files
from tests.e2e.commands import succeeded

WAY = {
    "features": "patches",
    "teacher": "kernel",
    "aggregator": "centered_votes",
    "accountant": "exact",
}
WAY["student"] = "low_rank"
EXPERIMENTS = {
    "names_noise": "aggregator: {noise_std: 4.0}",
    "names_both": "aggregator: {noise_std: 4.0}\ntarget_epsilon: 2.0",
    "names_nothing": "teacher: {num_teachers: 30}",
    "includes_noise": "defaults: [names_noise, _self_]\nnum_queries: 3",
    "includes_a_target": "defaults: [names_noise, /budget@_global_: tight]",
    "overrides_a_group": "defaults: [{override /aggregator: gnmax}]",
}


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    files = {
        f"experiment/{name}": f"# @package _global_\n{text}\n" for name, text in EXPERIMENTS.items()
    }
    mine = f"_target_: {__name__}.Undeclared\nmurmur: 40.0\n"
    files |= {"budget/tight": "target_epsilon: 0.5\n", "aggregator/mine": mine}
    with with_files(tmp_path, files, __name__):
        yield lambda *words, app="train": compose(app, list(words))


LEFT_OPEN: dict[str | None, tuple[str, ...]] = {
    "pictures": (
        *("data=icons", "data=image_folder", "data=celeba features.dimension=64"),
        *(
            "data=celeba data.root=/somewhere target_epsilon=1",
            "data=synth_faces student=mlp accountant=pld",
        ),
    ),
    "features": (
        "data=celeba aggregator=gaussian_votes",
        "data=celeba teacher.num_teachers=30",
        "compare data=celeba",
    ),
    "table": ("data=table",),
    None: (
        *(
            "data=wordnet",
            "data=celeba features=none",
            "data=celeba,wordnet -m",
            "data=table way=none",
        ),
        *(
            "data=celeba teacher=cnn",
            "compare data=celeba teacher=cnn",
            "predict data=celeba",
            "compare data=table",
        ),
        *(
            "data=table teacher.num_teachers=30",
            "data=table aggregator=gaussian_votes",
            "data=table teacher=linear",
        ),
        *("experiment=celeba_zhu_wang", "data=synth_faces experiment=synth_faces_800"),
    ),
}


@pytest.mark.parametrize(
    ("line", "chosen"), [(line, chosen) for chosen in LEFT_OPEN for line in LEFT_OPEN[chosen]]
)
def test_what_a_command_line_leaves_open(line: str, chosen: str | None) -> None:
    command, *words = (
        line.split() if line.startswith(("compare", "predict")) else ("train", *line.split())
    )
    assert way_left_open(words, command) == chosen


@pytest.mark.parametrize(
    ("line", "student"),
    [
        ("data=digits_grid teacher=cnn", "cnn"),
        ("data=celeba teacher=resnet50 aggregator=gaussian_votes", "cnn"),
        ("experiment=digits_grid teacher=cnn", "cnn"),
        ("compare data=celeba teacher=cnn", "cnn"),
        ("data=celeba teacher=cnn student=linear", None),
        ("data=celeba teacher=cnn student._target_=my.Student", None),
        ("experiment=synth_faces_800 teacher=cnn", None),
        ("experiment=centered_votes_400 teacher=cnn", None),
        ("experiment=of_ones_own teacher=cnn", None),
        ("data=wordnet teacher=mlp", None),
        ("vote data=celeba teacher=cnn", None),
    ],
)
def test_teachers_of_pictures_bring_a_student_of_pictures_where_none_is_named(
    line: str, student: str | None
) -> None:
    command, *words = (
        line.split() if line.startswith(("compare", "vote")) else ("train", *line.split())
    )
    assert student_left_open(words, command) == student
    if student is not None:
        assert said_of_student(student, words).startswith(
            "no student is named: student=cnn, which looks at pictures"
        )


def test_a_run_of_seconds_trains_no_model_of_all_private_records(composed: Composed) -> None:
    """Which took 110 of its 127 seconds; whoever wants it says so."""
    assert composed("experiment=quick").all_records is False
    assert composed("experiment=quick", "all_records=true").all_records is True
    assert composed().all_records is None


def test_the_way_is_what_its_file_says_and_a_choice_of_ones_own_stays(composed: Composed) -> None:
    def choices(*words: str, app: str = "train") -> dict[str, Any]:
        config = compose(app, list(words), return_hydra_config=True)
        return {group: config.hydra.runtime.choices.get(group) for group in WAY}

    assert choices("data=celeba", "data.root=x", "way=pictures") == WAY
    assert choices("data=table", "way=table") == WAY | {"features": "none"}
    assert choices("data=table", "way=table", "student=mlp", "teacher=mlp")["teacher"] == "mlp"
    assert (
        choices("data=celeba", "data.root=x", "way=features", app="compare")["features"]
        == "patches"
    )
    assert choices("data=table")["teacher"] == "linear"
    assert said_of_way({"way": "none", **WAY}) is said_of_way({}) is None
    assert str(said_of_way({"way": "features", **WAY})).startswith(
        "no teacher is named: features=patches; "
    )
    assert str(said_of_way({"way": "table", **WAY})).startswith(
        "no teacher is named: teacher=kernel aggregator="
    )


@pytest.mark.slow
def test_the_choice_is_said_and_kept_in_the_settings(tmp_path: Path) -> None:
    small = [
        "data.num_private=600",
        "data.num_public=80",
        "data.num_test=40",
        "data.image_size=10",
        "seed=0",
    ]
    small += ["features.num_filters=16", "features.num_patches=2000"]
    terms = ["num_queries=60", "target_epsilon=1000", "allow_useless=true", "all_records=false"]
    ended = succeeded("train", "data=synth_faces", *small, *terms, f"output_dir={tmp_path / 'run'}")
    (line,) = [line for line in ended.stderr.splitlines() if "no teacher is named" in line]
    assert all(f"{group}={name}" in line for group, name in WAY.items()) and "teacher=cnn" in line
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["features"]["_target_"].endswith("Patches")
    assert settings["teacher"]["_target_"].endswith("KernelTeacher")


@dataclass(frozen=True, kw_only=True)
class Undeclared(PerQueryAggregator):
    """A user's, with a field of a name of their own and no word about it."""

    murmur: float
    steps: tuple[float, ...] = (1.0,)
    quorum: float = 0.5

    def event(self, shape: VoteShape) -> Event:
        return SelfComposedEvent(PureDpEvent(1 / self.murmur), shape.num_queries * shape.num_labels)

    def scaled(self, factor: float) -> Self:
        return replace(
            self, murmur=self.murmur * factor, steps=tuple(factor * step for step in self.steps)
        )

    def _draw(self, votes: Any, *, num_teachers: int, rng: np.random.Generator) -> Any:
        raise AssertionError("nothing is drawn here")


@dataclass(frozen=True, kw_only=True)
class Declared(Undeclared):
    hum: float = field(default=1.0, metadata={"noise": True})


@dataclass(frozen=True, kw_only=True)
class Unscaled(GaussianVotes):
    def scaled(self, factor: float) -> Self:
        raise NotImplementedError


def test_what_is_declared_and_what_scaled_changes_is_noise() -> None:
    assert noise_fields(Undeclared(murmur=40.0)) == {"murmur", "steps"}
    assert noise_fields(Declared(murmur=1.0)) == {"murmur", "steps", "hum"}
    assert noise_fields(Unscaled(noise_std=1.0)) == {"noise_std"}
    made = StableTopK(selection_scale=2.0, test="table", table_order=6.0, table_budget=0.2)
    table = CertifiedTable.of(made.stability_test(num_teachers=30), order=6.0)
    ready = StableTopK(selection_scale=2.0, test="table", table=table)
    assert noise_fields(ready) == {"selection_scale", "test_std", "table_order", "table_budget"}


GAUSSIAN = "aggregator=gaussian_votes"
GIVEN = f"{GAUSSIAN} aggregator.noise_std=40"
MINE = f"allowed_targets=[{__name__}.] aggregator=mine"
TARGETS: dict[float | None, tuple[str, ...]] = {
    0.5: (f"{GAUSSIAN} experiment=includes_a_target",),
    2.0: (
        f"{GIVEN} target_epsilon=2",
        f"{GIVEN} ++target_epsilon=2",
        f"{GAUSSIAN} experiment=names_both",
    ),
    3.0: ("target_epsilon=3", f"{GAUSSIAN} experiment=names_noise target_epsilon=3"),
    8.0: (
        *(
            "",
            f"{MINE} aggregator.quorum=0.4",
            f"{MINE} teacher.penalty=2",
            f"{GAUSSIAN} experiment=names_nothing",
        ),
        f"{GAUSSIAN} aggregator.noise_std=-1",  # which is refused where it is made
        *(f"{GIVEN} noise=solve", "target_epsilon=8 max_epsilon=2"),
    ),
    36.0: ("aggregator=stable_top_k_boundary",),
    # two that were given, which a run refuses
    100.0: ("experiment=quick", "experiment=quick max_epsilon=2"),
    None: (
        f"{GAUSSIAN} aggregator.noise_std=100",  # which is the default
        *(
            "target_epsilon=null",
            f"{GAUSSIAN} ++aggregator.noise_std=40",
            f"{MINE} aggregator.murmur=4",
        ),
        *(
            f"{GAUSSIAN} experiment=names_noise",
            f"{GAUSSIAN} experiment=includes_noise",
            f"{GAUSSIAN} noise=given",
        ),
        *(
            f"{GAUSSIAN} experiment=names_both aggregator.noise_std=3",
            "experiment=quick aggregator.selection_scale=9",
        ),
        *(
            f"{GIVEN} max_epsilon=2",
            f"{GAUSSIAN} max_epsilon=2",
            "aggregator=stable_top_k_boundary max_epsilon=2",
        ),
        "experiment=quick target_epsilon=null max_epsilon=2",
    ),
}


@pytest.mark.parametrize(
    ("line", "target"), [(line, target) for target in TARGETS for line in TARGETS[target]]
)
def test_noise_is_given_or_solved_for(composed: Composed, line: str, target: float | None) -> None:
    config = composed(*line.split())
    assert config.target_epsilon == target
    assert config.noise == ("given" if target is None else "solve")


def test_noise_is_one_of_two_words_and_contradicts_a_target(composed: Composed) -> None:
    assert composed(*GIVEN.split(), app="release").target_epsilon is None
    assert composed(GAUSSIAN, app="release").target_epsilon == 8.0
    with pytest.raises(InvalidValue, match=r"^noise=loud: expected one of solve, given"):
        composed("noise=loud")
    with pytest.raises(
        InvalidValue, match=r"^target_epsilon=2\.0: expected none beside noise=given"
    ):
        composed("noise=given", "target_epsilon=2")
    with pytest.raises(
        InvalidValue, match=r"^target_epsilon=None: expected an epsilon > 0 beside noise=solve"
    ):
        composed("noise=solve", "target_epsilon=null")
    with pytest.raises(InvalidValue, match=r"^max_epsilon=2\.0: expected none beside noise=solve"):
        composed("noise=solve", "max_epsilon=2")


def test_queries_are_named_by_the_command_line_or_an_experiment(composed: Composed) -> None:
    for line in (
        "seed=3",
        "teacher.num_teachers=600 experiment=centered_votes",
        "num_queries=600 fewer_queries=true",
    ):
        assert composed(*line.split()).fewer_queries is True
    for word in ("num_queries=600", "experiment=quick"):
        assert composed(word).fewer_queries is False


def test_a_plan_takes_what_was_settled(composed: Composed, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    monkeypatch.setattr(command, "train", lambda plan, *_: plans.append(plan))
    monkeypatch.setattr(command, "print_report", lambda *_, **__: None)
    monkeypatch.setattr(command, "sweep_row", lambda *_: {})
    words = [*GIVEN.split(), "max_epsilon=2"]
    HydraConfig.instance().set_config(compose("train", words, return_hydra_config=True))
    command.train_from_config(composed(*words))
    (plan,) = plans
    assert (plan.target_epsilon, plan.max_epsilon) == (None, 2.0)
    assert (plan.settings["target_epsilon"], plan.settings["max_epsilon"]) == (None, 2.0)
    assert not {"noise", "fewer_queries"} & plan.settings.keys()
    with pytest.raises(
        InvalidValue,
        match=r"max_epsilon=2\.0: expected no target_epsilon beside it; one solves for",
    ):
        command.train_from_config(composed("experiment=quick", "max_epsilon=2"))
    HydraConfig.instance().cfg = None


@pytest.mark.process
def test_what_is_printed_is_what_runs() -> None:
    printed = succeeded(
        "train",
        "data=table",
        "aggregator.noise_multiplier=3",
        "aggregator=centered_votes",
        "--cfg",
        "job",
    )
    config = OmegaConf.create(printed.stdout)
    assert (config.target_epsilon, config.noise, config.teacher._target_[-13:]) == (
        None,
        "given",
        "LinearTeacher",
    )
    printed = succeeded("train", "data=table", "--cfg", "job")
    assert OmegaConf.create(printed.stdout).teacher._target_.endswith("KernelTeacher")


@pytest.mark.parametrize(
    ("words", "prefixes"),
    [
        (["allowed_targets=[x., y.]"], ("x.", "y.")),
        (["++allowed_targets=[x.]", "experiment=trusting"], ("x.",)),
        (["--help", "experiment=trusting"], ()),
        (["experiment=nowhere", "data.root=~/a b("], ()),
        (["allowed_targets=x."], ()),
        (["allowed_targets=[x"], ()),
    ],
)
def test_what_a_command_line_allows(words: list[str], prefixes: tuple[str, ...]) -> None:
    assert allowed_modules(words) == prefixes
    assert given_settings(["a=1", "+b.c=x=y", "~d", "--help"]) == {"a": "1", "b.c": "x=y", "d": ""}
