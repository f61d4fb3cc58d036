"""Commands choose defaults for parts that a command line leaves open, and solve for noise unless `noise=given`.

A *way* is a choice of features, teachers, aggregator, accountant and student for a kind of data (the group `way`).
`pate-train` takes the way for tables or pictures if its command line leaves these choices open. The way `features`
chooses only the features of pictures. `pate-compare` takes it, and so does `pate-train` beside an aggregator or a
setting of the teacher.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from pate.cli import train as train_command
from pate.cli.run_settings import plain_settings, settings_from
from pate.config.command_line import allowed_modules, given_settings, require_noise_stated
from pate.config.default_choices import default_student, default_way, student_line, way_line
from pate.settings import TrainSettings
from tests.config.conftest import Composed, with_files
from tests.e2e.commands import Arguments, succeeded
from tests.refusals import Refusal, refused_parameter

# The members that the way for pictures chooses, by group.
WAY_FOR_PICTURES = {
    "features": "patches",
    "teacher": "kernel",
    "aggregator": "centered_votes",
    "accountant": "exact",
    "student": "low_rank",
}
# The files of experiments in a user's folder.
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
    """Yields a function that composes the configuration of a command.

    A user's folder has the experiments of `EXPERIMENTS`.
    """
    files = {
        f"experiment/{name}": f"# @package _global_\n{text}\n" for name, text in EXPERIMENTS.items()
    }
    files |= {"budget/tight": "target_epsilon: 0.5\n"}
    with with_files(tmp_path, texts=files, allowed_targets=[__name__]):

        def compose_command(arguments: Arguments = (), command: str = "train") -> DictConfig:
            """Composes the configuration of `pate-COMMAND` with these settings from the command line."""
            return compose(command, list(arguments))

        yield compose_command


@dataclass(frozen=True)
class CommandLine:
    """A command line: the name of the command, without `pate-`, and its arguments."""

    command_name: str
    arguments: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns the command line of a text, such as "train data=table"."""
        command_name, *arguments = text.split()
        return cls(command_name, tuple(arguments))


# Command lines by the way that `default_way` chooses for what they leave open.
LINES_OF_WAYS: dict[str | None, tuple[str, ...]] = {
    "pictures": (
        "train data=image_folder",
        "train data=celeba features.dimension=64",
        "train data=celeba data.root=/somewhere target_epsilon=1",
        "train data=celeba student=mlp accountant=pld",
    ),
    "features": (
        "train data=celeba aggregator=gaussian_votes",
        "train data=celeba teacher.num_teachers=30",
        "compare data=celeba",
    ),
    "table": ("train data=table", "train --config-dir experiment data=table"),
    None: (
        "train data=wordnet",
        "train data=celeba features=none",
        "train data=celeba,wordnet -m",
        "train data=table way=none",
        "train data=celeba teacher=cnn",
        "compare data=celeba teacher=cnn",
        "predict data=celeba",
        "compare data=table",
        "train data=table teacher.num_teachers=30",
        "train data=table aggregator=gaussian_votes",
        "train data=table teacher=linear",
        "train experiment=celeba_zhu_wang",
        "train data=celeba experiment=synth_faces_800",
    ),
}


@pytest.mark.parametrize(
    ("text", "way"), [(text, way) for way, texts in LINES_OF_WAYS.items() for text in texts]
)
def test_open_choices_get_defaults_for_the_data(text: str, way: str | None) -> None:
    """`default_way` returns the way for tables or pictures, such as `pictures`, if a command line leaves it open.

    Beside an aggregator or a number of teachers, the way for pictures is `features`, and tables have none. No way is
    chosen for other data, or if the user names a teacher, `features=none`, an experiment or a way.
    """
    line = CommandLine.from_text(text)
    assert default_way(line.arguments, command=line.command_name) == way


@pytest.mark.parametrize(
    ("text", "student"),
    [
        ("train data=digits_grid teacher=cnn", "cnn"),
        ("train data=celeba teacher=resnet50 aggregator=gaussian_votes", "cnn"),
        ("train experiment=digits_grid teacher=cnn", "cnn"),
        ("compare data=celeba teacher=cnn", "cnn"),
        ("train data=celeba teacher=cnn student=linear", None),
        ("train data=celeba teacher=cnn student._target_=my.Student", None),
        ("train experiment=synth_faces_800 teacher=cnn", None),
        ("train experiment=centered_votes_400 teacher=cnn", None),
        ("train experiment=of_ones_own teacher=cnn", None),
        ("train data=wordnet teacher=mlp", None),
        ("account data=celeba teacher=cnn", None),
    ],
)
def test_teachers_of_pictures_choose_a_student_of_pictures(text: str, student: str | None) -> None:
    """If teachers look at pictures and no student is named, the student is `cnn`, and a line says so.

    Otherwise `default_student` returns None.
    """
    line = CommandLine.from_text(text)
    assert default_student(line.arguments, command=line.command_name) == student
    if student is not None:
        assert student_line(student, arguments=line.arguments).startswith(
            "no student is named: student=cnn, which looks at pictures"
        )


