"""A student reads the recipe that a release was made by."""

from pathlib import Path

import pytest

from pate.votes import DEFAULT_RECIPE, Recipe
from pate_federated.student_training import published_recipe

AGGREGATOR = "aggregator:\n  _target_: pate.aggregators.CenteredVotes\n"


def test_a_recipe_in_the_settings_is_read(tmp_path: Path) -> None:
    """A release's config.yaml contains a recipe with one changed field. `published_recipe` returns this recipe."""
    text = f"{AGGREGATOR}  recipe:\n    ridge_at_once: 0.3\n"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    assert published_recipe(tmp_path) == Recipe(ridge_at_once=0.3)


@pytest.mark.parametrize("text", [AGGREGATOR, "target_epsilon: 1.0\n"])
def test_settings_without_a_recipe_stand_for_the_default(tmp_path: Path, text: str) -> None:
    """A release's config.yaml names no recipe, or no aggregator. `published_recipe` returns the default recipe."""
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    assert published_recipe(tmp_path) == DEFAULT_RECIPE


def test_a_release_without_settings_has_the_default(tmp_path: Path) -> None:
    """A folder has no config.yaml. `published_recipe` returns the default recipe."""
    assert published_recipe(tmp_path) == DEFAULT_RECIPE
