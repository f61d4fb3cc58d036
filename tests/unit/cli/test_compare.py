"""What pate-compare reads from a command line: names, numbers of teachers, lists; mistakes in one line."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from pate.cli.compare import _names, _numbers, _seeds
from pate.validation import InvalidValue


def listed(*values: Any) -> Any:
    return OmegaConf.create(list(values))


def test_names_of_aggregators_and_experiments_with_numbers_of_teachers() -> None:
    names = ("gaussian_votes", "gaussian_votes@2000", "centered_votes_400")
    assert _names(listed(*names)) == names
    assert _names("peeling@7") == ("peeling@7",)


def test_numbers_and_seeds() -> None:
    assert _numbers("epsilons", listed(1, 0.5)) == (1.0, 0.5)
    assert _numbers("epsilons", 3) == (3.0,)
    assert _seeds(3) == (0, 1, 2)
    assert _seeds(listed(7, 5)) == (7, 5)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (listed("gausian_votes"), r"aggregators=gausian_votes: expected one of .*did you mean gaussian_votes"),
        (listed("peeling@many"), r"aggregators=peeling@many: expected NAME, or NAME@T with T teachers"),
        (listed("peeling@"), r"aggregators=peeling@: expected NAME, or NAME@T"),
        (listed(), r"aggregators=\[\]: expected a list of names; --help lists them"),
        (7, r"aggregators=7: expected a list of names"),
    ],
)
def test_names_that_are_none(asked: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        _names(asked)


def test_lists_that_are_none() -> None:
    with pytest.raises(InvalidValue, match=r"epsilons=\['little'\]: expected a list of numbers"):
        _numbers("epsilons", listed("little"))
    for wrong in (listed(1.5), "five", True, None):
        with pytest.raises(InvalidValue, match=r"seeds=.*: expected a whole number >= 1, or a list of seeds"):
            _seeds(wrong)
