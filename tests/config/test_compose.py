"""Every YAML composes and builds, and says no to what it does not know."""

from dataclasses import dataclass

import pytest
from omegaconf import OmegaConf

from pate.comparison import Method
from pate.config import build, build_aggregator
from pate.config.location import members
from pate.mechanisms import FixedKRegularizer
from pate.validation import InvalidValue
from tests.config.conftest import Composed


@pytest.mark.parametrize("name", members("experiment"))
def test_experiment_composes(name: str, composed: Composed) -> None:
    teacher = composed(f"experiment={name}").teacher
    every_group = teacher["_target_"].endswith("KernelTeacher") and teacher.num_teachers is None
    assert every_group or teacher.num_teachers > 0


def test_defaults_of_the_main_job(composed: Composed) -> None:
    config = composed()
    assert (config.teacher.num_teachers, config.num_queries, config.target_epsilon) == (400, 600, 8.0)
    assert (config.adjacency, config.target_delta, config.seed) == ("replace_one", 1e-6, None)


@dataclass
class Mine:
    size: int

    def load(self) -> int:
        return self.size


def test_a_class_of_ones_own_is_built_where_it_is_allowed_and_of_the_kind() -> None:
    node = OmegaConf.create({"_target_": f"{__name__}.Mine", "size": 3})
    for allowed in (f"{__name__}.", __name__, __name__.partition(".")[0]):
        assert build(node, "data", allowed_targets=[allowed]).load() == 3
        with pytest.raises(InvalidValue, match=r"Mine: expected a subclass of pate\.teachers\.Voter$"):
            build(node, "teacher", allowed_targets=[allowed])
    fraction = OmegaConf.create({"_target_": "fractions.Fraction", "numerator": 3})
    with pytest.raises(InvalidValue, match=r"_target_=fractions\.Fraction: expected a class with a method load\(\)"):
        build(fraction, "data", allowed_targets=["fractions."])


def test_regularizers_come_as_numbers_or_as_a_function_of_the_package(composed: Composed) -> None:
    numbers = composed("aggregator.regularizer=[0,-1.5,-3]").aggregator
    assert build_aggregator(numbers, adjacency="replace_one").regularizer == (0.0, -1.5, -3.0)
    target = "{_target_:pate.mechanisms.FixedKRegularizer,k:4,penalty:2}"
    function = composed(f"aggregator.regularizer={target}", "aggregator.max_k=8").aggregator
    built = build_aggregator(function, adjacency="replace_one")
    assert (built.regularizer, built.max_k) == (FixedKRegularizer(k=4, penalty=2), 8)
    for word, said in (
        ("regularizer=[0,nan]", "nan: expected finite numbers"),
        ("selection_scale=-1", "expected a num"),
    ):
        with pytest.raises(InvalidValue, match=f"{word.partition('=')[0]}=.*{said}"):
            build_aggregator(composed(f"aggregator.{word}").aggregator, adjacency="replace_one")


def test_the_fixed_variant_has_the_keys_of_the_other(composed: Composed) -> None:
    keys = {name: set(composed(f"aggregator={name}").aggregator) for name in ("stable_top_k", "stable_top_k_fixed")}
    assert keys["stable_top_k"] - keys["stable_top_k_fixed"] == {"regularizer"}
    assert keys["stable_top_k_fixed"] - keys["stable_top_k"] == {"k", "penalty", "peel_scale", "peel_share"}


@pytest.mark.parametrize("name", members("method"))
def test_every_method_of_a_comparison_is_typed_and_built(name: str, composed: Composed) -> None:
    node = composed(f"method={name}", app="compare").method
    assert OmegaConf.get_type(node).__name__.endswith("Config")
    method = build(node, "method", name=name, adjacency="replace_one")
    assert isinstance(method, Method)
    assert method.name == name
