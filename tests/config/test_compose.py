"""Every YAML composes and builds, and says no to what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from pate.comparison import Method
from pate.config import CONFIG_FOLDER, build, build_aggregator, register_configs
from pate.config.location import members
from pate.mechanisms import FixedKRegularizer
from pate.validation import InvalidValue


@pytest.fixture(autouse=True, scope="module")
def hydra_config() -> Iterator[None]:
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield


@cache
def composed(*overrides: str, app: str = "train") -> DictConfig:
    return compose(app, overrides=list(overrides))


@pytest.mark.parametrize("name", members("experiment"))
def test_experiment_composes(name: str) -> None:
    teacher = composed(f"experiment={name}").teacher
    every_group = teacher["_target_"].endswith("KernelTeacher") and teacher.num_teachers is None
    assert every_group or teacher.num_teachers > 0


def test_defaults_of_the_main_job() -> None:
    config = composed()
    assert (config.teacher.num_teachers, config.num_queries, config.target_epsilon) == (400, 600, 8.0)
    assert (config.adjacency, config.target_delta, config.seed) == ("replace_one", 1e-6, None)


@dataclass
class Mine:
    size: int

    def load(self) -> int:
        return self.size


@pytest.mark.parametrize("allowed", [f"{__name__}.", __name__, __name__.partition(".")[0]])
def test_a_class_of_ones_own_is_built_where_it_is_allowed_and_of_the_kind(allowed: str) -> None:
    node = OmegaConf.create({"_target_": f"{__name__}.Mine", "size": 3})
    assert build(node, "data", allowed_targets=[allowed]).load() == 3
    with pytest.raises(InvalidValue, match=r"Mine: expected a subclass of pate\.teachers\.Voter$"):
        build(node, "teacher", allowed_targets=[allowed])
    fraction = OmegaConf.create({"_target_": "fractions.Fraction", "numerator": 3})
    with pytest.raises(InvalidValue, match=r"_target_=fractions\.Fraction: expected a class with a method load\(\)"):
        build(fraction, "data", allowed_targets=["fractions."])


def test_refusal_of_a_class_is_the_users_mistake() -> None:
    config = composed("aggregator.selection_scale=-1")
    with pytest.raises(InvalidValue, match=r"selection_scale=-1.0: expected a number > 0"):
        build_aggregator(config.aggregator, adjacency="replace_one")


def test_regularizers_come_as_numbers_or_as_a_function_of_the_package() -> None:
    numbers = composed("aggregator.regularizer=[0,-1.5,-3]").aggregator
    assert build_aggregator(numbers, adjacency="replace_one").regularizer == (0.0, -1.5, -3.0)
    target = "{_target_:pate.mechanisms.FixedKRegularizer,k:4,penalty:2}"
    function = composed(f"aggregator.regularizer={target}", "aggregator.max_k=8").aggregator
    built = build_aggregator(function, adjacency="replace_one")
    assert (built.regularizer, built.max_k) == (FixedKRegularizer(k=4, penalty=2), 8)
    with pytest.raises(InvalidValue, match=r"regularizer=nan: expected finite numbers"):
        build_aggregator(composed("aggregator.regularizer=[0,nan]").aggregator, adjacency="replace_one")


def test_the_fixed_variant_has_the_keys_of_the_other() -> None:
    keys = {name: set(composed(f"aggregator={name}").aggregator) for name in ("stable_top_k", "stable_top_k_fixed")}
    assert keys["stable_top_k"] - keys["stable_top_k_fixed"] == {"regularizer"}
    assert keys["stable_top_k_fixed"] - keys["stable_top_k"] == {"k", "penalty", "peel_scale", "peel_share"}


@pytest.mark.parametrize("name", members("method"))
def test_every_method_of_a_comparison_is_typed_and_built(name: str) -> None:
    node = composed(f"method={name}", app="compare").method
    assert OmegaConf.get_type(node).__name__.endswith("Config")
    method = build(node, "method", name=name, adjacency="replace_one")
    assert isinstance(method, Method)
    assert method.name == name
