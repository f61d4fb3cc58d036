"""What pate-train makes of its configuration."""

from omegaconf import OmegaConf

from pate.cli.train import _settings


def test_a_run_is_the_same_wherever_it_is_written_and_keeps_pictures() -> None:
    runs = [{"output_dir": None, "data": {"cache": None}}, {"output_dir": "a", "data": {"cache": "b"}}]
    first, second = (_settings(OmegaConf.create(run)) for run in runs)
    assert first == second == {"data": {"cache": None}}
