"""Hydra's own settings may stand in a user's file."""

from pathlib import Path

import pytest

from tests.e2e.commands import succeeded


@pytest.mark.slow
def test_a_file_in_a_folder_of_the_user_may_ask_for_a_sweep(tmp_path: Path) -> None:
    """A user's file may set Hydra's mode and the two values of a sweep, each of which `pate-account` then prices."""
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
