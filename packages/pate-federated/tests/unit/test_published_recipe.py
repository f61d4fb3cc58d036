"""`published_recipe` returns the tuned constants of centered votes (`Recipe`) from the settings of a release.

The training of the student reads them. Where the settings name none, they are the defaults.
"""

from pathlib import Path

import pytest

from pate.votes import DEFAULT_RECIPE, Recipe
from pate_federated.student_training import published_recipe

AGGREGATOR = "aggregator:\n  _target_: pate.aggregators.CenteredVotes\n"


def test_a_recipe_in_the_settings_is_read(tmp_path: Path) -> None:
    """`published_recipe` returns the recipe in config.yaml, which has one changed field."""
    text = f"{AGGREGATOR}  recipe:\n    ridge_at_once: 0.3\n"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    assert published_recipe(tmp_path) == Recipe(ridge_at_once=0.3)


@pytest.mark.parametrize("text", [AGGREGATOR, "target_epsilon: 1.0\n"])
def test_settings_without_a_recipe_stand_for_the_default(tmp_path: Path, text: str) -> None:
    """`published_recipe` returns the default recipe if config.yaml has no recipe or no aggregator."""
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    assert published_recipe(tmp_path) == DEFAULT_RECIPE


def test_a_release_without_settings_has_the_default(tmp_path: Path) -> None:
    """`published_recipe` returns the default recipe if there is no config.yaml."""
    assert published_recipe(tmp_path) == DEFAULT_RECIPE
