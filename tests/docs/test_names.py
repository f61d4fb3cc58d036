"""docs/names.md has each member of each group, with Python that builds the same part as the configuration."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

import pate.accounting
import pate.aggregators
import pate.data
import pate.features
import pate.student
import pate.teachers
from pate.config import CONFIG_FOLDER, build, build_aggregator, register_configs

PAGE = (Path(__file__).parents[2] / "docs" / "names.md").read_text(encoding="utf-8")
PACKAGES = {
    "aggregator": pate.aggregators,
    "accountant": pate.accounting,
    "data": pate.data,
    "features": pate.features,
    "teacher": pate.teachers,
    "engine": pate.teachers,
    "student": pate.student,
}
GROUPS = dict(re.findall(r"^## `(\w+)=`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| `(\w+)` \| `(.+)` \|$", re.MULTILINE)
ROWS = [(group, *row) for group, text in GROUPS.items() for row in ROW.findall(text)]


@pytest.fixture(autouse=True, scope="module")
def hydra_config() -> Iterator[None]:
    """Initializes Hydra with the shipped configuration."""
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield


@cache
def composed_members(row_number: int) -> DictConfig:
    """Returns one configuration with the member in this row of each group on the page, or with its last member.

    The parts do not fit together, but each is composed as beside any other, and few configurations are composed.
    """
    names_of_groups = {group: [name for name, _ in ROW.findall(GROUPS[group])] for group in GROUPS}
    choices = {
        group: names[min(row_number, len(names) - 1)] for group, names in names_of_groups.items()
    }
    words = [f"{group}={name}" for group, name in choices.items()]
    if choices["data"] == "celeba":
        words.append("data.root=FOLDER")
    return compose("train", words)


def build_by_name(group: str, name: str) -> Any:
    """Returns the part that the commands build for a choice."""
    row_number = [member for member, _ in ROW.findall(GROUPS[group])].index(name)
    node = composed_members(row_number)[group]
    assert group == "accountant" or OmegaConf.get_type(node).__name__.endswith("Config"), (
        "its values are checked by its class"
    )
    if group == "aggregator":
        return build_aggregator(node, adjacency="replace_one")
    return build(
        OmegaConf.masked_copy(node, [key for key in node if key != "num_teachers"]), slot=group
    )


def build_by_python(group: str, python_expression: str) -> Any:
    """Returns the part that the page's Python builds; the page names an accountant by its class."""
    from sklearn.linear_model import LogisticRegression

    names = {name: getattr(PACKAGES[group], name) for name in PACKAGES[group].__all__}
    part = eval(python_expression, {**names, "LogisticRegression": LogisticRegression})
    return part() if group == "accountant" else part


def fields_as_text(part: Any) -> str:
    """Returns the fields of a part as text, which is the same for two parts with the same settings.

    Parts are compared as text, since an estimator is equal only to itself. A field that is a list is written as a
    tuple, since a part built from YAML has lists where one built in Python has tuples.
    """
    return repr(
        {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in vars(part).items()
        }
    )


@pytest.mark.parametrize("group", PACKAGES)
def test_every_member_is_on_the_page(group: str) -> None:
    """docs/names.md lists exactly the members of each group of the configuration."""
    assert sorted(name for member_group, name, _ in ROWS if member_group == group) == sorted(
        path.stem for path in (CONFIG_FOLDER / group).glob("*.yaml")
    )


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name", "python_expression"), ROWS, ids=lambda value: value)
def test_the_python_is_what_the_name_builds(group: str, name: str, python_expression: str) -> None:
    """The Python on docs/names.md builds a part of the same class and fields as the configuration."""
    part = build_by_python(group, python_expression=python_expression)
    expected = build_by_name(group, name=name)
    assert type(part) is type(expected)
    if group != "accountant":  # accountants begin empty, and have no other settings
        assert fields_as_text(part) == fields_as_text(expected)


@pytest.mark.slow
def test_another_value_is_noticed() -> None:
    """Negative control: an aggregator with other noise than in the configuration has another `fields_as_text`."""
    other_part = build_by_python(group="aggregator", python_expression="GNMax(noise_std=41.0)")
    part = build_by_name(group="aggregator", name="gnmax")
    assert fields_as_text(other_part) != fields_as_text(part)
