import re
from importlib.util import find_spec

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from pate.config import build, register_configs
from pate.config.location import CONFIG_FOLDER
from pate.config.mistakes import explain, explain_choice, quoted, require_known_keys, require_no_dashes
from pate.validation import InvalidValue


@pytest.mark.parametrize("value", ["~/celeba", "/my copy (1)", "/a=b", "/a[1]"])
def test_a_path_that_hydra_cannot_read_is_shown_in_quotes(value: str) -> None:
    with pytest.raises(OverrideParseException, match="override_grammar") as raised:
        OverridesParser.create().parse_overrides([f"data.root={value}"])
    line = explain(raised.value)
    assert line.startswith(f"data.root={value}: expected a value that Hydra can read, in quotes within quotes where ")
    shown = line.rpartition(": '")[2].removesuffix("'")
    (override,) = OverridesParser.create().parse_overrides([shown])
    assert override.value() == value


def test_a_value_that_must_be_given_is_named() -> None:
    config = OmegaConf.create({"data": {"root": MISSING}})
    with pytest.raises(MissingMandatoryValue, match="root") as raised:
        OmegaConf.select(config, "data.root", throw_on_missing=True)
    assert explain(raised.value) == "data.root: expected a value, none is assumed: data.root=…"


def test_a_word_without_a_value_is_no_override() -> None:
    with pytest.raises(OverrideParseException, match="override_grammar") as raised:
        OverridesParser.create().parse_overrides(["quick"])
    assert explain(raised.value) == "quick: expected NAME=VALUE, no blank around the =; --help lists the names"


@pytest.mark.skipif(find_spec("submitit") is not None, reason="it is installed")
def test_a_launcher_that_is_not_installed_is_told_where_it_comes_from() -> None:
    with (
        initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"),
        pytest.raises(MissingConfigException, match="submitit_local") as raised,
    ):
        register_configs()
        compose("train", ["hydra/launcher=submitit_local"], return_hydra_config=True)
    hint = "submitit's come with pip install 'pate-multilabel[slurm]'"
    assert explain(raised.value) == f"hydra/launcher=submitit_local: expected one of basic; {hint}"


@pytest.mark.parametrize(
    ("override", "ending"),
    [
        ("teacher.num_techers=3", ": one of num_teachers, penalty, threshold, device (did you mean num_teachers?)"),
        ("techer=mlp", ", output_dir (did you mean teacher or ledger?)"),
        ("aggregator.zzz=1", ", max_k, selection_share"),
        ("zzz.noise=1", ", output_dir"),
    ],
)
def test_an_unknown_key_is_told_those_that_there_are(override: str, ending: str) -> None:
    with (
        initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"),
        pytest.raises(ConfigCompositionException, match="Could not override") as raised,
    ):
        register_configs()
        compose("train", [override])
    line = explain(raised.value)
    assert line.startswith(f"{override.partition('=')[0]}: expected a key of the configuration: one of ")
    assert line.endswith(ending)


def test_a_mistyped_experiment_runs_nothing() -> None:
    with (
        initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"),
        pytest.raises(MissingConfigException, match="quik") as raised,
    ):
        compose("train", ["experiment=quik"])
    assert explain(raised.value).startswith("experiment=quik: expected one of ")
    assert explain(raised.value).endswith("did you mean quick?)")


def test_a_class_that_cannot_be_imported_is_named_with_what_to_do() -> None:
    node = OmegaConf.create({"_target_": "nowhere.Data"})
    with pytest.raises(InvalidValue, match=r"_target_=nowhere\.Data: expected a class that can be imported: install"):
        build(node, "data", allowed_targets=["nowhere."])
    with pytest.raises(InvalidValue, match="or with a prefix in allowed_targets"):
        build(node, "data")


def test_what_cannot_be_set_before_a_class_is_known_is_told_the_plus() -> None:
    with (
        initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"),
        pytest.raises(ConfigCompositionException, match="Could not override") as raised,
    ):
        register_configs()
        compose("train", ["teacher=sklearn", "teacher.estimator.C=3"])
    assert explain(raised.value).endswith("; with + before it, it becomes one: +teacher.estimator.C=…")


@pytest.mark.parametrize("override", ["+experiment=quick", "teacher=[linear,mlp]", "~aggregator"])
def test_no_member_or_two_of_a_group_are_told_how_to_sweep(override: str) -> None:
    with (
        initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"),
        pytest.raises(ConfigCompositionException, match=r"Multiple values|Error resolving interpolation") as raised,
    ):
        register_configs()
        compose("train", [override])
    group = override.strip("+~").partition("=")[0]
    rule = f"expected one member, and no + before the name: {group}=NAME; -m {group}=A,B runs several"
    assert explain(raised.value) == f"{group}: {rule}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["seed=3", "accountant=null"],
            "accountant=null: expected one of auto, exact, joint_law, pld, pure_dp, rdp, zcdp",
        ),
        (["engine=2.5"], "engine=2.5: expected one of processes, ray, sequential, stacked"),
        (["seed=3", "target_epsilon=null"], None),
        (["seed=3", "=-1"], "=-1: expected NAME=VALUE"),
        (["data=[linear]", "@aggregator.test_std=1"], "@aggregator.test_std=1: expected NAME=VALUE"),
    ],
)
def test_a_group_without_a_name_is_told_its_members(words: list[str], line: str | None) -> None:
    assert explain_choice(words) == line


