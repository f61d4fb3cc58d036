"""What a command line leaves open: public features and kernel teachers for pictures; noise, where it is named.

Noise is solved for unless `noise=given` says that it is taken as it is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from pate.cli import train as command
from pate.cli.run import plain_settings, settings_from
from pate.config.command_line import allowed_modules, given_settings, require_noise_stated
from pate.config.default_choices import default_student, default_way, student_line, way_line
from pate.settings import TrainSettings
from pate.validation import InvalidValue
from tests.config.conftest import Composed, with_files
from tests.e2e.commands import Arguments, succeeded
from tests.refusals import Refusal, refused

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


LEFT_OPEN: dict[str | None, tuple[str, ...]] = {
    "pictures": (
        *("data=image_folder", "data=celeba features.dimension=64"),
        *(
            "data=celeba data.root=/somewhere target_epsilon=1",
            "data=celeba student=mlp accountant=pld",
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
        *("experiment=celeba_zhu_wang", "data=celeba experiment=synth_faces_800"),
    ),
}


@pytest.mark.parametrize(
    ("line", "chosen"), [(line, chosen) for chosen in LEFT_OPEN for line in LEFT_OPEN[chosen]]
)
def test_open_choices_get_defaults_for_the_data(line: str, chosen: str | None) -> None:
    """`default_way` returns the way for the data, such as `pictures`, if a command line leaves its choices open.

    It returns None where the user has chosen teachers or an aggregator.
    """
    command, *words = (
        line.split() if line.startswith(("compare", "predict")) else ("train", *line.split())
    )
    assert default_way(words, command=command) == chosen


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
        ("account data=celeba teacher=cnn", None),
    ],
)
def test_teachers_of_pictures_choose_a_student_of_pictures(line: str, student: str | None) -> None:
    """Without a named student, teachers that look at pictures get `student=cnn`, and a line that says so.

    Elsewhere `default_student` returns None.
    """
    command, *words = (
        line.split() if line.startswith(("compare", "account")) else ("train", *line.split())
    )
    assert default_student(words, command=command) == student
    if student is not None:
        assert student_line(student, arguments=words).startswith(
            "no student is named: student=cnn, which looks at pictures"
        )


@pytest.mark.slow
def test_a_run_of_seconds_trains_no_model_of_all_private_records(composed: Composed) -> None:
    """`experiment=quick` sets `all_records=false`, and a user may set it to true; without the experiment it is null.

    A model of all private records would take 110 of 127 seconds.
    """
    assert composed(arguments=["experiment=quick"]).all_records is False
    assert composed(arguments=["experiment=quick", "all_records=true"]).all_records is True
    assert composed().all_records is None


@pytest.mark.slow
def test_way_keeps_the_choices_of_the_user(composed: Composed) -> None:
    """A way chooses the groups that the user leaves open, such as the teacher, and keeps those that the user names.

    One printed line lists what the way chose; without a way there is no line.
    """

    def choices(arguments: Arguments, command: str = "train") -> dict[str, Any]:
        """Returns the chosen file of each configuration group that the way may choose."""
        config = compose(command, list(arguments), return_hydra_config=True)
        return {group: config.hydra.runtime.choices.get(group) for group in WAY}

    assert choices(arguments=["data=celeba", "data.root=x", "way=pictures"]) == WAY
    assert choices(arguments=["data=table", "way=table"]) == WAY | {"features": "none"}
    assert (
        choices(arguments=["data=table", "way=table", "student=mlp", "teacher=mlp"])["teacher"]
        == "mlp"
    )
    assert (
        choices(arguments=["data=celeba", "data.root=x", "way=features"], command="compare")[
            "features"
        ]
        == "patches"
    )
    assert choices(arguments=["data=table"])["teacher"] == "linear"
    assert way_line({"way": "none", **WAY}) is way_line({}) is None
    assert str(way_line({"way": "features", **WAY})).startswith(
        "no teacher is named: features=patches; "
    )
    assert str(way_line({"way": "table", **WAY})).startswith(
        "no teacher is named: teacher=kernel aggregator="
    )


@pytest.mark.slow
def test_default_choice_is_printed_and_stored(tmp_path: Path, drawn_faces: Path) -> None:
    """pate-train on CelebA without a named teacher prints the groups of the way in one line. run.json stores them."""
    small = [
        f"data.root={drawn_faces}",
        "data.image_size=10",
        "seed=0",
    ]
    small += ["features.num_filters=16", "features.num_patches=2000"]
    terms = ["num_queries=40", "target_epsilon=1000", "allow_useless=true", "all_records=false"]
    ended = succeeded(
        "train", arguments=["data=celeba", *small, *terms, f"output_dir={tmp_path / 'run'}"]
    )
    (line,) = [line for line in ended.stderr.splitlines() if "no teacher is named" in line]
    assert all(f"{group}={name}" in line for group, name in WAY.items()) and "teacher=cnn" in line
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["features"]["_target_"].endswith("Patches")
    assert settings["teacher"]["_target_"].endswith("KernelTeacher")


GAUSSIAN = "aggregator=gaussian_votes"
GIVEN = f"{GAUSSIAN} aggregator.noise_std=40 noise=given"


@pytest.mark.slow
def test_noise_is_solved_unless_given(composed: Composed) -> None:
    """Without `noise=given` the noise is solved for the target epsilon of the settings, or for a default.

    With it, no noise is solved, and the published target is None.
    """
    for words, target in (
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
    ):
        config = composed(arguments=words.split())
        assert settings_from(config, settings_class=TrainSettings).solved_epsilon == target
        assert plain_settings(config, excluded_settings=("noise",))["target_epsilon"] == target
        assert (
            plain_settings(config, excluded_settings=("noise",))["num_queries"]
            == config.num_queries
        )


def test_target_mu_is_solved_in_place_of_the_target_epsilon(composed: Composed) -> None:
    """With `target_mu` the published target is the epsilon of a Gaussian release with that mu.

    An epsilon beside it, and noise that is given, are refused.
    """
    config = composed(arguments=[GAUSSIAN, "target_mu=1.5"])
    assert settings_from(config, settings_class=TrainSettings).solved_epsilon is None
    plain = plain_settings(config, excluded_settings=("noise",))
    assert plain["target_epsilon"] == pytest.approx(7.8066, abs=1e-3)
    without = plain_settings(composed(arguments=[GAUSSIAN]), excluded_settings=("noise",))
    assert "target_mu" not in without
    both = composed(arguments=["target_mu=1.5", "target_epsilon=2"])
    with refused("target_mu", value=1.5, rule="no target_epsilon beside it"):
        require_noise_stated(
            both, command_line_settings={"target_mu": "1.5", "target_epsilon": "2"}
        )
    require_noise_stated(
        config, command_line_settings={"aggregator.noise_std": "50", "target_mu": "1.5"}
    )
    with refused("target_mu", value=1.5, rule="none beside noise=given"):
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
    """For this aggregator pate-train targets epsilon 36, and other commands keep their defaults.

    A target on the command line is kept by every command.
    """
    boundary = "aggregator=stable_top_k_boundary"
    assert composed(arguments=[boundary], command=command).target_epsilon == target
    assert composed(arguments=[boundary, "target_epsilon=5"], command=command).target_epsilon == 5.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("noise=loud", refused("noise", value="loud")),
        ("target_epsilon=null", refused("target_epsilon", value=None, rule="epsilon >")),
        ("max_epsilon=2", refused("max_epsilon", value=2.0, rule="noise=given beside")),
        (
            "experiment=quick max_epsilon=2",
            refused("max_epsilon", value=2.0, rule="noise=given beside"),
        ),
    ],
)
def test_settings_of_noise_that_contradict_each_other_are_refused(
    composed: Composed, words: str, refusal: Refusal
) -> None:
    """An unknown `noise`, no target where noise is solved, and a maximal epsilon without `noise=given` are refused."""
    with refusal:
        settings_from(composed(arguments=words.split()), settings_class=TrainSettings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            f"{GAUSSIAN} aggregator.noise_std=50",
            r"aggregator\.noise_std=50: expected noise=given beside it, .* for target_epsilon=8\.0",
        ),
        (
            "aggregator=stable_top_k aggregator.test_std=50 experiment=quick",
            r"aggregator\.test_std=50: expected noise=given beside it, .* target_epsilon=100\.0",
        ),
        (
            "noise=given target_epsilon=2",
            r"target_epsilon=2\.0: expected none beside noise=given, which takes",
        ),
        (f"{GAUSSIAN} aggregator.noise_std=50 target_epsilon=2", None),
        (f"{GAUSSIAN} aggregator.noise_std=50 noise=solved", None),
        ("experiment=quick noise=given aggregator.max_k=3", None),
        ("aggregator.max_k=3", None),
        (GIVEN, None),
    ],
)
def test_noise_on_the_command_line_needs_a_noise_setting(
    composed: Composed, words: str, line: str | None
) -> None:
    """pate-train and pate-release refuse a noise scale on the command line that nothing else on it explains.

    It is explained by `noise=given`, `noise=solved` or a target epsilon. A target beside `noise=given` is refused, too.
    pate-account accepts any noise scale. A `line` of None stands for a command_name line that is accepted.
    """
    for command_name in ("train", "release"):
        chosen = [
            word for word in words.split() if command_name == "train" or "experiment" not in word
        ]
        config = composed(arguments=chosen, command=command_name)
        job_settings = given_settings(words.split())
        if line is None:
            require_noise_stated(config, command_line_settings=job_settings)
            continue
        with pytest.raises(InvalidValue, match=f"^{line if command_name == 'train' else ''}"):
            require_noise_stated(config, command_line_settings=job_settings)
    # a price alone is asked for any noise
    require_noise_stated(
        composed(arguments=[GAUSSIAN], command="account"),
        command_line_settings={"aggregator.noise_std": "50"},
    )


@pytest.mark.slow
def test_plan_has_the_values_of_the_settings(
    composed: Composed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pate-train with `noise=given` and a maximal epsilon builds a plan with these values.

    The functions that train and report are replaced; the first keeps its plan.
    """
    plans: list[Any] = []

    def keep_plan(plan: Any, output_dir: Path, monitor: Any) -> None:
        plans.append(plan)

    monkeypatch.setattr(command, "train", keep_plan)
    monkeypatch.setattr(command, "print_report", lambda report, report_path, scores: None)
    monkeypatch.setattr(command, "sweep_row", lambda report, folder: {})
    words = [*GIVEN.split(), "max_epsilon=2"]
    HydraConfig.instance().set_config(compose("train", words, return_hydra_config=True))
    command.train_from_config(composed(arguments=words))
    (plan,) = plans
    assert (plan.target_epsilon, plan.max_epsilon) == (None, 2.0)
    assert (plan.settings["target_epsilon"], plan.settings["max_epsilon"]) == (None, 2.0)
    assert not {"noise", "fewer_queries"} & plan.settings.keys()
    assert plan.fewer_queries
    HydraConfig.instance().cfg = None


@pytest.mark.process
def test_printed_configuration_is_the_one_that_runs() -> None:
    """`--cfg job` prints the configuration after the defaults for the data are chosen."""
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
    assert (config.noise, config.teacher._target_[-13:]) == (
        "given",
        "LinearTeacher",
    )
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
    """`allowed_modules` returns the prefixes of `allowed_targets=`, or of the chosen experiment.

    Words that cannot be read give none. `given_settings` returns the settings of the command line as text.
    """
    assert allowed_modules(words) == prefixes
    assert given_settings(["a=1", "+b.c=x=y", "~d", "--help"]) == {"a": "1", "b.c": "x=y", "d": ""}
