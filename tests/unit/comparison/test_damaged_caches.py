"""Results and calibrations that are on disk are read back, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pate.comparison.run import Run
from pate.comparison.trial import CachedRun, Calibration
from pate.files.reading import DamagedFile
from tests.e2e.damage import WAYS, Way, flipped_once, gone

RUN = Run(aggregator="gaussian_votes", epsilon=2.0, seed=3, num_queries=40, accuracy=1, mean_average_precision=0.25)
DAMAGE = [way for way in WAYS if way not in (gone, flipped_once)]


@pytest.mark.parametrize("way", DAMAGE, ids=lambda way: way.__name__)
def test_a_damaged_cache_is_one_line(tmp_path: Path, way: Way) -> None:
    cached, calibration = CachedRun(3, tmp_path / "runs" / "a.json"), tmp_path / "calibrations" / "a.json"
    assert cached.read() is None
    assert Calibration.read(calibration) is None
    cached.write(RUN)
    Calibration({"noise_std": 2.5}, 1.9).write(calibration)
    assert cached.read() == RUN
    assert Calibration.read(calibration) == Calibration({"noise_std": 2.5}, 1.9)
    assert [path.stat().st_mode & 0o777 for path in (calibration, calibration.parent)] == [0o600, 0o700]
    for path, read in ((cached.path, cached.read), (calibration, lambda: Calibration.read(calibration))):
        way(path)
        with pytest.raises(DamagedFile, match=r"^file=\S+a\.json: expected .* \(.*\); .*the same command \w+ "):
            read()


def test_values_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"aggregator": "a", "num_queries": "many"}')
    with pytest.raises(DamagedFile, match=r"run\.num_queries=str: expected"):
        CachedRun(3, path).read()
    path.write_text('{"parameters": {}, "epsilon": "much", "reason": ""}')
    with pytest.raises(DamagedFile, match="values of another type"):
        Calibration.read(path)
