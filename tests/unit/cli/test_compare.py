"""What pate-compare reads from a command line: names, numbers of teachers, lists; mistakes in one line."""

from collections.abc import Callable
from typing import Any

import pytest
from omegaconf import OmegaConf

from pate.cli.compare import _method, _names, _numbers, _require_heard, _seeds
from pate.student import LowRankStudent
from pate.teachers import KernelTeacher, LinearTeacher
from pate.validation import InvalidValue


def listed(*values: Any) -> Any:
    return OmegaConf.create(list(values))


def test_names_with_numbers_of_teachers_numbers_and_seeds() -> None:
    names = ("gaussian_votes", "gaussian_votes@2000", "centered_votes_400")
    assert _names(listed(*names)) == names
    assert _names("peeling@7") == ("peeling@7",)
    assert _numbers("epsilons", listed(1, 0.5)) == (1.0, 0.5)
    assert _numbers("epsilons", 3) == (3.0,)
    assert _seeds(3) == (0, 1, 2)
    assert _seeds(listed(7, 5)) == (7, 5)


def test_lists_and_numbers_of_teachers_that_are_none() -> None:
    for asked, message in (
        (listed("gausian_votes"), r"gausian_votes: expected one of .*did you mean gaussian_votes"),
        (listed("peeling@many"), r"peeling@many: expected NAME, or NAME@T with T teachers"),
        (listed("peeling@"), r"peeling@: expected NAME, or NAME@T"),
        (listed(), r"\[\]: expected a list of names; --help lists them"),
        (7, r"7: expected a list of names"),
    ):
        with pytest.raises(InvalidValue, match=f"^aggregators={message}"):
            _names(asked)
    given = ["teacher=mlp", "teacher.num_teachers=800"]
    _require_heard(given, ("peeling@7", "gaussian_votes"))
    _require_heard(given[:1], ("peeling@7",))
    with pytest.raises(InvalidValue, match=r"^teacher\.num_teachers=800: expected some name in .* that has no @"):
        _require_heard(given, ("peeling@7", "centered_votes"))
    with pytest.raises(InvalidValue, match=r"epsilons=\['little'\]: expected a list of numbers"):
        _numbers("epsilons", listed("little"))
    for wrong in (listed(1.5), "five", True, None):
        with pytest.raises(InvalidValue, match=r"seeds=.*: expected a whole number >= 1, or a list of seeds"):
            _seeds(wrong)


@pytest.mark.slow
def test_defaults_compare_at_least_ten_aggregators(composed: Callable[..., Any]) -> None:
    config = composed(app="compare")
    entrants = [_method(name, config, []) for name in _names(config.aggregators)]
    assert len({entrant.name for entrant in entrants}) >= 10
    assert len({entrant.key for entrant in entrants}) == len(entrants)
    assert {str(entrant.aggregator.adjacency) for entrant in entrants} == {"replace_one"}
    assert _numbers("epsilons", config.epsilons) == (0.1, 0.25, 0.5, 1, 2, 3.6, 8)
    assert (config.num_queries, config.target_delta, len(_seeds(config.seeds))) == (600, 1e-6, 5)


@pytest.mark.slow
def test_an_experiment_brings_its_own_and_an_aggregator_takes_what_is_given(composed: Callable[..., Any]) -> None:
    config = composed("adjacency=add_remove", app="compare")
    given = ["teacher.num_teachers=50", "teacher.penalty=2"]
    centered, few = (_method(name, config, given) for name in ("centered_votes", "centered_votes@400"))
    assert isinstance(centered.teacher, KernelTeacher)
    assert isinstance(centered.student, LowRankStudent)
    assert (centered.num_teachers, few.num_teachers) == (None, 400)
    plain, named = (_method(name, config, given) for name in ("peeling", "peeling@7"))
    assert plain.teacher == named.teacher == LinearTeacher(penalty=2)
    assert (plain.num_teachers, named.num_teachers) == (50, 7)
    assert str(plain.aggregator.adjacency) == "add_remove"
