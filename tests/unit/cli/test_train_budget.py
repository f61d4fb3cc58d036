"""What pate-train solves for: one target that was given, or the default where nothing was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig

from pate.cli import train as command
from pate.config import CONFIG_FOLDER, register_configs
from pate.validation import InvalidValue


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """What the command would train for some words on its command line."""
    plans: list[Any] = []
    monkeypatch.setattr(command, "train", lambda plan, *_: plans.append(plan))
    monkeypatch.setattr(command, "print_report", lambda *_: None)
    monkeypatch.setattr(command, "sweep_row", lambda *_: {})
    register_configs()

    def plan(*words: str) -> Any:
        config = compose("train", overrides=list(words), return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        command.train_from_config(compose("train", overrides=list(words)))
        return plans.pop()

    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield plan
    HydraConfig.instance().cfg = None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "target"),
    [
        ([], 8.0),
        (["aggregator=stable_top_k_boundary"], 36.0),
        (["experiment=quick"], 100.0),
        (["target_epsilon=3"], 3.0),
        (["aggregator=gaussian_votes", "aggregator.noise_std=40"], None),
    ],
)
def test_without_a_maximum_the_target_stands(planned: Callable[..., Any], words: list[str], target: float) -> None:
    plan = planned(*words)
    assert (plan.target_epsilon, plan.max_epsilon) == (target, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["aggregator=gaussian_votes"],
        ["aggregator=stable_top_k_boundary"],
        ["aggregator=gaussian_votes", "aggregator.noise_std=40"],
        ["aggregator=gaussian_votes", "target_epsilon=null"],
        ["experiment=quick", "target_epsilon=null"],
    ],
    ids=lambda words: words[-1],
)
def test_a_maximum_goes_before_a_target_that_nobody_gave(planned: Callable[..., Any], words: list[str]) -> None:
    """Else the noise would be solved for at epsilon 8, and then nearly all queries cut."""
    plan = planned(*words, "max_epsilon=2")
    assert (plan.target_epsilon, plan.max_epsilon) == (None, 2.0)
    assert (plan.settings["target_epsilon"], plan.settings["max_epsilon"]) == (None, 2.0)


@pytest.mark.parametrize("words", [["target_epsilon=8"], ["experiment=quick"]], ids=["a command line", "an experiment"])
def test_two_that_were_given_are_refused(planned: Callable[..., Any], words: list[str]) -> None:
    with pytest.raises(InvalidValue, match=r"max_epsilon=2\.0: expected no target_epsilon beside it; one solves for"):
        planned(*words, "max_epsilon=2")
