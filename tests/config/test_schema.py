"""Each YAML file composes with typed keys and builds its part, and `--help` explains each member of a group."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hydra import compose
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, OmegaConf

from pate.comparison import Method
from pate.config import build, build_aggregator, schema
from pate.config.classes import find_class
from pate.config.schema import (
    command_schema,
    describe_members,
    file_of,
    member_schema,
    names_in_config_group,
    schema_of,
    target_of,
)
from pate.mechanisms import FixedKRegularizer
from pate.setting_names import COMMAND, SPELLING_OF_COMMAND
from pate.validation import InvalidValue
from tests.config.conftest import Composed, with_files
from tests.refusals import refused_parameter

if TYPE_CHECKING:
    from nowhere import Nothing


@dataclasses.dataclass
class ClassWithFields:
    """A class with a required field, optional ones, and one that is no argument."""

    needed: int
    share: float | None = None
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])
    made: int = dataclasses.field(default=3, init=False)


@dataclasses.dataclass
class ClassWithUnknownHint:
    """A class with a field whose type hint names a class that cannot be imported."""

    thing: Nothing | None = None
    number: int = 3


def test_schema_has_the_configurable_fields() -> None:
    """The schema of a class has its target and its fields, apart from excluded ones and those that are no arguments.

    If one type hint is unknown, all fields of the class take any value.
    """
    node = OmegaConf.structured(
        schema_of(ClassWithFields, excluded_fields=("share",), extra_fields=(("beside", int, 5),))
    )
    names = {"needed": MISSING, "names": ["a"]}
    assert OmegaConf.to_container(node) == {
        "_target_": f"{__name__}.ClassWithFields",
        "beside": 5,
        **names,
    }
    # hints that cannot be read leave values unchecked
    node = OmegaConf.structured(schema_of(ClassWithUnknownHint))
    node.number = "three"
    assert node.number == "three"


def test_command_schema_has_typed_keys_of_its_file() -> None:
    """The schema of pate-train begins with the groups data, features and teacher, and gives its settings their types.

    The keys `way`, `experiment` and `hydra` are not in it. In the schema of pate-predict, `data` is a text.
    """
    types = {field.name: field.type for field in dataclasses.fields(command_schema("train"))}
    assert (
        list(types)[:3] == ["data", "features", "teacher"]
        and not {"way", "experiment", "hydra"} & types.keys()
    )
    assert (types["num_queries"], types["target_epsilon"], types["seed"]) == (
        int,
        float | None,
        int | None,
    )
    assert (types["adjacency"], types["ledger"], types["allowed_targets"]) == (
        str,
        str | None,
        list[str],
    )
    assert {field.name: field.type for field in dataclasses.fields(command_schema("predict"))}[
        "data"
    ] is str


@pytest.fixture
def hydra_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Initializes Hydra with a user's folder of aggregators.

    The first is valid, the module of the second cannot be imported, and the third has no `_target_`.
    """
    (tmp_path / "lacking.py").write_text("import certainly_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = "# Ours with less.\ndefaults: [stable_top_k_table, _self_]\nmax_k: 3\n"
    texts = {"mine": mine, "broken": "_target_: lacking.Thing\n", "untargeted": "x: 1\n"}
    with with_files(
        tmp_path,
        texts={f"aggregator/{name}": text for name, text in texts.items()},
        allowed_targets="lacking.",
    ):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("hydra_config")
def test_users_yaml_file_is_typed_like_the_member_it_extends() -> None:
    """The keys of a user's YAML file have the types of the shipped aggregator that it extends.

    So a text for a number is refused.
    """
    node = compose("train", ["aggregator=mine", "aggregator.padded=true"]).aggregator
    assert (node.max_k, node.padded, node.table_order) == (3, True, 4.4827)
    with pytest.raises(ConfigCompositionException, match="Error merging override"):
        compose("train", ["aggregator=mine", "aggregator.max_k=many"])
    assert target_of(group="aggregator", member_name="mine") == "pate.aggregators.StableTopK"
    assert (
        target_of(group="aggregator", member_name="untargeted")
        is target_of(group="aggregator", member_name="nowhere")
        is None
    )
    assert file_of(group="aggregator", member_name="nowhere") is None


@pytest.mark.slow
@pytest.mark.usefixtures("hydra_config")
def test_a_member_whose_class_cannot_be_loaded_is_composed_unchecked() -> None:
    """A member composes without types if its module imports a package that is not installed.

    `find_class` raises the error of that import.
    """
    with pytest.raises(ModuleNotFoundError, match="certainly_not_installed"):
        find_class("lacking.Thing")
    assert compose("train", ["aggregator=broken"]).aggregator == {"_target_": "lacking.Thing"}
    for trusted in ("pate.", "lacking."):
        assert (
            member_schema(group="aggregator", member_name="broken", trusted_prefixes=(trusted,))
            == {}
        )


GROUPS = (
    "data",
    "teacher",
    "engine",
    "aggregator",
    "accountant",
    "student",
    "experiment",
    "features",
    "way",
)


def test_each_member_is_explained_by_a_first_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help of a group has a line for each member, with the first sentence of the comment in its file."""
    for group in GROUPS:
        page = describe_members(group)
        assert page.startswith(f"  {group}\n")
        assert re.findall(r"^    (\w+) +\S", page, re.MULTILINE) == list(
            names_in_config_group(group)
        )
        assert max(map(len, page.splitlines())) <= 120
    (tmp_path / "kind").mkdir()
    long = "# @package _global_\n# Two lines, data.root=FOLDER, 0.5\n# of it. And more.\nx: 1 # not me.\n"
    for name, text in {"one": long, "two": "# No stop\n", "xyz": "x: 1\n"}.items():
        (tmp_path / "kind" / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(schema, "folders", lambda: (tmp_path,))
    assert describe_members("kind") == (
        "  kind\n    one  Two lines, data.root=FOLDER, 0.5 of it\n    two  No stop\n    xyz"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", names_in_config_group(group="experiment"))
def test_experiment_composes(name: str, composed: Composed) -> None:
    """Each experiment composes, with a number of teachers or a kernel teacher for each group of private records."""
    teacher = composed(arguments=[f"experiment={name}"]).teacher
    every_group = teacher["_target_"].endswith("KernelTeacher") and teacher.num_teachers is None
    assert every_group or teacher.num_teachers > 0


@pytest.mark.slow
def test_default_configuration_has_expected_values(composed: Composed) -> None:
    """By default, pate-train has 400 teachers, 600 queries, epsilon 8, delta 1e-6, replace_one and no seed."""
    config = composed()
    assert (config.teacher.num_teachers, config.num_queries, config.target_epsilon) == (
        400,
        600,
        8.0,
    )
    assert (config.adjacency, config.target_delta, config.seed) == ("replace_one", 1e-6, None)


@dataclasses.dataclass
class Sized:
    size: int

    def load(self) -> int:
        return self.size


def test_a_users_class_is_built_where_it_is_allowed() -> None:
    """A user's class with a method `load` is built as data if its module is allowed.

    The same class is refused as a teacher, and a class without `load` is refused as data.
    """
    node = OmegaConf.create({"_target_": f"{__name__}.Sized", "size": 3})
    for allowed_prefix in (f"{__name__}.", __name__, __name__.partition(".")[0]):
        assert build(node, slot="data", allowed_targets=[allowed_prefix]).load() == 3
        with refused_parameter("_target_", value="tests.config.test_schema.Sized"):
            build(node, slot="teacher", allowed_targets=[allowed_prefix])
    fraction = OmegaConf.create({"_target_": "fractions.Fraction", "numerator": 3})
    with refused_parameter("_target_", value="fractions.Fraction"):
        build(fraction, slot="data", allowed_targets=["fractions."])


@pytest.mark.slow
def test_regularizer_is_a_number_or_a_function_of_pate(composed: Composed) -> None:
    """A regularizer may be a list of numbers or a class of pate.

    NaN in it and a negative noise scale are refused and named.
    """
    config_with_numbers = composed(arguments=["aggregator.regularizer=[0,-1.5,-3]"]).aggregator
    assert build_aggregator(config_with_numbers, adjacency="replace_one").regularizer == (
        0.0,
        -1.5,
        -3.0,
    )
    target = "{_target_:pate.mechanisms.FixedKRegularizer,k:4,penalty:2}"
    config_with_function = composed(
        arguments=[f"aggregator.regularizer={target}", "aggregator.max_k=8"]
    ).aggregator
    built_aggregator = build_aggregator(config_with_function, adjacency="replace_one")
    assert (built_aggregator.regularizer, built_aggregator.max_k) == (
        FixedKRegularizer(k=4, penalty=2),
        8,
    )
    for word, said in (
        ("regularizer=[0,nan]", "nan: expected finite numbers"),
        ("selection_scale=-1", "expected a num"),
    ):
        with pytest.raises(InvalidValue, match=f"{word.partition('=')[0]}=.*{said}"):
            build_aggregator(
                composed(arguments=[f"aggregator.{word}"]).aggregator, adjacency="replace_one"
            )


@pytest.mark.slow
def test_fixed_variant_has_the_keys_of_stable_top_k(composed: Composed) -> None:
    """stable_top_k_fixed has the keys of stable_top_k without `regularizer`, and four of its own."""
    keys = {
        name: set(composed(arguments=[f"aggregator={name}"]).aggregator)
        for name in ("stable_top_k", "stable_top_k_fixed")
    }
    assert keys["stable_top_k"] - keys["stable_top_k_fixed"] == {"regularizer"}
    assert keys["stable_top_k_fixed"] - keys["stable_top_k"] == {
        "k",
        "penalty",
        "peel_scale",
        "peel_share",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", names_in_config_group("method"))
def test_every_method_of_a_comparison_is_typed_and_built(name: str, composed: Composed) -> None:
    """Each method of pate-compare composes with types, and builds a `Method` with its name."""
    node = composed(arguments=[f"method={name}"], command="compare").method
    assert OmegaConf.get_type(node).__name__.endswith("Config")
    method = build(node, slot="method", name=name, adjacency="replace_one")
    assert isinstance(method, Method)
    assert method.name == name


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "account", "attack"])
def test_refusal_of_num_teachers_uses_the_commands_setting(
    composed: Composed, command: str
) -> None:
    """The name that errors of a command have for `num_teachers` is a setting of that command."""
    setting_path = SPELLING_OF_COMMAND.get(command, COMMAND).setting("num_teachers")
    assert OmegaConf.select(composed(command=command), setting_path) is not None