@pytest.mark.slow
def test_a_run_of_seconds_trains_no_model_of_all_private_records(composed: Composed) -> None:
    """`experiment=quick` sets `all_records=false`, which the user may change; without the experiment it is null.

    With a model of all private records the run would take 127 seconds, 110 of them for this model.
    """
    assert composed(arguments=["experiment=quick"]).all_records is False
    assert composed(arguments=["experiment=quick", "all_records=true"]).all_records is True
    assert composed().all_records is None


@pytest.mark.slow
def test_way_keeps_the_choices_of_the_user(composed: Composed) -> None:
    """A way chooses the groups that the user leaves open, such as the teacher, and keeps those that the user names.

    A printed line lists the choices of the way; without a way there is none.
    """

    def chosen_groups(arguments: Arguments, command: str = "train") -> dict[str, Any]:
        """Returns the chosen file of each configuration group that a way, the parts for a kind of data, may choose."""
        config = compose(command, list(arguments), return_hydra_config=True)
        return {group: config.hydra.runtime.choices.get(group) for group in WAY_FOR_PICTURES}

    assert (
        chosen_groups(arguments=["data=celeba", "data.root=x", "way=pictures"]) == WAY_FOR_PICTURES
    )
    assert chosen_groups(arguments=["data=table", "way=table"]) == WAY_FOR_PICTURES | {
        "features": "none"
    }
    assert (
        chosen_groups(arguments=["data=table", "way=table", "student=mlp", "teacher=mlp"])[
            "teacher"
        ]
        == "mlp"
    )
    assert (
        chosen_groups(arguments=["data=celeba", "data.root=x", "way=features"], command="compare")[
            "features"
        ]
        == "patches"
    )
    assert chosen_groups(arguments=["data=table"])["teacher"] == "linear"
    assert way_line({"way": "none", **WAY_FOR_PICTURES}) is None
    assert way_line(member_by_group={}) is None
    assert str(way_line({"way": "features", **WAY_FOR_PICTURES})).startswith(
        "no teacher is named: features=patches; "
    )
    assert str(way_line({"way": "table", **WAY_FOR_PICTURES})).startswith(
        "no teacher is named: teacher=kernel aggregator="
    )


@pytest.mark.slow
def test_default_choice_is_printed_and_stored(tmp_path: Path, drawn_faces: Path) -> None:
    """`pate-train data=celeba` without a teacher prints one line with the choices of the way `pictures`.

    run.json has the features and the teacher of that way.
    """
    small = [
        f"data.root={drawn_faces}",
        "data.image_size=10",
        "features.num_filters=16",
        "features.num_patches=2000",
        "seed=0",
    ]
    terms = ["num_queries=40", "target_epsilon=1000", "allow_useless=true", "all_records=false"]
    ended = succeeded(
        "train", arguments=["data=celeba", *small, *terms, f"output_dir={tmp_path / 'run'}"]
    )
    (line,) = [line for line in ended.stderr.splitlines() if "no teacher is named" in line]
    assert all(f"{group}={name}" in line for group, name in WAY_FOR_PICTURES.items())
    assert "teacher=cnn" in line
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["features"]["_target_"].endswith("Patches")
    assert settings["teacher"]["_target_"].endswith("KernelTeacher")


GAUSSIAN = "aggregator=gaussian_votes"
GIVEN = f"{GAUSSIAN} aggregator.noise_std=40 noise=given"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("", 8.0),
        (f"{GAUSSIAN} experiment=names_noise", 8.0),
        (f"{GAUSSIAN} experiment=names_both", 2.0),
        (f"{GAUSSIAN} experiment=includes_a_target", 0.5),
        ("aggregator=stable_top_k_boundary", 36.0),
        ("experiment=quick", 100.0),
        (GIVEN, None),
        ("experiment=quick noise=given", None),
        (f"{GIVEN} max_epsilon=2", None),
        ("experiment=synth_faces_800", None),
    ],
)
def test_noise_is_solved_unless_given(composed: Composed, words: str, target: float | None) -> None:
    """Without `noise=given`, noise is solved for the target epsilon that is set, or for a default one.

    With `noise=given`, no noise is solved, and no target is published.
    """
    config = composed(arguments=words.split())
    assert settings_from(config, settings_class=TrainSettings).solved_epsilon == target
    published_settings = plain_settings(config, excluded_settings=("noise",))
    assert published_settings["target_epsilon"] == target
    assert published_settings["num_queries"] == config.num_queries


