"""The forecast of a release in rounds: its time, memory and scratch disk, from its rows, features and labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pate.run import round_forecast
from pate.run.round_forecast import RoundForecast, RoundSpeed
from pate.run.round_progress import Rounds
from pate.votes.feature_rows import FeatureStorage
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA

NUM_PRIVATE_RECORDS = 1_000_000
BYTES_HELD_BEFORE = 2**29
FORECAST = RoundForecast(
    num_rounds=20,
    num_rows=NUM_PRIVATE_RECORDS,
    num_features=500,
    num_labels=24,
    speed_per_row=RoundSpeed(seconds_to_make_row=5e-6, seconds_to_ask_row=1e-6),
    feature_storage=FeatureStorage(),
    held_bytes=BYTES_HELD_BEFORE,
)
FORECAST_OF_REMADE_FEATURES = replace(
    FORECAST, feature_storage=FeatureStorage(keeps_features=False)
)


def moment_votes(num_rows: int) -> MomentVotes:
    """Returns votes of teachers with one record each."""
    inputs = np.random.default_rng(0).normal(size=(num_rows, 4)).astype(np.float32)
    return MomentVotes(
        inputs=inputs,
        labels=inputs[:, :2] > 1,
        teacher_of=np.arange(num_rows),
        num_teachers=num_rows,
        public_pca=PublicPCA.fit(inputs, max_directions=4),
        public_inputs=inputs[:50],
        records_per_teacher=1.0,
    )


def test_features_that_are_kept_are_made_once() -> None:
    """A million rows take 25 s if their features are kept, and 120 s if not.

    Making the features takes 5 s, and each of 20 rounds takes 1 s.
    """
    assert pytest.approx(25.0) == FORECAST.seconds
    assert pytest.approx(120.0) == FORECAST_OF_REMADE_FEATURES.seconds


def test_many_features_lie_on_the_disk() -> None:
    """A million rows of 500 features take 1e9 bytes of scratch disk, two for each feature of a row.

    Memory takes 64 bytes a row, beside what the process held before. Features that are not kept take no disk. With 30
    features a row, they lie in memory and not on the disk.
    """
    assert FORECAST.disk_bytes == 10**9
    assert FORECAST.memory_bytes == BYTES_HELD_BEFORE + 64 * NUM_PRIVATE_RECORDS
    assert (FORECAST_OF_REMADE_FEATURES.disk_bytes, FORECAST_OF_REMADE_FEATURES.memory_bytes) == (
        0,
        FORECAST.memory_bytes,
    )
    forecast_of_30_features = replace(FORECAST, num_features=30)
    assert (forecast_of_30_features.disk_bytes, forecast_of_30_features.memory_bytes) == (
        0,
        FORECAST.memory_bytes + 60 * 10**6,
    )


def test_the_line_states_time_memory_and_disk() -> None:
    """The line of a forecast has its time, memory and disk, and the numbers on which they depend."""
    shape = "20 rounds over 1,000,000 private rows x 500 features x 24 labels"
    assert FORECAST.line == (
        f"{shape}: roughly 25 s in threads, 0.6 GiB of memory, 0.9 GiB of scratch disk"
    )
    assert FORECAST_OF_REMADE_FEATURES.line.endswith(
        "roughly 2 min in threads, 0.6 GiB of memory, no scratch disk"
    )


def test_few_rows_have_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release over 299 rows has no forecast, and one over 300 rows has one, if `MIN_ROWS` is 300."""
    monkeypatch.setattr(round_forecast, "MIN_ROWS", 300)
    monkeypatch.setattr(round_forecast, "_ROWS_PER_CORE", 200)
    assert RoundForecast.of_rounds(Rounds(moment_votes(num_rows=299), num_rounds=3)) is None
    forecast = RoundForecast.of_rounds(Rounds(moment_votes(num_rows=300), num_rounds=3))
    assert forecast is not None
    assert (forecast.num_rounds, forecast.num_rows, forecast.num_labels) == (3, 300, 2)
    assert forecast.speed_per_row.seconds_to_ask_row > 0
    assert forecast.seconds > 0


def test_a_forecast_reads_no_private_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forecast can be made without private inputs and labels, from the number of records alone."""
    monkeypatch.setattr(round_forecast, "MIN_ROWS", 300)
    votes = moment_votes(num_rows=300)
    votes.inputs = None
    unknown_labels: Any = [None] * 300
    votes.labels = unknown_labels
    assert RoundForecast.of_rounds(Rounds(votes, num_rounds=3)) is not None
