"""Golden runs, small seeded runs, release, charge and report what `golden.json` has recorded.

A change that should not alter any release passes these tests with the same `golden.json`. A change of a price or a draw
of noise needs a new one from `python -m tests.e2e.golden_runs tests/e2e/golden.json`, and an entry under Privacy in the
changelog.
"""

import json
from pathlib import Path

import pytest

from tests.e2e.golden_runs import GOLDEN_FILE, differences, golden_runs, write_data

GOLDEN = json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))
RUNS = golden_runs()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of all golden runs."""
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def data_settings(folder: Path) -> list[str]:
    """Writes the data of the golden runs, and returns the settings that name its files."""
    return write_data(folder)


def test_every_run_is_recorded() -> None:
    """golden.json has a record for each golden run, and no other record."""
    assert set(GOLDEN) == set(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_run_repeats_its_record(name: str, data_settings: list[str], folder: Path) -> None:
    """A seeded run has the digests, numbers and charges of its record in golden.json."""
    assert differences(GOLDEN[name], current=RUNS[name](data_settings, folder)) == []


def test_a_changed_digest_number_or_key_is_a_difference() -> None:
    """`differences` finds changed digests and numbers, lost entries and new keys, and nothing in equal records."""
    golden = {"release": {"labels": "a" * 64, "weights": [1.0, 2.0]}, "ledger": [{"epsilon": 3.0}]}
    assert differences(golden, current=golden) == []
    assert differences(
        golden, current=golden | {"release": {"labels": "b" * 64, "weights": [1.0, 2.0]}}
    )
    assert differences(
        golden, current=golden | {"release": {"labels": "a" * 64, "weights": [1.0, 2.001]}}
    )
    assert differences(golden, current=golden | {"ledger": []})
    assert differences(golden, current=golden | {"more": 1})