@pytest.mark.slow
def test_target_mu_is_solved_in_place_of_the_target_epsilon(composed: Composed) -> None:
    """With `target_mu`, the published target is the epsilon of a Gaussian release with that mu.

    A target epsilon beside it is refused, and so is `noise=given`.
    """
    config = composed(arguments=[GAUSSIAN, "target_mu=1.5"])
    assert settings_from(config, settings_class=TrainSettings).solved_epsilon is None
    with_mu = plain_settings(config, excluded_settings=("noise",))
    assert with_mu["target_epsilon"] == pytest.approx(7.8066, abs=1e-3)
    without_mu = plain_settings(composed(arguments=[GAUSSIAN]), excluded_settings=("noise",))
    assert "target_mu" not in without_mu
    contradictory = composed(arguments=["target_mu=1.5", "target_epsilon=2"])
    with refused_parameter("target_mu", value=1.5, rule_words="no target_epsilon beside it"):
        require_noise_stated(
            contradictory, command_line_settings={"target_mu": "1.5", "target_epsilon": "2"}
        )
    require_noise_stated(
        config, command_line_settings={"aggregator.noise_std": "50", "target_mu": "1.5"}
    )
    with refused_parameter("target_mu", value=1.5, rule_words="none beside noise=given"):
        settings_from(
            composed(arguments=[*GIVEN.split(), "target_mu=1.5"]), settings_class=TrainSettings
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "target"), [("train", 36.0), ("account", None), ("attack", 2.0), ("release", 8.0)]
)
def test_default_epsilon_of_stable_top_k_boundary_applies_to_runs_alone(
    composed: Composed, command: str, target: float | None
) -> None:
    """For `aggregator=stable_top_k_boundary`, the default target epsilon of pate-train is 36.

    Other commands keep their own defaults. A target on the command line counts for every command.
    """
    boundary = "aggregator=stable_top_k_boundary"
    assert composed(arguments=[boundary], command=command).target_epsilon == target
    assert composed(arguments=[boundary, "target_epsilon=5"], command=command).target_epsilon == 5.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("noise=loud", refused_parameter("noise", value="loud")),
        (
            "target_epsilon=null",
            refused_parameter("target_epsilon", value=None, rule_words="epsilon >"),
        ),
        (
            "max_epsilon=2",
            refused_parameter("max_epsilon", value=2.0, rule_words="noise=given beside"),
        ),
        (
            "experiment=quick max_epsilon=2",
            refused_parameter("max_epsilon", value=2.0, rule_words="noise=given beside"),
        ),
    ],
)
def test_settings_of_noise_that_contradict_each_other_are_refused(
    composed: Composed, words: str, refusal: Refusal
) -> None:
    """An unknown `noise`, no target where noise is solved, and `max_epsilon` without `noise=given` are refused."""
    with refusal:
        settings_from(composed(arguments=words.split()), settings_class=TrainSettings)


