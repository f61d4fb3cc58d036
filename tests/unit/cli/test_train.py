"""What pate-train makes of its configuration."""

from omegaconf import OmegaConf

from pate.cli.train import _settings


def test_a_run_is_the_same_wherever_it_is_written_and_keeps_pictures() -> None:
    where = {"ledger": "c", "max_total_epsilon": 8.0, "redraw": True}
    runs = [{"output_dir": None, "data": {"cache": None}}, {"output_dir": "a", "data": {"cache": "b"}} | where]
    first, second = (_settings(OmegaConf.create(run)) for run in runs)
    assert first == second == {"data": {"cache": None}}