def test_a_key_that_nothing_reads_is_refused() -> None:
    config = OmegaConf.create({"seed": 1, "num_query": 5})
    assert isinstance(config, DictConfig)
    with pytest.raises(InvalidValue, match=r"num_query: expected a key of .* \(did you mean num_queries\?\)"):
        require_known_keys(config, ("seed", "num_queries"))
    require_known_keys(config, ("seed", "num_query"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--target_epsilon", "3"], "--target_epsilon: expected it without dashes: target_epsilon=3"),
        (["--num-queries=3"], "--num-queries=3: expected it without dashes: num_queries=3"),
        (["--seed"], "--seed: expected it without dashes: seed=VALUE"),
        (["--data.root", "seed=1"], "--data.root: expected it without dashes: data.root=VALUE"),
        (["--epsilon", "3"], "--epsilon: expected NAME=VALUE, without dashes (did you mean target_epsilon?)"),
    ],
)
def test_settings_need_no_dashes(words: list[str], line: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        require_no_dashes(words, ("target_epsilon", "num_queries", "seed", "data"))
    assert str(raised.value) == line


def test_options_of_hydra_stay_options() -> None:
    require_no_dashes(["--multirun", "--help", "-m", "--config-dir", "x", "--cfg", "job"], ("seed", "data"))


def test_a_list_in_which_a_blank_is_left_is_shown_in_quotes() -> None:
    with pytest.raises(OverrideParseException) as raised:
        OverridesParser.create().parse_overrides(["data.labels=[flu,"])
    line = "data.labels=[flu,: expected a list without blanks, or in quotes: 'data.labels=[NAME, NAME]'"
    assert explain(raised.value) == line


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "data=private.csv",
            r"data=private\.csv: .*; files of a table are data=table data\.private=FILE .*",
        ),
        (
            "teacher=forest",
            r"teacher=forest: expected one of .*; teacher=sklearn takes any classifier of scikit-learn .*",
        ),
        ("data.private=a.csv", r"data\.private: expected a key .*: data=table data\.private=FILE …"),
        ("seed=1,2", r"seed=1,2: expected one value, a list as 'seed=\[1,2\]', or -m before it, which runs each"),
        ("output_dir.a=1", r"output_dir: expected text, output_dir=VALUE, and no setting below it"),
    ],
)
def test_what_newcomers_write_is_told_what_to_write(override: str, line: str) -> None:
    with pytest.raises(HydraException) as raised, initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        register_configs()
        compose("train", [override])
    assert re.fullmatch(line, explain(raised.value))


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("num_queries=abc", "num_queries=abc: expected a whole number"),
        ("target_epsilon=abc", "target_epsilon=abc: expected a number"),
        ("redraw=maybe", "redraw=maybe: expected true or false"),
        ("output_dir=[1]", "output_dir=[1]: expected text"),
        ("allowed_targets=3", "allowed_targets: expected a list: allowed_targets=[VALUE,VALUE]"),
        ("teacher.num_teachers=1.5", "teacher.num_teachers=1.5: expected a whole number"),
    ],
)
def test_a_value_of_another_type_is_said_in_plain_words(override: str, line: str) -> None:
    with pytest.raises(HydraException) as raised, initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        register_configs()
        compose("train", [override])
    assert explain(raised.value) == line


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("data=\u00f6ffentlich.csv", "\u00f6ffentlich.csv"),
        ("data=~/my \u00fc/a&b #1.csv", "~/my \u00fc/a&b #1.csv"),
        ("labels=[Gr\u00f6\u00dfe, age,\u20ac]", ["Gr\u00f6\u00dfe", "age", "\u20ac"]),
        ("+data.name=\u6771\u4eac", "\u6771\u4eac"),
        ("data.label_separator=;", ";"),
        ("data.thousands=,", ","),
        ("data.thousands='", "'"),
        ("data.thousands= ", " "),
        ("data.missing=[?,-,<60,.]", ["?", "-", "<60", "."]),
        ("split=.1,.1", ".1,.1"),
    ],
)
def test_letters_of_all_languages_are_read(word: str, value: object) -> None:
    (override,) = OverridesParser.create().parse_overrides([quoted(word)])
    assert override.value() == value


@pytest.mark.parametrize(
    "word",
    [
        "seed=3",
        "labels=[a,b]",
        "data='\u00f6.csv'",
        'labels=["\u00f6",b]',
        "--config-dir=\u00f6",
        "-m",
        "a=${b:\u00f6}",
        "~data",
    ],
)
def test_other_words_stay_as_they_are(word: str) -> None:
    assert quoted(word) == word
