"""A single run composes its configuration once, and files of the user's may still ask for a sweep."""

from pathlib import Path

import pytest
from hydra.plugins.config_source import ConfigResult

from pate.config.sources import PartSource
from tests.e2e.commands import refused_command, succeeded


@pytest.mark.slow
def test_a_single_run_composes_its_configuration_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A composition reads the schema of the command once. A run that is then refused has read it once."""
    load_config = PartSource.load_config
    loaded_paths: list[str] = []

    def record_and_load(self: PartSource, config_path: str) -> ConfigResult:
        loaded_paths.append(config_path)
        return load_config(self, config_path)

    monkeypatch.setattr(PartSource, "load_config", record_and_load)
    refused_command("account", arguments=["num_teachers=0"])
    assert loaded_paths.count("schema/account") == 1


@pytest.mark.slow
def test_a_file_in_a_folder_of_the_user_may_ask_for_a_sweep(tmp_path: Path) -> None:
    """The mode of Hydra and the values of a sweep may stand in a file; the command then prices both values."""
    (tmp_path / "sizes").mkdir()
    lines = [
        "# @package _global_",
        "hydra:",
        "  mode: MULTIRUN",
        f"  sweep: {{dir: {tmp_path / 'sweep'}}}",
        "  sweeper: {params: {num_queries: '100,200'}}",
    ]
    (tmp_path / "sizes" / "two.yaml").write_text("\n".join(lines) + "\n")
    arguments = ["--config-dir", str(tmp_path), "+sizes=two", "aggregator=gaussian_votes"]
    assert succeeded("account", arguments=arguments).stdout.count("epsilon <=") == 2
