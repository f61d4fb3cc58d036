"""What pate-train makes of its configuration."""

from dataclasses import fields, replace

import pytest
from omegaconf import OmegaConf

from pate.cli.train import _noise_is_given, _public_settings, _settings
from pate.validation import InvalidValue
from tests.contract.aggregator_cases import CASES, Case


def test_a_run_is_the_same_wherever_it_is_written_and_keeps_pictures() -> None:
    runs = [{"output_dir": None, "data": {"cache": None}}, {"output_dir": "a", "data": {"cache": "b"}}]
    first, second = (_settings(OmegaConf.create(run)) for run in runs)
    assert first == second == {"data": {"cache": None}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_noise_is_taken_when_given_and_published_as_it_was_solved_for(case: Case) -> None:
    """Else the target of the configuration would be spent in its place, and the published noise would be another."""
    try:
        scaled = case.aggregator.scaled(2.0)
    except InvalidValue:
        pytest.skip("a ready table is not scaled")
    names = [item.name for item in fields(scaled) if getattr(scaled, item.name) != getattr(case.aggregator, item.name)]
    assert names
    for name in names:
        assert _noise_is_given([f"aggregator.{name}=1.0"])
        assert not _noise_is_given([f"aggregator.{name}=1.0", "target_epsilon=2.0"])
    solved = replace(scaled, session_delta=1e-4) if hasattr(scaled, "session_delta") else scaled
    stale = {name: -1.0 for name in ("session_delta", *names) if hasattr(solved, name)}
    config = OmegaConf.create({"aggregator": stale, "seed": 5, "data": {"root": "secret"}})
    published = OmegaConf.create(_public_settings(config, solved))
    assert {name: published.aggregator[name] for name in stale} == {name: getattr(solved, name) for name in stale}
    assert "seed" not in published
    assert "root" not in published.data


def test_nothing_that_reads_like_a_path_is_published_at_any_depth() -> None:
    data = {"_target_": "hospital.Records", "csv": "/home/ward7/list.csv", "fold": {"root": "x", "seed": 4, "k": 3}}
    lists = {"images": ["/mnt/a", "b"], "where": "C:\\ward", "home": "~ward", "name": "ward"}
    config = OmegaConf.create({"seed": 1, "output_dir": "o", "data": data | lists, "aggregator": {}})
    published = OmegaConf.create(_public_settings(config, CASES[0].aggregator))
    expected = {"_target_": "hospital.Records", "fold": {"k": 3}, "images": ["b"], "name": "ward"}
    assert published.data == expected
    assert set(published) == {"data", "aggregator"}
