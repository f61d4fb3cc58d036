"""Options may stand between settings, as on any command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pate.cli.app import _options_first
from tests.e2e.commands import call


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ("a=1 --config-dir here b=2", "--config-dir here a=1 b=2"),
        ("a=1 -m b=2,3 --cfg job c=-4", "-m --cfg job a=1 b=2,3 c=-4"),
        ("~a --config-dir=here +b=1", "--config-dir=here ~a +b=1"),
        ("a=1 --config-dir", "--config-dir a=1"),
    ],
)
def test_the_order_of_each_kind_is_kept(given: str, ordered: str) -> None:
    assert _options_first(given.split()) == ordered.split()


def test_a_folder_between_settings_is_found(tmp_path: Path) -> None:
    (tmp_path / "aggregator").mkdir()
    (tmp_path / "aggregator" / "mine.yaml").write_text("defaults: [gaussian_votes]\nnoise_std: 77.0\n")
    ended = call("account", "num_queries=10", "--config-dir", str(tmp_path), "aggregator=mine", "format=json")
    assert ended.returncode == 0, ended.stderr
    assert '"noise_std": 77.0' in ended.stdout
