"""Hydra's own settings in a user's file are those of the command."""

from pathlib import Path

import pytest

from tests.e2e.commands import succeeded


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
