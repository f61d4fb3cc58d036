"""A recipe, the constants of votes in rounds: its defaults and ranges, its identity, and its way into a release."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import yaml

from pate.aggregators import CenteredVotes, MemoryRecord
from pate.votes import DEFAULT_RECIPE, Recipe, VoteShape
from pate.votes.made_up import MadeUpVotes
from tests.refusals import refused_parameter

OWN_CONFIDENCE_SHARE = 0.25
VOTE_SHAPE = VoteShape(num_queries=100, num_labels=5, num_teachers=300)
FIELDS = [item.name for item in fields(Recipe)]


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "prevalence_split"])
def test_a_value_outside_of_its_range_is_refused(name: str) -> None:
    """A recipe whose field `name` is 1 below or 1 above its documented range is refused."""
    item = next(item for item in fields(Recipe) if item.name == name)
    for value in (item.metadata["low"] - 1, item.metadata["high"] + 1):
        with refused_parameter(name, value=value):
            Recipe.from_values({name: value})


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_of_a_recipe_is_documented(name: str) -> None:
    """Each field of a recipe has a meaning, a unit, and the data on which its default was chosen."""
    item = next(item for item in fields(Recipe) if item.name == name)
    assert item.metadata["meaning"]
    assert item.metadata["unit"]
    assert item.metadata["chosen_on"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.5", None])
def test_non_numeric_value_is_refused(value: Any) -> None:
    """`Recipe` refuses nan, infinity, a bool, a text and None as its `trust`."""
    with refused_parameter("trust", value=value):
        Recipe(trust=value)


def test_a_count_is_a_whole_number() -> None:
    """`Recipe` refuses 2.5 as its number of rounds."""
    with refused_parameter("num_rounds", value=2.5):
        Recipe(num_rounds=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("prevalence_split", [(0.5, 0.5), (0.1, 0.3, 0.7), 1.0])
def test_prevalence_split_has_three_parts_with_sum_one(prevalence_split: Any) -> None:
    """`Recipe` refuses a prevalence split of two shares, one with sum 1.1, and a number."""
    with refused_parameter("prevalence_split", value=prevalence_split):
        Recipe(prevalence_split=prevalence_split)


def test_every_part_of_the_split_is_positive() -> None:
    """`Recipe` refuses a prevalence split with a share of 0."""
    with refused_parameter("prevalence_split", value=0.0):
        Recipe(prevalence_split=(0.0, 0.4, 0.6))


def test_list_in_a_file_becomes_a_tuple() -> None:
    """A prevalence split read as a list is stored as a tuple, and the recipe can be hashed."""
    recipe = Recipe.from_values({"prevalence_split": [0.2, 0.3, 0.5]})
    assert recipe.prevalence_split == (0.2, 0.3, 0.5)
    assert hash(recipe) == hash(Recipe(prevalence_split=(0.2, 0.3, 0.5)))


@pytest.mark.parametrize(
    ("numpy_recipe", "plain_recipe"),
    [
        (
            Recipe(trust=np.float64(OWN_CONFIDENCE_SHARE)),
            Recipe(trust=OWN_CONFIDENCE_SHARE),
        ),
        (Recipe(trust=1), Recipe(trust=1.0)),
        (Recipe(num_rounds=np.int64(10)), Recipe(num_rounds=10)),  # type: ignore[arg-type]
        (
            Recipe(prevalence_split=(np.float64(0.2), 0.3, 0.5)),
            Recipe(prevalence_split=(0.2, 0.3, 0.5)),
        ),
    ],
)
def test_equal_recipes_are_one_release_and_publish_the_same_text(
    numpy_recipe: Recipe, plain_recipe: Recipe
) -> None:
    """Recipes with NumPy numbers and with plain numbers give aggregators of one identity and the same YAML."""
    aggregators = [
        CenteredVotes(noise_multiplier=1.0, recipe=recipe)
        for recipe in (numpy_recipe, plain_recipe)
    ]
    assert aggregators[0].identity(VOTE_SHAPE) == aggregators[1].identity(VOTE_SHAPE)
    assert yaml.safe_dump(numpy_recipe.changes()) == yaml.safe_dump(plain_recipe.changes())


def test_null_stands_for_the_default() -> None:
    """`from_values` with None for every field returns the default recipe."""
    assert Recipe.from_values(dict.fromkeys(FIELDS)) == DEFAULT_RECIPE


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    """`from_values` refuses the unknown field `thrust`, and names the field `trust`."""
    with refused_parameter("recipe.thrust", rule_words="did you mean trust?"):
        Recipe.from_values({"thrust": 0.5})


def test_only_changed_fields_of_a_recipe_are_published() -> None:
    """The default recipe has no changes and the repr `Recipe()`. A recipe with another `trust` has this one change."""
    assert repr(DEFAULT_RECIPE) == "Recipe()"
    assert DEFAULT_RECIPE.changes() == {}
    assert Recipe(trust=OWN_CONFIDENCE_SHARE).changes() == {"trust": OWN_CONFIDENCE_SHARE}


def test_an_aggregator_takes_a_recipe_by_its_fields() -> None:
    """An aggregator given a dictionary of fields has the recipe of these fields. A text is refused."""
    recipe: Any = {"trust": OWN_CONFIDENCE_SHARE}
    aggregator = CenteredVotes(noise_multiplier=1.0, recipe=recipe)
    assert aggregator.recipe == Recipe(trust=OWN_CONFIDENCE_SHARE)
    text_in_place_of_recipe: Any = "trust"
    with refused_parameter("recipe", value="str"):
        CenteredVotes(noise_multiplier=1.0, recipe=text_in_place_of_recipe)


def test_aggregators_of_different_recipes_are_different_releases() -> None:
    """Aggregators with different recipes are unequal and have different identities.

    The identity with the default recipe does not mention the recipe, as in versions without recipes.
    """
    default_aggregator = CenteredVotes(noise_multiplier=1.0)
    changed_aggregator = CenteredVotes(noise_multiplier=1.0, recipe=Recipe(center_floor=0.01))
    assert default_aggregator != changed_aggregator
    assert default_aggregator.identity(VOTE_SHAPE) != changed_aggregator.identity(VOTE_SHAPE)
    assert "recipe" not in default_aggregator.identity(VOTE_SHAPE)


@pytest.mark.parametrize("budget_shares_of_steps", [(0.1, 0.3, 0.6), (0.4, 0.3, 0.3)])
def test_no_split_of_the_prevalence_changes_the_price(
    budget_shares_of_steps: tuple[float, float, float],
) -> None:
    """The prevalence split divides the prevalence's budget among three steps.

    The total event and the prevalence's event stay.
    """
    aggregator = CenteredVotes(
        noise_multiplier=2.0, recipe=Recipe(prevalence_split=budget_shares_of_steps)
    )
    event: Any = aggregator.event(VOTE_SHAPE)
    assert event.noise_multiplier == pytest.approx(2.0, rel=1e-12)
    assert aggregator.prevalence.event.noise_multiplier == pytest.approx(2 / np.sqrt(0.1))


def test_each_step_spends_its_share_of_the_budget() -> None:
    """The prevalence's first step, which releases a length, has half the noise at a share of 0.4 in place of 0.1.

    The share is that of the prevalence's budget. Two steps with means of label shares follow.
    """

    def noise_of_first_step(prevalence_split: tuple[float, float, float]) -> float:
        recipe = Recipe(prevalence_split=prevalence_split)
        return CenteredVotes(noise_multiplier=2.0, recipe=recipe).prevalence._multipliers_of_steps[
            0
        ]

    noise_at_small_share = noise_of_first_step(prevalence_split=(0.1, 0.3, 0.6))
    noise_at_large_share = noise_of_first_step(prevalence_split=(0.4, 0.2, 0.4))
    assert noise_at_small_share == pytest.approx(2 * noise_at_large_share)


def test_a_release_carries_its_recipe_to_the_student() -> None:
    """The training set of a release has the recipe of the aggregator."""
    recipe = Recipe(ridge_at_once=0.3)
    votes = MadeUpVotes(num_queries=100, num_labels=5, num_teachers=300, agreement=0.9)
    aggregator = CenteredVotes(noise_multiplier=1.0, recipe=recipe)
    release = aggregator.release(votes, rng=np.random.default_rng(0), record=MemoryRecord())
    inputs = np.zeros((100, 3), dtype=np.float32)
    assert release.training_set(inputs).recipe == recipe
