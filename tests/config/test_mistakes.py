"""A wrong command line or configuration is refused in one line that says what to write."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from pate.config import build
from pate.config.build import part_maker
from pate.config.checks import require_choices, require_safe_arguments, require_sound
from pate.config.mistakes import explain
from pate.config.quoting import quote_argument
from pate.config.schema import command_schema
from pate.extras import how_to_install
from pate.validation import InvalidValue
from tests.config.conftest import Composed, with_files
from tests.refusals import refused_parameter


def parse_error_line(word: str) -> str:
    """Returns the one-line error for an argument that Hydra cannot parse."""
    with pytest.raises(OverrideParseException) as raised:
        OverridesParser.create().parse_overrides([word])
    line = explain(raised.value)
    assert line is not None
    return line


def parsed_value(word: str) -> object:
    """Returns the value that Hydra's parser reads from an argument."""
    (override,) = OverridesParser.create().parse_overrides([word])
    return override.value()


def test_unparsable_value_is_answered_with_a_quoted_form() -> None:
    """The line about a value that Hydra cannot parse suggests a quoted form, which Hydra reads as the value.

    The line about a word without `=` suggests NAME=VALUE.
    """
    for value in ("~/celeba", "/my copy (1)", "/a=b", "/a[1]"):
        line = parse_error_line(f"data.root={value}")
        assert line.startswith(
            f"data.root={value}: expected a value that Hydra can read, in quotes within quotes wher"
        )
        assert parsed_value(line.rpartition(": '")[2].removesuffix("'")) == value
    assert (
        parse_error_line("quick")
        == "quick: expected NAME=VALUE, no blank around the =; --help lists the names"
    )
    assert parse_error_line("data.labels=[flu,").endswith(
        " where it has a blank or any of ~ ( ) [ ] { } , = ': 'data.labels=[flu]'"
    )


def test_a_general_error_is_a_mistake_only_while_composing() -> None:
    """A TypeError of OmegaConf is explained if arguments were composed, and is not a user's mistake otherwise."""
    with pytest.raises(TypeError) as raised:
        OmegaConf.load(3)  # type: ignore[arg-type]
    assert explain(raised.value) is None
    assert explain(raised.value, arguments=[]) == (
        f"settings: expected what Hydra can compose (TypeError: {raised.value})"
    )


def test_a_missing_value_is_named_with_its_group() -> None:
    """A configuration without `data.root` is refused with this full name, however the value is read."""
    config = OmegaConf.create({"data": {"root": MISSING}})
    with pytest.raises(MissingMandatoryValue) as raised:
        OmegaConf.select(config, "data.root", throw_on_missing=True)
    assert explain(raised.value) == "data.root: expected a value, none is assumed: data.root=…"
    with pytest.raises(MissingMandatoryValue) as raised:
        OmegaConf.to_container(config.data, throw_on_missing=True)  # which names the key alone
    assert explain(raised.value) == "data.root: expected a value, none is assumed: data.root=…"


@pytest.mark.parametrize(
    ("group", "key"), [("data", "root"), ("teacher", "penalty")], ids=["data", "teacher"]
)
def test_a_missing_setting_of_a_part_is_named_with_its_group(group: str, key: str) -> None:
    """A part without a required setting is refused with the setting's full name."""
    part = {"_target_": "my_parts.Part", key: MISSING, "num_teachers": 10, "public_labels": None}
    config = OmegaConf.create({group: part, "allowed_targets": ["my_parts."]})
    with pytest.raises(MissingMandatoryValue) as raised:
        part_maker(config, takes_public_labels=True)(group)
    name = f"{group}.{key}"
    assert explain(raised.value) == f"{name}: expected a value, none is assumed: {name}=…"