UNEXPLAINED_NOISE = (
    "noise=given beside it, which takes this noise as it is, or noise=solved, which begins with it and solves for "
    "target_epsilon="
)
TARGET_OF_GIVEN_NOISE = "none beside noise=given, which takes the aggregator's noise as it is"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            f"train {GAUSSIAN} aggregator.noise_std=50",
            refused_parameter(
                "aggregator.noise_std", value="50", rule_words=f"{UNEXPLAINED_NOISE}8.0"
            ),
        ),
        (
            f"release {GAUSSIAN} aggregator.noise_std=50",
            refused_parameter(
                "aggregator.noise_std", value="50", rule_words=f"{UNEXPLAINED_NOISE}8.0"
            ),
        ),
        (
            "train aggregator=stable_top_k aggregator.test_std=50 experiment=quick",
            refused_parameter(
                "aggregator.test_std", value="50", rule_words=f"{UNEXPLAINED_NOISE}100.0"
            ),
        ),
        (
            "release aggregator=stable_top_k aggregator.test_std=50",
            refused_parameter(
                "aggregator.test_std", value="50", rule_words=f"{UNEXPLAINED_NOISE}8.0"
            ),
        ),
        (
            "train noise=given target_epsilon=2",
            refused_parameter("target_epsilon", value=2.0, rule_words=TARGET_OF_GIVEN_NOISE),
        ),
        (
            "release noise=given target_epsilon=2",
            refused_parameter("target_epsilon", value=2.0, rule_words=TARGET_OF_GIVEN_NOISE),
        ),
    ],
)
def test_noise_without_a_setting_that_explains_it_is_refused(
    composed: Composed, text: str, refusal: Refusal
) -> None:
    """pate-train and pate-release refuse a noise scale on the command line if nothing says whether it is final.

    `noise=given`, `noise=solved` or a target epsilon would say so. A target beside `noise=given` is refused, too.
    """
    line = CommandLine.from_text(text)
    config = composed(arguments=line.arguments, command=line.command_name)
    with refusal:
        require_noise_stated(config, command_line_settings=given_settings(line.arguments))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        f"train {GAUSSIAN} aggregator.noise_std=50 target_epsilon=2",
        f"release {GAUSSIAN} aggregator.noise_std=50 target_epsilon=2",
        f"train {GAUSSIAN} aggregator.noise_std=50 noise=solved",
        f"release {GAUSSIAN} aggregator.noise_std=50 noise=solved",
        "train experiment=quick noise=given aggregator.max_k=3",
        "release noise=given aggregator.max_k=3",
        "train aggregator.max_k=3",
        "release aggregator.max_k=3",
        f"train {GIVEN}",
        f"release {GIVEN}",
        f"account {GAUSSIAN} aggregator.noise_std=50",
    ],
)
def test_noise_that_a_setting_explains_is_accepted(composed: Composed, text: str) -> None:
    """A noise scale is accepted beside a target epsilon or `noise=solved` or `noise=given`, or by pate-account."""
    line = CommandLine.from_text(text)
    config = composed(arguments=line.arguments, command=line.command_name)
    require_noise_stated(config, command_line_settings=given_settings(line.arguments))


@pytest.mark.slow
def test_plan_has_the_values_of_the_settings(
    composed: Composed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pate-train with `noise=given` and `max_epsilon` builds a plan with these values, and publishes them.

    The functions that train and report are replaced; the first keeps the plan.
    """
    plans: list[Any] = []

    def keep_plan(plan: Any, output_dir: Path, monitor: Any) -> None:
        plans.append(plan)

    monkeypatch.setattr(train_command, "train", keep_plan)
    monkeypatch.setattr(
        train_command, "print_report", lambda report, report_path, with_scores: None
    )
    monkeypatch.setattr(train_command, "sweep_row", lambda report, output_dir: {})
    # The end of the test restores the earlier configuration.
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    words = [*GIVEN.split(), "max_epsilon=2"]
    HydraConfig.instance().set_config(compose("train", words, return_hydra_config=True))
    train_command.train_from_config(composed(arguments=words))
    (plan,) = plans
    assert (plan.target_epsilon, plan.max_epsilon) == (None, 2.0)
    assert (plan.settings["target_epsilon"], plan.settings["max_epsilon"]) == (None, 2.0)
    assert not {"noise", "fewer_queries"} & plan.settings.keys()
    assert plan.fewer_queries


@pytest.mark.process
def test_printed_configuration_is_the_one_that_runs() -> None:
    """`--cfg job` prints the configuration that runs, with the default choices for the data."""
    printed = succeeded(
        "train",
        arguments=[
            "data=table",
            "aggregator.noise_multiplier=3",
            "aggregator=centered_votes",
            "noise=given",
            "--cfg",
            "job",
        ],
    )
    config = OmegaConf.create(printed.stdout)
    assert config.noise == "given"
    assert config.teacher._target_.endswith("LinearTeacher")
    printed = succeeded("train", arguments=["data=table", "--cfg", "job"])
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
def test_allowed_targets_are_read_from_the_command_line(
    words: list[str], prefixes: tuple[str, ...]
) -> None:
    """`allowed_modules` returns the prefixes of `allowed_targets=`, and none if it is missing or cannot be read.

    `given_settings` returns the settings of a command line as text.
    """
    assert allowed_modules(words) == prefixes
    assert given_settings(["a=1", "+b.c=x=y", "~d", "--help"]) == {"a": "1", "b.c": "x=y", "d": ""}
