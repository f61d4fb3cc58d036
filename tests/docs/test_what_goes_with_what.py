"""The tables of docs/what-goes-with-what.md agree with the code that decides which parts fit."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from pate.aggregators import Aggregator
from pate.models import Voter
from pate.run.compatibility import (
    can_budget_groups,
    can_read,
    can_weigh_groups_in_votes,
    has_teachers_as_unit,
)
from pate.votes.source import VotesInRounds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "what-goes-with-what.md").read_text(encoding="utf-8")


def classes_of_group(group: str) -> dict[str, Any]:
    """Returns the class of each part of a group of the configuration, by its name there."""
    class_by_name = {}
    for path in sorted((ROOT / "conf" / group).glob("*.yaml")):
        target = yaml.safe_load(path.read_text(encoding="utf-8"))["_target_"]
        module_name, class_name = target.rsplit(".", 1)
        class_by_name[path.stem] = getattr(import_module(module_name), class_name)
    return class_by_name


TEACHER_CLASSES: dict[str, type[Voter]] = classes_of_group("teacher")
AGGREGATOR_CLASSES: dict[str, type[Aggregator]] = classes_of_group("aggregator")


def rows_below(heading: str) -> list[list[str]]:
    """Returns the rows of the table below a heading, without its head."""
    section = re.split(rf"^## {heading}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def names_in(cell: str) -> set[str]:
    """Returns the names in a cell, which are in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


def yes_or_no(is_so: bool) -> str:
    """Returns the word by which a table states a truth value."""
    return "yes" if is_so else "no"


def test_each_teacher_gives_what_the_page_says() -> None:
    """The table of teachers has the form of votes, yes or no for rounds, and the protected unit of each class."""
    expected: dict[str, list[str]] = {}
    for name, teacher_class in TEACHER_CLASSES.items():
        in_rounds = yes_or_no(issubclass(teacher_class.gives, VotesInRounds))
        covered = "a teacher" if has_teachers_as_unit(teacher_class) else "a group"  # type: ignore[arg-type]
        expected[name] = [teacher_class.gives.__name__, in_rounds, covered]
    rows_of_page = {
        name: [cells[1].strip("`"), *cells[2:]]
        for cells in rows_below("What teachers give")
        for name in names_in(cells[0])
    }
    assert rows_of_page == expected


def test_each_aggregator_reads_what_the_page_says() -> None:
    """The table of aggregators has the form of votes that each aggregator's class reads."""
    rows_of_page = {
        name: cells[1].strip("`")
        for cells in rows_below("What aggregators read")
        for name in names_in(cells[0])
    }
    assert rows_of_page == {
        name: aggregator_class.reads.__name__
        for name, aggregator_class in AGGREGATOR_CLASSES.items()
    }


def test_the_page_states_which_pairs_fit_and_take_budgets() -> None:
    """The table of pairs says which teachers and aggregators fit, and which can give groups budgets of their own.

    The table agrees with `can_read` and `can_weigh_groups_in_votes`.
    """
    rows = {
        (type_given, type_read): cells[2:]
        for cells in rows_below("Who goes with whom")
        for type_given in names_in(cells[0])
        for type_read in names_in(cells[1])
    }
    pairs = set()
    for teacher_class in TEACHER_CLASSES.values():
        for aggregator_class in AGGREGATOR_CLASSES.values():
            pair = (teacher_class.gives.__name__, aggregator_class.reads.__name__)
            can_be_read, weighs_groups = rows[pair]
            assert can_be_read == yes_or_no(can_read(aggregator_class, teacher_class)), pair  # type: ignore[arg-type]
            if can_read(aggregator_class, teacher_class):  # type: ignore[arg-type]
                assert weighs_groups == yes_or_no(
                    can_weigh_groups_in_votes(aggregator_class, teacher_class)
                ), pair  # type: ignore[arg-type]
            pairs.add(pair)
    assert pairs == rows.keys()


def test_the_page_lists_aggregators_with_budgets_by_teachers() -> None:
    """The page lists exactly the aggregators that can give groups budgets by dealing them to several teachers."""
    budgeted_by_teachers = {
        name
        for name, aggregator_class in AGGREGATOR_CLASSES.items()
        if can_budget_groups(aggregator=aggregator_class, teacher_recipe=TEACHER_CLASSES["linear"])  # type: ignore[arg-type]
    }
    sentence = re.search(r"Budgets by the number of\s+teachers: (.*?)\.\n", PAGE, re.DOTALL)
    assert sentence is not None
    assert names_in(sentence[1]) == budgeted_by_teachers