def test_classes_that_are_not_there_are_named() -> None:
    """A `_target_` in a module that does not exist is refused and named, even if the module is allowed."""
    node = OmegaConf.create({"_target_": "nowhere.Data"})
    with refused_parameter("_target_", value="nowhere.Data"):
        build(node, slot="data", allowed_targets=["nowhere."])
    with refused_parameter("_target_", value="nowhere.Data"):
        build(node, slot="data")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "target_epsilonn: 9",
            "target_epsilonn: expected a key of the configuration, in experiment/mine.yaml; --help lists them",
        ),
        (
            "teacher: {num_techers: 9}",
            "teacher.num_techers: expected a key of the configuration, in experiment/mine.yaml; --help lists them",
        ),
        ("[9]", "experiment/mine.yaml: expected settings, NAME: VALUE on each line"),
        ("target_epsilon: many", "target_epsilon=many: expected a number"),
    ],
)
def test_mistakes_in_a_users_file_are_one_line(tmp_path: Path, text: str, line: str) -> None:
    """A mistake in a user's experiment gives one line.

    For an unknown key, or a list in place of settings, the line names the file. For a wrong type it names the setting.
    """
    files = {"experiment/mine": f"# @package _global_\n{text}\n"}
    with with_files(tmp_path, texts=files), pytest.raises(HydraException) as raised:
        compose("train", ["experiment=mine"])
    assert explain(raised.value) == line


def test_missing_configuration_is_named_by_its_option(tmp_path: Path) -> None:
    """If a command has no configuration file, the line about it begins with `--config-name=`."""
    with with_files(tmp_path, texts={}), pytest.raises(HydraException) as raised:
        compose("nowhere")
    assert (
        explain(raised.value)
        == "--config-name=nowhere: expected the name of a file in the folder of configurations"
    )


MEMBER = "expected one member, and no + before the name: {0}=NAME; -m {0}=A,B runs several"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("num_queries=abc", r"num_queries=abc: expected a whole number"),
        ("target_epsilon=abc", r"target_epsilon=abc: expected a number"),
        ("target_delta=null", r"target_delta=null: expected a value$"),
        ("redraw=maybe", r"redraw=maybe: expected true or false"),
        ("output_dir=[1]", r"output_dir=\[1\]: expected text, and no setting below it"),
        (
            "allowed_targets=3",
            r"allowed_targets: expected a list: 'allowed_targets=\[VALUE,VALUE\]'",
        ),
        ("teacher.num_teachers=1.5", r"teacher\.num_teachers=1\.5: expected a whole number"),
        (
            "seed=1,2",
            r"seed=1,2: expected one value, a list as 'seed=\[1,2\]', or -m before it, which runs each",
        ),
        ("+experiment=quick", r"experiment: " + re.escape(MEMBER.format("experiment"))),
        ("teacher=[linear,mlp]", r"teacher: " + re.escape(MEMBER.format("teacher"))),
        ("~aggregator", r"aggregator: " + re.escape(MEMBER.format("aggregator"))),
        ("experiment=quik", r"experiment=quik: expected one of .*did you mean quick\?\)"),
        (
            "data=private.csv",
            r"data=private\.csv: .*; files of a table are data=table data\.private=FILE .*",
        ),
        (
            "data.private=a.csv",
            r"data\.private: expected a key .*; files of a table are data=table data\.private=F.*",
        ),
        (
            "teacher=forest",
            r"teacher=forest: expected one of .*; teacher=sklearn takes any classifier of .*",
        ),
        (
            "teacher.num_techers=3",
            r".*\.num_techers: expected a key of .* device \(did you mean num_teachers\?\)",
        ),
        (
            "techer=mlp",
            r"techer: expected a key .* \(did you mean teacher or ledger\?\)",
        ),
        ("groups=patient", r"groups: expected a key .* \(did you mean data\.group\?\)"),
        ("classes=[a]", r"classes: expected a key .* \(did you mean data\.labels\?\)"),
        ("n_teachers=9", r"n_teachers: expected a key .* \(did you mean teacher\.num_teachers\?\)"),
        ("random_state=1", r"random_state: expected a key .* \(did you mean seed\?\)"),
        ("penalty=1", r"penalty: expected a key .* \(did you mean teacher\.penalty\?\)"),
        ("teacher.zzz=1", r"teacher\.zzz: expected a key .*"),
        (
            "aggregator.zzz=1",
            r"aggregator\.zzz: expected a key .*, max_k, selection_share, regularizer",
        ),
        (
            "teacher=sklearn teacher.estimator.C=3",
            r".*; with \+ before it, it becomes one: \+teacher\.estimator\.C=…",
        ),
        (
            "zzz.noise=1",
            r"zzz\.noise: expected a key of the configuration: one of .*, logger, .*",
        ),
    ],
)
def test_uncomposable_setting_is_answered_with_advice(
    composed: Composed, override: str, line: str
) -> None:
    """A setting that Hydra cannot compose, such as `num_queries=abc`, gives one line that says what is expected."""
    with pytest.raises(HydraException) as raised:
        composed(arguments=override.split())
    assert re.fullmatch(line, explain(raised.value) or "")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("submitit") is not None, reason="it is installed")
