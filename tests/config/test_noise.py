"""Noise is given where the command line or an experiment names it and no target; whatever the field is called."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.aggregators import GaussianVotes, PerQueryAggregator, StableTopK
from pate.aggregators.noise_fields import noise_fields
from pate.config.noise import noise_is_given, queries_are_named
from pate.mechanisms import CertifiedTable


@dataclass(frozen=True, kw_only=True)
class Undeclared(PerQueryAggregator):
    """A user's, with a field of a name of their own and no word about it."""

    murmur: float
    steps: tuple[float, ...] = (1.0,)
    quorum: float = 0.5

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        return SelfComposedEvent(PureDpEvent(1 / self.murmur), num_queries * num_labels)

    def scaled(self, factor: float) -> Undeclared:
        return replace(self, murmur=self.murmur * factor, steps=tuple(factor * step for step in self.steps))

    def _draw(self, votes: Any, *, num_teachers: int, rng: np.random.Generator) -> Any:
        raise AssertionError("nothing is drawn here")


@dataclass(frozen=True, kw_only=True)
class Declared(Undeclared):
    hum: float = field(default=1.0, metadata={"noise": True})


@dataclass(frozen=True, kw_only=True)
class Unscaled(GaussianVotes):
    def scaled(self, factor: float) -> Unscaled:
        raise NotImplementedError


MINE = Undeclared(murmur=40.0)


def test_what_is_declared_and_what_scaled_changes_is_noise() -> None:
    assert noise_fields(MINE) == {"murmur", "steps"}
    assert noise_fields(Declared(murmur=1.0)) == {"murmur", "steps", "hum"}
    assert noise_fields(Unscaled(noise_std=1.0)) == {"noise_std"}


def test_a_ready_table_is_not_scaled_and_its_class_says_what_is_noise() -> None:
    made = StableTopK(selection_scale=2.0, test="table", table_order=6.0, table_budget=0.2)
    table = CertifiedTable.of(made.stability_test(num_teachers=30), order=6.0)
    ready = StableTopK(selection_scale=2.0, test="table", table=table)
    assert noise_fields(ready) == {"selection_scale", "test_std", "table_order", "table_budget"}
    assert noise_is_given(["aggregator.selection_scale=3"], ready)


@pytest.mark.parametrize("override", ["aggregator.murmur=4", "+aggregator.murmur=4", "++aggregator.murmur=4"])
def test_every_spelling_of_an_override_names_it(override: str) -> None:
    assert noise_is_given(["seed=3", override], MINE)
    assert not noise_is_given([override, "target_epsilon=2"], MINE)
    assert not noise_is_given([override, "++target_epsilon=2"], MINE)


@pytest.mark.parametrize(
    "override", ["aggregator.quorum=0.4", "murmur=4", "student.murmur=4", "~aggregator.murmur", "aggregator=murmur"]
)
def test_other_words_do_not(override: str) -> None:
    assert not noise_is_given([override], MINE)


def test_a_key_within_a_field_names_the_field() -> None:
    assert noise_is_given(["aggregator.steps.first=4"], MINE)


EXPERIMENTS = {
    "names_noise": "aggregator: {murmur: 4.0}",
    "names_both": "aggregator: {murmur: 4.0}\ntarget_epsilon: 2.0",
    "names_nothing": "aggregator: {quorum: 0.4}",
    "includes_noise": "defaults: [names_noise, _self_]\nnum_queries: 3",
    "includes_a_target": "defaults: [names_noise, /budget@_global_: tight]",
    "overrides_a_group": "defaults: [{override /aggregator: gnmax}]",
}


@pytest.fixture
def experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in EXPERIMENTS.items():
        (tmp_path / "experiment").mkdir(exist_ok=True)
        (tmp_path / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\n{text}\n")
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "tight.yaml").write_text("target_epsilon: 0.5\n")
    monkeypatch.setattr("pate.config.location.folders", lambda: (tmp_path,))


@pytest.mark.usefixtures("experiments")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_names_noise_as_the_command_line_does(name: str) -> None:
    assert noise_is_given([f"experiment={name}"], MINE, name) == (name in ("names_noise", "includes_noise"))


@pytest.mark.usefixtures("experiments")
def test_the_command_line_goes_before_the_experiment() -> None:
    assert not noise_is_given(["target_epsilon=3"], MINE, "names_noise")
    assert noise_is_given(["aggregator.murmur=3"], MINE, "names_both")


@pytest.mark.usefixtures("experiments")
def test_an_experiment_that_is_no_file_names_nothing() -> None:
    assert not noise_is_given([], MINE, "nowhere")


def test_queries_are_named_by_the_command_line_or_an_experiment() -> None:
    assert queries_are_named(["seed=3", "num_queries=600"])
    assert queries_are_named([], "quick")
    assert not queries_are_named(["seed=3", "teacher.num_teachers=600"], "centered_votes")
