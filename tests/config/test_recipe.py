"""The constants of a recipe are typed settings, and are published if they differ from the default."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from pate.aggregators import CenteredVotes
from pate.config import build_aggregator
from pate.config.published import public_settings
from pate.votes import DEFAULT_RECIPE, Recipe
from tests.refusals import refused_parameter

OWN_CONFIDENCE_SHARE = 0.25


def aggregator_of(config: Any) -> Any:
    """Returns the aggregator that a configuration builds."""
    return build_aggregator(config.aggregator, adjacency="replace_one")


def published(config: Any) -> dict[str, Any]:
    """Returns what a run publishes of its aggregator."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    text = public_settings(settings, aggregator=aggregator_of(config))
    part: dict[str, Any] = yaml.safe_load(text)["aggregator"]
    return part


@pytest.mark.slow
def test_a_constant_is_set_by_its_name(composed: Callable[..., Any]) -> None:
    """`aggregator.recipe.trust=0.25` sets this constant of the recipe, and only this constant is published."""
    config = composed(arguments=["aggregator=centered_votes", "aggregator.recipe.trust=0.25"])
    assert aggregator_of(config).recipe == Recipe(trust=OWN_CONFIDENCE_SHARE)
    assert published(config)["recipe"] == {"trust": 0.25}


@pytest.mark.slow
def test_a_split_is_set_as_a_list(composed: Callable[..., Any]) -> None:
    """A constant that is a tuple is set by a list on the command line, and published as a list."""
    config = composed(
        arguments=["aggregator=centered_votes", "aggregator.recipe.prevalence_split=[0.2,0.3,0.5]"]
    )
    assert aggregator_of(config).recipe == Recipe(prevalence_split=(0.2, 0.3, 0.5))
    assert published(config)["recipe"] == {"prevalence_split": [0.2, 0.3, 0.5]}


@pytest.mark.slow
def test_the_default_is_null_and_not_published(composed: Callable[..., Any]) -> None:
    """By default each constant of the recipe is null, which stands for the default recipe, and none is published."""
    config = composed(arguments=["aggregator=centered_votes"])
    assert set(config.aggregator.recipe.values()) == {None}
    assert aggregator_of(config).recipe == DEFAULT_RECIPE
    assert "recipe" not in published(config)


def test_published_settings_build_the_same_aggregator() -> None:
    """The published settings of an aggregator with two changed constants build an equal aggregator."""
    aggregator = CenteredVotes(
        noise_multiplier=5.0, recipe=Recipe(num_rounds=7, trust=OWN_CONFIDENCE_SHARE)
    )
    settings: Any = {"aggregator": {"_target_": "pate.aggregators.CenteredVotes"}}
    part = yaml.safe_load(public_settings(settings=settings, aggregator=aggregator))["aggregator"]
    assert build_aggregator(OmegaConf.create(part), adjacency="replace_one") == aggregator


@pytest.mark.slow
@pytest.mark.parametrize(
    "override", ["aggregator.recipe.trusted=1", "aggregator.recipe.trust=much"]
)
def test_an_unknown_constant_or_type_is_refused(
    composed: Callable[..., Any], override: str
) -> None:
    """An unknown constant, or a text for a number, is refused when the configuration is composed."""
    with pytest.raises(Exception, match=r"recipe|trust"):
        composed(arguments=["aggregator=centered_votes", override])


@pytest.mark.slow
def test_a_constant_out_of_range_is_refused_by_its_key(composed: Callable[..., Any]) -> None:
    """`recipe.trust=2`, which is out of range, is refused and named when the aggregator is built."""
    config = composed(arguments=["aggregator=centered_votes", "aggregator.recipe.trust=2"])
    with refused_parameter("recipe.trust", value=2.0):
        aggregator_of(config)