def test_refusal_of_a_missing_launcher_names_its_package(composed: Composed) -> None:
    """The launcher of submitit is refused with the command that installs it, as it is not installed here."""
    with pytest.raises(HydraException) as raised:
        composed(arguments=["hydra/launcher=submitit_local"], return_hydra_config=True)
    hint = f"submitit's come with {how_to_install(extra='slurm')}"
    assert explain(raised.value) == f"hydra/launcher=submitit_local: expected one of basic; {hint}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["accountant=null"],
            "accountant=null: expected one of auto, exact, joint_law, pld, pure_dp, rdp",
        ),
        (
            ["engine=2.5"],
            "engine=2.5: expected one of processes, ray, sequential, stacked, threads",
        ),
    ],
)
def test_refusal_of_an_unnamed_member_lists_the_group(words: list[str], line: str) -> None:
    """A group that is null or a number is refused with a list of its members; other settings may be either."""
    with pytest.raises(InvalidValue) as raised:
        require_choices(words)
    assert str(raised.value) == line
    require_choices(["seed=3", "target_epsilon=null"])


@pytest.mark.slow
def test_a_key_that_nothing_reads_is_refused(composed: Composed) -> None:
    """A key that a user adds with `+` is refused if it is no setting of the command."""
    require_sound(composed(), schema=command_schema("train"), command="train")
    with refused_parameter("num_query", rule_words="a key of"):
        require_sound(
            composed(arguments=["+num_query=5"]), schema=command_schema("train"), command="train"
        )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--num-queries=3"],
            "--num-queries=3: expected NAME=VALUE, without dashes (did you mean num_queries?)",
        ),
        (
            ["--data.root", "x=1"],
            "--data.root: expected NAME=VALUE, without dashes (did you mean data?)",
        ),
        (["seed=3", "=-1"], "=-1: expected NAME=VALUE, text in UTF-8"),
        (["@aggregator.test_std=1"], "@aggregator.test_std=1: expected NAME=VALUE, text in UTF-8"),
    ],
)
def test_forbidden_arguments_are_refused_before_hydra(words: list[str], line: str) -> None:
    """Arguments that begin with dashes or with a sign such as `@`, or have no name, are refused.

    A similar setting is suggested if there is one. Hydra's own options are accepted.
    """
    with pytest.raises(InvalidValue) as raised:
        require_safe_arguments(
            arguments=words, setting_names=("target_epsilon", "num_queries", "seed", "data")
        )
    assert str(raised.value) == line
    require_safe_arguments(
        arguments=["--help", "--cfg", "job", "--multi", "-m", "--config-dir=x", "seed=3"],
        setting_names=("seed",),
    )


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
        (
            "data.labels=[0,2019,1e3,2.50,007,null,true]",
            ["0", "2019", "1e3", "2.50", "007", "null", "true"],
        ),
        ("data.group=2019", "2019"),
        ("data.group=null", None),
        ("data.missing=[-9,-,999.0]", ["-9", "-", "999.0"]),
        ("drop=[2019]", ["2019"]),
        ("seed=2019", 2019),
    ],
)
def test_arguments_may_have_letters_of_all_languages(word: str, value: object) -> None:
    """An argument with letters of any language, or with signs, is quoted so that Hydra reads its value as typed.

    Names of columns and of missing values stay text, even if they look like numbers. Arguments that Hydra reads as they
    are meant, such as `seed=3`, are not changed.
    """
    assert parsed_value(quote_argument(word)) == value
    words = "seed=3 labels=[a,b] data='\u00f6.csv' labels=[\"\u00f6\",b] --config-dir=\u00f6 -m a=${b:\u00f6} ~data"
    assert all(quote_argument(word) == word for word in words.split())
