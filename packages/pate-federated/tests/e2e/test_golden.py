"""A small seeded run of `distributed_votes` releases and charges what golden.json has recorded."""

import json
from pathlib import Path

import pytest

from tests.e2e.golden_runs import differences, run_aggregator, write_data

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_golden_run_gives_the_recorded_bytes(tmp_path: Path) -> None:
    """A seeded run of `distributed_votes` has the digests, prices and charges that golden.json records."""
    data_settings = write_data(tmp_path)
    run_record = run_aggregator("distributed_votes", data_settings, tmp_path)
    assert differences(GOLDEN, current=run_record) == []
